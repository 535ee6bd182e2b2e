//! Segments of a recording that can be read in parallel, each from a state of its own.

use super::index::Content;
use super::recording::Recording;
use super::walk::Seen;
use highwater_model::{Accounts, Nanos, NumberLedger};
use std::io;
use std::ops::ControlFlow;

/// A segment of a recording. It begins with a stored state, or with an empty one; see [`Recording::stretches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    first: usize,
    end: usize,
    /// How many events it has.
    pub events: u64,
}

impl Recording {
    /// Segments that together hold all events from one time to another, both included, in order; perhaps more at both ends. They are divided at
    /// keyframes, and each except the last has at least `least` events.
    pub fn stretches(&self, from: Nanos, to: Nanos, least: u64) -> Vec<Stretch> {
        let first = self.keyframes().take_while(|(_, summary)| summary.time < from).last().map_or(0, |(at, _)| at);
        let mut stretches = Vec::new();
        let mut next = Stretch { first, end: first, events: 0 };
        for (at, entry) in self.entries().iter().enumerate().skip(first) {
            match entry.content {
                Content::Events(summary) if summary.first_time > to => break,
                Content::Events(summary) => {
                    next.events += summary.events;
                    next.end = at + 1;
                }
                Content::Keyframe(_) if next.events >= least.max(1) => {
                    stretches.push(next);
                    next = Stretch { first: at, end: at, events: 0 };
                }
                _ => {}
            }
        }
        stretches.extend((next.events > 0).then_some(next));
        stretches
    }

    /// As [`walk`](Self::walk), for one segment. The stored state before its first step is visited first.
    pub fn walk_stretch(
        &self,
        stretch: &Stretch,
        mut visit: impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> io::Result<Accounts> {
        if stretch.first == 0 {
            return self.walk_entries(NumberLedger::default(), 0..stretch.end, visit);
        }
        let ledger = self.state_before(stretch.first)?;
        if visit(Seen::Stored(&ledger)).is_break() {
            return Ok(ledger.into_accounts());
        }
        self.walk_entries(ledger, stretch.first + 1..stretch.end, visit)
    }
}
