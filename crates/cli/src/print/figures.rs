//! A snapshot's figures as people read them, marked with `~` where they are estimates of a sampled source.

use super::bytes;
use highwater_model::groups::Metric;
use highwater_model::{Figures, Source};

/// How figures are written: as they are, or as estimates.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    estimated: bool,
}

impl Units {
    /// How the figures of this source are to be written (law 6).
    pub fn of(source: &Source) -> Self {
        Self { estimated: source.sample_rate.is_some() }
    }

    /// How figures are to be written that come from both.
    pub fn or(self, other: Self) -> Self {
        Self { estimated: self.estimated || other.estimated }
    }

    fn marked(self, text: String) -> String {
        if self.estimated && !text.is_empty() { format!("~{text}") } else { text }
    }

    /// Bytes.
    pub fn bytes(self, count: u64) -> String {
        self.marked(bytes::bytes(count))
    }

    /// A change in bytes.
    pub fn signed_bytes(self, change: i128) -> String {
        self.marked(bytes::signed_bytes(change))
    }

    /// A count.
    pub fn count(self, number: u64) -> String {
        self.marked(bytes::count(number))
    }

    /// A change of a count.
    pub fn signed_count(self, change: i128) -> String {
        self.marked(bytes::signed_count(change))
    }

    /// A count with what is counted.
    pub fn counted(self, number: u64, singular: &str) -> String {
        self.marked(bytes::counted(number, singular))
    }

    /// A metric's figure, in bytes or as a count.
    pub fn metric(self, metric: Metric, value: u64) -> String {
        if metric.is_bytes() { self.bytes(value) } else { self.count(value) }
    }
}

/// Blocks handed out, by allocations and reallocations alike.
pub fn blocks_handed_out(figures: &Figures) -> u64 {
    figures.allocations + figures.reallocations
}
