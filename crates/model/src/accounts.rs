//! The accounts: every live block, and the figures of every owner of blocks.
//!
//! All figures are updated event by event, in one place, so the in-memory engine, the file writer and the file reader cannot disagree. Invariants,
//! checked by [`crate::laws`]:
//!
//! * the live blocks' sizes sum to the live bytes of the totals, of their thread, site and tag;
//! * the figures of all threads sum to the totals, and so do those of all sites.

mod plain;

pub use plain::{Applied, PlainEvent};

use crate::anomalies::{Anomalies, Anomaly};
use crate::blocks::{Block, Blocks, UnweightedBlock};
use crate::byte_sum::ByteSum;
use crate::event::Placement;
use crate::figures::{Figures, Totals};
use crate::ids::{AllocId, Nanos, StackId, TagId, ThreadId};
use crate::sites::Sites;
use crate::weight::Weight;
use rustc_hash::FxHashMap;

/// Where a live block is kept. Slots are reused, like addresses; [`AllocId`] is the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSlot(pub(crate) u32);

const NO_ALLOCATION: AllocId = AllocId(u64::MAX);
/// The limit on blocks that weights may add up to. It keeps counters from wrapping and within the range that files can store.
const MOST_ESTIMATED: u64 = (1 << 40) - (1 << 36);
/// The limit on counted samples. It keeps their sum from wrapping.
const MOST_SAMPLES: u64 = 1 << 62;

/// A thread's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ThreadAccount {
    /// The thread's counters, and what it owns.
    pub figures: Figures,
    /// Which thread.
    pub id: ThreadId,
    /// Its latest allocation. Freeing that block while it is the latest makes it a temporary allocation.
    pub last_allocation: AllocId,
}

/// The contents of [`Accounts`] without the lookup indices, as plain data. A keyframe stores this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountsState {
    /// The whole memory.
    pub totals: Totals,
    /// Counters of anomalies so far.
    pub anomalies: Anomalies,
    /// Every thread seen, in order of appearance.
    pub threads: Vec<ThreadAccount>,
    /// Figures by [`StackId`].
    pub sites: Sites,
    /// Figures by [`TagId`]. [`TagId::NONE`] has no figures of its own: its row holds the bytes and blocks that promotions moved between tags.
    pub tags: Vec<Figures>,
    /// How many events have happened.
    pub events: u64,
    /// The next allocation's number.
    pub next_id: u64,
    /// The time of the latest event.
    pub last_time: Nanos,
    /// The live blocks; ordered by number in a stored state.
    pub blocks: Blocks,
}

/// Every live block, and the figures of the whole, of each thread, site and tag.
#[derive(Clone, Debug)]
pub struct Accounts {
    state: AccountsState,
    thread_indices: FxHashMap<ThreadId, u32>,
    latest_thread: u32,
    /// Bytes that promotions moved from one tag to another, and the rest that rounding left.
    promoted_bytes: u64,
    promoted_rest: i32,
    /// How often the whole has reached a new peak, plus one.
    peaks: u64,
    /// By row of the sites: live bytes at the peak.
    at_peak: Vec<AtPeak>,
}

/// The live bytes of a site at the peak of the whole. They are noted before the site's first change after a peak: a site that has not changed since
/// the latest peak still holds what it held then.
#[derive(Clone, Copy, Debug, Default)]
struct AtPeak {
    /// The number of the peak that `live_bytes` belongs to.
    peak: u64,
    live_bytes: u64,
}

/// The amounts that one record adds to the figures.
#[derive(Clone, Copy)]
struct RecordAmounts {
    blocks: u64,
    /// Bytes, if they are a whole number.
    bytes: u64,
    /// All bytes, if they are not a whole number.
    sum: Option<ByteSum>,
    /// Blocks that the record stands for, apart from its own.
    unrecorded: u64,
    /// Samples beyond one.
    more_samples: u64,
}

impl RecordAmounts {
    /// A block that stands for itself.
    #[inline(always)]
    fn exact(size: u64) -> Self {
        Self { blocks: 1, bytes: size, sum: None, unrecorded: 0, more_samples: 0 }
    }

    #[inline]
    fn of(weight: Weight, id: AllocId, size: u64) -> Self {
        let blocks = weight.blocks(id);
        let sum = Some(weight.amount(size));
        Self { blocks, bytes: 0, sum, unrecorded: blocks - 1, more_samples: weight.samples() - 1 }
    }

    fn sum(self) -> ByteSum {
        self.sum.unwrap_or(ByteSum::whole(self.bytes))
    }

    #[inline(always)]
    fn allocate(self, figures: &mut Figures) {
        match self.sum {
            None => figures.allocated_bytes += self.bytes,
            Some(sum) => figures.add_allocated(sum),
        }
    }

    #[inline(always)]
    fn free(self, figures: &mut Figures) {
        match self.sum {
            None => figures.freed_bytes += self.bytes,
            Some(sum) => figures.add_freed(sum),
        }
    }
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

/// Subtracts the bytes and records of a block.
#[inline(always)]
fn release(figures: &mut Figures, amounts: RecordAmounts) {
    amounts.free(figures);
    figures.unrecorded_gone += amounts.unrecorded;
    figures.more_samples_gone += amounts.more_samples;
}

/// Moves a block out: it lives on with another owner.
#[inline(always)]
fn transfer_out(figures: &mut Figures, amounts: RecordAmounts) {
    release(figures, amounts);
    figures.reallocated_away += amounts.blocks;
}

/// Moves a block in that lived with another owner.
#[inline(always)]
fn transfer_in(figures: &mut Figures, amounts: RecordAmounts) {
    figures.reallocations += amounts.blocks;
    amounts.allocate(figures);
    figures.unrecorded += amounts.unrecorded;
    figures.more_samples += amounts.more_samples;
}

fn count_promotion(figures: &mut Figures, amounts: RecordAmounts) {
    figures.promotions += amounts.blocks;
    figures.unrecorded_promotions += amounts.unrecorded;
}

/// Why a block that lived outside of these accounts enters them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryCause {
    /// It was promoted.
    Promoted,
    /// It was resized.
    Resized,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::from_state(AccountsState::default())
    }
}

impl Accounts {
    /// Continues from a stored state.
    pub fn from_state(state: AccountsState) -> Self {
        let moved = state.tags.first().copied().unwrap_or_default();
        Self {
            promoted_bytes: moved.allocated_bytes,
            promoted_rest: moved.rests.allocated,
            thread_indices: state.threads.iter().zip(0..).map(|(thread, index)| (thread.id, index)).collect(),
            latest_thread: 0,
            peaks: 1,
            at_peak: vec![AtPeak::default(); state.sites.len()],
            state,
        }
    }

    /// The state as plain data, the live blocks in no particular order.
    pub fn state(&self) -> &AccountsState {
        &self.state
    }

    /// A copy of the state, with the live blocks ordered by number.
    pub fn to_state(&self) -> AccountsState {
        AccountsState { blocks: self.state.blocks.in_order(), ..self.state_without_blocks() }
    }

    fn state_without_blocks(&self) -> AccountsState {
        let AccountsState { totals, anomalies, threads, sites, tags, events, next_id, last_time, .. } = &self.state;
        AccountsState {
            totals: *totals,
            anomalies: *anomalies,
            threads: threads.clone(),
            sites: sites.clone(),
            tags: tags.clone(),
            events: *events,
            next_id: *next_id,
            last_time: *last_time,
            blocks: Blocks::default(),
        }
    }

    /// The figures alone, without the blocks.
    pub fn figures_alone(&self) -> Self {
        Self {
            state: self.state_without_blocks(),
            thread_indices: self.thread_indices.clone(),
            at_peak: self.at_peak.clone(),
            ..*self
        }
    }

    /// As [`figures_alone`](Self::figures_alone), for callers that no longer need the blocks.
    pub fn into_figures_alone(mut self) -> Self {
        self.state.blocks = Blocks::default();
        self
    }

    /// The whole memory's figures.
    pub fn totals(&self) -> &Totals {
        &self.state.totals
    }

    /// Counters of anomalies so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.state.anomalies
    }

    /// Every thread seen, in order of appearance.
    pub fn threads(&self) -> &[ThreadAccount] {
        &self.state.threads
    }

    /// A thread by its id, if it was seen.
    pub fn thread(&self, id: ThreadId) -> Option<&ThreadAccount> {
        self.state.threads.get(*self.thread_indices.get(&id)? as usize)
    }

    /// Figures by [`StackId`].
    pub fn sites(&self) -> &Sites {
        &self.state.sites
    }

    /// The live bytes of each site when the whole reached its peak. Valid only for accounts that started empty, or have reached a new peak since.
    pub fn live_at_peak(&self) -> impl Iterator<Item = (StackId, u64)> {
        self.state.sites.iter().map(|(stack, site)| {
            let at = self.state.sites.row(stack).map(|row| self.at_peak[row]);
            let then = at.filter(|at| at.peak == self.peaks).map(|at| at.live_bytes);
            (stack, then.unwrap_or_else(|| site.live_bytes()))
        })
    }

    /// Figures by [`TagId`]. [`TagId::NONE`] has no figures of its own: its row holds the bytes and blocks that promotions moved between tags.
    pub fn tags(&self) -> &[Figures] {
        &self.state.tags
    }

    /// How many events have happened.
    pub fn events(&self) -> u64 {
        self.state.events
    }

    /// The number the next allocation will get.
    pub fn next_id(&self) -> AllocId {
        AllocId(self.state.next_id)
    }

    /// The time of the latest event.
    pub fn last_time(&self) -> Nanos {
        self.state.last_time
    }

    /// The live blocks, in no particular order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.state.blocks.iter()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (BlockSlot, UnweightedBlock)> {
        self.state.blocks.places().map(|(place, block)| (BlockSlot(place), block))
    }

    #[inline(always)]
    pub(crate) fn unweighted(&self, slot: BlockSlot) -> UnweightedBlock {
        self.state.blocks.at(slot.0)
    }

    /// The block in a slot.
    pub fn block(&self, slot: BlockSlot) -> Block {
        self.unweighted(slot).with_weight(self.state.blocks.weight(slot.0))
    }

    /// The dense index of a thread, made if it is new.
    #[inline(always)]
    pub fn thread_index(&mut self, thread: ThreadId) -> u32 {
        if let Some(latest) = self.state.threads.get(self.latest_thread as usize)
            && latest.id == thread
        {
            return self.latest_thread;
        }
        self.find_or_add_thread(thread)
    }

    fn find_or_add_thread(&mut self, thread: ThreadId) -> u32 {
        let next = self.state.threads.len() as u32;
        let index = *self.thread_indices.entry(thread).or_insert(next);
        if index == next {
            let account = ThreadAccount { id: thread, figures: Figures::default(), last_allocation: NO_ALLOCATION };
            self.state.threads.push(account);
        }
        self.latest_thread = index;
        index
    }

    /// Counts an event and moves the clock.
    #[inline(always)]
    pub(crate) fn tick(&mut self, time: Nanos) {
        self.state.events += 1;
        self.state.last_time = time;
    }

    /// Moves the clock for a step that is not an event. No later step has an earlier time.
    pub(crate) fn pass(&mut self, time: Nanos) {
        self.state.last_time = time;
    }

    pub(crate) fn note(&mut self, anomaly: Anomaly, count: u64) {
        self.state.anomalies.add(anomaly, count);
    }

    /// Continues with allocation number `next`, after events that were lost.
    pub(crate) fn skip_to(&mut self, next: AllocId, lost_events: u64) {
        self.state.next_id = self.state.next_id.max(next.0);
        self.state.events = self.state.events.saturating_add(lost_events);
        self.note(Anomaly::LostToDamage, lost_events);
    }

    /// The whole bytes that can be added before any sum exceeds 64 bits. A tag may hold all bytes ever allocated, and some of them a second time by
    /// promotion.
    #[cold]
    fn room(&self) -> u64 {
        if self.state.totals.figures.rests.allocated == 0 && self.promoted_rest == 0 {
            (u64::MAX - self.promoted_bytes).saturating_sub(self.state.totals.figures.allocated_bytes)
        } else {
            (self.fine_room().units() >> 32) as u64
        }
    }

    /// The same, including fractions of bytes.
    fn fine_room(&self) -> ByteSum {
        let moved = self.state.tags.first().copied().unwrap_or_default();
        ByteSum::MAX.saturating_sub(self.state.totals.figures.allocated()).saturating_sub(moved.allocated())
    }

    /// The part of a size that can be added before any sum exceeds 64 bits.
    #[inline(always)]
    pub(crate) fn admissible(&self, size: u64, weight: Weight) -> (u64, Weight) {
        // Far from the limit there is nothing to compute.
        let is_far = (self.state.totals.figures.allocated_bytes | self.promoted_bytes | size) >> 61 == 0;
        match (weight.is_one(), is_far) {
            (true, true) => (size, Weight::ONE),
            (true, false) => (size.min(self.room()), Weight::ONE),
            (false, _) => self.admissible_sample(size, weight),
        }
    }

    /// Replaces a weight by 1 if it would make a sum too large.
    fn admissible_sample(&self, size: u64, weight: Weight) -> (u64, Weight) {
        let room = self.room();
        let Figures { allocations, reallocations, .. } = self.state.totals.figures;
        let blocks = allocations + reallocations + weight.most_blocks();
        let samples = self.state.totals.figures.more_samples.saturating_add(weight.samples());
        let fits = weight.amount(size) <= self.fine_room() && blocks <= MOST_ESTIMATED && samples <= MOST_SAMPLES;
        if fits { (size, weight) } else { (size.min(room), Weight::ONE) }
    }

    /// The row of a site. The row is made if it is new.
    #[inline(always)]
    fn site_row(&mut self, stack: StackId) -> usize {
        self.state.sites.row(stack).unwrap_or_else(|| self.add_site(stack))
    }

    #[cold]
    fn add_site(&mut self, stack: StackId) -> usize {
        self.at_peak.push(AtPeak::default());
        self.state.sites.add(stack)
    }

    /// Applies `change` to the figures of every owner of a block with this thread, stack and tag.
    #[inline(always)]
    fn for_owners(&mut self, thread: u32, stack: StackId, tag: TagId, change: impl Fn(&mut Figures)) {
        change(&mut self.state.totals.figures);
        change(&mut self.state.threads[thread as usize].figures);
        let row = self.site_row(stack);
        let (site, at_peak) = (&mut self.state.sites.figures_mut()[row], &mut self.at_peak[row]);
        if at_peak.peak != self.peaks {
            *at_peak = AtPeak { peak: self.peaks, live_bytes: site.live_bytes() };
        }
        change(site);
        if tag != TagId::NONE {
            change(figures_at(&mut self.state.tags, tag.0));
        }
    }

    /// As [`for_owners`](Self::for_owners), for a change that may lead to a new peak.
    #[inline(always)]
    fn raise_owners(&mut self, thread: u32, stack: StackId, tag: TagId, change: impl Fn(&mut Figures)) {
        let before = self.state.totals.figures.peak_bytes;
        self.for_owners(thread, stack, tag, |figures| {
            change(figures);
            figures.peak_bytes = figures.peak_bytes.max(figures.live_bytes());
        });
        let totals = &mut self.state.totals;
        if totals.figures.peak_bytes > before {
            totals.peak_at = self.state.last_time;
            totals.peak_event = self.state.events;
            self.peaks += 1;
        }
        totals.peak_blocks = totals.peak_blocks.max(totals.figures.live_blocks());
    }

    /// A slot for a block that is about to be [allocated](Self::allocate).
    #[inline(always)]
    pub(crate) fn next_slot(&mut self) -> BlockSlot {
        BlockSlot(self.state.blocks.next_place())
    }

    /// Adds a block. `place.size` and `place.weight` must be [admissible](Self::admissible).
    #[inline(always)]
    pub(crate) fn allocate(&mut self, slot: BlockSlot, thread: u32, place: &Placement) {
        if place.weight.is_one() {
            self.allocate_as(slot, thread, place, RecordAmounts::exact(place.size));
        } else {
            self.allocate_sample(slot, thread, place);
        }
    }

    #[inline(never)]
    fn allocate_sample(&mut self, slot: BlockSlot, thread: u32, place: &Placement) {
        let amounts = RecordAmounts::of(place.weight, self.next_id(), place.size);
        self.allocate_as(slot, thread, place, amounts);
        self.state.blocks.set_weight(slot.0, place.weight);
    }

    #[inline(always)]
    fn allocate_as(&mut self, slot: BlockSlot, thread: u32, place: &Placement, amounts: RecordAmounts) {
        let id = AllocId(self.state.next_id);
        self.state.next_id += 1;
        self.state.threads[thread as usize].last_allocation = id;
        self.raise_owners(thread, place.stack, place.tag, |figures| {
            figures.allocations += amounts.blocks;
            amounts.allocate(figures);
            figures.unrecorded += amounts.unrecorded;
            figures.more_samples += amounts.more_samples;
        });
        let &Placement { address, size, stack, tag, surplus, .. } = place;
        self.state.blocks.put(
            slot.0,
            UnweightedBlock { id, address, size, time: self.state.last_time, thread, stack, tag, surplus },
        );
    }

    /// Frees a block on behalf of a thread.
    #[inline(always)]
    pub(crate) fn free(&mut self, slot: BlockSlot, by_thread: u32) {
        if self.state.blocks.weight(slot.0).is_one() {
            let block = self.state.blocks.take(slot.0);
            self.free_as(&block, by_thread, RecordAmounts::exact(block.size));
        } else {
            self.free_sample(slot, by_thread);
        }
    }

    #[inline(never)]
    fn free_sample(&mut self, slot: BlockSlot, by_thread: u32) {
        let (block, amounts) = self.take_sample(slot);
        self.free_as(&block, by_thread, amounts);
    }

    /// Notes that a thread has freed something. It matters only for threads that the source does not tell apart.
    #[inline(always)]
    pub(crate) fn pass_free(&mut self, thread: u32) {
        let account = &mut self.state.threads[thread as usize];
        if account.id == ThreadId::UNKNOWN {
            account.last_allocation = NO_ALLOCATION;
        }
    }

    /// The same for a free that changes no figures. The thread need not be known.
    pub(crate) fn pass_free_by(&mut self, thread: ThreadId) {
        if thread == ThreadId::UNKNOWN
            && let Some(&index) = self.thread_indices.get(&thread)
        {
            self.pass_free(index);
        }
    }

    #[inline(always)]
    fn free_as(&mut self, block: &UnweightedBlock, by_thread: u32, amounts: RecordAmounts) {
        let is_temporary = self.state.threads[block.thread as usize].last_allocation == block.id;
        let temporary = u64::from(is_temporary) * amounts.blocks;
        let cross_thread = u64::from(block.thread != by_thread) * amounts.blocks;
        self.for_owners(block.thread, block.stack, block.tag, |figures| {
            release(figures, amounts);
            figures.frees += amounts.blocks;
            figures.temporary_allocations += temporary;
            figures.cross_thread_frees += cross_thread;
        });
        self.pass_free(by_thread);
    }

    /// Removes a block that may be a sample, and returns it with the amounts that it counts as.
    #[inline]
    fn take_sample(&mut self, slot: BlockSlot) -> (UnweightedBlock, RecordAmounts) {
        let weight = self.state.blocks.weight(slot.0);
        self.state.blocks.set_weight(slot.0, Weight::ONE);
        let block = self.state.blocks.take(slot.0);
        (block, RecordAmounts::of(weight, block.id, block.size))
    }

    /// Frees a block whose free was never seen.
    pub(crate) fn evict(&mut self, slot: BlockSlot) {
        let (block, amounts) = self.take_sample(slot);
        self.note(Anomaly::DuplicateAllocation, 1);
        self.for_owners(block.thread, block.stack, block.tag, |figures| {
            release(figures, amounts);
            figures.frees += amounts.blocks;
        });
    }

    /// Resizes and perhaps moves a block. It keeps its identity and its birth time; the thread that resized it becomes its owner.
    #[inline]
    pub(crate) fn reallocate(&mut self, slot: BlockSlot, thread: u32, new: &Placement) {
        if self.state.blocks.weight(slot.0).is_one() && new.weight.is_one() {
            let before = RecordAmounts::exact(self.unweighted(slot).size);
            self.reallocate_as(slot, thread, new, before, RecordAmounts::exact(new.size));
        } else {
            self.reallocate_sample(slot, thread, new);
        }
    }

    #[cold]
    fn reallocate_sample(&mut self, slot: BlockSlot, thread: u32, new: &Placement) {
        let old = self.block(slot);
        let before = RecordAmounts::of(old.weight, old.id, old.size);
        let after = RecordAmounts::of(new.weight, old.id, new.size);
        self.reallocate_as(slot, thread, new, before, after);
        self.state.blocks.set_weight(slot.0, new.weight);
    }

    #[inline(always)]
    fn reallocate_as(
        &mut self,
        slot: BlockSlot,
        thread: u32,
        new: &Placement,
        before: RecordAmounts,
        after: RecordAmounts,
    ) {
        let old = self.unweighted(slot);
        if new.address != old.address {
            let both = match after.sum {
                None => self.state.totals.figures.live_bytes().saturating_add(after.bytes),
                Some(sum) => (self.state.totals.figures.live() + sum).rounded(),
            };
            let peak = &mut self.state.totals.peak_bytes_inside_reallocation;
            *peak = both.max(*peak);
        }
        self.for_owners(old.thread, old.stack, old.tag, |figures| transfer_out(figures, before));
        self.raise_owners(thread, new.stack, new.tag, |figures| transfer_in(figures, after));
        self.state.threads[thread as usize].last_allocation = old.id;
        let &Placement { address, size, stack, tag, surplus, .. } = new;
        self.state.blocks.put(slot.0, UnweightedBlock { address, size, thread, stack, tag, surplus, ..old });
    }

    /// True for a possible promotion: no more blocks and bytes are promoted than were ever allocated, and no sum exceeds 64 bits. Only a forged file
    /// or an impossible source promotes a block again and again.
    pub(crate) fn can_promote(&self, slot: BlockSlot) -> bool {
        let Block { id, size, weight, .. } = self.block(slot);
        let amounts = RecordAmounts::of(weight, id, size);
        let all = &self.state.totals.figures;
        let moved = self.state.tags.first().copied().unwrap_or_default();
        let (moved_bytes, all_bytes) = (moved.allocated() + amounts.sum(), all.allocated());
        all.promotions + amounts.blocks <= all.allocations + all.reallocations
            && moved_bytes <= all_bytes
            && moved_bytes <= ByteSum::MAX.saturating_sub(all_bytes)
            && moved.more_samples + amounts.more_samples <= all.more_samples
    }

    /// Gives a block that [can be promoted](Self::can_promote) another tag. For its thread and site this only counts a promotion; the block leaves one
    /// tag and joins another.
    pub(crate) fn promote(&mut self, slot: BlockSlot, tag: TagId) {
        let block = self.block(slot);
        let amounts = RecordAmounts::of(block.weight, block.id, block.size);
        self.for_owners(block.thread, block.stack, TagId::NONE, |figures| count_promotion(figures, amounts));
        if tag == block.tag {
            return;
        }
        let moved = figures_at(&mut self.state.tags, TagId::NONE.0);
        transfer_in(moved, amounts);
        transfer_out(moved, amounts);
        self.promoted_bytes = moved.allocated_bytes;
        self.promoted_rest = moved.rests.allocated;
        if block.tag != TagId::NONE {
            transfer_out(figures_at(&mut self.state.tags, block.tag.0), amounts);
        }
        if tag != TagId::NONE {
            let figures = figures_at(&mut self.state.tags, tag.0);
            transfer_in(figures, amounts);
            count_promotion(figures, amounts);
            figures.peak_bytes = figures.peak_bytes.max(figures.live_bytes());
        }
        let retagged = UnweightedBlock { tag, ..self.unweighted(slot) };
        self.state.blocks.put(slot.0, retagged);
    }

    /// Adds a block that lived outside of these accounts.
    pub(crate) fn enter(&mut self, slot: BlockSlot, thread: u32, block: &Block, cause: EntryCause) {
        let amounts = RecordAmounts::of(block.weight, block.id, block.size);
        self.raise_owners(thread, block.stack, block.tag, |figures| {
            transfer_in(figures, amounts);
            if cause == EntryCause::Promoted {
                count_promotion(figures, amounts);
            }
        });
        let &Block { id, address, size, time, stack, tag, surplus, weight, .. } = block;
        self.state.blocks.put(slot.0, UnweightedBlock { id, address, size, time, thread, stack, tag, surplus });
        self.state.blocks.set_weight(slot.0, weight);
    }

    /// Removes a block that lives on outside of these accounts.
    pub(crate) fn leave(&mut self, slot: BlockSlot) {
        let (block, amounts) = self.take_sample(slot);
        self.for_owners(block.thread, block.stack, block.tag, |figures| transfer_out(figures, amounts));
    }

    /// Makes a block that was resized the latest allocation of its thread.
    pub(crate) fn pass_resize(&mut self, thread: u32, id: AllocId) {
        self.state.threads[thread as usize].last_allocation = id;
    }

    /// Skips an allocation that these accounts leave out: it takes its number, and it counts as the latest allocation of its thread.
    pub(crate) fn pass_allocation(&mut self, thread: u32) {
        let id = AllocId(self.state.next_id);
        self.state.next_id += 1;
        self.state.threads[thread as usize].last_allocation = id;
    }
}
