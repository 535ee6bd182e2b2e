//! Going through a window once, on all cores: each takes stretches that begin with a keyframe.

use crate::problem::Problem;
use crate::work::Work;
use highwater_model::{Accounts, Nanos, Step};
use highwater_store::{EventsSummary, Recording, Seen, Stretch};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Steps between two looks at whether somebody waits.
const STEPS_PER_LOOK: u64 = 1 << 16;
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
    in_parallel(&stretches, affordable as usize, work, |stretch, progress| {
        let mut own = begin();
        let mut pace = Pace::new(progress);
        let accounts = recording.walk_stretch(stretch, |seen| {
            let is_late = matches!(seen, Seen::Step(_, step) if step.time > to);
            if is_late || pace.step().is_break() {
                return ControlFlow::Break(());
            }
            see(&mut own, seen);
            ControlFlow::Continue(())
        })?;
        pace.end()?;
        end(&mut own, &accounts);
        Ok(own)
    })
}

/// Goes through the steps alone, of the blocks that `wanted` picks, until `see` has seen enough.
pub fn steps<T: Send>(
    recording: &Recording,
    (from, to): (Nanos, Nanos),
    work: &Work<'_>,
    wanted: impl Fn(&EventsSummary) -> bool + Sync,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &Step) -> ControlFlow<()> + Sync,
) -> Result<Vec<T>, Problem> {
    let stretches = stretches(recording, from, to);
    in_parallel(&stretches, usize::MAX, work, |stretch, progress| {
        let mut own = begin();
        let mut pace = Pace::new(progress);
        recording.steps_of(stretch, &wanted, |step| {
            if step.time > to || pace.step().is_break() {
                return ControlFlow::Break(());
            }
            see(&mut own, step)
        })?;
        pace.end()?;
        Ok(own)
    })
}

fn stretches(recording: &Recording, from: Nanos, to: Nanos) -> Vec<Stretch> {
    let events: u64 = recording.stretches(from, to, u64::MAX).iter().map(|stretch| stretch.events).sum();
    let parts = cores() as u64 * 4;
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
    fn step(&mut self) -> ControlFlow<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_LOOK) { self.look() } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn look(&mut self) -> ControlFlow<()> {
        let Progress { done, events, work } = self.progress;
        let done = done.fetch_add(STEPS_PER_LOOK, Ordering::Relaxed) + STEPS_PER_LOOK;
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

fn in_parallel<T: Send>(
    stretches: &[Stretch],
    affordable: usize,
    work: &Work<'_>,
    one: impl Fn(&Stretch, &Progress<'_, '_>) -> Result<T, Problem> + Sync,
) -> Result<Vec<T>, Problem> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let events = stretches.iter().map(|stretch| stretch.events).sum();
    let progress = Progress { done: &done, events, work };
    let results: Vec<Mutex<Option<Result<T, Problem>>>> = stretches.iter().map(|_| Mutex::new(None)).collect();
    let labour = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(stretch) = stretches.get(at) else { break };
            let result = one(stretch, &progress);
            let is_over = result.is_err();
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            if is_over {
                next.store(stretches.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores().min(affordable).min(stretches.len()) {
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
