//! The states of ids outside the sequence: a hash table of open ids, and a limited memory of settled ids.

use super::entry::{IdState, ObjectEntry};
use rustc_hash::FxHashSet;

/// The number of parts of the table. They grow one by one, so that growing never needs the whole table twice.
const PARTS: usize = 64;
/// Limit for the number of settled ids that are remembered. At the limit all are forgotten.
const REMEMBERED: usize = 1 << 20;

/// Open ids by hash: open addressing, between 71 and 80 percent full, 24 bytes a slot.
#[derive(Debug, Default)]
pub(super) struct Scattered {
    parts: Vec<TablePart>,
    settled: FxHashSet<u64>,
    /// The number of settled ids that were forgotten. If one of them occurs again, that is not noticed.
    pub forgotten: u64,
}

#[derive(Clone, Debug, Default)]
struct TablePart {
    slots: Vec<IdSlot>,
    used: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct IdSlot {
    id: u64,
    entry: ObjectEntry,
}

/// Spreads ids over all 64 bits.
fn spread(id: u64) -> u64 {
    let mixed = (id ^ id >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Scattered {
    fn part(&self, id: u64) -> Option<&TablePart> {
        self.parts.get((spread(id) >> 58) as usize)
    }

    fn part_mut(&mut self, id: u64) -> &mut TablePart {
        if self.parts.is_empty() {
            self.parts = vec![TablePart::default(); PARTS];
        }
        &mut self.parts[(spread(id) >> 58) as usize]
    }

    /// Reads the slot of an id, to bring it into the cache.
    #[inline]
    pub fn touch(&self, id: u64) -> u64 {
        self.part(id).and_then(|part| part.slots.get(part.home(spread(id)))).map_or(0, |slot| slot.id)
    }

    /// The entry of an open id.
    pub fn find(&self, id: u64) -> Option<ObjectEntry> {
        let part = self.part(id)?;
        part.find(id).map(|at| part.slots[at].entry)
    }

    /// The state of an id that is not open, as far as it is remembered.
    pub fn state_if_not_open(&self, id: u64) -> IdState {
        if self.settled.contains(&id) { IdState::Settled } else { IdState::New }
    }

    /// Stores an open id.
    pub fn put(&mut self, id: u64, entry: ObjectEntry) {
        let part = self.part_mut(id);
        match part.find(id) {
            Some(at) => part.slots[at].entry = entry,
            None => part.insert(IdSlot { id, entry }),
        }
    }

    /// Removes an open id.
    pub fn remove(&mut self, id: u64) {
        let part = self.part_mut(id);
        if let Some(at) = part.find(id) {
            part.remove(at);
        }
    }

    /// Remembers a settled id.
    pub fn remember(&mut self, id: u64) {
        if self.settled.len() == REMEMBERED {
            self.forgotten += REMEMBERED as u64;
            self.settled.clear();
        }
        self.settled.insert(id);
    }

    /// Forgets a settled id; false if it was not remembered.
    pub fn forget_settled(&mut self, id: u64) -> bool {
        self.settled.remove(&id)
    }

    /// Calls `each` for every open id, with its entry.
    pub fn for_each_open(&self, mut each: impl FnMut(u64, &ObjectEntry)) {
        for slot in self.parts.iter().flat_map(|part| &part.slots) {
            if !slot.entry.is_empty() {
                each(slot.id, &slot.entry);
            }
        }
    }
}

impl TablePart {
    /// The preferred slot of an id, used if it is free.
    fn home(&self, hash: u64) -> usize {
        // The upper bits chose the part.
        ((u128::from(hash << 6) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot after a slot; the first slot comes after the last one.
    fn slot_after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn find(&self, id: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(spread(id));
        while !self.slots[at].entry.is_empty() {
            if self.slots[at].id == id {
                return Some(at);
            }
            at = self.slot_after(at);
        }
        None
    }

    fn insert(&mut self, slot: IdSlot) {
        if (self.used + 1) * 5 > self.slots.len() * 4 {
            let larger = (self.slots.len() * 9 / 8).max(8);
            let old = std::mem::replace(&mut self.slots, vec![IdSlot::default(); larger]);
            old.into_iter().filter(|slot| !slot.entry.is_empty()).for_each(|slot| self.put(slot));
        }
        self.put(slot);
        self.used += 1;
    }

    fn put(&mut self, slot: IdSlot) {
        let mut at = self.home(spread(slot.id));
        while !self.slots[at].entry.is_empty() {
            at = self.slot_after(at);
        }
        self.slots[at] = slot;
    }

    /// Empties a slot, and moves later slots forward as far as their preferred slots allow.
    fn remove(&mut self, mut hole: usize) {
        let length = self.slots.len();
        let mut at = hole;
        loop {
            at = self.slot_after(at);
            let slot = self.slots[at];
            if slot.entry.is_empty() {
                break;
            }
            let home = self.home(spread(slot.id));
            // A slot stays where it is if its preferred slot lies after the hole.
            let distance = |from: usize| if at >= from { at - from } else { at + length - from };
            let (from_home, from_hole) = (distance(home), distance(hole));
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = IdSlot::default();
        self.used -= 1;
        if self.used * 4 < length && length > 64 {
            let smaller = self.used * 4 / 3 + 8;
            let old = std::mem::replace(&mut self.slots, vec![IdSlot::default(); smaller]);
            old.into_iter().filter(|slot| !slot.entry.is_empty()).for_each(|slot| self.put(slot));
        }
    }
}
