//! Going through a window once, on all cores: each takes stretches that begin with a keyframe, or, where the [departures](crate::departures) are
//! known, blocks of events.

use crate::changes::Changes;
use crate::departures::{Departures, Depth, Rows};
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::{Accounts, AllocId, Nanos, Op, Step};
use highwater_store::{EventsSummary, Recording, Seen, Stretch};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Steps between two looks at whether somebody waits.
const STEPS_PER_LOOK: u64 = 1 << 16;
/// Into how many parts the work of a core is divided: some take longer than others.
const LOTS_PER_CORE: usize = 4;
/// What all cores may hold of live blocks at a time, in bytes, and what each takes with its index.
const MOST_LIVE_BYTES: u64 = 384 << 20;
const LIVE_BLOCK_BYTES: u64 = 72;

/// Walks through everything from one time to another, and perhaps something before. Each stretch has a `T` of its own, made by `begin`, which
/// `end` shows the state behind its last step; they come back in order.
pub fn walk<T: Send>(
    recording: &Recording,
    (from, to): (Nanos, Nanos),
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, Seen<'_>) + Sync,
    end: impl Fn(&mut T, &Accounts) + Sync,
) -> Result<Vec<T>, Problem> {
    let most_live = recording.final_totals()?.peak_blocks.max(1);
    let affordable = (MOST_LIVE_BYTES / (most_live.saturating_mul(LIVE_BLOCK_BYTES)).max(1)).max(1);
    let stretches = stretches(recording, from, to);
    in_parallel(
        &stretches,
        |stretch| stretch.events,
        affordable as usize,
        work,
        |stretch, progress| {
            let mut own = begin();
            let mut pace = Pace::new(progress);
            let accounts = recording.walk_stretch(stretch, |seen| {
                let is_late = matches!(seen, Seen::Step(_, step) if step.time > to);
                if is_late || pace.steps(1).is_break() {
                    return ControlFlow::Break(());
                }
                see(&mut own, seen);
                ControlFlow::Continue(())
            })?;
            pace.end()?;
            end(&mut own, &accounts);
            Ok(own)
        },
    )
}

/// Blocks of events that are gone through by one thread.
struct Lot {
    blocks: Range<usize>,
    events: u64,
}

/// Blocks of events that have something from one time to another, in order, divided among the cores.
fn lots(recording: &Recording, from: Nanos, to: Nanos) -> Vec<Lot> {
    let lies_in = |summary: &EventsSummary| summary.last_time >= from && summary.first_time <= to;
    let all: Vec<&EventsSummary> = recording.summaries().collect();
    let wanted: Vec<usize> = (0..all.len()).filter(|at| lies_in(all[*at])).collect();
    let Some((&first, &last)) = wanted.first().zip(wanted.last()) else { return Vec::new() };
    let length = (last + 1 - first).div_ceil(cores() * LOTS_PER_CORE).max(1);
    let starts = (first..=last).step_by(length);
    let lot = |start: usize| {
        let blocks = start..(start + length).min(last + 1);
        Lot { events: all[blocks.clone()].iter().map(|summary| summary.events).sum(), blocks }
    };
    starts.map(lot).collect()
}

/// Shows who went from one time to another. Each lot has a `T` of its own; they come back in order.
pub fn departures<T: Send>(
    (recording, known): (&Recording, &Departures),
    (from, to): (Nanos, Nanos),
    depth: Depth,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &Rows<'_>, usize) + Sync,
) -> Result<Vec<T>, Problem> {
    in_parallel(
        &lots(recording, from, to),
        |lot| lot.events,
        usize::MAX,
        work,
        |lot, progress| {
            let mut own = begin();
            let mut pace = Pace::new(progress);
            let mut buffer = Vec::new();
            for block in lot.blocks.clone() {
                let Some(rows) = known.of_block(block, depth, &mut buffer)? else { continue };
                for row in (0..rows.count).filter(|row| (from..=to).contains(&rows.at(*row))) {
                    see(&mut own, &rows, row);
                }
                // About every second event lets something go.
                if pace.steps(rows.count as u64 * 2).is_break() {
                    break;
                }
            }
            pace.end()?;
            Ok(own)
        },
    )
}

/// Which changes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What comes.
    Arrivals,
    /// What comes and what goes.
    Both,
}

/// Shows every step from one time to another, with what it changes. Each lot has a `T` of its own; they come back in order.
pub fn changes<T: Send>(
    (recording, known): (&Recording, &Departures),
    (from, to): (Nanos, Nanos),
    side: Side,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &Step, Changes) + Sync,
) -> Result<Vec<T>, Problem> {
    let first_ids: Vec<AllocId> = recording.summaries().map(|summary| AllocId(summary.first_alloc)).collect();
    in_parallel(
        &lots(recording, from, to),
        |lot| lot.events,
        usize::MAX,
        work,
        |lot, progress| {
            let mut own = begin();
            let mut pace = Pace::new(progress);
            let mut reader = recording.block_reader()?;
            let mut buffer = Vec::new();
            'all: for block in lot.blocks.clone() {
                let Some(has_living) = known.has_living(block) else { continue };
                let rows = match side == Side::Both || has_living {
                    true => known.of_block(block, Depth::Figures, &mut buffer)?,
                    false => None,
                };
                let Some(steps) = reader.steps(block)? else { continue };
                let (mut next_id, mut row) = (first_ids[block], 0);
                for step in steps {
                    if step.time > to || pace.steps(1).is_break() {
                        break 'all;
                    }
                    let changes = match step.op {
                        Op::Allocate(_) => {
                            let changes = Changes::by_arrival(&step, next_id);
                            next_id.0 += 1;
                            changes
                        }
                        Op::Free { .. } | Op::Evict { .. } if side == Side::Arrivals => {
                            row += 1;
                            continue;
                        }
                        Op::Free { .. } | Op::Evict { .. } | Op::Reallocate { .. } | Op::Promote { .. } => {
                            let gone = rows.as_ref().map(|rows| rows.get(row));
                            row += 1;
                            gone.map_or_else(Changes::default, |gone| Changes::by_departure(&step, &gone))
                        }
                        _ => continue,
                    };
                    if step.time >= from {
                        see(&mut own, &step, changes);
                    }
                }
            }
            pace.end()?;
            Ok(own)
        },
    )
}

fn stretches(recording: &Recording, from: Nanos, to: Nanos) -> Vec<Stretch> {
    let events: u64 = recording.stretches(from, to, u64::MAX).iter().map(|stretch| stretch.events).sum();
    let parts = (cores() * LOTS_PER_CORE) as u64;
    // Keyframes are so far apart that reading one costs less than what lies between them.
    recording.stretches(from, to, events / parts)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(16)
}

/// How far all threads have got.
struct Progress<'a, 'b> {
    done: &'a AtomicU64,
    events: u64,
    work: &'a Work<'b>,
}

/// Counts the steps of one stretch, and looks up from time to time.
struct Pace<'a, 'b> {
    progress: &'a Progress<'a, 'b>,
    steps: u64,
    problem: Option<Problem>,
}

impl<'a, 'b> Pace<'a, 'b> {
    fn new(progress: &'a Progress<'a, 'b>) -> Self {
        Self { progress, steps: 0, problem: None }
    }

    #[inline]
    fn steps(&mut self, count: u64) -> ControlFlow<()> {
        self.steps += count;
        if self.steps >= STEPS_PER_LOOK { self.look() } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn look(&mut self) -> ControlFlow<()> {
        let Progress { done, events, work } = self.progress;
        let steps = std::mem::take(&mut self.steps);
        let done = done.fetch_add(steps, Ordering::Relaxed) + steps;
        match work.progress((done as f64 / (*events).max(1) as f64).min(1.0), "reading the recording") {
            Ok(()) => ControlFlow::Continue(()),
            Err(problem) => {
                self.problem = Some(problem);
                ControlFlow::Break(())
            }
        }
    }

    fn end(self) -> Result<(), Problem> {
        self.problem.map_or(Ok(()), Err)
    }
}

fn in_parallel<P: Sync, T: Send>(
    parts: &[P],
    events: impl Fn(&P) -> u64,
    affordable: usize,
    work: &Work<'_>,
    one: impl Fn(&P, &Progress<'_, '_>) -> Result<T, Problem> + Sync,
) -> Result<Vec<T>, Problem> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let events = parts.iter().map(events).sum();
    let progress = Progress { done: &done, events, work };
    let results: Vec<Mutex<Option<Result<T, Problem>>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    let labour = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { break };
            let result = one(part, &progress);
            let is_over = result.is_err();
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            if is_over {
                next.store(parts.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores().min(affordable).min(parts.len()) {
            scope.spawn(labour);
        }
        labour();
    });
    let mut all = Vec::with_capacity(results.len());
    let mut problem = None;
    for result in results {
        match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(result)) => all.push(result),
            Some(Err(found)) => problem = Some(found),
            // Left undone, since another failed.
            None => problem = problem.or(Some(Problem::Cancelled)),
        }
    }
    problem.map_or(Ok(all), Err)
}
