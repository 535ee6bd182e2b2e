//! The figures kept for the whole memory, for each thread, each site and each tag, and their arithmetic.

use crate::byte_sum::{ByteSum, split_units, units_of};
use crate::ids::Nanos;

/// The counters of one owner of blocks.
///
/// Live bytes and blocks are not stored: they are `allocated − freed` (law 1), so the two can never disagree. A reallocation is neither an allocation
/// nor a free: it moves a block from its old owner (`reallocated_away`) to its new one (`reallocations`), which may be the same.
///
/// No counter can wrap: the total of all sizes is bounded when a size enters the ledger
/// ([`Anomaly::ClampedSize`](crate::Anomaly::ClampedSize)), and every other byte counter is at most that total.
///
/// If blocks have a [`Weight`](crate::Weight), all of these are estimates: each recorded block counts as the blocks and bytes that it stands for. The
/// number of records is then derived from the number of blocks that were not recorded, so exact recordings need not store it. `rests` holds the
/// difference between the exact bytes and the rounded ones. Sums are made of both, and only displayed figures are rounded. Displayed parts may
/// therefore differ from the displayed whole by a few bytes: at most half a byte for each part, and one byte for `allocated − freed`.
///
/// The fields that nearly every event changes come first, in one cache line. The other fields are seldom needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Figures {
    /// Blocks allocated, not counting reallocations.
    pub allocations: u64,
    /// Blocks freed, not counting reallocations.
    pub frees: u64,
    /// Bytes ever allocated, including reallocations.
    pub allocated_bytes: u64,
    /// Bytes ever freed, including reallocations.
    pub freed_bytes: u64,
    /// The most bytes that were ever live at once here.
    pub peak_bytes: u64,
    /// Blocks freed by another thread than their owner.
    pub cross_thread_frees: u64,
    /// Blocks freed before their thread allocated anything else.
    pub temporary_allocations: u64,
    /// The rests of the byte counters after rounding.
    pub rests: Rests,
    /// Reallocations that moved a block to this owner; for a tag, also promotions.
    pub reallocations: u64,
    /// Reallocations that moved a block away from this owner; for a tag, also promotions.
    pub reallocated_away: u64,
    /// Blocks that were promoted to another heap. For a tag: blocks promoted into it. They also count as [`reallocations`](Self::reallocations) of
    /// this tag, and as [`reallocated_away`](Self::reallocated_away) of their old tag.
    pub promotions: u64,
    /// The promoted blocks that were not recorded themselves.
    pub unrecorded_promotions: u64,
    /// The blocks that were added here (allocations, reallocations) but not recorded themselves: recorded blocks stand for them.
    pub unrecorded: u64,
    /// The blocks that were removed here (frees, reallocations away) but not recorded themselves.
    pub unrecorded_gone: u64,
    /// Samples of added blocks, beyond one per record, if the source counts how often a block was hit.
    pub more_samples: u64,
    /// The same for removed blocks.
    pub more_samples_gone: u64,
}

/// The rests of byte sums after rounding, in units of 2⁻³² bytes, from minus half a byte to just below half a byte. Zero if nothing is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// Of the bytes allocated.
    pub allocated: i32,
    /// Of the bytes freed.
    pub freed: i32,
}

/// Adds a sum to a rounded number and its rest.
#[inline]
fn add_to(bytes: &mut u64, rest: &mut i32, sum: ByteSum) {
    (*bytes, *rest) = split_units(units_of(*bytes, *rest) + sum.units() as i128);
}

impl Figures {
    /// Bytes ever allocated, unrounded, for use in sums.
    #[inline]
    pub fn allocated(&self) -> ByteSum {
        ByteSum::from_units(units_of(self.allocated_bytes, self.rests.allocated).max(0) as u128)
    }

    /// Bytes ever freed, unrounded, for use in sums.
    #[inline]
    pub fn freed(&self) -> ByteSum {
        ByteSum::from_units(units_of(self.freed_bytes, self.rests.freed).max(0) as u128)
    }

    /// Bytes live now, unrounded, for use in sums.
    #[inline]
    pub fn live(&self) -> ByteSum {
        self.allocated().saturating_sub(self.freed())
    }

    /// Counts allocated bytes.
    #[inline]
    pub fn add_allocated(&mut self, sum: ByteSum) {
        add_to(&mut self.allocated_bytes, &mut self.rests.allocated, sum);
    }

    /// Counts freed bytes.
    #[inline]
    pub fn add_freed(&mut self, sum: ByteSum) {
        add_to(&mut self.freed_bytes, &mut self.rests.freed, sum);
    }

    /// Figures with only allocated bytes, all of them live.
    pub fn of_live_bytes(sum: ByteSum) -> Self {
        let mut figures = Self::default();
        figures.add_allocated(sum);
        figures.peak_bytes = figures.allocated_bytes;
        figures
    }

    /// The number of records of allocations, including reallocations.
    pub fn records(&self) -> u64 {
        (self.allocations + self.reallocations).saturating_sub(self.unrecorded)
    }

    /// The number of records of frees, including reallocations away.
    pub fn freed_records(&self) -> u64 {
        (self.frees + self.reallocated_away).saturating_sub(self.unrecorded_gone)
    }

    /// The number of records of live blocks.
    pub fn live_records(&self) -> u64 {
        self.records().saturating_sub(self.freed_records())
    }

    /// How many records were promoted.
    pub fn promoted_records(&self) -> u64 {
        self.promotions.saturating_sub(self.unrecorded_promotions)
    }

    /// The number of samples of allocations. A record counts as often as it was hit, if that is known.
    pub fn samples(&self) -> u64 {
        self.records().saturating_add(self.more_samples)
    }

    /// The number of samples of frees.
    pub fn freed_samples(&self) -> u64 {
        self.freed_records().saturating_add(self.more_samples_gone)
    }

    /// The number of samples of live blocks.
    pub fn live_samples(&self) -> u64 {
        self.samples().saturating_sub(self.freed_samples())
    }

    /// Reallocations that moved a block here, without promotions.
    pub fn reallocations_alone(&self) -> u64 {
        self.reallocations.saturating_sub(self.promotions)
    }

    /// True when a record stands for more than itself.
    pub fn is_estimate(&self) -> bool {
        self.unrecorded > 0 || self.more_samples > 0
    }

    /// Bytes live now.
    #[inline]
    pub fn live_bytes(&self) -> u64 {
        if self.rests == Rests::default() {
            self.allocated_bytes.saturating_sub(self.freed_bytes)
        } else {
            self.live().rounded()
        }
    }

    /// Blocks live now.
    #[inline]
    pub fn live_blocks(&self) -> u64 {
        (self.allocations + self.reallocations).saturating_sub(self.frees + self.reallocated_away)
    }

    /// True if nothing ever happened here. In a window, blocks may have died without any birth.
    pub fn is_empty(&self) -> bool {
        self.allocations == 0 && self.reallocations == 0 && self.frees == 0 && self.reallocated_away == 0
    }

    /// Adds another's figures. The sum's peak is the sum of the peaks: an upper bound, since they need not coincide.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
        self.combine_bytes(other, |own, others| (own + others).min(ByteSum::MAX.units() as i128));
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        // Peaks are rounded. The live bytes may be rounded up although all peaks were rounded down.
        if self.rests != Rests::default() && self.peak_bytes > 0 {
            self.peak_bytes = self.peak_bytes.max(self.live_bytes());
        }
    }

    /// Subtracts the figures of `part`, except for peaks: the rest cannot have held more at once than the whole.
    pub fn without(&self, part: &Self) -> Self {
        let mut rest = *self;
        rest.combine(part, u64::saturating_sub);
        rest.combine_bytes(part, |own, others| (own - others).max(0));
        rest
    }

    /// Adds another's figures, except for peaks, modulo 2⁶⁴.
    pub(crate) fn wrapping_add(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_add);
        self.combine_bytes(other, |own, others| own + others);
    }

    /// Subtracts another's figures, except for peaks, modulo 2⁶⁴.
    pub(crate) fn wrapping_sub(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_sub);
        self.combine_bytes(other, |own, others| own - others);
    }

    /// Combines the bytes with another's, in units.
    fn combine_bytes(&mut self, other: &Self, join: impl Fn(i128, i128) -> i128) {
        let allocated = join(
            units_of(self.allocated_bytes, self.rests.allocated),
            units_of(other.allocated_bytes, other.rests.allocated),
        );
        let freed = join(units_of(self.freed_bytes, self.rests.freed), units_of(other.freed_bytes, other.rests.freed));
        (self.allocated_bytes, self.rests.allocated) = split_units(allocated);
        (self.freed_bytes, self.rests.freed) = split_units(freed);
    }

    /// Combines each counter with another's, except for bytes.
    fn combine(&mut self, other: &Self, join: impl Fn(u64, u64) -> u64) {
        let pairs = [
            (&mut self.allocations, other.allocations),
            (&mut self.frees, other.frees),
            (&mut self.reallocations, other.reallocations),
            (&mut self.reallocated_away, other.reallocated_away),
            (&mut self.cross_thread_frees, other.cross_thread_frees),
            (&mut self.temporary_allocations, other.temporary_allocations),
            (&mut self.promotions, other.promotions),
            (&mut self.unrecorded_promotions, other.unrecorded_promotions),
            (&mut self.unrecorded, other.unrecorded),
            (&mut self.unrecorded_gone, other.unrecorded_gone),
            (&mut self.more_samples, other.more_samples),
            (&mut self.more_samples_gone, other.more_samples_gone),
        ];
        pairs.into_iter().for_each(|(own, others)| *own = join(*own, others));
    }
}

/// The figures of the whole memory, and its high-water mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The counters that every owner has.
    pub figures: Figures,
    /// The most blocks that were ever live at once.
    pub peak_blocks: u64,
    /// When `figures.peak_bytes` was first reached.
    pub peak_at: Nanos,
    /// How many events had happened when it was reached, that event included: times may tie, this never does.
    pub peak_event: u64,
    /// The most bytes held if the instant inside a moving reallocation counts, in which the allocator holds both the old and the new place. No instant
    /// of the recording shows it (law 3). 0 until a block moves. The true maximum is the larger of this and `figures.peak_bytes`.
    pub peak_bytes_inside_reallocation: u64,
}
