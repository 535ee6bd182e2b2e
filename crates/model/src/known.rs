//! Which figures a source knows.

use crate::figures::Figures;
use crate::groups::Metric;
use crate::interval::Certainty;
use crate::snapshot::Source;

/// The figures that a source without events knows besides live bytes: profiles of other tools hold some, and leave out others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFigures {
    /// The numbers of live blocks. If not, each site counts as one block, which is never shown.
    pub live_blocks: bool,
    /// The bytes and blocks ever allocated and freed by each site, at the end.
    pub allocated: bool,
    /// The most bytes that each site ever held, at the end.
    pub own_peaks: bool,
    /// The number of samples, where figures are estimates. If not, only the mean distance between samples is known.
    pub samples: bool,
}

impl Source {
    /// True if every block is recorded, or sampling is exact because every word is a sample; `totals` are the figures of the source. If blocks are
    /// missing between two samples, it is not known what a thread allocated next, so temporary allocations cannot be estimated.
    pub fn knows_every_block(&self, totals: &Figures) -> bool {
        let is_estimate = self.sample_rate.is_some() || totals.is_estimate();
        self.known.is_none() && (!is_estimate || Certainty::of(self).is_some_and(|certainty| certainty.is_exact()))
    }

    /// True if it is known which blocks were resized. A sample may hit the old block and miss the new one: the reallocation is
    /// then recorded as a free and an allocation, or not at all. OCaml's runtime, which samples words, resizes no blocks.
    pub fn knows_reallocations(&self, totals: &Figures) -> bool {
        self.knows_every_block(totals) || (self.word_sampling.is_some() && self.known.is_none())
    }

    /// True if the numbers of live blocks are known.
    pub fn knows_live_blocks(&self) -> bool {
        self.known.is_none_or(|known| known.live_blocks)
    }

    /// True if the bytes and blocks that were ever allocated are known. A memory image has only live blocks, and no history.
    pub fn knows_allocated(&self) -> bool {
        self.known.map_or(!self.kind.is_object_graph(), |known| known.allocated)
    }

    /// True if the most bytes that each row ever held are known.
    pub fn knows_own_peaks(&self) -> bool {
        self.known.map_or(!self.lacks_past(), |known| known.own_peaks)
    }

    /// True if the number of samples is known, where figures are estimates.
    pub fn knows_samples(&self) -> bool {
        self.known.is_none_or(|known| known.samples)
    }

    /// True if only the live blocks of one instant are known by row, and no peaks.
    pub fn lacks_past(&self) -> bool {
        self.snapshot && !self.has_past
    }

    /// True if the source holds figures at several instants, and no events between them.
    pub fn is_states(&self) -> bool {
        self.aggregated && !self.snapshot
    }

    /// True if the source knows a metric by row; `totals` are its figures. A snapshot of a live process has sums of what was freed, but not by site.
    pub fn knows(&self, metric: Metric, totals: &Figures) -> bool {
        let by_site = self.known.map_or(!self.lacks_past(), |known| known.allocated);
        match metric {
            Metric::Live => true,
            Metric::Peak => !self.snapshot,
            Metric::OwnPeak => self.knows_own_peaks(),
            Metric::Allocated | Metric::Freed | Metric::Allocations => by_site,
            Metric::Leaked => !self.snapshot && !self.aggregated,
            Metric::Temporary => !self.lacks_past() && self.knows_every_block(totals),
        }
    }
}
