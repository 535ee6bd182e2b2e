//! Several processes at once: their memory on one time axis.
//!
//! # Design
//!
//! * *One axis.* A recording has the time since its process began, and when that was by the clock of the machine. Times here count from the start of the
//!   first process.
//! * *No index.* A build has thousands of processes, and few of them are opened. Each recording is scanned once, into some thousand bins of the common axis
//!   ([`curves`]), and closed again. Beyond [`MOST_SCANNED`] events the smaller processes are taken from the summaries of their event blocks, and marked.
//! * *Sums of one instant.* The highest values of several processes in a bin need not have been held at the same time, so their sum is only a bound. What is
//!   stacked are values of one instant: in each bin that one of the examined instants at which the total is highest. The highest total of all is exact:
//!   the few bins whose bound is higher than any examined instant are replayed event by event ([`highest`]).
//! * *Inherited memory counts once.* A forked child's recording begins empty: its parent's blocks are in the parent's recording alone. What a process held at
//!   its end is gone when it has ended.

mod curves;
mod files;
mod highest;
mod tree;

use crate::WindowAnswer;
use crate::error::QueryError;
use crate::peak::PeakInstant;
use curves::{Axis, ProcessCurve};
use files::RecordedFacts;
use highwater_model::{Nanos, Source, rfc3339};
use highwater_store::history::Work;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tree::ProcessTree;

pub use tree::Relation;

/// The most events that one answer scans. More would take longer than a reader waits.
const MOST_SCANNED: u64 = 1 << 26;
/// The most processes of one answer: the largest by peak.
const MOST_PROCESSES: usize = 5000;

/// The most notes of one answer.
const MOST_NOTES: usize = 20;

/// The recording of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFile {
    /// Its number in answers.
    pub id: usize,
    /// Its path.
    pub path: PathBuf,
}

/// How the memory of processes is shown.
#[derive(Clone, Copy, Debug)]
pub struct ProcessesOptions {
    /// The first instant of the axis; the start of the first process if `None`.
    pub from: Option<u64>,
    /// The last instant of the axis; the end of the last process if `None`.
    pub to: Option<u64>,
    /// The bins of the totals.
    pub points: usize,
    /// The bins of each process's own curve.
    pub lane_points: usize,
    /// How many processes are stacked one by one: those with the highest peaks.
    pub stacked: usize,
}

/// The memory of several processes on one time axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Processes"))]
pub struct ProcessesAnswer {
    /// When the first process began, the zero of all times here: RFC 3339; null if no start is known.
    pub started: Option<String>,
    /// When the last process ended.
    pub end_ns: u64,
    /// What the axis covers.
    pub window: WindowAnswer,
    /// The times that separate the bins, one more than there are bins.
    pub t: Vec<u64>,
    /// The instant that each bin shows: of those that were examined, the one with the highest total.
    pub at_ns: Vec<u64>,
    /// What all processes held together at that instant.
    pub total_bytes: Vec<u64>,
    /// No instant of the bin has a higher total.
    pub at_most_bytes: Vec<u64>,
    /// The largest processes at these instants.
    pub stack: Vec<StackedProcess>,
    /// All other processes at these instants.
    pub rest_bytes: Vec<u64>,
    /// Where the total is highest within the window; null without processes.
    pub highest: Option<HighestTotal>,
    /// The times that separate the bins of `high_bytes`.
    pub lane_t: Vec<u64>,
    /// The processes as a tree: a parent before its children, which follow in the order of their start.
    pub processes: Vec<ProcessAnswer>,
    /// Processes beyond the limit of an answer, which are in no figure here.
    pub left_out: usize,
    /// True if some curves are made of summaries.
    pub approximate: bool,
    /// What recordings say of themselves, and of processes without a recording, with the name of the process. At most 20.
    pub notes: Vec<String>,
    /// Files that are not among the processes, and why.
    pub problems: Vec<ProcessProblem>,
}

/// One process among several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RecordedProcess"))]
pub struct ProcessAnswer {
    /// The source.
    pub id: usize,
    /// Its file.
    pub path: String,
    /// Its program.
    pub name: String,
    /// Its command line; null if not known.
    pub command: Option<String>,
    /// Its process id.
    pub pid: u64,
    /// The process id of its parent; 0 if not known.
    pub parent_pid: u64,
    /// The process above it in the tree; null for a root, whose parent is not recorded.
    pub parent: Option<usize>,
    /// How it came from the process above it.
    pub relation: Option<Relation>,
    /// The number of processes above it.
    pub depth: usize,
    /// When it began.
    pub start_ns: u64,
    /// The time 0 of its own recording.
    pub offset_ns: u64,
    /// From its start to its end, as far as the recording knows it.
    pub duration_ns: u64,
    /// False if the recording was cut off, or is still being written.
    pub complete: bool,
    /// Its events.
    pub events: u64,
    /// Its figures are estimates, made of samples.
    pub estimated: bool,
    /// Its own peak.
    pub peak_bytes: u64,
    /// When that was.
    pub peak_ns: u64,
    /// What it held at its end.
    pub live_at_end_bytes: u64,
    /// The same in blocks.
    pub live_at_end_blocks: u64,
    /// All that it allocated.
    pub allocated_bytes: u64,
    /// Its allocations.
    pub allocations: u64,
    /// What it held where the total is highest.
    pub held_bytes: u64,
    /// Of a forked process: what its parent held when it began, with what that had inherited itself. It counts there alone. Null if the window does not
    /// have that instant.
    pub inherited_bytes: Option<u64>,
    /// The highest RSS that was measured within the window; null if there is none.
    pub rss_peak: Option<PeakInstant>,
    /// The bin of `lane_t` that its curve begins with.
    pub first_bin: usize,
    /// The most that it held in each bin from there on.
    pub high_bytes: Vec<u64>,
    /// True if its curve is made of summaries: true at the end of each event block, a bound within it.
    pub approximate: bool,
}

/// A process in a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StackedProcess {
    /// The process.
    pub id: usize,
    /// What it held at the instant of each bin.
    pub bytes: Vec<u64>,
}

/// Where several processes together held the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HighestTotal {
    /// When.
    pub at_ns: u64,
    /// How much.
    pub bytes: u64,
    /// No instant has more than this. The same as `bytes` if that is exact.
    pub at_most_bytes: u64,
}

/// A file that is not among the processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessProblem {
    /// The source.
    pub id: usize,
    /// Its file.
    pub path: String,
    /// Why.
    pub what: String,
}

/// What each process held at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessesHeld {
    /// The instant.
    pub at_ns: u64,
    /// All processes together.
    pub total_bytes: u64,
    /// The processes that ran at that instant.
    pub held: Vec<ProcessHeld>,
}

/// What one process held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessHeld {
    /// The process.
    pub id: usize,
    /// What it held.
    pub bytes: u64,
}

/// The processes of an answer, and what is not among them.
struct Processes {
    facts: Vec<RecordedFacts>,
    /// The start of the first, in nanoseconds since the Unix epoch.
    zero: u64,
    left_out: usize,
    problems: Vec<ProcessProblem>,
}

impl Processes {
    /// Reads the facts of all files.
    fn read(files: &[ProcessFile], work: &Work<'_>) -> Result<Self, QueryError> {
        let read = in_parallel(files, |file, done| {
            work.progress(0.2 * done, "reading the recordings of processes")?;
            Ok(RecordedFacts::read(file))
        })?;
        let (mut facts, mut problems) = (Vec::new(), Vec::new());
        for (file, read) in files.iter().zip(read) {
            match read {
                Ok(read) => facts.push(read),
                Err(what) => problems.push(ProcessProblem { id: file.id, path: file.path.display().to_string(), what }),
            }
        }
        facts.sort_by_key(|facts| std::cmp::Reverse(facts.totals.figures.peak_bytes));
        let left_out = facts.len().saturating_sub(MOST_PROCESSES);
        facts.truncate(MOST_PROCESSES);
        facts.sort_by_key(|facts| (facts.start_unix_ns, facts.file.id));
        let zero = facts.first().map_or(0, |facts| facts.start_unix_ns);
        facts.iter_mut().for_each(|facts| facts.zero = zero);
        Ok(Self { facts, zero, left_out, problems })
    }

    fn end(&self) -> u64 {
        self.facts.iter().map(RecordedFacts::end).max().unwrap_or(0)
    }
}

/// The memory of processes on one time axis.
pub fn processes(
    files: &[ProcessFile],
    options: &ProcessesOptions,
    work: &Work<'_>,
) -> Result<ProcessesAnswer, QueryError> {
    let all = Processes::read(files, work)?;
    let end_ns = all.end();
    let from = options.from.unwrap_or(0);
    let to = options.to.unwrap_or(end_ns).max(from);
    let lives = all.facts.iter().map(|facts| (facts.start(), facts.end()));
    let axis = Axis::new(from, to, options.points.max(1), lives);
    let ProcessTree { parents, order } = tree::arrange(&all.facts);
    // A forked child begins with what its parent holds at that instant.
    let mut births: Vec<Vec<(u64, usize)>> = vec![Vec::new(); all.facts.len()];
    for (child, parent) in parents.iter().enumerate() {
        if let Some((parent, Relation::Fork)) = parent {
            births[*parent].push((all.facts[child].start(), child));
        }
    }
    let curves = scan(&all.facts, &axis, &births, work)?;
    let mut inherited = vec![None; all.facts.len()];
    for curve in &curves {
        curve.at_births.iter().for_each(|&(child, bytes)| inherited[child] = Some(bytes));
    }
    // A parent comes before its children, and passes on what it inherited itself.
    for &(process, _) in &order {
        if let Some((parent, Relation::Fork)) = parents[process]
            && let Some((_, Relation::Fork)) = parents[parent]
        {
            inherited[process] =
                inherited[process].zip(inherited[parent]).map(|(own, passed)| own.saturating_add(passed));
        }
    }
    let found = highest::find(&all.facts, &curves, &axis, work)?;
    let shown = axis.shown(&curves, found.as_ref());
    let at = |curve: &ProcessCurve, point: usize| match &found {
        Some(found) if shown[point].is_highest => found.held[curve.process],
        _ => curve.last(shown[point].fine),
    };
    let points = 0..shown.len();
    let total_bytes: Vec<u64> = points
        .clone()
        .map(|point| curves.iter().fold(0, |sum: u64, curve| sum.saturating_add(at(curve, point))))
        .collect();
    let mut largest: Vec<&ProcessCurve> = curves.iter().collect();
    largest.sort_by_key(|curve| (std::cmp::Reverse(all.facts[curve.process].totals.figures.peak_bytes), curve.process));
    largest.truncate(options.stacked);
    let mut rest_bytes = total_bytes.clone();
    let mut stack = Vec::new();
    for curve in largest {
        let bytes: Vec<u64> = points.clone().map(|point| at(curve, point)).collect();
        rest_bytes.iter_mut().zip(&bytes).for_each(|(rest, bytes)| *rest = rest.saturating_sub(*bytes));
        stack.push(StackedProcess { id: all.facts[curve.process].file.id, bytes });
    }
    let lanes = axis.lanes(options.lane_points.max(1));
    let answer_of = |&(process, depth): &(usize, usize)| {
        let (facts, curve) = (&all.facts[process], &curves[process]);
        let figures = &facts.totals.figures;
        let (first_bin, high_bytes) = curve.lane(&lanes);
        ProcessAnswer {
            id: facts.file.id,
            path: facts.file.path.display().to_string(),
            name: facts.source.program.clone(),
            command: facts.command(),
            pid: facts.source.pid,
            parent_pid: facts.source.parent_pid,
            parent: parents[process].map(|(parent, _)| all.facts[parent].file.id),
            relation: parents[process].map(|(_, relation)| relation),
            depth,
            start_ns: facts.start(),
            offset_ns: facts.common(Nanos(0)),
            duration_ns: facts.end() - facts.start(),
            complete: facts.is_complete,
            events: facts.events,
            estimated: facts.source.sample_rate.is_some() || facts.source.word_sampling.is_some(),
            peak_bytes: figures.peak_bytes,
            peak_ns: facts.common(facts.totals.peak_at),
            live_at_end_bytes: figures.live_bytes(),
            live_at_end_blocks: figures.live_blocks(),
            allocated_bytes: figures.allocated_bytes,
            allocations: figures.allocations,
            held_bytes: found.as_ref().map_or(0, |found| found.held[process]),
            inherited_bytes: inherited[process],
            rss_peak: curve.rss_peak,
            first_bin,
            high_bytes,
            approximate: curve.is_approximate,
        }
    };
    let note_of = |&(process, _): &(usize, usize)| {
        let Source { program, pid, notes, .. } = &all.facts[process].source;
        notes.iter().map(move |note| format!("{program} ({pid}): {note}"))
    };
    Ok(ProcessesAnswer {
        notes: order.iter().flat_map(note_of).take(MOST_NOTES).collect(),
        started: (all.zero > 0).then(|| rfc3339(all.zero)),
        end_ns,
        window: WindowAnswer { from_ns: from, to_ns: to },
        t: axis.edges(),
        at_ns: shown.iter().map(|shown| shown.at).collect(),
        at_most_bytes: shown.iter().map(|shown| shown.at_most).collect(),
        total_bytes,
        stack,
        rest_bytes,
        highest: found.as_ref().map(|found| found.total),
        lane_t: lanes.iter().map(|fine| axis.fine_edge(*fine)).collect(),
        processes: order.iter().map(answer_of).collect(),
        left_out: all.left_out,
        approximate: curves.iter().any(|curve| curve.is_approximate),
        problems: all.problems,
    })
}

/// What each process held at an instant of the common axis: after all events up to and including it.
pub fn processes_held(files: &[ProcessFile], at_ns: u64, work: &Work<'_>) -> Result<ProcessesHeld, QueryError> {
    let all = Processes::read(files, work)?;
    let running: Vec<&RecordedFacts> =
        all.facts.iter().filter(|facts| (facts.start()..=facts.end()).contains(&at_ns)).collect();
    let held = in_parallel(&running, |facts, done| {
        work.progress(0.2 + 0.8 * done, "reading the recordings of processes")?;
        let (mut bytes, at) = (0, facts.own(at_ns));
        files::for_each_level(facts, at, at, work, |level| {
            if level.at <= at {
                bytes = level.bytes;
            }
        })?;
        Ok(ProcessHeld { id: facts.file.id, bytes })
    })?;
    let total_bytes = held.iter().fold(0, |sum: u64, held| sum.saturating_add(held.bytes));
    Ok(ProcessesHeld { at_ns, total_bytes, held })
}

/// Whether some of these recordings are of processes that belong together: one started another, or both have the same parent and ran at the same time.
/// Two runs of a program from one shell, one after the other, are two recordings to compare.
pub fn are_related(files: &[ProcessFile]) -> bool {
    let read: Vec<RecordedFacts> = files.iter().filter_map(|file| RecordedFacts::read(file).ok()).collect();
    let are_siblings = |a: &RecordedFacts, b: &RecordedFacts| {
        let ends = |facts: &RecordedFacts| facts.start_unix_ns.saturating_add(facts.source.duration.0);
        let is_overlap = a.start_unix_ns < ends(b) && b.start_unix_ns < ends(a);
        let has_one_parent = a.source.parent_pid != 0 && a.source.parent_pid == b.source.parent_pid;
        let is_copy = a.source.pid == b.source.pid;
        has_one_parent && is_overlap && !is_copy && a.source.host == b.source.host
    };
    tree::arrange(&read).parents.iter().any(Option::is_some)
        || read.iter().enumerate().any(|(at, one)| read[..at].iter().any(|other| are_siblings(one, other)))
}

/// The curves of all processes, in order.
fn scan(
    facts: &[RecordedFacts],
    axis: &Axis,
    births: &[Vec<(u64, usize)>],
    work: &Work<'_>,
) -> Result<Vec<ProcessCurve>, QueryError> {
    let mut largest: Vec<usize> = (0..facts.len()).collect();
    largest.sort_by_key(|process| std::cmp::Reverse(facts[*process].totals.figures.peak_bytes));
    let (mut left, mut is_scanned) = (MOST_SCANNED, vec![false; facts.len()]);
    let whole: u64 = facts.iter().map(|facts| facts.events).sum::<u64>().clamp(1, MOST_SCANNED);
    for process in largest {
        let events = facts[process].events_between(axis.from, axis.to);
        is_scanned[process] = events <= left;
        left = left.saturating_sub(if events <= left { events } else { 0 });
    }
    let done = std::sync::atomic::AtomicU64::new(0);
    let numbers: Vec<usize> = (0..facts.len()).collect();
    in_parallel(&numbers, |&process, _| {
        let facts = &facts[process];
        if !is_scanned[process] {
            return Ok(ProcessCurve::of_summaries(process, facts, axis));
        }
        let before = done.fetch_add(facts.events, Ordering::Relaxed);
        work.progress(0.2 + 0.6 * (before as f64 / whole as f64).min(1.0), "reading the recordings of processes")?;
        ProcessCurve::scan(process, facts, axis, &births[process], work)
    })
}

/// Applies a function to all items on all cores; it also gets the part of the items that is done. The results are in order.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    one: impl Fn(&T, f64) -> Result<R, QueryError> + Sync,
) -> Result<Vec<R>, QueryError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R, QueryError>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let labour = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = one(item, at as f64 / items.len() as f64);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            *results[at].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(16).min(items.len());
    std::thread::scope(|scope| {
        (1..cores).for_each(|_| drop(scope.spawn(labour)));
        labour();
    });
    let mut all = Vec::with_capacity(items.len());
    let mut missing = None;
    for result in results {
        match result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(Ok(result)) => all.push(result),
            Some(Err(error)) => return Err(error),
            // Not begun, because another one failed.
            None => missing = Some(QueryError::Cancelled),
        }
    }
    missing.map_or(Ok(all), Err)
}

/// A time of a recording on the common axis.
fn on_axis(start: u64, time: Nanos) -> u64 {
    start.saturating_add(time.0)
}
