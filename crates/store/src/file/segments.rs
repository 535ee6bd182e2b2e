//! Segments of a recording that can be read in parallel, each from a state of its own.

use super::index::Content;
use super::recording::Recording;
use super::walk::WalkItem;
use highwater_model::{Accounts, Nanos, NumberLedger};
use std::io;
use std::ops::ControlFlow;

/// A segment of a recording. It begins with a stored state, or with an empty one; see [`Recording::segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingSegment {
    first: usize,
    end: usize,
    /// How many events it has.
    pub events: u64,
}

impl Recording {
    /// Segments that together hold all events from one time to another, both included, in order; perhaps more at both ends. They are divided at
    /// keyframes, and each except the last has at least `least` events.
    pub fn segments(&self, from: Nanos, to: Nanos, least: u64) -> Vec<RecordingSegment> {
        let first = self.keyframes().take_while(|(_, summary)| summary.time < from).last().map_or(0, |(at, _)| at);
        let mut segments = Vec::new();
        let mut next = RecordingSegment { first, end: first, events: 0 };
        for (at, entry) in self.entries().iter().enumerate().skip(first) {
            match entry.content {
                Content::Events(summary) if summary.first_time > to => break,
                Content::Events(summary) => {
                    next.events += summary.events;
                    next.end = at + 1;
                }
                Content::Keyframe(_) if next.events >= least.max(1) => {
                    segments.push(next);
                    next = RecordingSegment { first: at, end: at, events: 0 };
                }
                _ => {}
            }
        }
        segments.extend((next.events > 0).then_some(next));
        segments
    }

    /// As [`walk`](Self::walk), for one segment. The stored state before its first step is visited first.
    pub fn walk_segment(
        &self,
        segment: &RecordingSegment,
        mut visit: impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
    ) -> io::Result<Accounts> {
        if segment.first == 0 {
            return self.walk_entries(NumberLedger::default(), 0..segment.end, visit);
        }
        let ledger = self.state_before(segment.first)?;
        if visit(WalkItem::Stored(&ledger)).is_break() {
            return Ok(ledger.into_accounts());
        }
        self.walk_entries(ledger, segment.first + 1..segment.end, visit)
    }
}
