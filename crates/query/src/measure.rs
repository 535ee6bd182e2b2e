//! Measures a metric: bytes and blocks for each stack, tag and thread.
//!
//! Where figures are enough they come from two snapshots. Filters on more than stacks need single blocks: those of a snapshot, or a pass over the
//! births and deaths of the window. Filters then see a block as it is at the time that counts: when it is allocated, freed, or live.
//! There is one exception: where allocations are filtered by their deaths, a block that was resized counts once, in its last state.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::lives::{blocks_of, deaths, ended_since};
use crate::query::Query;
use highwater_model::groups::{GroupBy, Metric};
use highwater_model::{ByteSum, Figures, Nanos, Snapshot};
use highwater_store::history::{
    BlockEventRow, BlockFacts, BlockLife, Cause, ColumnSet, Moment, OwnedBlock, Owners, Side, WindowFigures, Work,
    block_events,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes and blocks. For metrics that count blocks, both figures are their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The measured value, rounded.
    pub value: u64,
    /// The same, not rounded, for adding up.
    pub sum: ByteSum,
    /// Blocks.
    pub blocks: u64,
    /// The samples that the bytes are made of, from which their uncertainty follows; 0 where that is not known.
    pub samples: u64,
}

impl Amount {
    /// An amount of bytes and blocks.
    pub fn new(sum: ByteSum, blocks: u64, samples: u64) -> Self {
        Self { value: sum.rounded(), sum, blocks, samples }
    }

    /// Blocks of which only the number is known.
    pub fn of_blocks(blocks: u64) -> Self {
        Self::new(ByteSum::whole(blocks), blocks, 0)
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.value = self.sum.rounded();
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.samples = self.samples.saturating_add(other.samples);
    }

    /// True if both figures are zero.
    pub fn is_nothing(&self) -> bool {
        self.value == 0 && self.blocks == 0
    }
}

/// The snapshots that the figures of rows come from.
#[derive(Clone)]
pub enum Figured {
    /// An instant.
    At(Arc<Snapshot>),
    /// A window.
    In(Arc<WindowFigures>),
}

impl Figured {
    /// The snapshot whose figures are shown.
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::At(snapshot) => snapshot,
            Self::In(window) => &window.counters,
        }
    }
}

/// The measured amounts.
pub enum Amounts {
    /// From figures, for the stacks that pass.
    Figures {
        /// The figures.
        figured: Figured,
        /// Decides whether a stack is wanted; without filters every stack is.
        filter: CompiledFilter,
    },
    /// From single blocks.
    Blocks(FxHashMap<Owners, Amount>),
}

/// A metric, measured: the amount of each owner, and the total.
pub struct Measured {
    /// What tells it from other measurements of its history.
    pub key: String,
    /// The metric that was measured.
    pub metric: Metric,
    /// The instant of the measurement; the end of the window for metrics of a window.
    pub at: Nanos,
    /// The amounts by owner.
    pub amounts: Amounts,
    /// The sum.
    pub total: Amount,
    /// True if the types of blocks are those that their stacks show.
    pub has_site_types: bool,
    /// True if amounts are estimates whose uncertainty follows from their samples.
    pub is_sampled: bool,
    /// The blocks that were resized or promoted in or out; `None` where each block counts once, in its last state.
    pub moved: Option<Moved>,
}

impl Measured {
    /// The samples of an amount, if its uncertainty follows from them.
    pub fn samples_of(&self, amount: &Amount) -> Option<u64> {
        (self.is_sampled && self.metric.is_bytes() && self.metric != Metric::OwnPeak).then_some(amount.samples)
    }
}

/// Numbers of blocks that arrived or departed without being allocated or freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// By a reallocation.
    pub resized: u64,
    /// By a promotion into another heap, or out of it.
    pub promoted: u64,
}

impl Moved {
    fn add(&mut self, other: Self) {
        self.resized = self.resized.saturating_add(other.resized);
        self.promoted = self.promoted.saturating_add(other.promoted);
    }

    fn count(&mut self, row: &BlockEventRow<'_>) {
        match row.cause() {
            Cause::Resized => self.resized = self.resized.saturating_add(row.amount().1),
            Cause::Promoted => self.promoted = self.promoted.saturating_add(row.amount().1),
            _ => {}
        }
    }

    /// The value of a metric in figures by stack. A promotion does not change a stack's figures.
    fn of(metric: Metric, figures: &Figures) -> Self {
        let resized = match metric {
            Metric::Allocated | Metric::Allocations => figures.reallocations,
            Metric::Freed => figures.reallocated_away,
            _ => 0,
        };
        Self { resized, promoted: 0 }
    }

    /// The sum of both.
    pub fn blocks(&self) -> u64 {
        self.resized.saturating_add(self.promoted)
    }
}

/// The value of a metric in some figures.
pub fn amount_of(metric: Metric, figures: &Figures) -> Amount {
    match metric {
        Metric::Live | Metric::Peak | Metric::Leaked => {
            Amount::new(figures.live(), figures.live_blocks(), figures.live_samples())
        }
        Metric::OwnPeak => Amount::new(ByteSum::whole(figures.peak_bytes), 0, 0),
        Metric::Allocated => {
            Amount::new(figures.allocated(), figures.allocations + figures.reallocations, figures.samples())
        }
        Metric::Allocations => Amount::of_blocks(figures.allocations + figures.reallocations),
        Metric::Freed => {
            Amount::new(figures.freed(), figures.frees + figures.reallocated_away, figures.freed_samples())
        }
        Metric::Temporary => Amount::of_blocks(figures.temporary_allocations),
    }
}

/// Measures the chosen metric for rows of this grouping. Figures of threads, named types, heaps and tasks are not known by stack.
pub fn measure_by(query: &Query, by: GroupBy, work: &Work<'_>) -> Result<Arc<Measured>, QueryError> {
    measure(query, by.is_by_owner() && !(by == GroupBy::Type && query.has_site_types()), work)
}

/// Measures the chosen metric. `by_owner` means that figures by stack are not enough.
pub fn measure(query: &Query, by_owner: bool, work: &Work<'_>) -> Result<Arc<Measured>, QueryError> {
    let filter = CompiledFilter::new(&query.filters, query.history.catalog(), &query.naming);
    let by_figures = query.metric != Metric::Leaked && !filter.needs_blocks() && (filter.is_open() || !by_owner);
    if by_figures {
        // The figures are cached on their own.
        return by_figures_of(query, filter).map(Arc::new);
    }
    query.history.cached(
        key_of(query),
        || by_blocks(query, &filter, work),
        |measured| match &measured.amounts {
            Amounts::Figures { .. } => 0,
            Amounts::Blocks(amounts) => amounts.capacity() * 64 + 4096,
        },
    )
}

/// What tells measurements of single blocks, or of figures, of one history apart.
fn key_of(query: &Query) -> String {
    let Query { window, at, metric, filters, naming, .. } = query;
    let texts: Vec<String> = filters.iter().map(ToString::to_string).collect();
    // Other metrics are the same at every instant.
    let at = matches!(metric, Metric::Live | Metric::OwnPeak).then_some(at);
    // Filters on types see the names that rows have.
    let naming = (!filters.is_empty()).then_some(naming);
    format!("{window:?} {at:?} {metric:?} {texts:?} {naming:?}")
}

/// The instant at which a metric of an instant is measured.
fn instant(query: &Query) -> Result<Moment, QueryError> {
    Ok(match (query.metric, query.history.recording()) {
        (Metric::Peak, Some(recording)) => Moment::Event(query.history.peak(recording, query.window)?.event),
        (Metric::Leaked, _) => Moment::End,
        _ => query.at,
    })
}

/// The time that is reported for an instant: a peak that was reached before the window is reported at the window's beginning.
fn reported_time(query: &Query, at: Nanos) -> Nanos {
    if query.metric == Metric::Peak { at.max(query.window.from) } else { at }
}

fn by_figures_of(query: &Query, filter: CompiledFilter) -> Result<Measured, QueryError> {
    let metric = query.metric;
    let (figured, at) = match metric {
        Metric::Live | Metric::Peak | Metric::OwnPeak | Metric::Leaked => {
            let figures = query.history.figures(instant(query)?)?;
            (Figured::At(Arc::clone(&figures)), reported_time(query, figures.at))
        }
        Metric::Allocated | Metric::Allocations | Metric::Freed | Metric::Temporary => {
            (Figured::In(query.history.window(query.window)?), query.window.to)
        }
    };
    let accounts = &figured.snapshot().accounts;
    let (mut total, mut moved) = (Amount::default(), Moved::default());
    let mut count = |figures: &Figures| {
        total.add(amount_of(metric, figures));
        moved.add(Moved::of(metric, figures));
    };
    if filter.is_open() {
        count(&accounts.totals().figures);
    } else {
        let passing = accounts.sites().iter().filter(|(stack, _)| filter.passes_stack(*stack));
        passing.for_each(|(_, figures)| count(figures));
    }
    let has_site_types = query.has_site_types();
    Ok(Measured {
        key: key_of(query),
        metric,
        at,
        total,
        has_site_types,
        is_sampled: query.is_sampled(),
        moved: Some(moved),
        amounts: Amounts::Figures { figured, filter },
    })
}

/// The amount of each owner.
pub type Tally = FxHashMap<Owners, Amount>;

fn count(tally: &mut Tally, block: &(impl BlockFacts + ?Sized), metric: Metric) {
    let (bytes, blocks) = block.amount();
    let amount = match metric.is_bytes() {
        true => Amount::new(bytes, blocks, block.samples()),
        false => Amount::of_blocks(blocks),
    };
    tally.entry(block.owners()).or_default().add(amount);
}

fn by_blocks(query: &Query, filter: &CompiledFilter, work: &Work<'_>) -> Result<Measured, QueryError> {
    let metric = query.metric;
    let ((amounts, moved), at) = match metric {
        Metric::Live | Metric::Peak | Metric::Leaked => {
            let snapshot = query.history.snapshot(instant(query)?)?;
            let amounts = of_instant(query, &snapshot, filter, work)?;
            ((amounts, Some(Moved::default())), reported_time(query, snapshot.at))
        }
        Metric::OwnPeak => {
            return Err(QueryError::failed(
                "the own peak of a row is known only without filters on single blocks; choose another metric",
            ));
        }
        Metric::Allocated | Metric::Allocations | Metric::Freed | Metric::Temporary => {
            (of_window(query, filter, work)?, query.window.to)
        }
    };
    let mut total = Amount::default();
    amounts.values().for_each(|amount| total.add(*amount));
    let (has_site_types, is_sampled) = (query.has_site_types(), query.is_sampled());
    let key = key_of(query);
    Ok(Measured { key, metric, at, amounts: Amounts::Blocks(amounts), total, has_site_types, is_sampled, moved })
}

/// Adds up the blocks that are live at an instant.
fn of_instant(
    query: &Query,
    snapshot: &Snapshot,
    filter: &CompiledFilter,
    work: &Work<'_>,
) -> Result<Tally, QueryError> {
    must_have_blocks(snapshot)?;
    let is_meant = |owned: &OwnedBlock| {
        (query.metric != Metric::Leaked || query.window.has(owned.block.time)) && filter.passes(owned)
    };
    let mut tally = Tally::default();
    if !filter.needs_deaths() {
        blocks_of(snapshot).filter(is_meant).for_each(|owned| count(&mut tally, &owned, query.metric));
        return Ok(tally);
    }
    let candidates: Vec<OwnedBlock> = blocks_of(snapshot).filter(is_meant).collect();
    let deaths = deaths(&query.history, snapshot.at, &candidates, work)?;
    for (owned, death) in candidates.iter().zip(deaths) {
        if filter.passes_death(&BlockLife { birth: owned.block.time, death }) {
            count(&mut tally, owned, query.metric);
        }
    }
    Ok(tally)
}

/// Fails if a source has only figures and no single blocks.
pub fn must_have_blocks(snapshot: &Snapshot) -> Result<(), QueryError> {
    if snapshot.source.aggregated && snapshot.accounts.totals().figures.live_blocks() > 0 {
        return Err(QueryError::failed(NO_BLOCKS));
    }
    Ok(())
}

/// Why a source that has only figures does not answer a question about single blocks.
pub const NO_BLOCKS: &str =
    "only figures are known here, not single blocks; remove the filters or the options that ask for them";

/// Adds up the blocks that were allocated or freed in a window.
fn of_window(query: &Query, filter: &CompiledFilter, work: &Work<'_>) -> Result<(Tally, Option<Moved>), QueryError> {
    let Some(recording) = query.history.recording() else {
        return Err(QueryError::failed("a snapshot knows one instant only, and not when its blocks came and went"));
    };
    let (window, metric) = (query.window, query.metric);
    let (since, until) = (window.from, window.to);
    let index = query.history.index(recording, work)?;
    let known = (recording, &index.block_events);
    let count_all = |side: Side, is_counted: &(dyn Fn(BlockEventRow<'_>) -> bool + Sync)| {
        block_events(
            known,
            (since, until),
            (side, ColumnSet::Figures),
            work,
            |_| (Tally::default(), Moved::default()),
            |(tally, moved), row| {
                if is_counted(row) {
                    count(tally, &row, metric);
                    moved.count(&row);
                }
            },
        )
    };
    let tallies = match (metric, filter.needs_deaths()) {
        (Metric::Allocated | Metric::Allocations, true) => {
            let (since, begin) = ((since, ColumnSet::Figures), || (Tally::default(), Moved::default()));
            ended_since(&query.history, recording, since, filter, work, begin, |(tally, _), block, life| {
                if window.has(life.birth) {
                    count(tally, block, metric);
                }
            })?
        }
        (Metric::Allocated | Metric::Allocations, false) => count_all(Side::Births, &|row| filter.counts(&row))?,
        (Metric::Temporary, _) => count_all(Side::Deaths, &|row| {
            row.cause() == Cause::FreedAtOnce && row.life().is_some_and(|life| filter.passes_with(&row, &life))
        })?,
        (_, true) => count_all(Side::Deaths, &|row| row.life().is_some_and(|life| filter.passes_with(&row, &life)))?,
        (_, false) => count_all(Side::Deaths, &|row| filter.counts(&row))?,
    };
    let (mut all, mut moved) = (Tally::default(), Moved::default());
    for (tally, own_moved) in tallies {
        tally.into_iter().for_each(|(owners, amount)| all.entry(owners).or_default().add(amount));
        moved.add(own_moved);
    }
    let counts_moves = !matches!(metric, Metric::Allocated | Metric::Allocations) || !filter.needs_deaths();
    Ok((all, counts_moves.then_some(moved)))
}
