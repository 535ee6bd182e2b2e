//! Formats a snapshot's figures for people. Estimates from a sampled source are marked with `~`.

use super::bytes;
use highwater_model::groups::Metric;
use highwater_model::{Certainty, Figures, Interval, Snapshot, Source, Totals};

/// How figures are written: as exact values, or as estimates, with intervals if those are known.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    estimated: bool,
    certainty: Option<Certainty>,
    /// True if numbers of blocks are known.
    has_blocks: bool,
}

impl Units {
    /// The format for figures of this source (law 6).
    pub fn of(source: &Source) -> Self {
        let certainty = Certainty::of(source);
        // If every word is a sample, nothing is estimated.
        let is_exact = certainty.is_some_and(|certainty| certainty.is_exact());
        Self {
            estimated: source.sample_rate.is_some() && !is_exact,
            certainty: certainty.filter(|_| !is_exact),
            has_blocks: source.knows_live_blocks(),
        }
    }

    /// The format for figures of this snapshot: its weights show sampling even if its source does not.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let units = Self::of(&snapshot.source);
        if snapshot.source.word_sampling.is_some() {
            return units;
        }
        units.or(Self::of_figures(&snapshot.accounts.totals().figures))
    }

    /// The format for these figures.
    pub fn of_figures(figures: &Figures) -> Self {
        Self { estimated: figures.is_estimate(), certainty: None, has_blocks: true }
    }

    /// The format for figures that combine both.
    pub fn or(self, other: Self) -> Self {
        let certainty = self.certainty.or(other.certainty);
        let has_blocks = self.has_blocks && other.has_blocks;
        Self { estimated: self.estimated || other.estimated, certainty, has_blocks }
    }

    /// True if figures are estimates.
    pub fn is_estimated(self) -> bool {
        self.estimated
    }

    /// True if numbers of blocks are known.
    pub fn has_blocks(self) -> bool {
        self.has_blocks
    }

    /// True if figures have intervals.
    pub fn has_intervals(self) -> bool {
        self.certainty.is_some()
    }

    fn with_interval(self, estimate: u64, interval: impl FnOnce(&Certainty) -> Interval) -> String {
        match self.certainty.as_ref().map(interval) {
            Some(Interval { low, high }) => {
                format!("{} ({})", self.bytes(estimate), bytes::range_of_bytes(low, high))
            }
            None => self.bytes(estimate),
        }
    }

    /// The live bytes, with their interval.
    pub fn live(self, figures: &Figures) -> String {
        self.with_interval(figures.live_bytes(), |certainty| figures.live_interval(certainty))
    }

    /// The bytes ever allocated, with their interval.
    pub fn allocated(self, figures: &Figures) -> String {
        self.with_interval(figures.allocated_bytes, |certainty| figures.allocated_interval(certainty))
    }

    /// The highest number of live bytes, with its interval.
    pub fn peak(self, totals: &Totals) -> String {
        self.with_interval(totals.figures.peak_bytes, |certainty| totals.peak_interval(certainty))
    }

    /// The interval of a metric's figure; empty if none is known.
    pub fn interval(self, metric: Metric, figures: &Figures) -> String {
        let Some(certainty) = self.certainty else { return String::new() };
        let of_bytes = |interval: Interval| bytes::range_of_bytes(interval.low, interval.high);
        match metric {
            Metric::Live | Metric::Peak | Metric::Leaked => of_bytes(figures.live_interval(&certainty)),
            Metric::OwnPeak => of_bytes(certainty.of_bytes_alone(figures.peak_bytes)),
            Metric::Freed => of_bytes(certainty.of_bytes(figures.freed_bytes, figures.freed_samples())),
            Metric::Allocated => of_bytes(figures.allocated_interval(&certainty)),
            Metric::Allocations => {
                let Interval { low, high } = certainty.of_blocks(metric.of(figures), figures.records());
                format!("{}–{}", bytes::count(low), bytes::count(high))
            }
            Metric::Temporary => String::new(),
        }
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

    /// A count with its noun.
    pub fn counted(self, number: u64, singular: &str) -> String {
        self.marked(bytes::counted(number, singular))
    }

    /// Formats bytes at an axis.
    pub fn label_of_bytes(self) -> fn(u64) -> String {
        if self.estimated { |count| format!("~{}", bytes::bytes(count)) } else { bytes::bytes }
    }

    /// Formats counts at an axis.
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
