//! What rows hold at the ends of slots, in one table. Changes may come in any order, so births and deaths are read one after the other, each from its own columns.

use highwater_model::groups::GroupKey;
use highwater_store::history::LiveChange;
use std::sync::{Mutex, PoisonError};

/// The most values of a table. They take 32 bytes each.
pub const MOST_CHANGES: usize = 4 << 20;

/// What rows are ranked by.
pub fn rank(in_blocks: bool, state: LiveChange) -> i128 {
    if in_blocks { state.blocks.into() } else { state.units }
}

/// The rows that hold the most, without those that hold nothing. Equal rows are in the order of their keys.
pub fn highest(most: impl Iterator<Item = i128>, keys: &[GroupKey], top: usize) -> Vec<u32> {
    highest_of(most.zip(0..), &|row| &keys[row as usize], top)
}

/// The same of some rows, with their numbers.
fn highest_of<'k>(rows: impl Iterator<Item = (i128, u32)>, key: &dyn Fn(u32) -> &'k GroupKey, top: usize) -> Vec<u32> {
    let mut ranked: Vec<(i128, u32)> = rows.filter(|(most, _)| *most > 0).collect();
    ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| key(a.1).cmp(key(b.1))));
    ranked.truncate(top);
    ranked.into_iter().map(|(_, row)| row).collect()
}

/// A value for each row of a slot, slot by slot. The first slot is the time before the window, and the last row is memory in no other.
pub struct SlotStates {
    rows: usize,
    values: Vec<LiveChange>,
}

impl SlotStates {
    /// The states that follow from what rows gained and lost in slots.
    pub fn of_changes(rows: usize, mut values: Vec<LiveChange>) -> Self {
        for at in rows..values.len() {
            let before = values[at - rows];
            values[at].add(before);
        }
        Self { rows, values }
    }

    /// What each row holds at the end of a slot.
    pub fn of(&self, slot: usize) -> &[LiveChange] {
        &self.values[slot * self.rows..(slot + 1) * self.rows]
    }

    /// The rows that hold the most at the end of a slot, and for each slot but the first what these and all others hold. `numbers` are the numbers of the rows, and `keys`
    /// has their keys.
    pub fn largest(
        &self,
        (numbers, keys): (&[u32], &[GroupKey]),
        (top, in_blocks): (usize, bool),
    ) -> (Vec<u32>, Vec<Vec<LiveChange>>) {
        let slots = self.values.len() / self.rows;
        let mut most = vec![0; numbers.len()];
        for slot in 1..slots {
            let held = self.of(slot).iter().map(|state| rank(in_blocks, *state));
            most.iter_mut().zip(held).for_each(|(most, held): (&mut i128, i128)| *most = (*most).max(held));
        }
        let places = highest_of(most.into_iter().zip(0..), &|place| &keys[numbers[place as usize] as usize], top);
        let part = |slot: usize| {
            let state = self.of(slot);
            let mut part: Vec<LiveChange> = places.iter().map(|place| state[*place as usize]).collect();
            let mut rest = LiveChange::default();
            let others = (0..).zip(state).filter(|(place, _)| !places.contains(place));
            others.for_each(|(_, each)| rest.add(*each));
            part.push(rest);
            part
        };
        let states = (1..slots).map(part).collect();
        (places.iter().map(|place| numbers[*place as usize]).collect(), states)
    }
}

/// The changes of one slot, which come one after the other, on their way into a table that all cores share.
pub struct SlotChanges<'a> {
    table: &'a Mutex<Vec<LiveChange>>,
    slot: usize,
    changes: Vec<LiveChange>,
    /// The rows that have changed in this slot.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl<'a> SlotChanges<'a> {
    /// No changes of this number of rows, in the first slot.
    pub fn new(table: &'a Mutex<Vec<LiveChange>>, rows: usize) -> Self {
        let changes = vec![LiveChange::default(); rows];
        Self { table, slot: 0, changes, touched: Vec::new(), is_touched: vec![false; rows] }
    }

    /// The current slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Goes on to a slot.
    #[inline]
    pub fn enter(&mut self, slot: usize) {
        if slot != self.slot {
            self.write();
            self.slot = slot;
        }
    }

    /// Adds a change in the current slot.
    #[inline]
    pub fn add(&mut self, row: u32, change: LiveChange) {
        let at = row as usize;
        let Some(sum) = self.changes.get_mut(at) else { return };
        sum.add(change);
        if !self.is_touched[at] {
            self.is_touched[at] = true;
            self.touched.push(row);
        }
    }

    /// Adds what is known of the current slot to the table.
    pub fn write(&mut self) {
        let rows = self.changes.len();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        for row in self.touched.drain(..) {
            let at = row as usize;
            self.is_touched[at] = false;
            table[self.slot * rows + at].add(std::mem::take(&mut self.changes[at]));
        }
    }
}
