//! The set of blocks that a query about single blocks looks at.

use crate::choice::Choice;
use crate::filter::{Filter, Test};
use crate::lives::{blocks_of, deaths, ended_since};
use crate::measure::must_have_blocks;
use crate::owned::Owned;
use crate::problem::Problem;
use crate::sieve::{Candidate, Life, Sieve};
use crate::sources::Moment;
use crate::traffic::Depth;
use crate::work::Work;
use highwater_model::Nanos;

/// The blocks that are looked at before the filters are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// The blocks that are live at an instant.
    LiveAt(Moment),
    /// The blocks that were born at or after a time.
    BornSince(Nanos),
}

impl Population {
    /// The set that the filters name: live at an instant, or born in a range of time. If no filter names one, the blocks that are live at the chosen instant.
    pub fn of(choice: &Choice) -> Self {
        let meant = |test: fn(&Filter) -> Option<u64>| choice.filters.iter().filter(|f| !f.is_negated).find_map(test);
        if let Some(time) = meant(|filter| if let Test::LiveAt(time) = filter.test { Some(time.0) } else { None }) {
            return Self::LiveAt(choice.loaded.moment_at(Nanos(time)));
        }
        match meant(|filter| if let Test::Allocated(range) = filter.test { Some(range.least) } else { None }) {
            Some(since) if choice.loaded.recording().is_some() => Self::BornSince(Nanos(since)),
            _ => Self::LiveAt(choice.at),
        }
    }

    /// Passes every block that passes the filters to `see`. Each part of the work has a `T` of its own. Deaths are looked up only if filters need them or
    /// `with_deaths` is set; addresses need [`Depth::Whole`].
    pub fn each<T: Send>(
        self,
        choice: &Choice,
        sieve: &Sieve,
        (with_deaths, depth): (bool, Depth),
        work: &Work<'_>,
        begin: impl Fn() -> T + Sync,
        see: impl Fn(&mut T, &dyn Candidate, &Life) + Sync,
    ) -> Result<Vec<T>, Problem> {
        let moment = match (self, choice.loaded.recording()) {
            (Self::BornSince(since), Some(recording)) => {
                return ended_since(&choice.loaded, recording, (since, depth), sieve, work, begin, see);
            }
            (Self::LiveAt(moment), _) => moment,
            (Self::BornSince(_), None) => Moment::End,
        };
        let snapshot = choice.loaded.snapshot(moment)?;
        must_have_blocks(&snapshot)?;
        let mut own = begin();
        if !with_deaths && !sieve.needs_deaths() {
            for owned in blocks_of(&snapshot).filter(|owned| sieve.passes(owned)) {
                see(&mut own, &owned, &Life { birth: owned.block.time, death: None });
            }
            return Ok(vec![own]);
        }
        let candidates: Vec<Owned> = blocks_of(&snapshot).filter(|owned| sieve.passes(owned)).collect();
        for (owned, death) in candidates.iter().zip(deaths(&choice.loaded, snapshot.at, &candidates, work)?) {
            let life = Life { birth: owned.block.time, death };
            if sieve.passes_death(&life) {
                see(&mut own, owned, &life);
            }
        }
        Ok(vec![own])
    }
}
