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

/// A ledger for raw events: finds blocks by address.
#[derive(Clone, Debug, Default)]
pub struct AddressLedger {
    accounts: Accounts,
    by_address: SlotIndex,
}

impl AddressLedger {
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
        self.by_address.find(address, |slot| self.accounts.block(Slot(slot)).address == address).map(Slot)
    }

    /// Prepares the caches for [`record`](Self::record) of an event that is to come soon.
    #[inline]
    pub fn touch(&self, event: &Event) -> u64 {
        match event.kind {
            EventKind::Allocate(Placement { address, .. })
            | EventKind::Deallocate { address, .. }
            | EventKind::Reallocate { old_address: address, .. } => self.by_address.touch(address),
            _ => 0,
        }
    }

    /// Applies an event by the laws, and says what it was found to mean.
    #[inline]
    pub fn record(&mut self, event: &Event, mut say: impl FnMut(Step)) {
        let latest = self.accounts.last_time();
        let time = event.time.max(latest);
        let mut say = |op| say(Step { time, thread: event.thread, op });
        if event.time < latest {
            self.note(Anomaly::RepairedTime, 1, &mut say);
        }
        match event.kind {
            EventKind::Allocate(place) => self.allocate(time, event.thread, place, &mut say),
            EventKind::Deallocate { address, claimed_size } => {
                self.deallocate(time, event.thread, address, claimed_size, &mut say);
            }
            EventKind::Reallocate { old_address, claimed_old_size, new } => {
                self.reallocate(time, event.thread, old_address, claimed_old_size, new, &mut say);
            }
            EventKind::Mark { name } => {
                self.accounts.tick(time);
                say(Op::Mark { name });
            }
            EventKind::Gauge { name, value } => {
                self.accounts.tick(time);
                say(Op::Gauge { name, value });
            }
            EventKind::Dropped { count } => self.note(Anomaly::DroppedEvent, count, &mut say),
        }
    }

    /// Counts an oddity that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, say: &mut impl FnMut(Op)) {
        self.accounts.note(anomaly, count);
        say(Op::Note { anomaly, count });
    }

    #[inline]
    fn admit(&mut self, size: u64, say: &mut impl FnMut(Op)) -> u64 {
        let admitted = self.accounts.admissible(size);
        if admitted != size {
            self.note(Anomaly::ClampedSize, 1, say);
        }
        admitted
    }

    #[inline]
    fn evict(&mut self, address: u64, say: &mut impl FnMut(Op)) {
        if let Some(slot) = self.slot_at(address) {
            say(Op::Evict { id: self.accounts.block(slot).id });
            self.unindex(address);
            self.accounts.evict(slot);
        }
    }

    #[inline]
    fn unindex(&mut self, address: u64) -> Option<Slot> {
        let accounts = &self.accounts;
        self.by_address.remove(address, |slot| accounts.block(Slot(slot)).address == address).map(Slot)
    }

    #[inline]
    fn allocate(&mut self, time: Nanos, thread: ThreadId, mut place: Placement, say: &mut impl FnMut(Op)) {
        self.evict(place.address, say);
        place.size = self.admit(place.size, say);
        self.accounts.tick(time);
        let thread = self.accounts.thread_index(thread);
        let slot = self.accounts.allocate(thread, &place);
        self.by_address.insert(place.address, slot.0);
        say(Op::Allocate(place));
    }

    #[inline]
    fn deallocate(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        address: u64,
        claimed_size: Option<u64>,
        say: &mut impl FnMut(Op),
    ) {
        let Some(slot) = self.unindex(address) else {
            self.accounts.tick(time);
            self.accounts.note(Anomaly::UnmatchedFree, 1);
            say(Op::UnmatchedFree { address });
            return;
        };
        let Block { id, size, .. } = *self.accounts.block(slot);
        if claimed_size.is_some_and(|claimed| claimed != size) {
            self.note(Anomaly::SizeMismatch, 1, say);
        }
        self.accounts.tick(time);
        let thread = self.accounts.thread_index(thread);
        self.accounts.free(slot, thread);
        say(Op::Free { id });
    }

    fn reallocate(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        old_address: u64,
        claimed_old_size: Option<u64>,
        mut new: Placement,
        say: &mut impl FnMut(Op),
    ) {
        let Some(slot) = self.slot_at(old_address) else {
            self.note(Anomaly::UnmatchedReallocation, 1, say);
            return self.allocate(time, thread, new, say);
        };
        let old = *self.accounts.block(slot);
        if claimed_old_size.is_some_and(|claimed| claimed != old.size) {
            self.note(Anomaly::SizeMismatch, 1, say);
        }
        let moved = new.address != old_address;
        if moved {
            self.evict(new.address, say);
            self.unindex(old_address);
        }
        new.size = self.admit(new.size, say);
        let op = Op::Reallocate {
            id: old.id,
            moved_to: moved.then_some(new.address),
            size: new.size,
            stack: new.stack,
            tag: new.tag,
        };
        self.accounts.tick(time);
        let thread = self.accounts.thread_index(thread);
        self.accounts.reallocate(slot, thread, &inherit(new, &old));
        if moved {
            self.by_address.insert(new.address, slot.0);
        }
        say(op);
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
        let mut by_number = SlotIndex::with_room_for(accounts.totals().figures.live_blocks().min(1 << 24) as usize);
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
        let mut state = std::mem::take(&mut self.accounts).to_state();
        state.next_id = next.0.max(state.next_id);
        state.events += lost_events;
        state.anomalies.add(Anomaly::LostToDamage, lost_events);
        *self = Self::from_state(state);
    }

    /// Prepares the caches for [`replay`](Self::replay) of a step that is to come soon.
    #[inline]
    pub fn touch(&self, step: &Step) -> u64 {
        match step.op {
            Op::Free { id } | Op::Reallocate { id, .. } => self.by_number.touch(id.0),
            _ => 0,
        }
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
        if step.op.is_event() {
            self.accounts.tick(step.time.max(self.accounts.last_time()));
        }
        match step.op {
            Op::Allocate(mut place) => {
                place.size = self.accounts.admissible(place.size);
                let thread = self.accounts.thread_index(step.thread);
                let id = self.accounts.next_id();
                let slot = self.accounts.allocate(thread, &place);
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
