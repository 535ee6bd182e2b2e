//! Rows and sums with the figures that `report` gives them.

use crate::grouping::RowAmount;
use crate::measure::{Amounts, Figured, Measured};
use crate::names::{details_of, key_text, own_frame_of, pool_of};
use highwater_formats::json::{self, DocumentStacks, FrameAnswer};
use highwater_model::groups::{GroupBy, GroupKey, Row};
use highwater_model::{Catalog, Figures, Naming, Snapshot, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value};

/// Figures by name, as `highwater report --json` has them. A figure that is not known is null or missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FigureMap(Map<String, Value>);

impl FigureMap {
    /// Sets a figure.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A figure; 0 if it is not known.
    pub fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The figures of a row as `report` has them: for a window its counters, and the live figures at its end.
    fn of_row(figured: &Figured, key: &GroupKey, figures: &Figures) -> Self {
        let mut members = Self(json::figures(figured.snapshot(), figures));
        if let Figured::In(window) = figured {
            let live = live_at_end(&window.after, key);
            members.put("live_bytes", live.map(|live| live.0));
            members.put("live_blocks", live.map(|live| live.1));
        }
        members
    }

    /// The total of a measurement, with all figures where they are known.
    pub fn of_total(measured: &Measured) -> Self {
        let mut total = match &measured.amounts {
            Amounts::Figures { figured, filter } if filter.is_open() => {
                let mut members =
                    Self(json::figures(figured.snapshot(), &figured.snapshot().accounts.totals().figures));
                if let Figured::In(window) = figured {
                    let live = &window.after.accounts.totals().figures;
                    members.put("live_bytes", live.live_bytes());
                    members.put("live_blocks", live.live_blocks());
                }
                members
            }
            _ => Self::default(),
        };
        total.put("value", measured.total.value);
        total.put("blocks", measured.total.blocks);
        total
    }
}

/// Bytes and blocks that a row has at the end of a window, if they are known without adding up.
fn live_at_end(after: &Snapshot, key: &GroupKey) -> Option<(u64, u64)> {
    let figures = match key {
        GroupKey::Site(stack) => after.accounts.sites().get(*stack)?,
        GroupKey::Thread(id) => &after.accounts.thread(*id)?.figures,
        GroupKey::Name(_) | GroupKey::Code { .. } => return None,
    };
    Some((figures.live_bytes(), figures.live_blocks()))
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Row"))]
pub struct RowAnswer {
    /// Its name, for people.
    pub key: String,
    /// The number of a site or thread.
    pub id: Option<u64>,
    /// The measured value: its own part, without callees.
    pub value: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its share of the total, from 0 to 1: that of `value`; in a table that is sorted by `total`, that of `total`.
    pub share: f64,
    /// For functions, files, modules and lines: the same as `value`.
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub own: Option<u64>,
    /// For functions, files, modules and lines: the value including all callees.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub total: Option<u64>,
    /// For functions, files, modules and lines: the blocks including all callees.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub total_blocks: Option<u64>,
    /// For sites: the frame that names it. For functions: of their frames, the one that holds the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional = nullable))]
    pub frame: Option<Option<FrameAnswer>>,
    /// For sites: the number of the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, type = "Frame[]"))]
    pub stack: Option<Option<u32>>,
    /// For types that stacks show: the number of elements that the blocks have room for; null if the size of an element is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional = nullable))]
    pub elements: Option<Option<u64>>,
    /// Of estimated bytes: the samples that `value` is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub value_samples: Option<u64>,
    /// For sites and functions: the pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// For sites that would look like another: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
    /// All figures, unless a filter looks at single blocks.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub figures: FigureMap,
}

impl RowAnswer {
    /// A row of a measurement. Its stack must be among `stacks`.
    fn new(
        row: &Row<RowAmount>,
        measured: &Measured,
        (catalog, naming): (&Catalog, &Naming),
        by: GroupBy,
        stacks: &DocumentStacks<'_>,
    ) -> Self {
        let (own, total) = (row.figures.amount, row.inclusive.amount);
        let share = if measured.total.value == 0 { 0.0 } else { own.value as f64 / measured.total.value as f64 };
        let figures = match (&measured.amounts, &row.figures.figures) {
            (Amounts::Figures { figured, .. }, Some(figures)) => FigureMap::of_row(figured, &row.key, figures),
            _ => FigureMap::default(),
        };
        let with_callees = |value: u64| by.has_callees().then_some(value);
        Self {
            key: key_text(naming, catalog, &row.key),
            id: match row.key {
                GroupKey::Site(stack) => Some(stack.0.into()),
                GroupKey::Thread(ThreadId(id)) => Some(id),
                GroupKey::Name(_) | GroupKey::Code { .. } => None,
            },
            value: own.value,
            blocks: own.blocks,
            share,
            own: with_callees(own.value),
            total: with_callees(total.value),
            total_blocks: with_callees(total.blocks),
            frame: row.site().map(|stack| own_frame_of(naming, catalog, stack)),
            stack: row.site().map(|stack| stacks.number(0, stack)),
            elements: None,
            value_samples: measured.samples_of(&own),
            pool: match &row.key {
                GroupKey::Site(stack) => pool_of(naming, catalog, *stack),
                GroupKey::Name(name) if by == GroupBy::Function => naming.pool_of_function(name),
                _ => None,
            },
            detail: None,
            figures,
        }
    }
    /// The rows of a table, with what tells those apart that look the same.
    pub fn table(
        rows: &[Row<RowAmount>],
        measured: &Measured,
        (catalog, naming): (&Catalog, &Naming),
        by: GroupBy,
        stacks: &DocumentStacks<'_>,
    ) -> Vec<Self> {
        let details = details_of(naming, rows.iter().map(|row| Some((catalog, row.site()?))));
        let row = |(row, detail)| Self { detail, ..Self::new(row, measured, (catalog, naming), by, stacks) };
        rows.iter().zip(details).map(row).collect()
    }
}
