//! Measuring a metric: so many bytes and blocks for each stack, tag and thread.
//!
//! Where figures are enough they come from two snapshots. Filters that ask for more than stacks need single blocks: those of a
//! snapshot, or a pass through what came and went in the window. What a block is, is then asked at the time that counts: when it is allocated, freed, or live.
//! Only where its death is asked for, and it has to be waited for, a block that was resized counts once, as it was last.

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

/// Bytes and blocks. Of temporary allocations only blocks are known, and both are their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// What is measured, rounded.
    pub value: u64,
    /// The same as it is added up.
    pub sum: ByteSum,
    /// Blocks.
    pub blocks: u64,
}

impl Amount {
    /// So much.
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

    /// True for nothing.
    pub fn is_nothing(&self) -> bool {
        self.value == 0 && self.blocks == 0
    }
}

/// Who owns what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owners {
    /// The stack.
    pub stack: StackId,
    /// The tag.
    pub tag: TagId,
    /// The thread.
    pub thread: ThreadId,
}

/// Where rows take their figures from.
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

/// What was measured.
pub enum Amounts {
    /// By figures, of the stacks that pass.
    Figures {
        /// The figures.
        figured: Figured,
        /// Whether a stack is wanted; everything is where there is nothing.
        sieve: Sieve,
    },
    /// By single blocks.
    Blocks(FxHashMap<Owners, Amount>),
}

/// See the module's text.
pub struct Measured {
    /// What was measured.
    pub metric: Metric,
    /// At which instant, or the end of the window.
    pub at: Nanos,
    /// By whom it is owned.
    pub amounts: Amounts,
    /// The sum.
    pub total: Amount,
    /// Which of its blocks moved there or away; `None` where each block counts once, whatever became of it.
    pub moved: Option<Moved>,
}

/// Blocks that came or went without being allocated or freed.
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

    /// What a metric says of figures by stack, to which promotions are no moves.
    fn of(metric: Metric, figures: &Figures) -> Self {
        let resized = match metric {
            Metric::Allocated => figures.reallocations,
            Metric::Freed => figures.reallocated_away,
            _ => 0,
        };
        Self { resized, promoted: 0 }
    }

    /// Both together.
    pub fn blocks(&self) -> u64 {
        self.resized.saturating_add(self.promoted)
    }
}

/// What a metric says of figures.
pub fn amount_of(metric: Metric, figures: &Figures) -> Amount {
    match metric {
        Metric::Live | Metric::Peak | Metric::Leaked => Amount::new(figures.live(), figures.live_blocks()),
        Metric::Allocated => Amount::new(figures.allocated(), figures.allocations + figures.reallocations),
        Metric::Freed => Amount::new(figures.freed(), figures.frees + figures.reallocated_away),
        Metric::Temporary => Amount::of_blocks(figures.temporary_allocations),
    }
}

/// Measures what is chosen. `by_owner` says that threads, types or heaps are asked for, of which figures do not know the stacks.
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

/// When an instant is said to be: a peak that was there when the window began is at its beginning.
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

/// What owners have.
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

/// What is live at an instant, block by block.
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

/// Fails where only figures are known.
pub fn must_have_blocks(snapshot: &Snapshot) -> Result<(), Problem> {
    if snapshot.source.aggregated && snapshot.accounts.totals().figures.live_blocks() > 0 {
        return Err(Problem::failed(
            "only figures are known here, not single blocks; remove the filters that ask for them",
        ));
    }
    Ok(())
}

/// What happened in a window, block by block.
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
