//! Walks through a recording: every step with the state before it.

use super::events::EventsSummary;
use super::index::{Content, Entry};
use super::recording::Recording;
use highwater_model::{Accounts, Anomaly, NumberLedger, Step};
use std::io;
use std::ops::{ControlFlow, Range};

/// An item of a [walk](Recording::walk) through a recording.
#[derive(Clone, Copy, Debug)]
pub enum WalkItem<'a> {
    /// The beginning of an event block: the state, and the summary of the block.
    Block(&'a NumberLedger, &'a EventsSummary),
    /// A step, and the state before it.
    Step(&'a NumberLedger, &'a Step),
    /// A stored state, from which the walk continues.
    Stored(&'a NumberLedger),
}

impl Recording {
    /// Visits every step of the readable blocks in order, with the state before it. After lost events, it continues from the next keyframe, which
    /// includes their effects. It also starts from the keyframe that a snapshot or a stream begins with.
    pub fn for_each_step(&self, mut visit: impl FnMut(&NumberLedger, &Step)) -> io::Result<Accounts> {
        self.walk(|seen| {
            if let WalkItem::Step(ledger, step) = seen {
                visit(ledger, step);
            }
            ControlFlow::Continue(())
        })
    }

    /// The same, including the states from which the walk continues, until `visit` stops it.
    pub fn walk(&self, visit: impl FnMut(WalkItem<'_>) -> ControlFlow<()>) -> io::Result<Accounts> {
        self.walk_entries(NumberLedger::default(), 0..self.entries().len(), visit)
    }

    /// A walk from a state through some of the entries.
    pub(super) fn walk_entries(
        &self,
        mut ledger: NumberLedger,
        entries: Range<usize>,
        mut visit: impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
    ) -> io::Result<Accounts> {
        let mut first = entries.start;
        while first < entries.end {
            let rest = &self.entries()[first..entries.end];
            let is_keyframe = |entry: &Entry| matches!(entry.content, Content::Keyframe(_));
            let end = first + rest.iter().position(is_keyframe).unwrap_or(rest.len());
            let mut flow = ControlFlow::Continue(());
            self.replay(&mut ledger, &self.entries()[first..end], |seen| {
                flow = visit(seen);
                flow
            })?;
            if flow.is_break() {
                break;
            }
            if end < entries.end
                && let Content::Keyframe(summary) = self.entries()[end].content
            {
                let lost = self.begins_with(end)
                    || ledger.accounts().anomalies().get(Anomaly::LostToDamage) > 0
                    || ledger.accounts().events() < summary.events;
                if lost && let Some(stored) = self.keyframe(end)? {
                    ledger = stored;
                    if visit(WalkItem::Stored(&ledger)).is_break() {
                        break;
                    }
                }
            }
            first = end + 1;
        }
        Ok(ledger.into_accounts())
    }
}
