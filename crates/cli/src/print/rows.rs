//! The rows of a report as a table.

use super::bytes::{count, counted, share};
use super::colour::Style;
use super::figures::{Units, blocks_handed_out};
use super::stack::{SiteView, add_site_row};
use super::table::{Align, Cell, Table};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row};
use highwater_model::{Catalog, CodeOffset, Figures, RowDetails, StackId, ThreadId, TypeDetails};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// How rows are shown.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    /// The kind of the rows.
    pub by: GroupBy,
    /// The figure by which they are ranked.
    pub metric: Metric,
    /// How call stacks are shown.
    pub sites: SiteView<'a>,
    /// Whether the figures are estimates.
    pub units: Units,
    /// The metric's figure of the whole memory.
    pub whole: u64,
    /// What is known of types beyond their figures, by name.
    pub details: Option<&'a FxHashMap<String, TypeDetails>>,
}

impl Layout<'_> {
    /// The table of these rows.
    pub fn table(&self, rows: &[Row], catalog: &Catalog) -> Table {
        let mut table = Table::default().column(Align::Right, "share").column(Align::Right, name_of(self.metric));
        if self.units.has_intervals() {
            table = table.column(Align::Right, "95% range").column(Align::Right, "samples");
        }
        if self.by.has_callees() {
            table = table.column(Align::Right, "with callees");
        }
        if self.has_companion() {
            table = table.column(Align::Right, self.companion_heading());
        }
        if self.details.is_some() {
            table = table.column(Align::Right, "elements").column(Align::Right, "slack");
        }
        table = table.column(Align::Left, self.by.key());
        let keys: Vec<(&Catalog, &GroupKey)> = rows.iter().map(|row| (catalog, &row.key)).collect();
        for (row, name) in rows.iter().zip(RowName::all(self.by, self.sites, &keys)) {
            let own = self.metric.of(&row.figures);
            // A row that only passes memory on to its callees has no figures of its own.
            let of_own = |text: String| -> Cell { if own == 0 { Cell::default() } else { text.into() } };
            let mut cells = vec![of_own(share(own, self.whole)), of_own(self.units.metric(self.metric, own))];
            if self.units.has_intervals() {
                cells.push(of_own(self.units.interval(self.metric, &row.figures)));
                cells.push(of_own(count(samples_behind(self.metric, &row.figures))));
            }
            if self.by.has_callees() {
                cells.push(self.units.metric(self.metric, self.metric.of(&row.inclusive)).into());
            }
            if self.has_companion() {
                cells.push(of_own(self.companion(&row.figures)));
            }
            if let (Some(details), GroupKey::Name(type_name)) = (self.details, &row.key) {
                let TypeDetails { elements, slack_bytes } = details.get(type_name).copied().unwrap_or_default();
                cells.push(elements.map(|elements| self.units.count(elements)).unwrap_or_default().into());
                cells.push(slack_bytes.map(|slack| self.units.bytes(slack)).unwrap_or_default().into());
            }
            add_row(&mut table, cells, catalog, &row.key, self.sites, &name);
        }
        table
    }

    /// A line about the rows that are not shown.
    pub fn remainder(&self, rows: &[Row]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let what = counted(rows.len() as u64, &format!("more {}", self.by.key()));
        // Peaks at different times cannot be added up.
        let sum = match self.metric {
            Metric::OwnPeak => String::new(),
            metric => {
                let sum = rows.iter().map(|row| metric.of(&row.figures)).sum();
                format!(" with {} {}", self.units.metric(metric, sum), name_of(metric))
            }
        };
        format!("\n… {what}{sum}; '--top 0' shows all.\n")
    }

    /// False if the companion is a number of blocks, and none is known.
    fn has_companion(&self) -> bool {
        self.units.has_blocks() || self.metric == Metric::OwnPeak
    }

    /// The figure that best complements the metric's.
    fn companion_heading(&self) -> &'static str {
        match self.metric {
            Metric::Live | Metric::Peak | Metric::Leaked => "blocks",
            Metric::OwnPeak => "live",
            Metric::Freed => "frees",
            Metric::Allocated => "allocations",
            Metric::Allocations => "allocated",
            Metric::Temporary => "of its blocks",
        }
    }

    fn companion(&self, figures: &Figures) -> String {
        match self.metric {
            Metric::Live | Metric::Peak | Metric::Leaked => self.units.count(figures.live_blocks()),
            Metric::OwnPeak => self.units.bytes(figures.live_bytes()),
            Metric::Freed => self.units.count(figures.frees + figures.reallocated_away),
            Metric::Allocated => self.units.count(blocks_handed_out(figures)),
            Metric::Allocations => self.units.bytes(figures.allocated_bytes),
            Metric::Temporary => share(figures.temporary_allocations, blocks_handed_out(figures)),
        }
    }
}

/// The number of samples from which a metric's figure is made.
pub fn samples_behind(metric: Metric, figures: &Figures) -> u64 {
    if metric.is_live() { figures.live_samples() } else { figures.samples() }
}

/// Why there are no rows of a grouping although there are blocks.
pub fn unnamed(by: GroupBy) -> Option<&'static str> {
    match by {
        GroupBy::Type => Some("The source names no types."),
        GroupBy::Task => Some("No block belongs to a task: a program names its tasks with 'highwater::task'."),
        _ => None,
    }
}

/// What is shown of a row beside its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowName {
    /// A site, which has a name of its own: what tells it from one that looks the same.
    Site(String),
    /// The text of a row with a name.
    Named(String),
}

impl RowName {
    /// The names of the rows of one table, so that no two look alike.
    pub fn all(by: GroupBy, view: SiteView<'_>, keys: &[(&Catalog, &GroupKey)]) -> Vec<Self> {
        let shown = |name: &str| match by {
            GroupBy::Function => match view.naming.pool_of_function(name) {
                Some(pool) => format!("{pool} · {}", view.naming.shown(name)),
                None => view.naming.shown(name).into_owned(),
            },
            _ => name.to_owned(),
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, key) in keys {
            if let GroupKey::Name(name) = key {
                *counts.entry(shown(name)).or_default() += 1;
            }
        }
        let sites: Vec<(&Catalog, StackId)> = keys.iter().filter_map(|(catalog, key)| site(catalog, key)).collect();
        let details = RowDetails::new(view.naming).with_callers_shown(view.depth.visible_callers());
        let mut details = details.of(&sites).into_iter();
        let name = |(_, key): &(&Catalog, &GroupKey)| match key {
            GroupKey::Site(_) => Self::Site(details.next().unwrap_or_default()),
            // Functions that differ in their arguments only are shown with them.
            GroupKey::Name(name) if counts.get(&shown(name)).is_some_and(|count| *count > 1) => {
                Self::Named(name.clone())
            }
            GroupKey::Name(name) => Self::Named(shown(name)),
            GroupKey::Code { build_id, module, offset } => {
                Self::Named(CodeOffset { build_id, module, offset: *offset }.to_string())
            }
            GroupKey::Thread(_) => Self::Named(String::new()),
        };
        keys.iter().map(name).collect()
    }
}

fn site<'a>(catalog: &'a Catalog, key: &GroupKey) -> Option<(&'a Catalog, StackId)> {
    match key {
        GroupKey::Site(stack) => Some((catalog, *stack)),
        _ => None,
    }
}

/// Adds a row whose last column names what it stands for.
pub fn add_row(
    table: &mut Table,
    mut cells: Vec<Cell>,
    catalog: &Catalog,
    key: &GroupKey,
    view: SiteView<'_>,
    name: &RowName,
) {
    let (RowName::Site(text) | RowName::Named(text)) = name;
    match key {
        GroupKey::Site(stack) => add_site_row(table, cells, catalog, *stack, view, text),
        GroupKey::Name(name) if name.is_empty() => {
            cells.push(Cell::new(Style::Dim, "(not known)"));
            table.row(cells);
        }
        GroupKey::Name(_) | GroupKey::Code { .. } => {
            cells.push(Cell::new(Style::Bold, text));
            table.row(cells);
        }
        GroupKey::Thread(thread) => {
            let cell = match catalog.thread_name(*thread) {
                "" => Cell::new(Style::Bold, &format!("thread {}", thread.0)),
                name if *thread == ThreadId::UNKNOWN => Cell::new(Style::Bold, name),
                name => Cell::new(Style::Bold, name).and(Style::Dim, &format!("  thread {}", thread.0)),
            };
            cells.push(cell);
            table.row(cells);
        }
    }
}

/// A metric as a heading.
fn name_of(metric: Metric) -> &'static str {
    match metric {
        Metric::Leaked => "never freed",
        Metric::OwnPeak => "own peak",
        metric => metric.key(),
    }
}
