//! Adds up changes of live memory into curves: one for each row, or the most that each row holds.
//!
//! Cores add up parts of the time independently. A part begins with a whole state, or knows only how its rows differ from their state before it; [`joined`] and
//! [`most_held`] put the parts together, in time order.

use highwater_store::history::LiveChange;

/// The slot of what was live before the window. Bins have the slots after it.
pub const BEFORE: usize = 0;

/// What is remembered at the end of each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The state of every row.
    States,
    /// The most bytes (false) or blocks (true) of each row.
    Most(bool),
}

/// The curves of one part of the time.
pub struct PartCurves {
    keeps: Keeps,
    /// It begins with a whole state.
    is_whole: bool,
    slot: usize,
    state: Vec<LiveChange>,
    /// The states at the ends of slots.
    states: Vec<(usize, Vec<LiveChange>)>,
    /// The rows that changed in this slot.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    /// The most at the ends of slots, but for the first and the last one: other parts may share those.
    most: Vec<i128>,
    /// The first slot that is a bin, and the state at its end, if it is not the last one.
    first: Option<(usize, Option<Vec<LiveChange>>)>,
    /// The state when the window began, if the part has it.
    before: Option<Vec<LiveChange>>,
}

fn held(in_blocks: bool, state: LiveChange) -> i128 {
    if in_blocks { state.blocks.into() } else { state.units }
}

impl PartCurves {
    /// Empty curves of this number of rows, in the first slot that the part has.
    pub fn new(rows: usize, keeps: Keeps, is_whole: bool) -> Self {
        let ranked = if keeps == Keeps::States { 0 } else { rows };
        Self {
            keeps,
            is_whole,
            slot: usize::MAX,
            state: vec![LiveChange::default(); rows],
            states: Vec::new(),
            touched: Vec::new(),
            is_touched: vec![false; ranked],
            most: vec![i128::MIN; ranked],
            first: None,
            before: None,
        }
    }

    /// Goes on to a slot.
    #[inline]
    pub fn enter(&mut self, slot: usize) {
        if slot != self.slot {
            self.end_slot();
            self.slot = slot;
            if slot != BEFORE && self.first.is_none() {
                self.first = Some((slot, None));
            }
        }
    }

    /// A change in the current slot.
    #[inline]
    pub fn add(&mut self, row: u32, change: LiveChange) {
        let at = row as usize;
        let Some(state) = self.state.get_mut(at) else { return };
        state.add(change);
        if self.keeps != Keeps::States && !self.is_touched[at] {
            self.is_touched[at] = true;
            self.touched.push(row);
        }
    }

    /// Forgets everything: a whole state follows.
    pub fn begin_anew(&mut self) {
        self.state.fill(LiveChange::default());
    }

    fn end_slot(&mut self) {
        match self.keeps {
            _ if self.slot == usize::MAX => {}
            Keeps::States => self.states.push((self.slot, self.state.clone())),
            Keeps::Most(in_blocks) => {
                let is_inside = self.first.as_ref().is_some_and(|(_, end)| end.is_some());
                for row in self.touched.drain(..) {
                    let at = row as usize;
                    self.is_touched[at] = false;
                    if is_inside {
                        self.most[at] = self.most[at].max(held(in_blocks, self.state[at]));
                    }
                }
                match &mut self.first {
                    _ if self.slot == BEFORE => self.before = Some(self.state.clone()),
                    Some((_, end @ None)) => *end = Some(self.state.clone()),
                    _ => {}
                }
            }
        }
    }

    /// Ends the last slot.
    #[must_use]
    pub fn ended(mut self) -> Self {
        if self.keeps == Keeps::States || self.slot == BEFORE {
            self.end_slot();
        }
        self
    }
}

fn sum(a: LiveChange, b: LiveChange) -> LiveChange {
    let mut sum = a;
    sum.add(b);
    sum
}

/// The state of each row at the end of each bin. `before` is the state before the first part.
pub fn joined(before: Vec<LiveChange>, parts: Vec<PartCurves>, bins: usize) -> Vec<Vec<LiveChange>> {
    let mut known: Vec<Option<Vec<LiveChange>>> = vec![None; bins + 1];
    let nothing = vec![LiveChange::default(); before.len()];
    let mut base = before.clone();
    for part in parts {
        let start = if part.is_whole { nothing.clone() } else { base };
        let whole = |state: &[LiveChange]| state.iter().zip(&start).map(|(state, start)| sum(*state, *start)).collect();
        for (slot, state) in &part.states {
            known[(*slot).min(bins)] = Some(whole(state));
        }
        base = whole(&part.state);
    }
    let mut last = known[BEFORE].take().unwrap_or(before);
    let mut each = |state: Option<Vec<LiveChange>>| {
        last = state.unwrap_or_else(|| last.clone());
        last.clone()
    };
    known.into_iter().skip(1).map(&mut each).collect()
}

/// The most that each row holds at the end of a bin.
pub fn most_held(before: Vec<LiveChange>, parts: &[PartCurves], in_blocks: bool) -> Vec<i128> {
    let mut most = vec![0; before.len()];
    let mut see = |state: &[LiveChange]| {
        most.iter_mut().zip(state).for_each(|(most, state)| *most = (*most).max(held(in_blocks, *state)));
    };
    let after = |base: &[LiveChange], state: &[LiveChange]| -> Vec<LiveChange> {
        base.iter().zip(state).map(|(base, state)| sum(*base, *state)).collect()
    };
    let mut inside = vec![i128::MIN; before.len()];
    let mut base = before;
    // The slot of the latest state. It counts once a later bin begins, and that before the window only if the first bin passes without a change.
    let mut latest = BEFORE;
    for part in parts {
        let state_before = base.clone();
        if part.is_whole {
            base.fill(LiveChange::default());
        }
        if let Some((first, end)) = &part.first {
            let state = part.before.as_ref().map_or(state_before, |before| after(&base, before));
            if *first > latest.max(1) || (latest > BEFORE && *first != latest) {
                see(&state);
            }
            end.iter().for_each(|end| see(&after(&base, end)));
            for ((inside, most), base) in inside.iter_mut().zip(&part.most).zip(&base) {
                if *most > i128::MIN {
                    *inside = (*inside).max(*most + held(in_blocks, *base));
                }
            }
            latest = part.slot;
        }
        base = after(&base, &part.state);
    }
    see(&base);
    most.iter().zip(inside).map(|(most, inside)| (*most).max(inside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(units: i128) -> LiveChange {
        LiveChange { units, blocks: units as i64 }
    }

    proptest! {
        /// Whatever parts the changes are divided into, the states at the ends of bins are those of a plain sum, and so is the most of each row.
        #[test]
        fn parts_together_are_the_whole(
            before in prop::collection::vec(0i128..100, 4),
            changes in prop::collection::vec((1usize..9, 0u32..4, -20i128..50), 0..60),
            cuts in prop::collection::vec(0usize..60, 0..4),
            whole_parts in any::<bool>(),
        ) {
            let mut changes = changes;
            changes.sort_by_key(|change| change.0);
            let start: Vec<LiveChange> = before.iter().map(|units| change(*units)).collect();
            let mut expected = Vec::new();
            let mut state = start.clone();
            for slot in 1..=8 {
                changes.iter().filter(|each| each.0 == slot).for_each(|(_, row, units)| state[*row as usize].add(change(*units)));
                expected.push(state.clone());
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(changes.len())).chain([0, changes.len()]).collect();
            cuts.sort_unstable();
            let parts = |keeps: Keeps| -> Vec<PartCurves> {
                let mut state = start.clone();
                let mut last_slot = BEFORE;
                cuts.windows(2).enumerate().map(|(number, cut)| {
                    let mut part = PartCurves::new(4, keeps, whole_parts);
                    let here = &changes[cut[0]..cut[1]];
                    if whole_parts {
                        // The first part has the state before the window, others that at their first change.
                        part.enter(if number == 0 { BEFORE } else { here.first().map_or(last_slot, |each| each.0) });
                        (0..4).for_each(|row| part.add(row, state[row as usize]));
                    }
                    for (slot, row, units) in here {
                        part.enter(*slot);
                        last_slot = *slot;
                        part.add(*row, change(*units));
                        state[*row as usize].add(change(*units));
                    }
                    part.ended()
                }).collect()
            };
            let nothing = vec![LiveChange::default(); 4];
            let initial = if whole_parts { nothing } else { start.clone() };
            prop_assert_eq!(&joined(initial.clone(), parts(Keeps::States), 8), &expected);
            let most = most_held(initial, &parts(Keeps::Most(false)), false);
            for row in 0..4 {
                let expected = expected.iter().map(|state| state[row].units).max().unwrap().max(0);
                prop_assert_eq!(most[row], expected, "row {}", row);
            }
        }
    }
}
