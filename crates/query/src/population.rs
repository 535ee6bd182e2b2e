//! The set of blocks that a query about single blocks looks at.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::filter::{BlockTest, Filter};
use crate::lives::{blocks_of, deaths, ended_since};
use crate::measure::must_have_blocks;
use crate::query::Query;
use highwater_model::Nanos;
use highwater_store::history::{BlockFacts, BlockLife, ColumnSet, Moment, OwnedBlock, Work};

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
    pub fn of(query: &Query) -> Self {
        let meant = |test: fn(&Filter) -> Option<u64>| query.filters.iter().filter(|f| !f.is_negated).find_map(test);
        if let Some(time) = meant(|filter| if let BlockTest::LiveAt(time) = filter.test { Some(time.0) } else { None })
        {
            return Self::LiveAt(query.history.moment_at(Nanos(time)));
        }
        match meant(|filter| if let BlockTest::Allocated(range) = filter.test { Some(range.least) } else { None }) {
            Some(since) if query.history.recording().is_some() => Self::BornSince(Nanos(since)),
            _ => Self::LiveAt(query.at),
        }
    }

    /// Passes every block that passes the filters to `see`. Each part of the work has a `T` of its own. Deaths are looked up only if filters need them or
    /// `with_deaths` is set; addresses need [`ColumnSet::All`].
    pub fn each<T: Send>(
        self,
        query: &Query,
        filter: &CompiledFilter,
        (with_deaths, depth): (bool, ColumnSet),
        work: &Work<'_>,
        begin: impl Fn() -> T + Sync,
        see: impl Fn(&mut T, &dyn BlockFacts, &BlockLife) + Sync,
    ) -> Result<Vec<T>, QueryError> {
        let moment = match (self, query.history.recording()) {
            (Self::BornSince(since), Some(recording)) => {
                return ended_since(&query.history, recording, (since, depth), filter, work, begin, see);
            }
            (Self::LiveAt(moment), _) => moment,
            (Self::BornSince(_), None) => Moment::End,
        };
        let snapshot = query.history.snapshot(moment)?;
        must_have_blocks(&snapshot)?;
        let mut own = begin();
        if !with_deaths && !filter.needs_deaths() {
            for owned in blocks_of(&snapshot).filter(|owned| filter.passes(owned)) {
                see(&mut own, &owned, &BlockLife { birth: owned.block.time, death: None });
            }
            return Ok(vec![own]);
        }
        let candidates: Vec<OwnedBlock> = blocks_of(&snapshot).filter(|owned| filter.passes(owned)).collect();
        for (owned, death) in candidates.iter().zip(deaths(&query.history, snapshot.at, &candidates, work)?) {
            let life = BlockLife { birth: owned.block.time, death };
            if filter.passes_death(&life) {
                see(&mut own, owned, &life);
            }
        }
        Ok(vec![own])
    }
}
