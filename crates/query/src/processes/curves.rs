//! Live memory of processes in bins of the common axis.

use super::files::{RecordedFacts, for_each_level};
use super::highest::FoundHighest;
use crate::error::QueryError;
use crate::peak::PeakInstant;
use highwater_model::Nanos;
use highwater_store::history::Work;

/// The examined instants of an axis, about: several for each bin that is shown.
const FINE_BINS: u64 = 4096;
/// The most bins of all processes together: 24 bytes each.
const MOST_BINS: u64 = 1 << 21;

/// The common axis, divided into bins; each bin that is shown has `per_point` fine ones.
pub(super) struct Axis {
    pub from: u64,
    pub to: u64,
    points: usize,
    per_point: usize,
}

/// What is shown of one bin.
pub(super) struct ShownBin {
    /// The instant.
    pub at: u64,
    /// The fine bin that ends with it.
    pub fine: usize,
    /// The instant is that of the highest total of all, which is not the end of a fine bin.
    pub is_highest: bool,
    /// No instant of the bin has a higher total.
    pub at_most: u64,
}

impl Axis {
    /// An axis in about `points` bins, for processes with these lives.
    pub fn new(from: u64, to: u64, points: usize, lives: impl Iterator<Item = (u64, u64)>) -> Self {
        let length = (to - from).saturating_add(1);
        let points = (points as u64).min(length).max(1);
        let overlap = |(start, end): (u64, u64)| end.min(to).saturating_sub(start.max(from)) as f64 / length as f64;
        let share: f64 = lives.map(overlap).sum::<f64>().max(1.0);
        let affordable = (MOST_BINS as f64 / (share * points as f64)) as u64;
        let per_point = FINE_BINS.div_ceil(points).min(affordable).min(length / points).max(1);
        Self { from, to, points: points as usize, per_point: per_point as usize }
    }

    /// The number of fine bins.
    pub fn fine_bins(&self) -> usize {
        self.points * self.per_point
    }

    fn length(&self) -> u128 {
        u128::from(self.to - self.from) + 1
    }

    /// The first instant of a fine bin.
    pub fn fine_edge(&self, fine: usize) -> u64 {
        let offset = (self.length() * fine as u128).div_ceil(self.fine_bins() as u128);
        u64::try_from(u128::from(self.from) + offset).unwrap_or(u64::MAX)
    }

    /// The last instant of a fine bin.
    pub fn fine_end(&self, fine: usize) -> u64 {
        if fine + 1 == self.fine_bins() { self.to } else { self.fine_edge(fine + 1).saturating_sub(1) }
    }

    /// The fine bin of an instant within the axis.
    pub fn fine_of(&self, at: u64) -> usize {
        let offset = u128::from(at.saturating_sub(self.from));
        ((offset * self.fine_bins() as u128 / self.length()) as usize).min(self.fine_bins() - 1)
    }

    /// The times that separate the shown bins.
    pub fn edges(&self) -> Vec<u64> {
        let edge = |point: usize| if point == self.points { self.to } else { self.fine_edge(point * self.per_point) };
        (0..=self.points).map(edge).collect()
    }

    /// What each bin shows: the examined instant with the highest total, the first of these.
    pub fn shown(&self, curves: &[ProcessCurve], found: Option<&FoundHighest>) -> Vec<ShownBin> {
        let (mut totals, mut bounds) = (vec![0u64; self.fine_bins()], vec![0u64; self.fine_bins()]);
        for curve in curves {
            for (at, bin) in curve.bins.iter().enumerate() {
                let fine = curve.first + at;
                totals[fine] = totals[fine].saturating_add(bin.last);
                bounds[fine] = bounds[fine].saturating_add(bin.high);
            }
        }
        let shown = |point: usize| {
            let bins = point * self.per_point..(point + 1) * self.per_point;
            let fine = bins.clone().rev().max_by_key(|fine| totals[*fine]).unwrap_or(bins.start);
            let at_most = bounds[bins.clone()].iter().copied().max().unwrap_or(0);
            let highest = found.filter(|found| bins.contains(&self.fine_of(found.total.at_ns)));
            match highest {
                Some(found) => {
                    let at_most = at_most.min(found.total.at_most_bytes);
                    ShownBin { at: found.total.at_ns, fine, is_highest: true, at_most }
                }
                None => {
                    let at_most = found.map_or(at_most, |found| at_most.min(found.total.at_most_bytes));
                    ShownBin { at: self.fine_end(fine), fine, is_highest: false, at_most }
                }
            }
        };
        (0..self.points).map(shown).collect()
    }

    /// The fine bins that about `points` coarser ones begin with, and the end.
    pub fn lanes(&self, points: usize) -> Vec<usize> {
        let step = self.fine_bins().div_ceil(points).max(1);
        (0..self.fine_bins()).step_by(step).chain([self.fine_bins()]).collect()
    }
}

/// One process in one fine bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FineBin {
    /// The most that it held: after any of its events in the bin, or when the bin began.
    pub high: u64,
    /// What it held at the last instant of the bin: nothing if it has ended before.
    pub last: u64,
    /// How often its live bytes changed in the bin.
    pub changes: u64,
}

/// One process on the axis: a bin for each in which it runs.
pub(super) struct ProcessCurve {
    /// Its number.
    pub process: usize,
    /// The first of its bins.
    pub first: usize,
    pub bins: Vec<FineBin>,
    /// What it held before the axis begins.
    pub at_beginning: u64,
    /// What it held when its forked children began, by their numbers.
    pub at_births: Vec<(usize, u64)>,
    pub rss_peak: Option<PeakInstant>,
    pub is_approximate: bool,
}

impl ProcessCurve {
    /// A curve without values; without bins if the process does not run within the axis.
    fn empty(process: usize, facts: &RecordedFacts, axis: &Axis) -> Self {
        let (start, end) = (facts.start(), facts.end());
        let (first, bins) = if start > axis.to || end < axis.from {
            (0, Vec::new())
        } else {
            let (first, last) = (axis.fine_of(start.max(axis.from)), axis.fine_of(end.min(axis.to)));
            (first, vec![FineBin::default(); last + 1 - first])
        };
        Self { process, first, bins, at_beginning: 0, at_births: Vec::new(), rss_peak: None, is_approximate: false }
    }

    /// From a replay. `births` are the instants at which its forked children began, with their numbers.
    pub fn scan(
        process: usize,
        facts: &RecordedFacts,
        axis: &Axis,
        births: &[(u64, usize)],
        work: &Work<'_>,
    ) -> Result<Self, QueryError> {
        let mut curve = Self::empty(process, facts, axis);
        if curve.bins.is_empty() {
            return Ok(curve);
        }
        let mut births: Vec<(u64, usize)> =
            births.iter().copied().filter(|(at, _)| (axis.from..=axis.to).contains(at)).collect();
        births.sort_unstable();
        let mut births = births.into_iter().peekable();
        let mut filling = Filling { axis, curve: &mut curve, next: 0, level: 0 };
        for_each_level(facts, facts.own(axis.from), facts.own(axis.to), work, |level| {
            let at = facts.common(level.at);
            while let Some((_, child)) = births.next_if(|(birth, _)| *birth < at) {
                filling.curve.at_births.push((child, filling.level));
            }
            if let Some(bytes) = level.rss
                && (axis.from..=axis.to).contains(&at)
                && filling.curve.rss_peak.is_none_or(|peak| peak.bytes < bytes)
            {
                filling.curve.rss_peak = Some(PeakInstant { at_ns: at, bytes });
            }
            filling.see(at, level.bytes);
        })?;
        let level = filling.level;
        filling.end(facts.end());
        let left = births.filter(|(birth, _)| *birth <= facts.end()).map(|(_, child)| (child, level));
        curve.at_births.extend(left);
        Ok(curve)
    }

    /// From the summaries of its event blocks: true at the end of each, a bound within it.
    pub fn of_summaries(process: usize, facts: &RecordedFacts, axis: &Axis) -> Self {
        let mut curve = Self::empty(process, facts, axis);
        if curve.bins.is_empty() {
            return curve;
        }
        curve.is_approximate = true;
        let mut filling = Filling { axis, curve: &mut curve, next: 0, level: 0 };
        for block in &facts.blocks {
            let begin = facts.common(block.first_time);
            filling.see(begin, filling.level);
            filling.bound(begin, facts.common(block.last_time), block.highest_bytes);
            filling.see(facts.common(block.last_time), block.live_bytes);
        }
        filling.see(facts.common(facts.source.duration), facts.totals.figures.live_bytes());
        filling.end(facts.end());
        curve
    }

    /// What it held at the last instant of a fine bin.
    pub fn last(&self, fine: usize) -> u64 {
        fine.checked_sub(self.first).and_then(|at| self.bins.get(at)).map_or(0, |bin| bin.last)
    }

    /// Its bin with this number, if it runs in it.
    pub fn bin(&self, fine: usize) -> Option<&FineBin> {
        fine.checked_sub(self.first).and_then(|at| self.bins.get(at))
    }

    /// The most that it held in each of some coarser bins, from the first in which it runs; `lanes` are the fine bins with which they begin, and the end.
    pub fn lane(&self, lanes: &[usize]) -> (usize, Vec<u64>) {
        let end = self.first + self.bins.len();
        if self.bins.is_empty() {
            return (0, Vec::new());
        }
        let first = lanes.partition_point(|fine| *fine <= self.first).saturating_sub(1);
        let coarse = lanes[first..].windows(2).take_while(|pair| pair[0] < end);
        let high = |pair: &[usize]| {
            let own = pair[0].max(self.first) - self.first..pair[1].min(end) - self.first;
            self.bins[own].iter().map(|bin| bin.high).max().unwrap_or(0)
        };
        (first, coarse.map(high).collect())
    }
}

/// Fills the bins of a curve, in the order of time.
struct Filling<'a> {
    axis: &'a Axis,
    curve: &'a mut ProcessCurve,
    /// The first bin whose last instant is not reached yet, counted from the curve's first.
    next: usize,
    /// The live bytes now.
    level: u64,
}

impl Filling<'_> {
    /// The live bytes change at an instant.
    fn see(&mut self, at: u64, bytes: u64) {
        if at < self.axis.from {
            self.level = bytes;
            self.curve.at_beginning = bytes;
            return;
        }
        if at > self.axis.to {
            self.reach(usize::MAX);
            return;
        }
        let own = self.axis.fine_of(at).saturating_sub(self.curve.first);
        self.reach(own);
        if let Some(bin) = self.curve.bins.get_mut(own) {
            bin.high = bin.high.max(bytes);
            bin.changes += 1;
        }
        self.level = bytes;
    }

    /// An upper bound for a span of time.
    fn bound(&mut self, from: u64, to: u64, bytes: u64) {
        if to < self.axis.from || from > self.axis.to {
            return;
        }
        let own = |at: u64| self.axis.fine_of(at.clamp(self.axis.from, self.axis.to)).saturating_sub(self.curve.first);
        let (first, last) = (own(from), own(to).min(self.curve.bins.len().saturating_sub(1)));
        for bin in self.curve.bins.iter_mut().take(last + 1).skip(first) {
            bin.high = bin.high.max(bytes);
        }
    }

    /// All bins before `own` are complete, and bin `own` begins with the present level.
    fn reach(&mut self, own: usize) {
        let level = self.level;
        let end = own.min(self.curve.bins.len());
        for bin in self.curve.bins.iter_mut().take(end).skip(self.next) {
            bin.last = level;
            bin.high = bin.high.max(level);
        }
        if (end > self.next || self.next == 0)
            && let Some(bin) = self.curve.bins.get_mut(end)
        {
            bin.high = bin.high.max(level);
        }
        self.next = self.next.max(end);
    }

    /// The process ended at this instant.
    fn end(mut self, at: u64) {
        self.reach(usize::MAX);
        let fine = (self.curve.first + self.curve.bins.len()).saturating_sub(1);
        if let Some(bin) = self.curve.bins.last_mut() {
            bin.last = if at >= self.axis.fine_end(fine) { self.level } else { 0 };
        }
    }
}

/// The first and the last instant of a fine bin, as times of a recording.
pub(super) fn bounds_of(facts: &RecordedFacts, axis: &Axis, fine: usize) -> (Nanos, Nanos) {
    (facts.own(axis.fine_edge(fine)), facts.own(axis.fine_end(fine)))
}
