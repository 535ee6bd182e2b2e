//! Which slots were taken: in runs, because a clock may be set.
//!
//! Usually there is one run that grows. A clock that was ahead leaves a run in the future. Slots before it are free and can be taken; those in it are not taken twice.

use std::fmt::{self, Display};

/// A gap of more seconds begins a new run.
const GAP: i64 = 600;
/// The number of runs that are kept.
const MOST_RUNS: usize = 16;
/// Later slots in a file are no slots: some 30,000 years.
const LATEST: i64 = 1 << 40;

/// Runs of slots that were taken, each with its first and its last slot. The run of the slot that was taken last comes last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenSlots {
    runs: Vec<(i64, i64)>,
}

impl TakenSlots {
    /// Notes a slot.
    pub fn note(&mut self, slot: i64) {
        let near = |run: &(i64, i64)| run.0 <= slot && slot <= run.1.saturating_add(GAP);
        let mut run = match self.runs.iter().position(near) {
            Some(at) => self.runs.remove(at),
            None => (slot, slot),
        };
        run.1 = run.1.max(slot);
        self.runs.push(run);
        if self.runs.len() > MOST_RUNS {
            self.runs.remove(0);
        }
    }

    /// The slot that was taken last: the end of its run.
    pub fn last(&self) -> Option<i64> {
        self.runs.last().map(|run| run.1)
    }

    /// The first slot from one on, in steps of `every`, that is free.
    pub fn first_free(&self, slot: i64, every: i64) -> i64 {
        let mut free = slot;
        // Each run is passed once at most: `free` only grows.
        while let Some(run) = self.runs.iter().find(|run| (run.0..=run.1).contains(&free)) {
            let steps = (run.1 - free) / every.max(1) + 1;
            free = free.saturating_add(steps.saturating_mul(every.max(1)));
        }
        free
    }

    /// Reads what [`Display`] wrote.
    pub fn parse(text: &str) -> Self {
        let slot = |text: &str| text.trim().parse().ok().filter(|slot: &i64| (0..=LATEST).contains(slot));
        let run = |line: &str| {
            let (first, last) = line.split_once(' ')?;
            Some((slot(first)?, slot(last)?)).filter(|(first, last)| first <= last)
        };
        let mut lines = text.lines();
        let last = lines.next().and_then(slot);
        let mut taken = Self { runs: lines.filter_map(run).take(MOST_RUNS).collect() };
        // A file may have no runs.
        last.iter().for_each(|last| taken.note(*last));
        taken
    }
}

/// The last slot, and a line for each run.
impl Display for TakenSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(last) = self.last() else { return Ok(()) };
        writeln!(f, "{last}")?;
        self.runs.iter().try_for_each(|(first, last)| writeln!(f, "{first} {last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_before_a_run_in_the_future_are_free_and_none_is_taken_twice() {
        let mut taken = TakenSlots::default();
        assert_eq!((taken.last(), taken.first_free(60, 60)), (None, 60));
        (0..10).for_each(|at| taken.note(60 * at));
        assert_eq!((taken.last(), taken.first_free(120, 60)), (Some(540), 600));
        // The clock was a year ahead for three slots.
        let year = 31_536_000;
        (0..3).for_each(|at| taken.note(year + 60 * at));
        assert_eq!((taken.last(), taken.first_free(600, 60), taken.first_free(540, 60)), (Some(year + 120), 600, 600));
        assert_eq!(taken.first_free(year, 60), year + 180);
        taken.note(600);
        assert_eq!((taken.last(), taken.first_free(0, 60)), (Some(600), 660));
        let read = TakenSlots::parse(&taken.to_string());
        assert_eq!(read, taken);
        // A run that is met from below ends at its last slot.
        let mut two = TakenSlots::default();
        two.note(6000);
        two.note(60);
        assert_eq!((two.first_free(60, 60), two.first_free(6000, 60)), (120, 6060));
    }

    #[test]
    fn any_text_is_read_and_runs_are_bounded() {
        assert_eq!(TakenSlots::parse("600\n").last(), Some(600));
        for text in ["", "x", "1\n5 2\nx y\n", "-9223372036854775808\n-9223372036854775808 9223372036854775807\n"] {
            let taken = TakenSlots::parse(text);
            let _ = (taken.last(), taken.first_free(i64::MAX, 60), taken.first_free(i64::MIN, 60));
        }
        let mut taken = TakenSlots::default();
        (0..100).for_each(|at| taken.note(at * 1_000_000));
        assert_eq!(taken.to_string().lines().count(), 1 + MOST_RUNS);
    }
}
