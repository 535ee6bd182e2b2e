//! The usual events, in batches.
//!
//! Nearly all events are allocations and frees of blocks that stand for themselves and have no tag. Their effects are known without a check per event,
//! and the totals are stored once per batch. The figures are the same as if the events were applied one by one.
//!
//! # Design
//!
//! Plain events pass through three loops, 256 at a time: out of the rings, through the ledger, into the columns. Each loop has little state, which
//! stays in registers, and the totals are stored once per batch. Any other event (a reallocation, a mapping, an address that is still live, a sample)
//! ends the batch and is applied as a single event, to the same tables. A property test compares both paths, in accounts and in bytes of the file.
//!
//! * *Blocks are found as page tables find pages* (`model/address_index.rs`): neighbours in the program are neighbours in the index. A hash sent every
//!   event to another line of memory.
//! * *Data of one event is packed*: the figures of a site or thread that nearly all events change are one cache line; the data of a block that a free
//!   needs is half of one.
//! * *The memory of a batch is read before it is changed*, if there are too many blocks or sites for the near caches. The reads of a batch do not
//!   depend on each other, so the processor fetches many lines at once. Prefetching event by event cost as much as it saved.
//! * *The summary comes from the ledger.* The live bytes of each site at the peak are noted when the site changes for the first time after a peak: one
//!   comparison per event instead of a replay.

use super::{Accounts, AtPeak, BlockSlot};
use crate::blocks::UnweightedBlock;
use crate::event::{EventKind, Placement};
use crate::figures::{Figures, Rests};
use crate::ids::{AllocId, Nanos, StackId, TagId};

/// An allocation or a free with nothing unusual about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainEvent {
    /// The time of the event.
    pub time: Nanos,
    /// The address of the block.
    pub address: u64,
    /// The size of an allocation. For a free, the ledger fills it in.
    pub size: u64,
    /// The number of the block. The ledger fills it in.
    pub id: AllocId,
    /// The thread, as a number of [`AddressLedger::number_thread`](crate::AddressLedger::number_thread). When the event is applied, this becomes the
    /// index in [`Accounts::threads`].
    pub thread: u32,
    /// The site of an allocation; of a free, the stack that freed the block, if the source reports it.
    pub stack: StackId,
    /// For an allocation: usable bytes beyond the expected ones.
    pub surplus: i32,
    /// True for a free, false for an allocation.
    pub is_free: bool,
}

impl PlainEvent {
    /// The same as an event of the general kind.
    pub fn kind(&self) -> EventKind {
        let &Self { address, size, stack, surplus, is_free, .. } = self;
        match is_free {
            true => EventKind::Deallocate { address, claimed_size: None, stack },
            false => EventKind::Allocate(Placement { address, size, stack, surplus, ..Placement::default() }),
        }
    }
}

/// The result of applying a batch of plain events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many were applied. If not all were, the next one is unusual.
    pub count: usize,
    /// The most bytes that were live after one of them.
    pub highest_bytes: u64,
}

/// The totals while plain events are applied. They are stored at the end of the batch.
pub(crate) struct PlainBatch {
    live_bytes: u64,
    highest_bytes: u64,
    live_blocks: u64,
    peak_blocks: u64,
    events: u64,
    next_id: u64,
    last_time: Nanos,
    totals: Figures,
}

/// Sizes and sums below two to this power are added without an overflow check.
const SMALL_SUMS: u32 = 61;

impl Accounts {
    /// Starts a batch of plain events; `None` if the accounts hold anything that plain events do not support.
    pub(crate) fn begin_batch(&self) -> Option<PlainBatch> {
        let figures = &self.state.totals.figures;
        let is_exact = figures.rests == Rests::default() && self.promoted_rest == 0 && self.state.blocks.are_exact();
        if !is_exact || (figures.allocated_bytes | self.promoted_bytes) >> SMALL_SUMS != 0 {
            return None;
        }
        Some(PlainBatch {
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

    /// Reads the memory that an allocation at a site needs.
    #[inline(always)]
    pub(crate) fn touch_site(&self, stack: StackId) -> u64 {
        let touch = |row: usize| self.state.sites.figures()[row].allocations ^ self.at_peak[row].peak;
        self.state.sites.row(stack).map_or(0, touch)
    }

    /// Reads the memory that a free of the block in a slot needs.
    #[inline(always)]
    pub(crate) fn touch_block(&self, slot: BlockSlot) -> u64 {
        self.touch_site(self.unweighted(slot).stack)
    }

    /// Stores the totals of a batch.
    pub(crate) fn end_batch(&mut self, batch: PlainBatch) {
        let state = &mut self.state;
        (state.totals.figures, state.totals.peak_blocks) = (batch.totals, batch.peak_blocks);
        (state.events, state.next_id, state.last_time) = (batch.events, batch.next_id, batch.last_time);
    }

    /// Whether an event is usual, as far as this can be seen without its block.
    #[inline(always)]
    pub(crate) fn is_usual(batch: &PlainBatch, event: &PlainEvent) -> bool {
        event.time >= batch.last_time && (batch.totals.allocated_bytes | event.size) >> SMALL_SUMS == 0
    }

    /// Adds a block.
    #[inline(always)]
    pub(crate) fn allocate_plain(&mut self, batch: &mut PlainBatch, event: &mut PlainEvent, slot: u32) {
        let &mut PlainEvent { time, address, size, thread, stack, surplus, .. } = event;
        let row = self.site_row(stack);
        let state = &mut self.state;
        let id = AllocId(batch.next_id);
        event.id = id;
        batch.next_id += 1;
        batch.events += 1;
        batch.last_time = time;
        let account = &mut state.threads[thread as usize];
        account.last_allocation = id;
        add(&mut account.figures, size);
        let (site, at_peak) = (&mut state.sites.figures_mut()[row], &mut self.at_peak[row]);
        if at_peak.peak != self.peaks {
            *at_peak = AtPeak { peak: self.peaks, live_bytes: site.allocated_bytes - site.freed_bytes };
        }
        add(site, size);
        batch.totals.allocations += 1;
        batch.totals.allocated_bytes += size;
        batch.live_bytes += size;
        batch.live_blocks += 1;
        batch.highest_bytes = batch.highest_bytes.max(batch.live_bytes);
        batch.peak_blocks = batch.peak_blocks.max(batch.live_blocks);
        if batch.live_bytes > batch.totals.peak_bytes {
            batch.totals.peak_bytes = batch.live_bytes;
            state.totals.peak_at = time;
            state.totals.peak_event = batch.events;
            self.peaks += 1;
        }
        let block = UnweightedBlock { id, address, size, time, thread, stack, tag: TagId::NONE, surplus };
        state.blocks.put(slot, block);
    }

    /// Whether the block in a slot is plain.
    #[inline(always)]
    pub(crate) fn is_plain(&self, slot: BlockSlot) -> bool {
        self.unweighted(slot).tag == TagId::NONE
    }

    /// Frees the block in a slot, which must be plain.
    #[inline(always)]
    pub(crate) fn free_plain(&mut self, batch: &mut PlainBatch, event: &mut PlainEvent, slot: u32) {
        let UnweightedBlock { id, size, thread, stack, .. } = self.state.blocks.take(slot);
        let row = self.site_row(stack);
        let state = &mut self.state;
        (event.id, event.size) = (id, size);
        batch.events += 1;
        batch.last_time = event.time;
        let account = &mut state.threads[thread as usize];
        let temporary = u64::from(account.last_allocation == id);
        let cross_thread = u64::from(thread != event.thread);
        let (site, at_peak) = (&mut state.sites.figures_mut()[row], &mut self.at_peak[row]);
        if at_peak.peak != self.peaks {
            *at_peak = AtPeak { peak: self.peaks, live_bytes: site.allocated_bytes - site.freed_bytes };
        }
        for figures in [&mut batch.totals, &mut account.figures, site] {
            figures.frees += 1;
            figures.freed_bytes += size;
            figures.temporary_allocations += temporary;
            figures.cross_thread_frees += cross_thread;
        }
        batch.live_bytes -= size;
        batch.live_blocks -= 1;
    }
}

/// Counts an allocation.
#[inline(always)]
fn add(figures: &mut Figures, size: u64) {
    figures.allocations += 1;
    figures.allocated_bytes += size;
    figures.peak_bytes = figures.peak_bytes.max(figures.allocated_bytes - figures.freed_bytes);
}

impl PlainBatch {
    /// The most bytes that were live after an event of this batch.
    pub(crate) fn highest_bytes(&self) -> u64 {
        self.highest_bytes
    }
}
