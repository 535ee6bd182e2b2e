//! A snapshot's figures as people read them, marked with `~` where they are estimates of a sampled source.

use super::bytes;
use highwater_model::groups::Metric;
use highwater_model::{Figures, Snapshot, Source};

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

    /// How the figures of this snapshot are to be written: its weights tell of samples even where its source does not.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        Self { estimated: snapshot.is_estimate() }
    }

    /// How these figures are to be written.
    pub fn of_figures(figures: &Figures) -> Self {
        Self { estimated: figures.is_estimate() }
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

    /// How bytes are written at an axis.
    pub fn label_of_bytes(self) -> fn(u64) -> String {
        if self.estimated { |count| format!("~{}", bytes::bytes(count)) } else { bytes::bytes }
    }

    /// How counts are written at an axis.
    pub fn label_of_count(self) -> fn(u64) -> String {
        if self.estimated { |number| format!("~{}", bytes::count(number)) } else { bytes::count }
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
