//! The ledger: accounts plus a way to find a block, and the laws by which events change them.
//!
//! A source identifies blocks by address. A file identifies them by allocation number, because the meaning of each address was decided when the file
//! was written. So there are two ledgers over the same [`Accounts`]:
//!
//! * [`AddressLedger::record`] takes raw [`Event`]s, decides what each one means, and emits the result as [`Op`]s;
//! * [`NumberLedger::replay`] takes those `Op`s and arrives at the same accounts.

use crate::accounts::{Accounts, AccountsState, Applied, BlockSlot, EntryCause, PlainEvent};
use crate::address_index::AddressIndex;
use crate::anomalies::Anomaly;
use crate::blocks::{Block, UnweightedBlock};
use crate::event::{Event, EventKind, Placement};
use crate::ids::{AllocId, Nanos, StackId, StringId, TagId, ThreadId};
use crate::slots::SlotIndex;
use crate::weight::Weight;

/// The meaning of an event. One event gives one operation that counts as an event, preceded by any number of notes ([`Op::Evict`], [`Op::Note`]),
/// which do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new block; it gets the next allocation number.
    Allocate(Placement),
    /// A block was freed.
    Free {
        /// The block.
        id: AllocId,
        /// The call stack that freed it, if the source reports it.
        stack: StackId,
    },
    /// A block was resized.
    Reallocate {
        /// The block.
        id: AllocId,
        /// Its new address; `None` when it did not move.
        moved_to: Option<u64>,
        /// Its new size.
        size: u64,
        /// The site that resized it; unknown keeps the old site.
        stack: StackId,
        /// Its new tag; none keeps the old tag.
        tag: TagId,
        /// Its new usable bytes beyond the expected ones.
        surplus: i32,
        /// Its new weight.
        weight: Weight,
    },
    /// A block was moved to another heap.
    Promote {
        /// The block.
        id: AllocId,
        /// Its variable and type, and its new heap.
        tag: TagId,
    },
    /// A free of an address where nothing was live.
    UnmatchedFree {
        /// That address.
        address: u64,
    },
    /// A named instant.
    Mark {
        /// Its name.
        name: StringId,
    },
    /// A measured value.
    Gauge {
        /// What was measured.
        name: StringId,
        /// Its value.
        value: u64,
    },
    /// Note: the block's address was allocated again, so its free was missed.
    Evict {
        /// The block.
        id: AllocId,
    },
    /// Note: an anomaly.
    Note {
        /// Its kind.
        anomaly: Anomaly,
        /// How often.
        count: u64,
    },
}

impl Op {
    /// True for operations that count as events; false for notes.
    #[inline]
    pub fn is_event(&self) -> bool {
        !matches!(self, Self::Evict { .. } | Self::Note { .. })
    }

    /// The resized block, from the old one; `None` for any other operation. The owner is still the old one: the new owner is the thread of the step.
    pub fn resized(&self, old: &Block) -> Option<Block> {
        let &Self::Reallocate { moved_to, size, stack, tag, surplus, weight, .. } = self else { return None };
        let new = Placement { address: moved_to.unwrap_or(old.address), size, stack, tag, surplus, weight };
        let Placement { stack, tag, .. } = inherit(new, old.stack, old.tag);
        Some(Block { address: new.address, size, stack, tag, surplus, weight, ..*old })
    }
}

/// An operation with its time and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub time: Nanos,
    /// The thread that did it.
    pub thread: ThreadId,
    /// The operation.
    pub op: Op,
}

/// Receives the operations that events were found to mean. A trait rather than a closure so that an implementation can ask to be inlined: the kind of
/// each operation is known at the call, and an implementation that need not test it again is much faster.
pub trait StepSink {
    /// Receives a step. For a free or a reallocation, `was` is the place of the block before it.
    fn write(&mut self, step: Step, was: BlockExtent);
}

/// The place of a block; 0 and 0 if it is not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockExtent {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
}

/// Discards everything.
impl StepSink for () {
    #[inline(always)]
    fn write(&mut self, _: Step, _: BlockExtent) {}
}

/// Collects everything.
impl StepSink for Vec<Step> {
    fn write(&mut self, step: Step, _: BlockExtent) {
        self.push(step);
    }
}

/// Passes steps with one time and thread to a sink.
struct StepEmitter<'a, S> {
    time: Nanos,
    thread: ThreadId,
    sink: &'a mut S,
}

impl<S: StepSink> StepEmitter<'_, S> {
    /// Passes on one of the two operations that nearly all events are.
    #[inline(always)]
    fn usual(&mut self, op: Op, was: BlockExtent) {
        self.sink.write(Step { time: self.time, thread: self.thread, op }, was);
    }

    /// Passes on any other operation.
    #[cold]
    fn rare(&mut self, op: Op) {
        self.usual(op, BlockExtent::default());
    }
}

/// A ledger for raw events: finds blocks by address.
#[derive(Clone, Debug, Default)]
pub struct AddressLedger {
    accounts: Accounts,
    by_address: AddressIndex,
    /// Blocks that a thread is moving at this moment, by the key of that move: few at a time. Their old address may already belong to another block,
    /// so the index cannot hold them. In the accounts they stay at the old address until the move is complete (law 3).
    aside: Vec<(u64, BlockSlot)>,
    /// By thread number: the thread, and its index in the accounts if it has one.
    threads: Vec<(ThreadId, Option<u32>)>,
}

impl AddressLedger {
    /// Continues from existing accounts.
    pub fn from_accounts(accounts: Accounts) -> Self {
        let mut by_address = AddressIndex::default();
        for (slot, block) in accounts.slots() {
            by_address.replace(block.address, slot.0);
        }
        Self { accounts, by_address, aside: Vec::new(), threads: Vec::new() }
    }

    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// A number for a thread, by which a [`PlainEvent`] names it. The accounts learn of the thread with its first event that counts.
    pub fn number_thread(&mut self, thread: ThreadId) -> u32 {
        self.threads.push((thread, None));
        self.threads.len() as u32 - 1
    }

    /// The thread with a number.
    pub fn numbered_thread(&self, number: u32) -> ThreadId {
        self.threads[number as usize].0
    }

    /// Discards the index and returns the accounts.
    pub fn into_accounts(self) -> Accounts {
        self.accounts
    }

    /// The live block at an address, or the one set aside under this key.
    #[inline]
    pub fn find(&self, address: u64) -> Option<Block> {
        self.slot_at(address).or_else(|| self.slot_aside(address)).map(|slot| self.accounts.block(slot))
    }

    #[inline]
    fn slot_at(&self, address: u64) -> Option<BlockSlot> {
        self.by_address.find(address).map(BlockSlot)
    }

    #[cold]
    fn slot_aside(&self, key: u64) -> Option<BlockSlot> {
        self.aside.iter().find(|(of, _)| *of == key).map(|(_, slot)| *slot)
    }

    /// Sets the block at `address` aside: its thread moves it away, and the address may belong to another block before the move is reported. Later
    /// events find the block by `key`, which must not be the address of a block. The accounts do not change. Returns false if no block is there or the
    /// key is in use.
    pub fn set_aside(&mut self, address: u64, key: u64) -> bool {
        if self.slot_aside(key).is_some() {
            return false;
        }
        let Some(slot) = self.unindex(address) else { return false };
        self.aside.push((key, slot));
        true
    }

    /// Undoes `set_aside` for a block that did not move: it is found at its address again. Returns false if there is no such block, or another one is
    /// at its address.
    pub fn put_back(&mut self, key: u64) -> bool {
        let Some(slot) = self.slot_aside(key) else { return false };
        let address = self.accounts.unweighted(slot).address;
        if self.slot_at(address).is_some() {
            return false;
        }
        self.forget_aside(key);
        self.index(address, slot);
        true
    }

    #[cold]
    fn forget_aside(&mut self, key: u64) -> Option<BlockSlot> {
        let at = self.aside.iter().position(|(of, _)| *of == key)?;
        Some(self.aside.swap_remove(at).1)
    }

    /// Applies an event by the laws, and passes the resulting operations to the sink.
    #[inline]
    pub fn record(&mut self, event: &Event, sink: &mut impl StepSink) {
        let mut emitter = self.begin_step(event.time, event.thread, sink);
        let time = emitter.time;
        match event.kind {
            EventKind::Allocate(ref place) => self.allocate(place, &mut emitter),
            EventKind::Deallocate { address, claimed_size, stack } => {
                self.deallocate(address, claimed_size, stack, &mut emitter);
            }
            EventKind::Reallocate { old_address, claimed_old_size, ref new } => {
                self.reallocate(old_address, claimed_old_size, new, &mut emitter);
            }
            EventKind::Promote { address, tag } => self.promote(address, tag, &mut emitter),
            EventKind::Mark { name } => {
                self.accounts.tick(time);
                emitter.rare(Op::Mark { name });
            }
            EventKind::Gauge { name, value } => {
                self.accounts.tick(time);
                emitter.rare(Op::Gauge { name, value });
            }
            EventKind::Dropped { count } => self.emit_note(Anomaly::DroppedEvent, count, &mut emitter),
        }
    }

    /// Applies plain events as [`record`](Self::record) would, up to the first unusual one: an allocation where a block is live, a free where none is,
    /// any event of a mapping. No sink is needed: the meaning of each event is clear from the event itself.
    pub fn record_plain(&mut self, events: &mut [PlainEvent]) -> Applied {
        let Some(mut batch) = self.accounts.begin_batch() else { return Applied::default() };
        if self.accounts.is_large() {
            self.touch(events);
        }
        let mut count = 0;
        for event in events {
            if !Accounts::is_usual(&batch, event) {
                break;
            }
            let Some(cell) = self.by_address.cell(event.address) else { break };
            let slot = match (event.is_free, cell.checked_sub(1)) {
                (false, None) => self.accounts.next_slot().0,
                (true, Some(slot)) if self.accounts.is_plain(BlockSlot(slot)) => slot,
                _ => break,
            };
            let (thread, index) = &mut self.threads[event.thread as usize];
            event.thread = match *index {
                Some(index) => index,
                // A free of it means more.
                None if *thread == ThreadId::UNKNOWN => break,
                None => *index.insert(self.accounts.thread_index(*thread)),
            };
            if event.is_free {
                *cell = 0;
                self.accounts.free_plain(&mut batch, event, slot);
            } else {
                *cell = slot + 1;
                self.accounts.allocate_plain(&mut batch, event, slot);
            }
            count += 1;
        }
        let highest_bytes = batch.highest_bytes();
        self.accounts.end_batch(batch);
        Applied { count, highest_bytes }
    }

    /// Reads the memory that all these events will need. If it is in no cache, the processor fetches many lines at a time; the events themselves would
    /// wait for one line after the other.
    fn touch(&self, events: &[PlainEvent]) {
        let touch = |event: &PlainEvent| match event.is_free {
            true => self.by_address.find(event.address).map_or(0, |slot| self.accounts.touch_block(BlockSlot(slot))),
            false => {
                self.accounts.touch_site(event.stack) ^ u64::from(self.by_address.find(event.address).unwrap_or(0))
            }
        };
        std::hint::black_box(events.iter().map(touch).fold(0, |all, one| all ^ one));
    }

    /// Starts a step. Time does not run backwards: an earlier time is replaced by the latest one, and counted as an anomaly.
    #[inline(always)]
    fn begin_step<'a, S: StepSink>(&mut self, time: Nanos, thread: ThreadId, sink: &'a mut S) -> StepEmitter<'a, S> {
        let latest = self.accounts.last_time();
        let mut emitter = StepEmitter { time: time.max(latest), thread, sink };
        if time < latest {
            self.emit_note(Anomaly::RepairedTime, 1, &mut emitter);
        }
        emitter
    }

    /// Counts anomalies that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, sink: &mut impl StepSink) {
        let time = self.accounts.last_time();
        let thread = self.accounts.threads().first().map_or(ThreadId(0), |thread| thread.id);
        self.emit_note(anomaly, count, &mut StepEmitter { time, thread, sink });
    }

    #[cold]
    fn emit_note(&mut self, anomaly: Anomaly, count: u64, emitter: &mut StepEmitter<'_, impl StepSink>) {
        self.accounts.pass(emitter.time);
        self.accounts.note(anomaly, count);
        emitter.rare(Op::Note { anomaly, count });
    }

    #[inline(always)]
    fn admit(&mut self, place: &mut Placement, emitter: &mut StepEmitter<'_, impl StepSink>) {
        let admitted = self.accounts.admissible(place.size, place.weight);
        if admitted != (place.size, place.weight) {
            (place.size, place.weight) = admitted;
            self.emit_note(Anomaly::ClampedSize, 1, emitter);
        }
    }

    #[cold]
    fn evict(&mut self, slot: BlockSlot, emitter: &mut StepEmitter<'_, impl StepSink>) {
        self.accounts.pass(emitter.time);
        emitter.rare(Op::Evict { id: self.accounts.unweighted(slot).id });
        self.accounts.evict(slot);
    }

    #[inline(always)]
    fn unindex(&mut self, address: u64) -> Option<BlockSlot> {
        self.by_address.remove(address).map(BlockSlot)
    }

    /// Maps an address to a slot. Returns the slot that it was mapped to before, if any.
    #[inline(always)]
    fn index(&mut self, address: u64, slot: BlockSlot) -> Option<BlockSlot> {
        self.by_address.replace(address, slot.0).map(BlockSlot)
    }

    /// Tests once whether the block is unusual, so that the inlined code after it need not test again.
    #[inline(always)]
    fn allocate(&mut self, place: &Placement, emitter: &mut StepEmitter<'_, impl StepSink>) {
        if place.surplus == 0 && place.weight.is_one() {
            let &Placement { address, size, stack, tag, .. } = place;
            self.allocate_as(Placement { address, size, stack, tag, surplus: 0, weight: Weight::ONE }, emitter);
        } else {
            self.allocate_unusual(place, emitter);
        }
    }

    #[inline(never)]
    fn allocate_unusual(&mut self, place: &Placement, emitter: &mut StepEmitter<'_, impl StepSink>) {
        self.allocate_as(*place, emitter);
    }

    #[inline(always)]
    fn allocate_as(&mut self, mut place: Placement, emitter: &mut StepEmitter<'_, impl StepSink>) {
        let slot = self.accounts.next_slot();
        if let Some(older) = self.index(place.address, slot) {
            self.evict(older, emitter);
        }
        self.admit(&mut place, emitter);
        self.accounts.tick(emitter.time);
        let thread = self.accounts.thread_index(emitter.thread);
        self.accounts.allocate(slot, thread, &place);
        emitter.usual(Op::Allocate(place), BlockExtent::default());
    }

    #[inline(always)]
    fn deallocate(
        &mut self,
        address: u64,
        claimed_size: Option<u64>,
        stack: StackId,
        emitter: &mut StepEmitter<'_, impl StepSink>,
    ) {
        let mut lay = address;
        let Some(slot) = self.unindex(address).or_else(|| {
            let slot = self.forget_aside(address)?;
            lay = self.accounts.unweighted(slot).address;
            Some(slot)
        }) else {
            self.accounts.tick(emitter.time);
            self.accounts.note(Anomaly::UnmatchedFree, 1);
            self.accounts.pass_free_by(emitter.thread);
            return emitter.rare(Op::UnmatchedFree { address });
        };
        let UnweightedBlock { id, size, .. } = self.accounts.unweighted(slot);
        if claimed_size.is_some_and(|claimed| claimed != size) {
            self.emit_note(Anomaly::SizeMismatch, 1, emitter);
        }
        self.accounts.tick(emitter.time);
        let thread = self.accounts.thread_index(emitter.thread);
        self.accounts.free(slot, thread);
        emitter.usual(Op::Free { id, stack }, BlockExtent { address: lay, size });
    }

    fn promote(&mut self, address: u64, tag: TagId, emitter: &mut StepEmitter<'_, impl StepSink>) {
        match self.slot_at(address).filter(|slot| self.accounts.can_promote(*slot)) {
            Some(slot) => {
                self.accounts.tick(emitter.time);
                let id = self.accounts.unweighted(slot).id;
                self.accounts.promote(slot, tag);
                emitter.rare(Op::Promote { id, tag });
            }
            None => self.emit_note(Anomaly::UnmatchedPromotion, 1, emitter),
        }
    }

    fn reallocate(
        &mut self,
        old_address: u64,
        claimed_old_size: Option<u64>,
        new: &Placement,
        emitter: &mut StepEmitter<'_, impl StepSink>,
    ) {
        let Some(slot) = self.slot_at(old_address).or_else(|| self.slot_aside(old_address)) else {
            self.emit_note(Anomaly::UnmatchedReallocation, 1, emitter);
            return self.allocate(new, emitter);
        };
        let (old, mut new) = (self.accounts.unweighted(slot), *new);
        if claimed_old_size.is_some_and(|claimed| claimed != old.size) {
            self.emit_note(Anomaly::SizeMismatch, 1, emitter);
        }
        let moved = new.address != old_address;
        if moved {
            if self.unindex(old_address).is_none() {
                self.forget_aside(old_address);
            }
            if let Some(older) = self.index(new.address, slot) {
                self.evict(older, emitter);
            }
        }
        self.admit(&mut new, emitter);
        let Placement { address, size, stack, tag, surplus, weight } = new;
        let moved_to = moved.then_some(address);
        let op = Op::Reallocate { id: old.id, moved_to, size, stack, tag, surplus, weight };
        self.accounts.tick(emitter.time);
        let thread = self.accounts.thread_index(emitter.thread);
        self.accounts.reallocate(slot, thread, &inherit(new, old.stack, old.tag));
        emitter.usual(op, BlockExtent { address: old.address, size: old.size });
    }
}

/// Keeps the old stack or tag of a resized block if the new one is not known.
#[inline]
fn inherit(new: Placement, stack: StackId, tag: TagId) -> Placement {
    Placement {
        stack: if new.stack == StackId::UNKNOWN { stack } else { new.stack },
        tag: if new.tag == TagId::NONE { tag } else { new.tag },
        ..new
    }
}

/// A ledger for recorded operations: finds blocks by allocation number.
#[derive(Clone, Debug, Default)]
pub struct NumberLedger {
    accounts: Accounts,
    by_number: SlotIndex,
}

impl NumberLedger {
    /// Continues from a stored state.
    pub fn from_state(state: AccountsState) -> Self {
        Self::from_accounts(Accounts::from_state(state))
    }

    /// Continues from existing accounts.
    pub fn from_accounts(accounts: Accounts) -> Self {
        let mut by_number = SlotIndex::with_room_for(accounts.slots().count());
        for (slot, block) in accounts.slots() {
            by_number.insert(block.id.0, slot.0);
        }
        Self { accounts, by_number }
    }

    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Discards the index and returns the accounts.
    pub fn into_accounts(self) -> Accounts {
        self.accounts
    }

    /// Continues with allocation number `next`, after events that could not be read.
    pub fn skip_to(&mut self, next: AllocId, lost_events: u64) {
        self.accounts.skip_to(next, lost_events);
    }

    #[inline]
    fn slot_of(&self, id: AllocId) -> Option<BlockSlot> {
        self.by_number.find(id.0, |slot| self.accounts.unweighted(BlockSlot(slot)).id == id).map(BlockSlot)
    }

    #[inline]
    fn unindex(&mut self, id: AllocId) -> Option<BlockSlot> {
        let accounts = &self.accounts;
        self.by_number.remove(id.0, |slot| accounts.unweighted(BlockSlot(slot)).id == id).map(BlockSlot)
    }

    /// The live block with this number.
    pub fn find(&self, id: AllocId) -> Option<Block> {
        self.slot_of(id).map(|slot| self.accounts.block(slot))
    }

    /// Applies a recorded operation. An operation on an unknown block, which only damage can cause, is counted as lost.
    #[inline]
    pub fn replay(&mut self, step: &Step) {
        let time = step.time.max(self.accounts.last_time());
        if step.op.is_event() {
            self.accounts.tick(time);
        } else {
            self.accounts.pass(time);
        }
        match step.op {
            Op::Allocate(mut place) => {
                (place.size, place.weight) = self.accounts.admissible(place.size, place.weight);
                let thread = self.accounts.thread_index(step.thread);
                let id = self.accounts.next_id();
                let slot = self.accounts.next_slot();
                self.accounts.allocate(slot, thread, &place);
                self.by_number.insert(id.0, slot.0);
            }
            Op::Free { id, .. } => {
                let Some(slot) = self.unindex(id) else { return self.lose() };
                let thread = self.accounts.thread_index(step.thread);
                self.accounts.free(slot, thread);
            }
            Op::Reallocate { id, .. } => {
                let Some((slot, new)) = self.resized(id, &step.op) else { return self.lose() };
                let thread = self.accounts.thread_index(step.thread);
                self.accounts.reallocate(slot, thread, &new);
            }
            Op::Promote { id, tag } => {
                let slot = self.slot_of(id).filter(|slot| self.accounts.can_promote(*slot));
                let Some(slot) = slot else { return self.lose() };
                self.accounts.promote(slot, tag);
            }
            Op::UnmatchedFree { .. } => {
                self.accounts.note(Anomaly::UnmatchedFree, 1);
                self.accounts.pass_free_by(step.thread);
            }
            Op::Mark { .. } | Op::Gauge { .. } => {}
            Op::Evict { id } => {
                let Some(slot) = self.unindex(id) else { return self.lose() };
                self.accounts.evict(slot);
            }
            Op::Note { anomaly, count } => self.accounts.note(anomaly, count),
        }
    }

    /// As [`replay`](Self::replay), but keeps only blocks that `wanted` accepts, in their state then and with their thread. Of other blocks, only their numbers and events are
    /// counted. The resulting accounts are those of a part of the memory, as if there were no other.
    ///
    /// `whole` has replayed everything until now: it knows the blocks that enter the part from outside.
    pub fn replay_part(&mut self, step: &Step, whole: &Self, wanted: impl Fn(&Block, ThreadId) -> bool) {
        let is_kept = match step.op {
            Op::Allocate(place) => wanted(&place.born(self.accounts.next_id(), step.time), step.thread),
            Op::Free { id, .. } | Op::Evict { id } => self.slot_of(id).is_some(),
            Op::Promote { id, tag } => self.find(id).is_some_and(|block| {
                let owner = self.accounts.threads().get(block.thread as usize).map_or(step.thread, |owner| owner.id);
                wanted(&Block { tag, ..block }, owner)
            }),
            Op::Reallocate { id, .. } => {
                self.resized_block(id, &step.op).is_some_and(|block| wanted(&block, step.thread))
            }
            _ => true,
        };
        if is_kept {
            return self.replay(step);
        }
        let time = step.time.max(self.accounts.last_time());
        if step.op.is_event() {
            self.accounts.tick(time);
        } else {
            self.accounts.pass(time);
        }
        match step.op {
            Op::Allocate(_) => {
                let thread = self.accounts.thread_index(step.thread);
                self.accounts.pass_allocation(thread);
            }
            Op::Promote { id, tag } => {
                let can_be = whole.slot_of(id).is_some_and(|slot| whole.accounts.can_promote(slot));
                let Some(block) = whole.find(id).filter(|_| can_be) else { return };
                let Some(owner) = whole.accounts.threads().get(block.thread as usize) else { return };
                self.cross_border(owner.id, Block { tag, ..block }, EntryCause::Promoted, wanted);
            }
            Op::Reallocate { id, .. } => {
                let Some(block) = whole.resized_block(id, &step.op) else { return };
                self.cross_border(step.thread, block, EntryCause::Resized, wanted);
                // What the thread freed after this was not freed at once, whether the resized block belongs to the part or not.
                let thread = self.accounts.thread_index(step.thread);
                self.accounts.pass_resize(thread, id);
            }
            Op::Free { .. } => self.accounts.pass_free_by(step.thread),
            _ => {}
        }
    }

    /// The slot of a resized block, and its new placement.
    #[inline]
    fn resized(&self, id: AllocId, op: &Op) -> Option<(BlockSlot, Placement)> {
        let slot = self.slot_of(id)?;
        let &Op::Reallocate { moved_to, size, stack, tag, surplus, weight, .. } = op else { return None };
        let old = self.accounts.unweighted(slot);
        let (size, weight) = self.accounts.admissible(size, weight);
        let new = Placement { address: moved_to.unwrap_or(old.address), size, stack, tag, surplus, weight };
        Some((slot, inherit(new, old.stack, old.tag)))
    }

    /// A resized block in its new state.
    fn resized_block(&self, id: AllocId, op: &Op) -> Option<Block> {
        let (slot, Placement { address, size, stack, tag, surplus, weight }) = self.resized(id, op)?;
        Some(Block { address, size, stack, tag, surplus, weight, ..self.accounts.block(slot) })
    }

    /// Removes a block that leaves the part, or adds one that enters it. `block` is in its new state.
    fn cross_border(
        &mut self,
        owner: ThreadId,
        block: Block,
        cause: EntryCause,
        wanted: impl Fn(&Block, ThreadId) -> bool,
    ) {
        if let Some(slot) = self.unindex(block.id) {
            return self.accounts.leave(slot);
        }
        if wanted(&block, owner) {
            let thread = self.accounts.thread_index(owner);
            let slot = self.accounts.next_slot();
            self.accounts.enter(slot, thread, &block, cause);
            self.by_number.insert(block.id.0, slot.0);
        }
    }

    #[cold]
    fn lose(&mut self) {
        self.accounts.note(Anomaly::LostToDamage, 1);
    }
}
