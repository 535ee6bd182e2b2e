//! Bands of blocks whose deaths pass filters.
//!
//! States of blocks do not come in the order of time, so what they change is added up in a table of rows and bins. If that has too many values, two passes find the same
//! bands: the first one has coarse bins, and knows for each row how much it holds at least and at most; the second one has only the rows that may be among the
//! largest.

use crate::band_curves::BEFORE;
use crate::bands::slot;
use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::lives::{BlockState, states_since};
use crate::query::Query;
use crate::row_numbers::RowNumbers;
use crate::slot_states::{SlotStates, rank};
use highwater_model::grouped;
use highwater_store::Recording;
use highwater_store::history::{Bins, LiveChange, Owners, Work};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// The number of changes that a core collects before it adds them to the table that all share.
const CHANGES_AT_ONCE: usize = 1 << 14;

/// A question about bands whose filters need whole lives.
pub struct BandLives<'a> {
    pub query: &'a Query,
    pub recording: &'a Recording,
    pub filter: &'a CompiledFilter,
    pub bins: &'a Bins,
}

impl BandLives<'_> {
    /// The rows that hold the most, and what these and all others hold in each bin. A table has at most `most` values.
    pub fn bands(
        &self,
        rows: &RowNumbers,
        (top, in_blocks): (usize, bool),
        most: usize,
        work: &Work<'_>,
    ) -> Result<(Vec<u32>, Vec<Vec<LiveChange>>), QueryError> {
        let slots = self.bins.bins.len() + 1;
        // The number after the last row is that of memory in no row.
        let all = rows.len() + 1;
        let candidates: Vec<u32> = match all.saturating_mul(slots) <= most {
            true => (0..rows.len() as u32).collect(),
            false => self.candidates(rows, (top, in_blocks), most, work)?,
        };
        let others = candidates.len();
        if (others + 1).saturating_mul(slots) > most {
            return Err(too_large((others + 1).saturating_mul(slots), most));
        }
        let places: FxHashMap<u32, u32> = candidates.iter().copied().zip(0..).collect();
        let place = |owners: &Owners| places.get(&rows.row(owners)).map_or(others, |place| *place as usize);
        let (states, _) = self.states(others + 1, (slots, 1), false, &place, work)?;
        Ok(states.largest((&candidates, rows.keys()), (top, in_blocks)))
    }

    /// The rows that may be among the largest.
    fn candidates(
        &self,
        rows: &RowNumbers,
        (top, in_blocks): (usize, bool),
        most: usize,
        work: &Work<'_>,
    ) -> Result<Vec<u32>, QueryError> {
        let (all, bins) = (rows.len() + 1, self.bins.bins.len());
        let Some(coarse) = (most / 2 / all).checked_sub(1).filter(|coarse| *coarse > 0) else {
            return Err(too_large(all.saturating_mul(4), most));
        };
        let width = bins.div_ceil(coarse);
        let slots = bins.div_ceil(width) + 1;
        let row = |owners: &Owners| (rows.row(owners) as usize).min(all - 1);
        let (states, gained) = self.states(all, (slots, width), true, &row, work)?;
        let bounds = |row: usize| {
            let ends = (1..slots).map(|slot| rank(in_blocks, states.of(slot)[row]));
            let within = (1..slots).map(|slot| {
                let mut highest = states.of(slot - 1)[row];
                highest.add(gained[slot * all + row]);
                rank(in_blocks, highest)
            });
            (ends.max().unwrap_or(0), within.max().unwrap_or(0))
        };
        let bounds: Vec<(i128, i128)> = (0..rows.len()).map(bounds).collect();
        let mut least: Vec<i128> = bounds.iter().map(|(least, _)| *least).collect();
        least.sort_unstable_by(|a, b| b.cmp(a));
        let needed = top.checked_sub(1).and_then(|last| least.get(last)).copied().unwrap_or(1).max(1);
        Ok((0..).zip(&bounds).filter(|(_, (_, most))| *most >= needed).map(|(row, _)| row).collect())
    }

    /// What rows hold at the ends of slots of some bins each; and what they gained in slots, if that is asked for.
    fn states(
        &self,
        rows: usize,
        (slots, width): (usize, usize),
        with_gains: bool,
        row: &(dyn Fn(&Owners) -> usize + Sync),
        work: &Work<'_>,
    ) -> Result<(SlotStates, Vec<LiveChange>), QueryError> {
        let window = self.query.window;
        let nothing = || vec![LiveChange::default(); rows * slots];
        let gained = if with_gains { nothing() } else { Vec::new() };
        // One table has all changes: a table for each part of the work would take too much memory.
        let table = Mutex::new((nothing(), gained));
        let write = |waiting: &mut Vec<(usize, LiveChange, bool)>| {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let (changes, gained) = &mut *table;
            for (at, change, is_gain) in waiting.drain(..) {
                changes[at].add(change);
                if with_gains && is_gain {
                    gained[at].add(change);
                }
            }
        };
        let place = |time, row: usize| match slot(self.bins, window, time) {
            BEFORE => row,
            slot => (1 + (slot - 1) / width) * rows + row,
        };
        let see = |waiting: &mut Vec<(usize, LiveChange, bool)>, state: BlockState| {
            let BlockState { amount, owners, since, until } = state;
            if since > window.to {
                return;
            }
            let (row, change) = (row(&owners), LiveChange::of(amount));
            waiting.push((place(since, row), change, true));
            if let Some(until) = until.filter(|until| *until <= window.to) {
                waiting.push((place(until, row), change.negated(), false));
            }
            if waiting.len() >= CHANGES_AT_ONCE {
                write(waiting);
            }
        };
        let since = (window.from, false);
        let parts = states_since(&self.query.history, self.recording, since, self.filter, work, Vec::new, see)?;
        parts.into_iter().for_each(|mut waiting| write(&mut waiting));
        let (changes, gained) = table.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((SlotStates::of_changes(rows, changes), gained))
    }
}

fn too_large(values: usize, most: usize) -> QueryError {
    QueryError::TooLarge(format!(
        "filters on lifetimes and frees allow {} values of all rows, and there are {}; ask for fewer points, or another grouping",
        grouped(most as u64),
        grouped(values as u64)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bands::tests::history;
    use highwater_model::groups::GroupBy;
    use highwater_model::{Nanos, Window};
    use std::sync::Arc;

    #[test]
    fn rows_that_do_not_fit_at_once_are_ranked_in_two_passes_with_the_same_result() {
        let history = history(5, 30_000, 7000);
        let window = Window { from: Nanos(history.whole().to.0 / 5), to: history.whole().to };
        let recording = history.recording().unwrap();
        let work = Work::quiet();
        for text in ["lifetime:200..", "freed:ever", "!freed:never"] {
            let filters = vec![text.parse().unwrap()];
            let query = Query { window, filters, ..Query::new(Arc::clone(&history)) };
            let filter = CompiledFilter::new(&query.filters, history.catalog(), &query.naming);
            let bins = Bins::new(window, 40);
            let lives = BandLives { query: &query, recording, filter: &filter, bins: &bins };
            for by in [GroupBy::Function, GroupBy::Site] {
                let rows = RowNumbers::of(&query, by, &work).unwrap();
                let all = (rows.len() + 1) * 41;
                for (top, in_blocks) in [(1, false), (2, true)] {
                    let bands = |most: usize| lives.bands(&rows, (top, in_blocks), most, &work);
                    let expected = bands(all).unwrap();
                    assert_eq!(bands(all - 1).unwrap(), expected, "{text} {by:?} {top}");
                    assert!(matches!(bands(all / 41), Err(QueryError::TooLarge(_))));
                }
            }
        }
    }
}
