//! The accounts: every live block, and the figures of everyone who owns one.
//!
//! All figures are kept on the fly and in one place, so the in-memory engine, the writer of files and their reader
//! cannot disagree. Invariants, checked by [`crate::laws`]:
//!
//! * the live blocks' sizes sum to the live bytes of the totals, of their thread, site and tag;
//! * the figures of all threads sum to the totals, and so do those of all sites;
//! * a dead block's slot is in `free_slots` and carries [`DEAD`].

use crate::anomalies::{Anomalies, Anomaly};
use crate::event::Placement;
use crate::figures::{Figures, Totals};
use crate::ids::{AllocId, Nanos, StackId, TagId, ThreadId};
use rustc_hash::FxHashMap;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its identity.
    pub id: AllocId,
    /// Where it is.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was first allocated.
    pub time: Nanos,
    /// Index of its owner in [`Accounts::threads`].
    pub thread: u32,
    /// The site that asked for it, or last resized it.
    pub stack: StackId,
    /// What it is for.
    pub tag: TagId,
}

/// Where a live block is kept. Slots are reused, like addresses; [`AllocId`] is the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(crate) u32);

const DEAD: AllocId = AllocId(u64::MAX);
const NO_ALLOCATION: AllocId = DEAD;
const NOBODY: Block =
    Block { id: DEAD, address: 0, size: 0, time: Nanos(0), thread: 0, stack: StackId::UNKNOWN, tag: TagId::NONE };

/// A thread's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAccount {
    /// Which thread.
    pub id: ThreadId,
    /// What it owns and did.
    pub figures: Figures,
    /// Its latest allocation: freeing that one makes it a temporary allocation.
    pub last_allocation: AllocId,
}

/// Everything in [`Accounts`] but the means to find things, as plain data: what a keyframe holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountsState {
    /// The whole memory.
    pub totals: Totals,
    /// Oddities so far.
    pub anomalies: Anomalies,
    /// Every thread seen, in order of appearance.
    pub threads: Vec<ThreadAccount>,
    /// Figures by [`StackId`].
    pub sites: Vec<Figures>,
    /// Figures by [`TagId`]; those of [`TagId::NONE`] are not kept.
    pub tags: Vec<Figures>,
    /// How many events have happened.
    pub events: u64,
    /// The next allocation's number.
    pub next_id: u64,
    /// The time of the latest event.
    pub last_time: Nanos,
    /// The live blocks, by number.
    pub blocks: Vec<Block>,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    totals: Totals,
    anomalies: Anomalies,
    threads: Vec<ThreadAccount>,
    sites: Vec<Figures>,
    tags: Vec<Figures>,
    events: u64,
    next_id: u64,
    last_time: Nanos,
    blocks: Vec<Block>,
    free_slots: Vec<u32>,
    thread_indices: FxHashMap<ThreadId, u32>,
    latest_thread: u32,
}

#[inline]
fn figures_at(figures: &mut Vec<Figures>, index: u32) -> &mut Figures {
    let index = index as usize;
    if index >= figures.len() {
        add_rows(figures, index + 1);
    }
    &mut figures[index]
}

#[cold]
fn add_rows(figures: &mut Vec<Figures>, count: usize) {
    figures.resize(count, Figures::default());
}

impl Accounts {
    /// Takes up a stored state.
    pub fn from_state(state: AccountsState) -> Self {
        let thread_indices = state.threads.iter().zip(0..).map(|(thread, index)| (thread.id, index)).collect();
        Self {
            totals: state.totals,
            anomalies: state.anomalies,
            threads: state.threads,
            sites: state.sites,
            tags: state.tags,
            events: state.events,
            next_id: state.next_id,
            last_time: state.last_time,
            blocks: state.blocks,
            free_slots: Vec::new(),
            thread_indices,
            latest_thread: 0,
        }
    }

    /// The state as plain data, live blocks by number.
    pub fn to_state(&self) -> AccountsState {
        let mut blocks: Vec<Block> = self.blocks().copied().collect();
        blocks.sort_unstable_by_key(|block| block.id);
        AccountsState {
            totals: self.totals,
            anomalies: self.anomalies,
            threads: self.threads.clone(),
            sites: self.sites.clone(),
            tags: self.tags.clone(),
            events: self.events,
            next_id: self.next_id,
            last_time: self.last_time,
            blocks,
        }
    }

    /// The whole memory's figures.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Oddities so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// Every thread seen, in order of appearance.
    pub fn threads(&self) -> &[ThreadAccount] {
        &self.threads
    }

    /// Figures by [`StackId`].
    pub fn sites(&self) -> &[Figures] {
        &self.sites
    }

    /// Figures by [`TagId`]; those of [`TagId::NONE`] are not kept.
    pub fn tags(&self) -> &[Figures] {
        &self.tags
    }

    /// How many events have happened.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number the next allocation will get.
    pub fn next_id(&self) -> AllocId {
        AllocId(self.next_id)
    }

    /// The time of the latest event.
    pub fn last_time(&self) -> Nanos {
        self.last_time
    }

    /// The live blocks, in no particular order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.id != DEAD)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (Slot, &Block)> {
        (0..).map(Slot).zip(&self.blocks).filter(|(_, block)| block.id != DEAD)
    }

    /// The block in a slot.
    #[inline]
    pub fn block(&self, slot: Slot) -> &Block {
        &self.blocks[slot.0 as usize]
    }

    /// The dense index of a thread, made if it is new.
    #[inline]
    pub fn thread_index(&mut self, thread: ThreadId) -> u32 {
        if let Some(latest) = self.threads.get(self.latest_thread as usize)
            && latest.id == thread
        {
            return self.latest_thread;
        }
        self.find_or_add_thread(thread)
    }

    fn find_or_add_thread(&mut self, thread: ThreadId) -> u32 {
        let next = self.threads.len() as u32;
        let index = *self.thread_indices.entry(thread).or_insert(next);
        if index == next {
            let account = ThreadAccount { id: thread, figures: Figures::default(), last_allocation: NO_ALLOCATION };
            self.threads.push(account);
        }
        self.latest_thread = index;
        index
    }

    /// Counts an event and moves the clock.
    #[inline]
    pub(crate) fn tick(&mut self, time: Nanos) {
        self.events += 1;
        self.last_time = time;
    }

    /// Moves the clock for something that is no event: whatever follows is not earlier.
    pub(crate) fn pass(&mut self, time: Nanos) {
        self.last_time = time;
    }

    pub(crate) fn note(&mut self, anomaly: Anomaly, count: u64) {
        self.anomalies.add(anomaly, count);
    }

    /// Goes on with allocation number `next`, after events that nobody knows.
    pub(crate) fn skip_to(&mut self, next: AllocId, lost_events: u64) {
        self.next_id = self.next_id.max(next.0);
        self.events = self.events.saturating_add(lost_events);
        self.note(Anomaly::LostToDamage, lost_events);
    }

    /// The part of `size` that can be added without any sum leaving 64 bits.
    #[inline]
    pub(crate) fn admissible(&self, size: u64) -> u64 {
        size.min(u64::MAX - self.totals.figures.allocated_bytes)
    }

    /// Applies `change` to the figures of everyone who owns a block of this thread, stack and tag.
    #[inline]
    fn for_owners(&mut self, thread: u32, stack: StackId, tag: TagId, change: impl Fn(&mut Figures)) {
        change(&mut self.totals.figures);
        change(&mut self.threads[thread as usize].figures);
        change(figures_at(&mut self.sites, stack.0));
        if tag != TagId::NONE {
            change(figures_at(&mut self.tags, tag.0));
        }
    }

    /// As [`for_owners`](Self::for_owners), for a change that may lead to a new peak.
    #[inline]
    fn raise_owners(&mut self, thread: u32, stack: StackId, tag: TagId, change: impl Fn(&mut Figures)) {
        let before = self.totals.figures.peak_bytes;
        self.for_owners(thread, stack, tag, |figures| {
            change(figures);
            figures.peak_bytes = figures.peak_bytes.max(figures.live_bytes());
        });
        let totals = &mut self.totals;
        if totals.figures.peak_bytes > before {
            totals.peak_at = self.last_time;
            totals.peak_event = self.events;
        }
        totals.peak_blocks = totals.peak_blocks.max(totals.figures.live_blocks());
    }

    /// A slot for a block that is about to be [allocated](Self::allocate).
    #[inline]
    pub(crate) fn next_slot(&mut self) -> Slot {
        Slot(self.free_slots.pop().unwrap_or_else(|| {
            self.blocks.push(NOBODY);
            self.blocks.len() as u32 - 1
        }))
    }

    /// Gives out a block; `place.size` must be [admissible](Self::admissible).
    #[inline]
    pub(crate) fn allocate(&mut self, slot: Slot, thread: u32, place: &Placement) {
        let id = AllocId(self.next_id);
        self.next_id += 1;
        self.threads[thread as usize].last_allocation = id;
        self.raise_owners(thread, place.stack, place.tag, |figures| {
            figures.allocations += 1;
            figures.allocated_bytes += place.size;
        });
        self.blocks[slot.0 as usize] = Block {
            id,
            address: place.address,
            size: place.size,
            time: self.last_time,
            thread,
            stack: place.stack,
            tag: place.tag,
        };
    }

    /// Takes a block back on behalf of a thread.
    #[inline]
    pub(crate) fn free(&mut self, slot: Slot, by_thread: u32) {
        let block = self.retire(slot);
        let temporary = u64::from(self.threads[block.thread as usize].last_allocation == block.id);
        let cross_thread = u64::from(block.thread != by_thread);
        self.for_owners(block.thread, block.stack, block.tag, |figures| {
            figures.frees += 1;
            figures.freed_bytes += block.size;
            figures.temporary_allocations += temporary;
            figures.cross_thread_frees += cross_thread;
        });
    }

    /// Takes back a block whose free was never seen.
    pub(crate) fn evict(&mut self, slot: Slot) {
        let block = self.retire(slot);
        self.note(Anomaly::DuplicateAllocation, 1);
        self.for_owners(block.thread, block.stack, block.tag, |figures| {
            figures.frees += 1;
            figures.freed_bytes += block.size;
        });
    }

    #[inline]
    fn retire(&mut self, slot: Slot) -> Block {
        let block = self.blocks[slot.0 as usize];
        self.blocks[slot.0 as usize].id = DEAD;
        self.free_slots.push(slot.0);
        block
    }

    /// Resizes and perhaps moves a block: it keeps its identity and its birth, and belongs to whoever resized it.
    #[inline]
    pub(crate) fn reallocate(&mut self, slot: Slot, thread: u32, new: &Placement) {
        let old = *self.block(slot);
        if new.address != old.address {
            let both = self.totals.figures.live_bytes().saturating_add(new.size);
            let peak = &mut self.totals.peak_bytes_inside_reallocation;
            *peak = both.max(*peak);
        }
        self.for_owners(old.thread, old.stack, old.tag, |figures| {
            figures.reallocated_away += 1;
            figures.freed_bytes += old.size;
        });
        self.raise_owners(thread, new.stack, new.tag, |figures| {
            figures.reallocations += 1;
            figures.allocated_bytes += new.size;
        });
        self.threads[thread as usize].last_allocation = old.id;
        self.blocks[slot.0 as usize] =
            Block { address: new.address, size: new.size, thread, stack: new.stack, tag: new.tag, ..old };
    }
}
