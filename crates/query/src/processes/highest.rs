//! The instant at which several processes together hold the most.
//!
//! The examined instants, the last ones of the fine bins, give a total that was reached. The sum of what each process held at most in a bin is a bound for
//! the bin. Only bins with a bound above the total can have a higher one: their events are merged, all processes in the order of time.

use super::curves::{Axis, ProcessCurve, bounds_of};
use super::files::{RecordedFacts, for_each_level};
use super::{HighestTotal, in_parallel};
use crate::error::QueryError;
use highwater_store::history::Work;
use rustc_hash::FxHashMap;

/// The most changes that are merged at once: 24 bytes each.
const MOST_CHANGES: u64 = 1 << 22;
/// How often bins are merged. Each time, the highest total found so far rules out others.
const ROUNDS: usize = 4;

/// The highest total, and what each process held then.
pub(super) struct FoundHighest {
    pub total: HighestTotal,
    /// By the number of the process.
    pub held: Vec<u64>,
}

/// A process's live bytes change.
#[derive(Clone, Copy)]
struct Change {
    at: u64,
    process: usize,
    bytes: u64,
}

/// One fine bin, all processes together.
#[derive(Clone, Copy, Default)]
struct WholeBin {
    /// The total at its last instant.
    total: u64,
    /// No instant of it has more.
    bound: u64,
    /// The changes in it.
    changes: u64,
    /// Some process is known by summaries only.
    is_approximate: bool,
    is_merged: bool,
}

/// Finds it; `None` if no process runs within the axis.
pub(super) fn find(
    facts: &[RecordedFacts],
    curves: &[ProcessCurve],
    axis: &Axis,
    work: &Work<'_>,
) -> Result<Option<FoundHighest>, QueryError> {
    if curves.iter().all(|curve| curve.bins.is_empty()) {
        return Ok(None);
    }
    let mut bins = whole_bins(curves, axis);
    // The first of equal ones.
    let fine = (0..bins.len()).rev().max_by_key(|fine| bins[*fine].total).unwrap_or(0);
    let held = curves.iter().map(|curve| curve.last(fine)).collect();
    let total = HighestTotal { at_ns: axis.fine_end(fine), bytes: bins[fine].total, at_most_bytes: 0 };
    let mut best = FoundHighest { total, held };
    for round in 0..ROUNDS {
        work.progress(0.8 + 0.2 * round as f64 / ROUNDS as f64, "finding the highest total")?;
        let wanted = candidates(&bins, best.total.bytes);
        if wanted.is_empty() {
            break;
        }
        let mut changes = changes_in(&wanted, facts, curves, axis, work)?;
        for fine in wanted {
            bins[fine].is_merged = true;
            merge(fine, changes.remove(&fine).unwrap_or_default(), (facts, curves, axis), &mut best);
        }
    }
    let is_open = |bin: &&WholeBin| !bin.is_merged || bin.is_approximate;
    let bound = bins.iter().filter(is_open).map(|bin| bin.bound).max().unwrap_or(0);
    best.total.at_most_bytes = bound.max(best.total.bytes);
    Ok(Some(best))
}

fn whole_bins(curves: &[ProcessCurve], axis: &Axis) -> Vec<WholeBin> {
    let mut bins = vec![WholeBin::default(); axis.fine_bins()];
    for curve in curves {
        for (own, whole) in curve.bins.iter().zip(&mut bins[curve.first..]) {
            whole.total = whole.total.saturating_add(own.last);
            whole.bound = whole.bound.saturating_add(own.high);
            whole.changes += own.changes;
            whole.is_approximate |= curve.is_approximate;
        }
    }
    bins
}

/// The bins that are merged next, in order: those with the highest bounds, as many as can be held.
fn candidates(bins: &[WholeBin], highest: u64) -> Vec<usize> {
    let is_open = |fine: &usize| !bins[*fine].is_merged && bins[*fine].bound > highest;
    let mut wanted: Vec<usize> = (0..bins.len()).filter(is_open).collect();
    wanted.sort_by_key(|fine| std::cmp::Reverse(bins[*fine].bound));
    let mut left = MOST_CHANGES;
    wanted.retain(|fine| {
        let fits = bins[*fine].changes <= left;
        left -= if fits { bins[*fine].changes } else { 0 };
        fits
    });
    wanted.sort_unstable();
    wanted
}

/// All changes of scanned processes in some bins.
fn changes_in(
    wanted: &[usize],
    facts: &[RecordedFacts],
    curves: &[ProcessCurve],
    axis: &Axis,
    work: &Work<'_>,
) -> Result<FxHashMap<usize, Vec<Change>>, QueryError> {
    let has_changes = |curve: &ProcessCurve, fine: usize| curve.bin(fine).is_some_and(|bin| bin.changes > 0);
    let involved: Vec<(&ProcessCurve, Vec<usize>)> = curves
        .iter()
        .filter(|curve| !curve.is_approximate)
        .map(|curve| (curve, wanted.iter().copied().filter(|fine| has_changes(curve, *fine)).collect::<Vec<usize>>()))
        .filter(|(_, wanted)| !wanted.is_empty())
        .collect();
    let found = in_parallel(&involved, |(curve, wanted), _| {
        let facts = &facts[curve.process];
        let (from, to) = (bounds_of(facts, axis, wanted[0]).0, bounds_of(facts, axis, wanted[wanted.len() - 1]).1);
        let mut found: Vec<(usize, Change)> = Vec::new();
        for_each_level(facts, from, to, work, |level| {
            let at = facts.common(level.at);
            let fine = axis.fine_of(at);
            if (axis.from..=axis.to).contains(&at) && wanted.binary_search(&fine).is_ok() {
                found.push((fine, Change { at, process: curve.process, bytes: level.bytes }));
            }
        })?;
        Ok(found)
    })?;
    let mut changes: FxHashMap<usize, Vec<Change>> = FxHashMap::default();
    for (fine, change) in found.into_iter().flatten() {
        changes.entry(fine).or_default().push(change);
    }
    Ok(changes)
}

/// The highest total within one bin, if it is higher than the best so far. Changes of one instant count one after the other, the process that began first.
fn merge(
    fine: usize,
    mut changes: Vec<Change>,
    (facts, curves, axis): (&[RecordedFacts], &[ProcessCurve], &Axis),
    best: &mut FoundHighest,
) {
    let before = |curve: &ProcessCurve| match fine.checked_sub(1) {
        // It may have ended with the last instant of the bin before.
        _ if curve.bin(fine).is_none() => 0,
        Some(before) => curve.last(before),
        None => curve.at_beginning,
    };
    let begin: Vec<u64> = curves.iter().map(before).collect();
    // Stable: the changes of a process are in order already.
    changes.sort_by_key(|change| (change.at, change.process));
    let ended = curves.iter().filter(|curve| curve.bin(fine).is_some()).filter_map(|curve| {
        let end = facts[curve.process].end();
        (end < axis.fine_end(fine)).then(|| Change { at: end + 1, process: curve.process, bytes: 0 })
    });
    // Ends come first: what ended with the instant before holds nothing at this one, whatever others do then.
    changes.splice(0..0, ended);
    changes.sort_by_key(|change| change.at);
    let mut held = begin.clone();
    let mut total = held.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let mut highest: Option<usize> = None;
    let mut most = best.total.bytes;
    // Before the first change of any other bin lies the last instant of the bin before it, which was examined.
    if fine == 0 && total > most && changes.first().is_none_or(|change| change.at > axis.from) {
        best.total = HighestTotal { at_ns: axis.from, bytes: total, at_most_bytes: total };
        (most, best.held) = (total, begin.clone());
    }
    for (number, change) in changes.iter().enumerate() {
        total = total.saturating_sub(held[change.process]).saturating_add(change.bytes);
        held[change.process] = change.bytes;
        if total > most {
            (most, highest) = (total, Some(number));
        }
    }
    if let Some(number) = highest {
        let mut held = begin;
        changes[..=number].iter().for_each(|change| held[change.process] = change.bytes);
        best.total = HighestTotal { at_ns: changes[number].at, bytes: most, at_most_bytes: most };
        best.held = held;
    }
}
