//! The ledger: accounts plus a way to find a block, and the laws by which events change them.
//!
//! A source identifies blocks by address. A file identifies them by allocation number, because the meaning of each address was decided when the file
//! was written. So there are two ledgers over the same [`Accounts`]:
//!
//! * [`AddressLedger::record`] takes raw [`Event`]s, decides what each one means, and emits the result as [`Op`]s;
//! * [`NumberLedger::replay`] takes those `Op`s and arrives at the same accounts.

use crate::accounts::{Accounts, AccountsState, Applied, Arrival, Plain, Slot};
use crate::address_index::AddressIndex;
use crate::anomalies::Anomaly;
use crate::blocks::{Block, Kept};
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
pub trait Scribe {
    /// Receives a step. For a free or a reallocation, `was` is the place of the block before it.
    fn write(&mut self, step: Step, was: Extent);
}

/// The place of a block; 0 and 0 if it is not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
}

/// Discards everything.
impl Scribe for () {
    #[inline(always)]
    fn write(&mut self, _: Step, _: Extent) {}
}

/// Collects everything.
impl Scribe for Vec<Step> {
    fn write(&mut self, step: Step, _: Extent) {
        self.push(step);
    }
}

/// A step's time and thread, and the scribe that receives it.
struct Telling<'a, S> {
    time: Nanos,
    thread: ThreadId,
    scribe: &'a mut S,
}

impl<S: Scribe> Telling<'_, S> {
    /// Passes on one of the two operations that nearly all events are.
    #[inline(always)]
    fn usual(&mut self, op: Op, was: Extent) {
        self.scribe.write(Step { time: self.time, thread: self.thread, op }, was);
    }

    /// Passes on any other operation.
    #[cold]
    fn rare(&mut self, op: Op) {
        self.usual(op, Extent::default());
    }
}

/// A ledger for raw events: finds blocks by address.
#[derive(Clone, Debug, Default)]
pub struct AddressLedger {
    accounts: Accounts,
    by_address: AddressIndex,
    /// Blocks that a thread is moving at this moment, by the key of that move: few at a time. Their old address may already belong to another block,
    /// so the index cannot hold them. In the accounts they stay at the old address until the move is complete (law 3).
    aside: Vec<(u64, Slot)>,
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

    /// A number for a thread, by which [`Plain`] events name it. The accounts learn of the thread with its first event that counts.
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
    fn slot_at(&self, address: u64) -> Option<Slot> {
        self.by_address.find(address).map(Slot)
    }

    #[cold]
    fn slot_aside(&self, key: u64) -> Option<Slot> {
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
        let address = self.accounts.kept(slot).address;
        if self.slot_at(address).is_some() {
            return false;
        }
        self.forget_aside(key);
        self.index(address, slot);
        true
    }

    #[cold]
    fn forget_aside(&mut self, key: u64) -> Option<Slot> {
        let at = self.aside.iter().position(|(of, _)| *of == key)?;
        Some(self.aside.swap_remove(at).1)
    }

    /// Applies an event by the laws, and passes the resulting operations to the scribe.
    #[inline]
    pub fn record(&mut self, event: &Event, scribe: &mut impl Scribe) {
        let mut tell = self.telling(event.time, event.thread, scribe);
        let time = tell.time;
        match event.kind {
            EventKind::Allocate(ref place) => self.allocate(place, &mut tell),
            EventKind::Deallocate { address, claimed_size } => self.deallocate(address, claimed_size, &mut tell),
            EventKind::Reallocate { old_address, claimed_old_size, ref new } => {
                self.reallocate(old_address, claimed_old_size, new, &mut tell);
            }
            EventKind::Promote { address, tag } => self.promote(address, tag, &mut tell),
            EventKind::Mark { name } => {
                self.accounts.tick(time);
                tell.rare(Op::Mark { name });
            }
            EventKind::Gauge { name, value } => {
                self.accounts.tick(time);
                tell.rare(Op::Gauge { name, value });
            }
            EventKind::Dropped { count } => self.tell_note(Anomaly::DroppedEvent, count, &mut tell),
        }
    }

    /// Applies plain events as [`record`](Self::record) would, up to the first unusual one: an allocation where a block is live, a free where none is,
    /// any event of a mapping. No scribe is needed: the meaning of each event is clear from the event itself.
    pub fn record_plain(&mut self, events: &mut [Plain]) -> Applied {
        let Some(mut run) = self.accounts.begin_run() else { return Applied::default() };
        if self.accounts.is_large() {
            self.touch(events);
        }
        let mut count = 0;
        for event in events {
            if !Accounts::is_usual(&run, event) {
                break;
            }
            let Some(cell) = self.by_address.cell(event.address) else { break };
            let slot = match (event.is_free, cell.checked_sub(1)) {
                (false, None) => self.accounts.next_slot().0,
                (true, Some(slot)) if self.accounts.is_plain(Slot(slot)) => slot,
                _ => break,
            };
            let (thread, index) = &mut self.threads[event.thread as usize];
            event.thread = match *index {
                Some(index) => index,
                None => *index.insert(self.accounts.thread_index(*thread)),
            };
            if event.is_free {
                *cell = 0;
                self.accounts.free_plain(&mut run, event, slot);
            } else {
                *cell = slot + 1;
                self.accounts.allocate_plain(&mut run, event, slot);
            }
            count += 1;
        }
        let highest_bytes = run.highest_bytes();
        self.accounts.end_run(run);
        Applied { count, highest_bytes }
    }

    /// Reads the memory that all these events will need. If it is in no cache, the processor fetches many lines at a time; the events themselves would
    /// wait for one line after the other.
    fn touch(&self, events: &[Plain]) {
        let touch = |event: &Plain| match event.is_free {
            true => self.by_address.find(event.address).map_or(0, |slot| self.accounts.touch_block(Slot(slot))),
            false => {
                self.accounts.touch_site(event.stack) ^ u64::from(self.by_address.find(event.address).unwrap_or(0))
            }
        };
        std::hint::black_box(events.iter().map(touch).fold(0, |all, one| all ^ one));
    }

    /// Starts a step. Time does not run backwards: an earlier time is replaced by the latest one, and counted as an anomaly.
    #[inline(always)]
    fn telling<'a, S: Scribe>(&mut self, time: Nanos, thread: ThreadId, scribe: &'a mut S) -> Telling<'a, S> {
        let latest = self.accounts.last_time();
        let mut tell = Telling { time: time.max(latest), thread, scribe };
        if time < latest {
            self.tell_note(Anomaly::RepairedTime, 1, &mut tell);
        }
        tell
    }

    /// Counts anomalies that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, scribe: &mut impl Scribe) {
        let time = self.accounts.last_time();
        let thread = self.accounts.threads().first().map_or(ThreadId(0), |thread| thread.id);
        self.tell_note(anomaly, count, &mut Telling { time, thread, scribe });
    }

    #[cold]
    fn tell_note(&mut self, anomaly: Anomaly, count: u64, tell: &mut Telling<'_, impl Scribe>) {
        self.accounts.pass(tell.time);
        self.accounts.note(anomaly, count);
        tell.rare(Op::Note { anomaly, count });
    }

    #[inline(always)]
    fn admit(&mut self, place: &mut Placement, tell: &mut Telling<'_, impl Scribe>) {
        let admitted = self.accounts.admissible(place.size, place.weight);
        if admitted != (place.size, place.weight) {
            (place.size, place.weight) = admitted;
            self.tell_note(Anomaly::ClampedSize, 1, tell);
        }
    }

    #[cold]
    fn evict(&mut self, slot: Slot, tell: &mut Telling<'_, impl Scribe>) {
        self.accounts.pass(tell.time);
        tell.rare(Op::Evict { id: self.accounts.kept(slot).id });
        self.accounts.evict(slot);
    }

    #[inline(always)]
    fn unindex(&mut self, address: u64) -> Option<Slot> {
        self.by_address.remove(address).map(Slot)
    }

    /// Maps an address to a slot. Returns the slot that it was mapped to before, if any.
    #[inline(always)]
    fn index(&mut self, address: u64, slot: Slot) -> Option<Slot> {
        self.by_address.replace(address, slot.0).map(Slot)
    }

    /// Tests once whether the block is unusual, so that the inlined code after it need not test again.
    #[inline(always)]
    fn allocate(&mut self, place: &Placement, tell: &mut Telling<'_, impl Scribe>) {
        if place.surplus == 0 && place.weight.is_one() {
            let &Placement { address, size, stack, tag, .. } = place;
            self.allocate_as(Placement { address, size, stack, tag, surplus: 0, weight: Weight::ONE }, tell);
        } else {
            self.allocate_unusual(place, tell);
        }
    }

    #[inline(never)]
    fn allocate_unusual(&mut self, place: &Placement, tell: &mut Telling<'_, impl Scribe>) {
        self.allocate_as(*place, tell);
    }

    #[inline(always)]
    fn allocate_as(&mut self, mut place: Placement, tell: &mut Telling<'_, impl Scribe>) {
        let slot = self.accounts.next_slot();
        if let Some(older) = self.index(place.address, slot) {
            self.evict(older, tell);
        }
        self.admit(&mut place, tell);
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.allocate(slot, thread, &place);
        tell.usual(Op::Allocate(place), Extent::default());
    }

    #[inline(always)]
    fn deallocate(&mut self, address: u64, claimed_size: Option<u64>, tell: &mut Telling<'_, impl Scribe>) {
        let mut lay = address;
        let Some(slot) = self.unindex(address).or_else(|| {
            let slot = self.forget_aside(address)?;
            lay = self.accounts.kept(slot).address;
            Some(slot)
        }) else {
            self.accounts.tick(tell.time);
            self.accounts.note(Anomaly::UnmatchedFree, 1);
            return tell.rare(Op::UnmatchedFree { address });
        };
        let Kept { id, size, .. } = self.accounts.kept(slot);
        if claimed_size.is_some_and(|claimed| claimed != size) {
            self.tell_note(Anomaly::SizeMismatch, 1, tell);
        }
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.free(slot, thread);
        tell.usual(Op::Free { id }, Extent { address: lay, size });
    }

    fn promote(&mut self, address: u64, tag: TagId, tell: &mut Telling<'_, impl Scribe>) {
        match self.slot_at(address).filter(|slot| self.accounts.can_promote(*slot)) {
            Some(slot) => {
                self.accounts.tick(tell.time);
                let id = self.accounts.kept(slot).id;
                self.accounts.promote(slot, tag);
                tell.rare(Op::Promote { id, tag });
            }
            None => self.tell_note(Anomaly::UnmatchedPromotion, 1, tell),
        }
    }

    fn reallocate(
        &mut self,
        old_address: u64,
        claimed_old_size: Option<u64>,
        new: &Placement,
        tell: &mut Telling<'_, impl Scribe>,
    ) {
        let Some(slot) = self.slot_at(old_address).or_else(|| self.slot_aside(old_address)) else {
            self.tell_note(Anomaly::UnmatchedReallocation, 1, tell);
            return self.allocate(new, tell);
        };
        let (old, mut new) = (self.accounts.kept(slot), *new);
        if claimed_old_size.is_some_and(|claimed| claimed != old.size) {
            self.tell_note(Anomaly::SizeMismatch, 1, tell);
        }
        let moved = new.address != old_address;
        if moved {
            if self.unindex(old_address).is_none() {
                self.forget_aside(old_address);
            }
            if let Some(older) = self.index(new.address, slot) {
                self.evict(older, tell);
            }
        }
        self.admit(&mut new, tell);
        let Placement { address, size, stack, tag, surplus, weight } = new;
        let moved_to = moved.then_some(address);
        let op = Op::Reallocate { id: old.id, moved_to, size, stack, tag, surplus, weight };
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.reallocate(slot, thread, &inherit(new, old.stack, old.tag));
        tell.usual(op, Extent { address: old.address, size: old.size });
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
    fn slot_of(&self, id: AllocId) -> Option<Slot> {
        self.by_number.find(id.0, |slot| self.accounts.kept(Slot(slot)).id == id).map(Slot)
    }

    #[inline]
    fn unindex(&mut self, id: AllocId) -> Option<Slot> {
        let accounts = &self.accounts;
        self.by_number.remove(id.0, |slot| accounts.kept(Slot(slot)).id == id).map(Slot)
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
            Op::Free { id } => {
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
            Op::UnmatchedFree { .. } => self.accounts.note(Anomaly::UnmatchedFree, 1),
            Op::Mark { .. } | Op::Gauge { .. } => {}
            Op::Evict { id } => {
                let Some(slot) = self.unindex(id) else { return self.lose() };
                self.accounts.evict(slot);
            }
            Op::Note { anomaly, count } => self.accounts.note(anomaly, count),
        }
    }

    /// As [`replay`](Self::replay), but keeps only blocks with a tag that `wanted` accepts. Of other blocks, only their numbers and events are
    /// counted. The resulting accounts are those of a part of the memory, as if there were no other.
    ///
    /// `whole` has replayed everything until now: it knows the blocks that enter the part from outside.
    pub fn replay_part(&mut self, step: &Step, whole: &Self, wanted: impl Fn(TagId) -> bool) {
        let is_kept = match step.op {
            Op::Allocate(place) => wanted(place.tag),
            Op::Free { id } | Op::Evict { id } => self.slot_of(id).is_some(),
            Op::Promote { id, tag } => self.slot_of(id).is_some() && wanted(tag),
            Op::Reallocate { id, .. } => self.resized(id, &step.op).is_some_and(|(_, new)| wanted(new.tag)),
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
                self.cross_border(owner.id, Block { tag, ..block }, Arrival::Promoted, wanted);
            }
            Op::Reallocate { id, .. } => {
                let Some((slot, new)) = whole.resized(id, &step.op) else { return };
                let Placement { address, size, stack, tag, surplus, weight } = new;
                let block = Block { address, size, stack, tag, surplus, weight, ..whole.accounts.block(slot) };
                self.cross_border(step.thread, block, Arrival::Resized, wanted);
            }
            _ => {}
        }
    }

    /// The slot of a resized block, and its new placement.
    #[inline]
    fn resized(&self, id: AllocId, op: &Op) -> Option<(Slot, Placement)> {
        let slot = self.slot_of(id)?;
        let &Op::Reallocate { moved_to, size, stack, tag, surplus, weight, .. } = op else { return None };
        let old = self.accounts.kept(slot);
        let (size, weight) = self.accounts.admissible(size, weight);
        let new = Placement { address: moved_to.unwrap_or(old.address), size, stack, tag, surplus, weight };
        Some((slot, inherit(new, old.stack, old.tag)))
    }

    /// Removes a block that leaves the part, or adds one that enters it. `block` is in its new state.
    fn cross_border(&mut self, owner: ThreadId, block: Block, arrival: Arrival, wanted: impl Fn(TagId) -> bool) {
        if let Some(slot) = self.unindex(block.id) {
            return self.accounts.leave(slot);
        }
        if wanted(block.tag) {
            let thread = self.accounts.thread_index(owner);
            let slot = self.accounts.next_slot();
            self.accounts.enter(slot, thread, &block, arrival);
            self.by_number.insert(block.id.0, slot.0);
        }
    }

    #[cold]
    fn lose(&mut self) {
        self.accounts.note(Anomaly::LostToDamage, 1);
    }
}
