//! The usual events, many at once.
//!
//! Nearly all events are allocations and frees of blocks that stand for themselves and have no tag. What they change is known without asking again and again, and what
//! belongs to the whole need not be stored after each one. The figures are the same as those of one event after the other.

use super::{Accounts, AtPeak, Slot};
use crate::blocks::Kept;
use crate::event::{EventKind, Placement};
use crate::figures::{Figures, Rests};
use crate::ids::{AllocId, Nanos, StackId, TagId};

/// An allocation or a free with nothing unusual about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain {
    /// When.
    pub time: Nanos,
    /// Where.
    pub address: u64,
    /// Of an allocation, its size. Of a free it is filled in.
    pub size: u64,
    /// The number of the block; it is filled in.
    pub id: AllocId,
    /// By whom: a number of [`AddressLedger::number_thread`](crate::AddressLedger::number_thread). When it is applied, the index of [`Accounts::threads`] is filled in.
    pub thread: u32,
    /// The site of an allocation.
    pub stack: StackId,
    /// Of an allocation, its usable bytes beyond those expected.
    pub surplus: i32,
    /// Whether the block is given back.
    pub is_free: bool,
}

impl Plain {
    /// The same as any other event.
    pub fn kind(&self) -> EventKind {
        let &Self { address, size, stack, surplus, is_free, .. } = self;
        match is_free {
            true => EventKind::Deallocate { address, claimed_size: None },
            false => EventKind::Allocate(Placement { address, size, stack, surplus, ..Placement::default() }),
        }
    }
}

/// What was done with a number of plain events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many were applied. If not all, then the next one is unusual.
    pub count: usize,
    /// The most bytes that were live after one of them.
    pub highest_bytes: u64,
}

/// What the whole does while plain events are applied, to be stored after them.
pub(crate) struct Run {
    live_bytes: u64,
    highest_bytes: u64,
    live_blocks: u64,
    peak_blocks: u64,
    events: u64,
    next_id: u64,
    last_time: Nanos,
    totals: Figures,
}

/// Sizes that are summed up without asking are below this, and so are their sums.
const SMALL_SUMS: u32 = 61;

impl Accounts {
    /// Begins with plain events; `None` where there is anything that they are not made for.
    pub(crate) fn begin_run(&self) -> Option<Run> {
        let figures = &self.state.totals.figures;
        let is_exact = figures.rests == Rests::default() && self.promoted_rest == 0 && self.state.blocks.are_exact();
        if !is_exact || (figures.allocated_bytes | self.promoted_bytes) >> SMALL_SUMS != 0 {
            return None;
        }
        Some(Run {
            live_bytes: figures.live_bytes(),
            highest_bytes: 0,
            live_blocks: figures.live_blocks(),
            peak_blocks: self.state.totals.peak_blocks,
            events: self.state.events,
            next_id: self.state.next_id,
            last_time: self.state.last_time,
            totals: *figures,
        })
    }

    /// Whether there are more blocks or sites than the near caches hold.
    pub(crate) fn is_large(&self) -> bool {
        const MANY_BLOCKS: usize = 16 << 10;
        const MANY_SITES: usize = 4 << 10;
        self.state.blocks.len() > MANY_BLOCKS || self.state.sites.len() > MANY_SITES
    }

    /// Reads what an allocation at a site needs.
    #[inline(always)]
    pub(crate) fn touch_site(&self, stack: StackId) -> u64 {
        let touch = |row: usize| self.state.sites.figures()[row].allocations ^ self.at_peak[row].peak;
        self.state.sites.row(stack).map_or(0, touch)
    }

    /// Reads what a free of the block in a slot needs.
    #[inline(always)]
    pub(crate) fn touch_block(&self, slot: Slot) -> u64 {
        self.touch_site(self.kept(slot).stack)
    }

    /// Stores what the whole has come to.
    pub(crate) fn end_run(&mut self, run: Run) {
        let state = &mut self.state;
        (state.totals.figures, state.totals.peak_blocks) = (run.totals, run.peak_blocks);
        (state.events, state.next_id, state.last_time) = (run.events, run.next_id, run.last_time);
    }

    /// Whether an event is usual, as far as that can be told without its block.
    #[inline(always)]
    pub(crate) fn is_usual(run: &Run, event: &Plain) -> bool {
        event.time >= run.last_time && (run.totals.allocated_bytes | event.size) >> SMALL_SUMS == 0
    }

    /// Gives out a block.
    #[inline(always)]
    pub(crate) fn allocate_plain(&mut self, run: &mut Run, event: &mut Plain, slot: u32) {
        let &mut Plain { time, address, size, thread, stack, surplus, .. } = event;
        let row = self.site_row(stack);
        let state = &mut self.state;
        let id = AllocId(run.next_id);
        event.id = id;
        run.next_id += 1;
        run.events += 1;
        run.last_time = time;
        let account = &mut state.threads[thread as usize];
        account.last_allocation = id;
        add(&mut account.figures, size);
        let (site, at_peak) = (&mut state.sites.figures_mut()[row], &mut self.at_peak[row]);
        if at_peak.peak != self.peaks {
            *at_peak = AtPeak { peak: self.peaks, live_bytes: site.allocated_bytes - site.freed_bytes };
        }
        add(site, size);
        run.totals.allocations += 1;
        run.totals.allocated_bytes += size;
        run.live_bytes += size;
        run.live_blocks += 1;
        run.highest_bytes = run.highest_bytes.max(run.live_bytes);
        run.peak_blocks = run.peak_blocks.max(run.live_blocks);
        if run.live_bytes > run.totals.peak_bytes {
            run.totals.peak_bytes = run.live_bytes;
            state.totals.peak_at = time;
            state.totals.peak_event = run.events;
            self.peaks += 1;
        }
        let kept = Kept { id, address, size, time, thread, stack, tag: TagId::NONE, surplus };
        state.blocks.put(slot, kept);
    }

    /// Whether the block in a slot is a usual one.
    #[inline(always)]
    pub(crate) fn is_plain(&self, slot: Slot) -> bool {
        self.kept(slot).tag == TagId::NONE
    }

    /// Takes back the block in a slot, which must be a usual one.
    #[inline(always)]
    pub(crate) fn free_plain(&mut self, run: &mut Run, event: &mut Plain, slot: u32) {
        let Kept { id, size, thread, stack, .. } = self.state.blocks.take(slot);
        let row = self.site_row(stack);
        let state = &mut self.state;
        (event.id, event.size) = (id, size);
        run.events += 1;
        run.last_time = event.time;
        let account = &mut state.threads[thread as usize];
        let temporary = u64::from(account.last_allocation == id);
        let cross_thread = u64::from(thread != event.thread);
        let (site, at_peak) = (&mut state.sites.figures_mut()[row], &mut self.at_peak[row]);
        if at_peak.peak != self.peaks {
            *at_peak = AtPeak { peak: self.peaks, live_bytes: site.allocated_bytes - site.freed_bytes };
        }
        for figures in [&mut run.totals, &mut account.figures, site] {
            figures.frees += 1;
            figures.freed_bytes += size;
            figures.temporary_allocations += temporary;
            figures.cross_thread_frees += cross_thread;
        }
        run.live_bytes -= size;
        run.live_blocks -= 1;
    }
}

/// Counts an allocation.
#[inline(always)]
fn add(figures: &mut Figures, size: u64) {
    figures.allocations += 1;
    figures.allocated_bytes += size;
    figures.peak_bytes = figures.peak_bytes.max(figures.allocated_bytes - figures.freed_bytes);
}

impl Run {
    /// The most bytes that were live after an event of this run.
    pub(crate) fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }
}
