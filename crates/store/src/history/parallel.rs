//! Scans a recording, or its block events, on all cores. Each core takes segments that begin with a keyframe, or event blocks.

use super::block_events::{BlockEventRow, BlockEvents, Buffers, ColumnSet, Side};
use super::history::HistoryError;
use super::work::Work;
use crate::{EventsSummary, Recording, WalkItem};
use highwater_model::{Accounts, Nanos};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of steps between two checks whether the client is still connected.
const STEPS_PER_LOOK: u64 = 1 << 16;
/// The number of parts into which the work of a core is divided: some take longer than others.
const LOTS_PER_CORE: usize = 4;
/// The most bytes of live blocks that all cores together may hold, and the bytes of one live block with its index entry.
const MOST_LIVE_BYTES: u64 = 384 << 20;
const LIVE_BLOCK_BYTES: u64 = 72;

/// Scans a whole recording, until `see` or `end` fails. Each segment has a `T` of its own, made by `begin`. `end` receives it with the state after the
/// segment's last step. The values are returned in order.
pub fn walk<T: Send>(
    recording: &Recording,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, WalkItem<'_>) -> Result<(), HistoryError> + Sync,
    end: impl Fn(&mut T, &Accounts) -> Result<(), HistoryError> + Sync,
) -> Result<Vec<T>, HistoryError> {
    let most_live = recording.final_totals()?.peak_blocks.max(1);
    let affordable = (MOST_LIVE_BYTES / (most_live.saturating_mul(LIVE_BLOCK_BYTES)).max(1)).max(1);
    // Keyframes are so far apart that reading one costs less than replaying the events between them.
    let least = recording.stats().events / (cores() * LOTS_PER_CORE) as u64;
    let segments = recording.segments(Nanos(0), Nanos(u64::MAX), least);
    in_parallel(
        &segments,
        |segment| segment.events,
        affordable as usize,
        work,
        |segment, progress| {
            let mut own = begin();
            let mut pace = Pace::new(progress);
            let accounts = recording.walk_segment(segment, |seen| {
                pace.steps(1)?;
                see(&mut own, seen).map_or_else(|error| pace.fail(error), ControlFlow::Continue)
            })?;
            pace.end()?;
            end(&mut own, &accounts)?;
            Ok(own)
        },
    )
}

/// Blocks of events that one thread scans.
struct Lot {
    blocks: Range<usize>,
    events: u64,
}

/// The blocks of events that overlap a range of time, in order, divided among the cores.
fn lots(all: &[&EventsSummary], from: Nanos, to: Nanos) -> Vec<Lot> {
    let lies_in = |summary: &EventsSummary| summary.last_time >= from && summary.first_time <= to;
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

/// Passes the block events within a range of time to `see`. Each lot has a `T` of its own, made by `begin` from the index of its first block of
/// events. The values are returned in order.
pub fn block_events<T: Send>(
    (recording, events): (&Recording, &BlockEvents),
    (from, to): (Nanos, Nanos),
    wanted: (Side, ColumnSet),
    work: &Work<'_>,
    begin: impl Fn(usize) -> T + Sync,
    see: impl Fn(&mut T, BlockEventRow<'_>) + Sync,
) -> Result<Vec<T>, HistoryError> {
    let blocks: Vec<&EventsSummary> = recording.summaries().collect();
    in_parallel(
        &lots(&blocks, from, to),
        |lot| lot.events,
        usize::MAX,
        work,
        |lot, progress| {
            let mut own = begin(lot.blocks.start);
            let mut pace = Pace::new(progress);
            let mut buffers = Buffers::default();
            for block in lot.blocks.clone() {
                let is_inside = from <= blocks[block].first_time && blocks[block].last_time <= to;
                events.of_block(block, wanted, &mut buffers, |row| {
                    if is_inside || (from..=to).contains(&row.at()) {
                        see(&mut own, row);
                    }
                })?;
                if pace.steps(blocks[block].events).is_break() {
                    break;
                }
            }
            pace.end()?;
            Ok(own)
        },
    )
}

/// Works on parts that cost about the returned number of steps each. `one` reports the steps that it has done, and ends when that fails.
pub fn each_part<P: Sync, T: Send>(
    parts: &[P],
    cost: impl Fn(&P) -> u64,
    work: &Work<'_>,
    one: impl Fn(&P, &mut dyn FnMut(u64) -> Result<(), HistoryError>) -> Result<T, HistoryError> + Sync,
) -> Result<Vec<T>, HistoryError> {
    in_parallel(parts, cost, usize::MAX, work, |part, progress| {
        let mut pace = Pace::new(progress);
        one(part, &mut |steps| match pace.steps(steps) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(pace.error.take().unwrap_or(HistoryError::Cancelled)),
        })
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(16)
}

/// The progress of all threads together.
struct ScanProgress<'a, 'b> {
    done: &'a AtomicU64,
    events: u64,
    work: &'a Work<'b>,
}

/// Counts the steps of one segment, and reports progress from time to time.
struct Pace<'a, 'b> {
    progress: &'a ScanProgress<'a, 'b>,
    steps: u64,
    error: Option<HistoryError>,
}

impl<'a, 'b> Pace<'a, 'b> {
    fn new(progress: &'a ScanProgress<'a, 'b>) -> Self {
        Self { progress, steps: 0, error: None }
    }

    #[inline]
    fn steps(&mut self, count: u64) -> ControlFlow<()> {
        self.steps += count;
        if self.steps >= STEPS_PER_LOOK { self.look() } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn look(&mut self) -> ControlFlow<()> {
        let ScanProgress { done, events, work } = self.progress;
        let steps = std::mem::take(&mut self.steps);
        let done = done.fetch_add(steps, Ordering::Relaxed) + steps;
        match work.progress((done as f64 / (*events).max(1) as f64).min(1.0), "reading the recording") {
            Ok(()) => ControlFlow::Continue(()),
            Err(cancelled) => self.fail(cancelled.into()),
        }
    }

    fn fail(&mut self, error: HistoryError) -> ControlFlow<()> {
        self.error = Some(error);
        ControlFlow::Break(())
    }

    fn end(self) -> Result<(), HistoryError> {
        self.error.map_or(Ok(()), Err)
    }
}

fn in_parallel<P: Sync, T: Send>(
    parts: &[P],
    events: impl Fn(&P) -> u64,
    affordable: usize,
    work: &Work<'_>,
    one: impl Fn(&P, &ScanProgress<'_, '_>) -> Result<T, HistoryError> + Sync,
) -> Result<Vec<T>, HistoryError> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let events = parts.iter().map(events).sum();
    let progress = ScanProgress { done: &done, events, work };
    let results: Vec<Mutex<Option<Result<T, HistoryError>>>> = parts.iter().map(|_| Mutex::new(None)).collect();
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
    let mut error = None;
    for result in results {
        match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(result)) => all.push(result),
            Some(Err(found)) => error = Some(found),
            // Not started, because another part failed.
            None => error = error.or(Some(HistoryError::Cancelled)),
        }
    }
    error.map_or(Ok(all), Err)
}
