//! Measures a metric: bytes and blocks for each stack, tag and thread.
//!
//! Where figures are enough they come from two snapshots. Filters on more than stacks need single blocks: those of a snapshot, or a pass over the
//! arrivals and departures of the window. Filters then see a block as it is at the time that counts: when it is allocated, freed, or live.
//! There is one exception: where allocations are filtered by their deaths, a block that was resized counts once, in its last state.

use crate::choice::{Choice, Metric};
use crate::lives::{blocks_of, deaths, ended_since};
use crate::owned::Owned;
use crate::problem::Problem;
use crate::scan;
use crate::sieve::{Candidate, Life, Sieve};
use crate::sources::{Between, Moment};
use crate::traffic::{Depth, How, Row, Side};
use crate::work::Work;
use highwater_model::{ByteSum, Figures, Nanos, Snapshot, StackId, TagId, ThreadId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes and blocks. For temporary allocations only the number of blocks is known, and both figures are that number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The measured value, rounded.
    pub value: u64,
    /// The same, not rounded, for adding up.
    pub sum: ByteSum,
    /// Blocks.
    pub blocks: u64,
}

impl Amount {
    /// An amount of bytes and blocks.
    pub fn new(sum: ByteSum, blocks: u64) -> Self {
        Self { value: sum.rounded(), sum, blocks }
    }

    /// Blocks of which only the number is known.
    pub fn of_blocks(blocks: u64) -> Self {
        Self::new(ByteSum::whole(blocks), blocks)
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.value = self.sum.rounded();
        self.blocks = self.blocks.saturating_add(other.blocks);
    }

    /// True if both figures are zero.
    pub fn is_nothing(&self) -> bool {
        self.value == 0 && self.blocks == 0
    }
}

/// The owners of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owners {
    /// The stack.
    pub stack: StackId,
    /// The tag.
    pub tag: TagId,
    /// The thread.
    pub thread: ThreadId,
}

/// The snapshots that the figures of rows come from.
#[derive(Clone)]
pub enum Figured {
    /// An instant.
    At(Arc<Snapshot>),
    /// A window.
    In(Arc<Between>),
}

impl Figured {
    /// The snapshot whose figures are shown.
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::At(snapshot) => snapshot,
            Self::In(between) => &between.counters,
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
        sieve: Sieve,
    },
    /// From single blocks.
    Blocks(FxHashMap<Owners, Amount>),
}

/// A metric, measured: the amount of each owner, and the total.
pub struct Measured {
    /// The metric that was measured.
    pub metric: Metric,
    /// The instant of the measurement; the end of the window for metrics of a window.
    pub at: Nanos,
    /// The amounts by owner.
    pub amounts: Amounts,
    /// The sum.
    pub total: Amount,
    /// The blocks that were resized or promoted in or out; `None` where each block counts once, in its last state.
    pub moved: Option<Moved>,
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

    fn count(&mut self, row: &Row<'_>) {
        match row.how() {
            How::Resized => self.resized = self.resized.saturating_add(row.amount().1),
            How::Promoted => self.promoted = self.promoted.saturating_add(row.amount().1),
            _ => {}
        }
    }

    /// The value of a metric in figures by stack. A promotion does not change a stack's figures.
    fn of(metric: Metric, figures: &Figures) -> Self {
        let resized = match metric {
            Metric::Allocated => figures.reallocations,
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
        Metric::Live | Metric::Peak | Metric::Leaked => Amount::new(figures.live(), figures.live_blocks()),
        Metric::Allocated => Amount::new(figures.allocated(), figures.allocations + figures.reallocations),
        Metric::Freed => Amount::new(figures.freed(), figures.frees + figures.reallocated_away),
        Metric::Temporary => Amount::of_blocks(figures.temporary_allocations),
    }
}

/// Measures the chosen metric. `by_owner` means that threads, types or heaps are asked for; figures of those are not known by stack.
pub fn measure(choice: &Choice, by_owner: bool, work: &Work<'_>) -> Result<Arc<Measured>, Problem> {
    let sieve = Sieve::new(&choice.filters, choice.loaded.catalog());
    let by_figures = choice.metric != Metric::Leaked && !sieve.needs_blocks() && (sieve.is_open() || !by_owner);
    let Choice { window, at, metric, filter_texts, .. } = choice;
    let key = format!("{window:?} {at:?} {metric:?} {by_figures} {filter_texts:?}");
    let make = || if by_figures { by_figures_of(choice, sieve) } else { by_blocks(choice, &sieve, work) };
    choice.loaded.measured.get(&key, make, |measured| match &measured.amounts {
        Amounts::Figures { figured, .. } => figured.snapshot().accounts.sites().len() * 400 + 4096,
        Amounts::Blocks(amounts) => amounts.capacity() * 64 + 4096,
    })
}

/// The instant at which a metric of an instant is measured.
fn instant(choice: &Choice) -> Result<Moment, Problem> {
    Ok(match (choice.metric, choice.loaded.recording()) {
        (Metric::Peak, Some(recording)) => Moment::Event(choice.loaded.highest(recording, choice.window)?.event),
        (Metric::Leaked, _) => Moment::End,
        _ => choice.at,
    })
}

/// The time that is reported for an instant: a peak that was reached before the window is reported at the window's beginning.
fn told_as(choice: &Choice, at: Nanos) -> Nanos {
    if choice.metric == Metric::Peak { at.max(choice.window.from) } else { at }
}

fn by_figures_of(choice: &Choice, sieve: Sieve) -> Result<Measured, Problem> {
    let metric = choice.metric;
    let (figured, at) = match metric {
        Metric::Live | Metric::Peak | Metric::Leaked => {
            let standing = choice.loaded.standing(instant(choice)?)?;
            (Figured::At(Arc::clone(&standing)), told_as(choice, standing.at))
        }
        Metric::Allocated | Metric::Freed | Metric::Temporary => {
            (Figured::In(choice.loaded.between(choice.window)?), choice.window.to)
        }
    };
    let accounts = &figured.snapshot().accounts;
    let (mut total, mut moved) = (Amount::default(), Moved::default());
    let mut count = |figures: &Figures| {
        total.add(amount_of(metric, figures));
        moved.add(Moved::of(metric, figures));
    };
    if sieve.is_open() {
        count(&accounts.totals().figures);
    } else {
        let passing = accounts.sites().iter().filter(|(stack, _)| sieve.passes_stack(*stack));
        passing.for_each(|(_, figures)| count(figures));
    }
    Ok(Measured { metric, at, total, moved: Some(moved), amounts: Amounts::Figures { figured, sieve } })
}

/// The amount of each owner.
pub type Tally = FxHashMap<Owners, Amount>;

fn count(tally: &mut Tally, block: &(impl Candidate + ?Sized), metric: Metric) {
    let (bytes, blocks) = block.amount();
    let owners = Owners { stack: block.stack(), tag: block.tag(), thread: block.thread() };
    let amount = if metric == Metric::Temporary { Amount::of_blocks(blocks) } else { Amount::new(bytes, blocks) };
    tally.entry(owners).or_default().add(amount);
}

fn by_blocks(choice: &Choice, sieve: &Sieve, work: &Work<'_>) -> Result<Measured, Problem> {
    let metric = choice.metric;
    let ((amounts, moved), at) = match metric {
        Metric::Live | Metric::Peak | Metric::Leaked => {
            let snapshot = choice.loaded.snapshot(instant(choice)?)?;
            let amounts = of_instant(choice, &snapshot, sieve, work)?;
            ((amounts, Some(Moved::default())), told_as(choice, snapshot.at))
        }
        Metric::Allocated | Metric::Freed | Metric::Temporary => (of_window(choice, sieve, work)?, choice.window.to),
    };
    let mut total = Amount::default();
    amounts.values().for_each(|amount| total.add(*amount));
    Ok(Measured { metric, at, amounts: Amounts::Blocks(amounts), total, moved })
}

/// Adds up the blocks that are live at an instant.
fn of_instant(choice: &Choice, snapshot: &Snapshot, sieve: &Sieve, work: &Work<'_>) -> Result<Tally, Problem> {
    must_have_blocks(snapshot)?;
    let is_meant =
        |owned: &Owned| (choice.metric != Metric::Leaked || choice.window.has(owned.block.time)) && sieve.passes(owned);
    let mut tally = Tally::default();
    if !sieve.needs_deaths() {
        blocks_of(snapshot).filter(is_meant).for_each(|owned| count(&mut tally, &owned, choice.metric));
        return Ok(tally);
    }
    let candidates: Vec<Owned> = blocks_of(snapshot).filter(is_meant).collect();
    let deaths = deaths(&choice.loaded, snapshot.at, &candidates, work)?;
    for (owned, death) in candidates.iter().zip(deaths) {
        if sieve.passes_death(&Life { birth: owned.block.time, death }) {
            count(&mut tally, owned, choice.metric);
        }
    }
    Ok(tally)
}

/// Fails if a source has only figures and no single blocks.
pub fn must_have_blocks(snapshot: &Snapshot) -> Result<(), Problem> {
    if snapshot.source.aggregated && snapshot.accounts.totals().figures.live_blocks() > 0 {
        return Err(Problem::failed(
            "only figures are known here, not single blocks; remove the filters that ask for them",
        ));
    }
    Ok(())
}

/// Adds up the blocks that were allocated or freed in a window.
fn of_window(choice: &Choice, sieve: &Sieve, work: &Work<'_>) -> Result<(Tally, Option<Moved>), Problem> {
    let Some(recording) = choice.loaded.recording() else {
        return Err(Problem::failed("a snapshot knows one instant only, and not when its blocks came and went"));
    };
    let (window, metric) = (choice.window, choice.metric);
    let (since, until) = (window.from, window.to);
    let course = choice.loaded.course(recording, work)?;
    let known = (recording, &course.traffic);
    let count_all = |side: Side, is_counted: &(dyn Fn(Row<'_>) -> bool + Sync)| {
        scan::moves(
            known,
            (since, until),
            (side, Depth::Figures),
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
    let tallies = match (metric, sieve.needs_deaths()) {
        (Metric::Allocated, true) => {
            let (since, begin) = ((since, Depth::Figures), || (Tally::default(), Moved::default()));
            ended_since(&choice.loaded, recording, since, sieve, work, begin, |(tally, _), block, life| {
                if window.has(life.birth) {
                    count(tally, block, metric);
                }
            })?
        }
        (Metric::Allocated, false) => count_all(Side::Arrivals, &|row| row.passes(sieve))?,
        (Metric::Temporary, _) => count_all(Side::Departures, &|row| {
            row.how() == How::FreedAtOnce && row.life().is_some_and(|life| sieve.passes_with(&row, &life))
        })?,
        (_, true) => count_all(Side::Departures, &|row| row.life().is_some_and(|life| sieve.passes_with(&row, &life)))?,
        (_, false) => count_all(Side::Departures, &|row| row.passes(sieve))?,
    };
    let (mut all, mut moved) = (Tally::default(), Moved::default());
    for (tally, own_moved) in tallies {
        tally.into_iter().for_each(|(owners, amount)| all.entry(owners).or_default().add(amount));
        moved.add(own_moved);
    }
    let counts_moves = metric != Metric::Allocated || !sieve.needs_deaths();
    Ok((all, counts_moves.then_some(moved)))
}
