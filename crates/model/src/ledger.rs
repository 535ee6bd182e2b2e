//! The ledger: accounts plus a way to find a block, and the laws by which events change them.
//!
//! A source speaks of addresses; a file speaks of allocation numbers, because what an address means was settled when it
//! was written. So there are two ledgers over the same [`Accounts`]:
//!
//! * [`AddressLedger::record`] takes raw [`Event`]s, decides what each one means, and says so as [`Op`]s;
//! * [`NumberLedger::replay`] takes those `Op`s and arrives at the same accounts.

use crate::accounts::{Accounts, AccountsState, Block, Slot};
use crate::anomalies::Anomaly;
use crate::event::{Event, EventKind, Placement};
use crate::ids::{AllocId, Nanos, StackId, StringId, TagId, ThreadId};
use crate::slots::SlotIndex;

/// What an event was found to mean. One event gives one operation that counts as an event, preceded by any number of
/// notes ([`Op::Evict`], [`Op::Note`]), which do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new block; it gets the next allocation number.
    Allocate(Placement),
    /// A block was given back.
    Free {
        /// Which.
        id: AllocId,
    },
    /// A block was resized.
    Reallocate {
        /// Which.
        id: AllocId,
        /// Its new address; `None` when it did not move.
        moved_to: Option<u64>,
        /// Its new size.
        size: u64,
        /// Who resized it; unknown keeps the old site.
        stack: StackId,
        /// What it is for; none keeps the old tag.
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
    /// Note: the block's address was handed out again, so it must have died unseen.
    Evict {
        /// Which.
        id: AllocId,
    },
    /// Note: something odd was seen.
    Note {
        /// What.
        anomaly: Anomaly,
        /// How often.
        count: u64,
    },
}

impl Op {
    /// True for what counts as an event; false for notes.
    #[inline]
    pub fn is_event(&self) -> bool {
        !matches!(self, Self::Evict { .. } | Self::Note { .. })
    }
}

/// An operation with its time and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub time: Nanos,
    /// By whom.
    pub thread: ThreadId,
    /// What.
    pub op: Op,
}

/// Who is told what events were found to mean. A trait rather than a closure so that an implementation can ask to be inlined: each
/// operation's kind is known where it is said, and a scribe that need not ask for it again is much faster.
pub trait Scribe {
    /// Takes note of a step.
    fn write(&mut self, step: Step);
}

/// Nobody wants to know.
impl Scribe for () {
    #[inline(always)]
    fn write(&mut self, _: Step) {}
}

/// Collects everything.
impl Scribe for Vec<Step> {
    fn write(&mut self, step: Step) {
        self.push(step);
    }
}

/// A step's time and thread, and who is told of it.
struct Telling<'a, S> {
    time: Nanos,
    thread: ThreadId,
    scribe: &'a mut S,
}

impl<S: Scribe> Telling<'_, S> {
    /// Tells of one of the two operations that nearly all events are.
    #[inline(always)]
    fn usual(&mut self, op: Op) {
        self.scribe.write(Step { time: self.time, thread: self.thread, op });
    }

    /// Tells of any other.
    #[cold]
    fn rare(&mut self, op: Op) {
        self.usual(op);
    }
}

/// The key of an address in an index: blocks are 16 bytes apart or more, and neighbours shall have neighbouring keys.
#[inline]
fn address_key(address: u64) -> u64 {
    address.rotate_right(4)
}

/// A ledger for raw events: finds blocks by address.
#[derive(Clone, Debug, Default)]
pub struct AddressLedger {
    accounts: Accounts,
    by_address: SlotIndex,
}

impl AddressLedger {
    /// Goes on from accounts.
    pub fn from_accounts(accounts: Accounts) -> Self {
        let mut by_address = SlotIndex::with_room_for(accounts.slots().count());
        for (slot, block) in accounts.slots() {
            by_address.insert(address_key(block.address), slot.0);
        }
        Self { accounts, by_address }
    }

    /// The accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Gives up the index.
    pub fn into_accounts(self) -> Accounts {
        self.accounts
    }

    /// The live block at an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Block> {
        self.slot_at(address).map(|slot| self.accounts.block(slot))
    }

    #[inline]
    fn slot_at(&self, address: u64) -> Option<Slot> {
        self.by_address.find(address_key(address), |slot| self.accounts.block(Slot(slot)).address == address).map(Slot)
    }

    /// Applies an event by the laws, and tells the scribe what it was found to mean.
    #[inline]
    pub fn record(&mut self, event: &Event, scribe: &mut impl Scribe) {
        let latest = self.accounts.last_time();
        let time = event.time.max(latest);
        let mut tell = Telling { time, thread: event.thread, scribe };
        if event.time < latest {
            self.tell_note(Anomaly::RepairedTime, 1, &mut tell);
        }
        match event.kind {
            EventKind::Allocate(place) => self.allocate(place, &mut tell),
            EventKind::Deallocate { address, claimed_size } => self.deallocate(address, claimed_size, &mut tell),
            EventKind::Reallocate { old_address, claimed_old_size, new } => {
                self.reallocate(old_address, claimed_old_size, new, &mut tell);
            }
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

    /// Counts oddities that only the source knows of.
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

    #[inline]
    fn admit(&mut self, size: u64, tell: &mut Telling<'_, impl Scribe>) -> u64 {
        let admitted = self.accounts.admissible(size);
        if admitted != size {
            self.tell_note(Anomaly::ClampedSize, 1, tell);
        }
        admitted
    }

    #[cold]
    fn evict(&mut self, slot: Slot, tell: &mut Telling<'_, impl Scribe>) {
        self.accounts.pass(tell.time);
        tell.rare(Op::Evict { id: self.accounts.block(slot).id });
        self.accounts.evict(slot);
    }

    #[inline]
    fn unindex(&mut self, address: u64) -> Option<Slot> {
        let accounts = &self.accounts;
        self.by_address.remove(address_key(address), |slot| accounts.block(Slot(slot)).address == address).map(Slot)
    }

    /// Makes an address lead to a slot; the slot it led to, if any.
    #[inline]
    fn index(&mut self, address: u64, slot: Slot) -> Option<Slot> {
        let accounts = &self.accounts;
        let is_key = |at| accounts.block(Slot(at)).address == address;
        self.by_address.replace(address_key(address), slot.0, is_key).map(Slot)
    }

    #[inline]
    fn allocate(&mut self, mut place: Placement, tell: &mut Telling<'_, impl Scribe>) {
        let slot = self.accounts.next_slot();
        if let Some(older) = self.index(place.address, slot) {
            self.evict(older, tell);
        }
        place.size = self.admit(place.size, tell);
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.allocate(slot, thread, &place);
        tell.usual(Op::Allocate(place));
    }

    #[inline]
    fn deallocate(&mut self, address: u64, claimed_size: Option<u64>, tell: &mut Telling<'_, impl Scribe>) {
        let Some(slot) = self.unindex(address) else {
            self.accounts.tick(tell.time);
            self.accounts.note(Anomaly::UnmatchedFree, 1);
            return tell.rare(Op::UnmatchedFree { address });
        };
        let Block { id, size, .. } = *self.accounts.block(slot);
        if claimed_size.is_some_and(|claimed| claimed != size) {
            self.tell_note(Anomaly::SizeMismatch, 1, tell);
        }
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.free(slot, thread);
        tell.usual(Op::Free { id });
    }

    fn reallocate(
        &mut self,
        old_address: u64,
        claimed_old_size: Option<u64>,
        mut new: Placement,
        tell: &mut Telling<'_, impl Scribe>,
    ) {
        let Some(slot) = self.slot_at(old_address) else {
            self.tell_note(Anomaly::UnmatchedReallocation, 1, tell);
            return self.allocate(new, tell);
        };
        let old = *self.accounts.block(slot);
        if claimed_old_size.is_some_and(|claimed| claimed != old.size) {
            self.tell_note(Anomaly::SizeMismatch, 1, tell);
        }
        let moved = new.address != old_address;
        if moved {
            self.unindex(old_address);
            if let Some(older) = self.index(new.address, slot) {
                self.evict(older, tell);
            }
        }
        new.size = self.admit(new.size, tell);
        let (size, stack, tag) = (new.size, new.stack, new.tag);
        let op = Op::Reallocate { id: old.id, moved_to: moved.then_some(new.address), size, stack, tag };
        self.accounts.tick(tell.time);
        let thread = self.accounts.thread_index(tell.thread);
        self.accounts.reallocate(slot, thread, &inherit(new, &old));
        tell.rare(op);
    }
}

fn inherit(new: Placement, old: &Block) -> Placement {
    Placement {
        stack: if new.stack == StackId::UNKNOWN { old.stack } else { new.stack },
        tag: if new.tag == TagId::NONE { old.tag } else { new.tag },
        ..new
    }
}

/// A ledger for settled operations: finds blocks by allocation number.
#[derive(Clone, Debug, Default)]
pub struct NumberLedger {
    accounts: Accounts,
    by_number: SlotIndex,
}

impl NumberLedger {
    /// Goes on from a stored state.
    pub fn from_state(state: AccountsState) -> Self {
        let accounts = Accounts::from_state(state);
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

    /// Gives up the index.
    pub fn into_accounts(self) -> Accounts {
        self.accounts
    }

    /// Says that the file goes on with allocation number `next`, after events that could not be read.
    pub fn skip_to(&mut self, next: AllocId, lost_events: u64) {
        self.accounts.skip_to(next, lost_events);
    }

    #[inline]
    fn slot_of(&self, id: AllocId) -> Option<Slot> {
        self.by_number.find(id.0, |slot| self.accounts.block(Slot(slot)).id == id).map(Slot)
    }

    #[inline]
    fn unindex(&mut self, id: AllocId) -> Option<Slot> {
        let accounts = &self.accounts;
        self.by_number.remove(id.0, |slot| accounts.block(Slot(slot)).id == id).map(Slot)
    }

    /// The live block with this number.
    pub fn find(&self, id: AllocId) -> Option<&Block> {
        self.slot_of(id).map(|slot| self.accounts.block(slot))
    }

    /// Applies a settled operation. An operation on a block that is not known, which only damage can bring about, is
    /// counted as lost.
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
                place.size = self.accounts.admissible(place.size);
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
            Op::Reallocate { id, moved_to, size, stack, tag } => {
                let Some(slot) = self.slot_of(id) else { return self.lose() };
                let old = *self.accounts.block(slot);
                let size = self.accounts.admissible(size);
                let new = Placement { address: moved_to.unwrap_or(old.address), size, stack, tag };
                let thread = self.accounts.thread_index(step.thread);
                self.accounts.reallocate(slot, thread, &inherit(new, &old));
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

    #[cold]
    fn lose(&mut self) {
        self.accounts.note(Anomaly::LostToDamage, 1);
    }
}
