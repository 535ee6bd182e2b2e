//! The figures kept for the whole memory, for each thread, each site and each tag, and their arithmetic.

use crate::ids::Nanos;

/// What is counted for anything that owns blocks.
///
/// What is live is not stored: it is `allocated − freed` (law 1), so the two can never disagree. A reallocation is
/// neither an allocation nor a free: it moves a block from its old owner (`reallocated_away`) to its new one
/// (`reallocations`), which may be the same.
///
/// No counter can wrap: the total of all sizes is bounded when a size enters the ledger
/// ([`Anomaly::ClampedSize`](crate::Anomaly::ClampedSize)), and every other byte counter is at most that total.
///
/// Where blocks have a [`Weight`](crate::Weight), all of these are estimates: each recorded block counts as the blocks and bytes
/// that it stands for. The number of records is then kept besides, as what they are short of the blocks, so that exact recordings
/// need not keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Blocks handed out, reallocations apart.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Reallocations that brought a block here.
    pub reallocations: u64,
    /// Reallocations that took a block away from here.
    pub reallocated_away: u64,
    /// Bytes ever handed out, reallocations included.
    pub allocated_bytes: u64,
    /// Bytes ever given back, reallocations included.
    pub freed_bytes: u64,
    /// The most bytes that were ever live at once here.
    pub peak_bytes: u64,
    /// Blocks given back by another thread than the one that owned them.
    pub cross_thread_frees: u64,
    /// Blocks given back before their thread allocated anything else.
    pub temporary_allocations: u64,
    /// Of the blocks that came here (allocations, reallocations), those that were not recorded themselves but that others
    /// stand for.
    pub unrecorded: u64,
    /// Of the blocks that left (frees, reallocations away), those that were not recorded themselves.
    pub unrecorded_gone: u64,
}

impl Figures {
    /// How many records are behind what was allocated, reallocations included.
    pub fn samples(&self) -> u64 {
        (self.allocations + self.reallocations).saturating_sub(self.unrecorded)
    }

    /// How many records are behind what was given back, reallocations away included.
    pub fn freed_samples(&self) -> u64 {
        (self.frees + self.reallocated_away).saturating_sub(self.unrecorded_gone)
    }

    /// How many records are behind what is live.
    pub fn live_samples(&self) -> u64 {
        self.samples().saturating_sub(self.freed_samples())
    }

    /// True when a record stands for more than itself.
    pub fn is_estimate(&self) -> bool {
        self.unrecorded > 0
    }

    /// Bytes live now.
    #[inline]
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.freed_bytes)
    }

    /// Blocks live now.
    #[inline]
    pub fn live_blocks(&self) -> u64 {
        (self.allocations + self.reallocations).saturating_sub(self.frees + self.reallocated_away)
    }

    /// Nothing ever happened here.
    pub fn is_empty(&self) -> bool {
        self.allocations == 0 && self.reallocations == 0
    }

    /// Adds another's figures. The sum's peak is the sum of the peaks: an upper bound, since they need not coincide.
    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.reallocations += other.reallocations;
        self.reallocated_away += other.reallocated_away;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.cross_thread_frees += other.cross_thread_frees;
        self.temporary_allocations += other.temporary_allocations;
        self.unrecorded += other.unrecorded;
        self.unrecorded_gone += other.unrecorded_gone;
    }

    /// Takes away what `part` has of it, peaks apart: the rest cannot have held more at once than the whole.
    pub fn without(&self, part: &Self) -> Self {
        Self {
            allocations: self.allocations.saturating_sub(part.allocations),
            frees: self.frees.saturating_sub(part.frees),
            reallocations: self.reallocations.saturating_sub(part.reallocations),
            reallocated_away: self.reallocated_away.saturating_sub(part.reallocated_away),
            allocated_bytes: self.allocated_bytes.saturating_sub(part.allocated_bytes),
            freed_bytes: self.freed_bytes.saturating_sub(part.freed_bytes),
            peak_bytes: self.peak_bytes,
            cross_thread_frees: self.cross_thread_frees.saturating_sub(part.cross_thread_frees),
            temporary_allocations: self.temporary_allocations.saturating_sub(part.temporary_allocations),
            unrecorded: self.unrecorded.saturating_sub(part.unrecorded),
            unrecorded_gone: self.unrecorded_gone.saturating_sub(part.unrecorded_gone),
        }
    }
}

/// The figures of the whole memory, and its high-water mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What is counted for every owner.
    pub figures: Figures,
    /// The most blocks that were ever live at once.
    pub peak_blocks: u64,
    /// When `figures.peak_bytes` was first reached.
    pub peak_at: Nanos,
    /// How many events had happened when it was reached, that event included: times may tie, this never does.
    pub peak_event: u64,
    /// The most bytes held when the instant inside a moving reallocation counts, in which the allocator holds both the
    /// old and the new place. No instant of the recording shows it (law 3). 0 until a block moves: where both count, the
    /// larger of this and `figures.peak_bytes` was held.
    pub peak_bytes_inside_reallocation: u64,
}
