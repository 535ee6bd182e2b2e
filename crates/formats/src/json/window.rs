//! The events of a window of time.

use super::{DocumentStacks, figures, known_text, rows::row as plain_row};
use highwater_model::groups::{self, GroupBy, GroupKey, Metric, Row};
use highwater_model::{Figures, Naming, Nanos, Snapshot, Window};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The document about a window: counters are those of the window, live figures are those at its end.
pub struct WindowDocument<'a> {
    /// The window.
    pub window: Window,
    /// The state at its end.
    pub after: &'a Snapshot,
    /// The counters of the window: [`Snapshot::since`].
    pub counters: &'a Snapshot,
    /// The maximum of live bytes in the window, and its time.
    pub highest: (u64, Nanos),
    /// The kind of rows.
    pub by: GroupBy,
    live: BTreeMap<GroupKey, Figures>,
}

impl<'a> WindowDocument<'a> {
    /// The document about a window.
    pub fn new(
        window: Window,
        after: &'a Snapshot,
        counters: &'a Snapshot,
        highest: (u64, Nanos),
        (by, naming): (GroupBy, &Naming),
    ) -> Self {
        let live = groups::rows_named(after, by, Metric::Live, None, naming);
        let live = live.into_iter().map(|row| (row.key, row.figures)).collect();
        Self { window, after, counters, highest, by, live }
    }

    /// `window` and `totals`.
    pub fn members(&self) -> Map<String, Value> {
        let mut totals = figures(self.counters, &self.counters.accounts.totals().figures);
        set_live(&mut totals, &self.after.accounts.totals().figures);
        totals.insert("peak_bytes".to_owned(), self.highest.0.into());
        totals.insert("peak_at_ns".to_owned(), self.highest.1.0.into());
        totals.insert("events".to_owned(), self.counters.accounts.events().into());
        super::members(json!({
            "window": { "from_ns": self.window.from.0, "to_ns": self.window.to.0 },
            "totals": totals,
        }))
    }

    /// One row. Its stack must be among `stacks`.
    pub fn row(&self, row: &Row, stacks: &DocumentStacks<'_>) -> Value {
        let counted = match &row.key {
            GroupKey::Name(name) if self.by == GroupBy::Type => {
                let mut members = figures(self.counters, &row.figures);
                members.insert("type".to_owned(), known_text(name));
                members.into()
            }
            _ => plain_row(self.counters, self.by, row, stacks),
        };
        let mut members = super::members(counted);
        set_live(&mut members, self.live.get(&row.key).unwrap_or(&Figures::default()));
        members.into()
    }
}

fn set_live(members: &mut Map<String, Value>, live: &Figures) {
    members.insert("live_bytes".to_owned(), live.live_bytes().into());
    members.insert("live_blocks".to_owned(), live.live_blocks().into());
}
