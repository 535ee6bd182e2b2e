//! Rows and sums as JSON, with the figures that `report` gives them.

use super::grouping::{By, Row};
use super::names::{key_text, own_frame_of};
use crate::measure::{Amounts, Figured, Measured};
use highwater_formats::json::{self, Stacks};
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, Figures, Snapshot, ThreadId};
use serde_json::{Map, Value};

/// The figures of a row as `report` has them: for a window its counters, and the live figures at its end.
fn figures_json(figured: &Figured, key: &GroupKey, figures: &Figures) -> Map<String, Value> {
    let snapshot = figured.snapshot();
    let mut members = json::figures(snapshot, figures);
    if let Figured::In(between) = figured {
        let live = live_at_end(&between.after, key);
        for (name, value) in [("live_bytes", live.map(|live| live.0)), ("live_blocks", live.map(|live| live.1))] {
            members.insert(name.to_owned(), value.into());
        }
    }
    members
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

/// One row as JSON. Its stack must be among `stacks`.
pub fn row_json(row: &Row, measured: &Measured, catalog: &Catalog, by: By, stacks: &Stacks<'_>) -> Value {
    let share = if measured.total.value == 0 { 0.0 } else { row.own.value as f64 / measured.total.value as f64 };
    let mut members = match (&measured.amounts, &row.figures) {
        (Amounts::Figures { figured, .. }, Some(figures)) => figures_json(figured, &row.key, figures),
        _ => Map::new(),
    };
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("key", key_text(catalog, &row.key).into());
    put("id", Value::Null);
    put("value", row.own.value.into());
    put("blocks", row.own.blocks.into());
    put("share", share.into());
    if matches!(by, By::Function | By::File | By::Module | By::Place) {
        put("self", row.own.value.into());
        put("total", row.total.value.into());
        put("total_blocks", row.total.blocks.into());
    }
    match &row.key {
        GroupKey::Site(stack) => {
            put("id", stack.0.into());
            put("frame", own_frame_of(catalog, *stack));
            put("stack", stacks.number(0, *stack));
        }
        GroupKey::Thread(ThreadId(id)) => {
            put("id", (*id).into());
        }
        GroupKey::Name(_) | GroupKey::Code { .. } => {}
    }
    members.into()
}

/// The total of a measurement, with all figures where they are known.
pub fn total_json(measured: &Measured) -> Value {
    let mut total = match &measured.amounts {
        Amounts::Figures { figured, sieve } if sieve.is_open() => {
            let mut members = json::figures(figured.snapshot(), &figured.snapshot().accounts.totals().figures);
            if let Figured::In(between) = figured {
                let live = &between.after.accounts.totals().figures;
                members.insert("live_bytes".to_owned(), live.live_bytes().into());
                members.insert("live_blocks".to_owned(), live.live_blocks().into());
            }
            members
        }
        _ => Map::new(),
    };
    total.insert("value".to_owned(), measured.total.value.into());
    total.insert("blocks".to_owned(), measured.total.blocks.into());
    total.into()
}
