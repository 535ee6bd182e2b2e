//! Several processes on one time axis, compared with naive sums over all events of their recordings.
#![allow(missing_docs, reason = "a test")]

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, SourceKind, ThreadId};
use highwater_query::{ProcessFile, ProcessesAnswer, ProcessesOptions, Relation, processes, processes_held};
use highwater_store::history::Work;
use highwater_store::{Spacing, Writer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const EPOCH: u64 = 1_700_000_000_000_000_000;

/// A process: when it begins, and what it does: after how many nanoseconds, at which of a few addresses, how many bytes; none frees.
#[derive(Clone, Debug)]
struct Program {
    start: u64,
    steps: Vec<(u64, u64, Option<u64>)>,
    parent: Option<prop::sample::Index>,
    forked: bool,
}

/// The live bytes after each event, by the time of the common axis.
struct Levels {
    start: u64,
    end: u64,
    after: Vec<(u64, u64)>,
}

impl Levels {
    fn of(program: &Program, zero: u64) -> Self {
        let (mut time, mut live, mut blocks) = (0, 0, HashMap::new());
        let mut after = Vec::new();
        for (pause, address, size) in &program.steps {
            time += pause;
            // An allocation at a live address replaces what was there: its free was not seen.
            live -= blocks.remove(address).unwrap_or(0);
            if let Some(size) = size {
                blocks.insert(*address, *size);
                live += size;
            }
            after.push((program.start - zero + time, live));
        }
        Self { start: program.start - zero, end: program.start - zero + time, after }
    }

    /// After all events up to and including an instant; nothing before it begins and after it has ended.
    fn at(&self, at: u64) -> u64 {
        let before = self.after.iter().take_while(|(time, _)| *time <= at).last();
        if at > self.end { 0 } else { before.map_or(0, |(_, live)| *live) }
    }

    /// The most after any event of a span, or when the span began.
    fn highest(&self, from: u64, to: u64) -> u64 {
        let carried = if from == 0 { 0 } else { self.at(from - 1) };
        let inside = self.after.iter().filter(|(time, _)| (from..=to).contains(time)).map(|(_, live)| *live);
        inside.chain([carried]).max().unwrap_or(0)
    }
}

/// The most of all processes together at any instant of a span; changes of one instant one after the other, the process that began first. A process that ended with
/// the instant before holds nothing then.
fn highest_total(all: &[&Levels], from: u64, to: u64) -> u64 {
    let mut held: Vec<u64> = all.iter().map(|levels| if from == 0 { 0 } else { levels.at(from - 1) }).collect();
    let mut changes: Vec<(u64, usize, u64)> = Vec::new();
    for (number, levels) in all.iter().enumerate() {
        let inside = levels.after.iter().filter(|(time, _)| (from..=to).contains(time));
        changes.extend(inside.map(|(time, live)| (*time, number, *live)));
        if (from..=to).contains(&(levels.end + 1)) {
            changes.push((levels.end + 1, number, 0));
        }
    }
    let is_end = |time: u64, number: usize| time > all[number].end;
    changes.sort_by_key(|(time, number, _)| (*time, !is_end(*time, *number), *number));
    let mut most = if changes.first().is_none_or(|(time, ..)| *time > from) { held.iter().sum() } else { 0 };
    for (_, number, live) in changes {
        held[number] = live;
        most = most.max(held.iter().sum());
    }
    most
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("processes-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the recording of a program: with keyframes and event blocks of few events, so that replays begin at various places.
fn write(program: &Program, source: &Source, path: &Path) {
    let mut catalog = Catalog::default();
    let frame = |function| FrameText { function, ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame("bake"), frame("main")]);
    let mut writer = Writer::new(Vec::new(), source).unwrap();
    writer.set_spacing(Spacing::every(7));
    let (mut time, mut live) = (0, std::collections::HashSet::new());
    let mut events = Vec::new();
    for (pause, number, size) in &program.steps {
        time += pause;
        let address = 0x1000 + number * 0x1000;
        let event = |kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
        if let Some(size) = size {
            live.insert(address);
            let place = Placement { address, size: *size, stack, ..Placement::default() };
            events.push(event(EventKind::Allocate(place)));
        } else if live.remove(&address) {
            events.push(event(EventKind::free(address, None)));
        } else {
            // A mark keeps the time of a free that has nothing to free.
            let name = catalog.strings.intern("idle");
            events.push(event(EventKind::Mark { name }));
        }
    }
    for part in events.chunks(5) {
        writer.append(part, &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    let source = Source { duration: Nanos(time), ..source.clone() };
    std::fs::write(path, writer.finish(&catalog, &source).unwrap().1).unwrap();
}

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let step = (prop_oneof![3 => 0u64..40, 1 => 100u64..3000], 0u64..6, prop::option::weighted(0.7, 1u64..5000));
    let program = (0u64..4000, prop::collection::vec(step, 0..60), any::<Option<prop::sample::Index>>(), any::<bool>());
    let program =
        program.prop_map(|(start, steps, parent, forked)| Program { start: EPOCH + start, steps, parent, forked });
    prop::collection::vec(program, 1..7)
}

/// The recordings of programs, in the order of their start; process `n` has the id `n` and the process id `100 + n`.
fn recorded(programs: &mut [Program], folder: &Folder) -> Vec<ProcessFile> {
    programs.sort_by_key(|program| program.start);
    let mut files = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let parent = program.parent.filter(|_| number > 0).map(|parent| parent.index(number) as u64 + 100);
        let source = Source {
            kind: SourceKind::NATIVE,
            program: format!("program-{number}"),
            pid: 100 + number as u64,
            parent_pid: parent.unwrap_or(0),
            forked: program.forked && parent.is_some(),
            start_unix_ns: program.start,
            ..Source::default()
        };
        let path = folder.0.join(format!("{number}.hw"));
        write(program, &source, &path);
        files.push(ProcessFile { id: number, path });
    }
    files
}

fn check(answer: &ProcessesAnswer, all: &[&Levels], programs: &[Program]) {
    let (from, to) = (answer.window.from_ns, answer.window.to_ns);
    let total = |at: u64| all.iter().map(|levels| levels.at(at)).sum::<u64>();
    let highest = answer.highest.map_or(0, |highest| highest.bytes);
    assert_eq!(highest, highest_total(all, from, to), "{answer:?}");
    assert!(answer.highest.is_none_or(|highest| highest.at_most_bytes == highest.bytes));
    assert_eq!(answer.processes.iter().map(|process| process.held_bytes).sum::<u64>(), highest);
    let bins = answer.at_ns.len();
    assert_eq!(answer.t.len(), bins + 1);
    assert!(!answer.approximate);
    for bin in 0..bins {
        let last = if bin + 1 == bins { to } else { answer.t[bin + 1] - 1 };
        let at = answer.at_ns[bin];
        assert!((answer.t[bin]..=last).contains(&at), "{at} is not in bin {bin}");
        let stacked: u64 = answer.stack.iter().map(|stacked| stacked.bytes[bin]).sum();
        assert_eq!(stacked + answer.rest_bytes[bin], answer.total_bytes[bin]);
        if answer.highest.is_some_and(|highest| highest.at_ns == at) {
            assert_eq!(answer.total_bytes[bin], highest);
        } else {
            assert_eq!(answer.total_bytes[bin], total(at), "bin {bin} at {at}");
            for stacked in &answer.stack {
                assert_eq!(stacked.bytes[bin], all[stacked.id].at(at));
            }
        }
        assert!(answer.at_most_bytes[bin] >= highest_total(all, answer.t[bin], last), "bin {bin}");
    }
    for process in &answer.processes {
        let levels = all[process.id];
        assert_eq!(process.peak_bytes, levels.highest(0, u64::MAX));
        assert_eq!(process.live_at_end_bytes, levels.at(levels.end));
        assert_eq!((process.start_ns, process.duration_ns), (levels.start, levels.end - levels.start));
        let lanes = &answer.lane_t[process.first_bin..];
        for (pair, high) in lanes.windows(2).zip(&process.high_bytes) {
            assert_eq!(*high, levels.highest(pair[0], pair[1] - 1), "{process:?}");
        }
        let is_fork = process.relation == Some(Relation::Fork);
        assert_eq!(is_fork, programs[process.id].forked && process.parent.is_some());
        if is_fork {
            assert_eq!(process.inherited_bytes, inherited(answer, all, process.id), "{answer:?}");
        }
    }
}

/// What a forked process began with: what its parent held then, and had inherited itself; `None` if an instant of these is not in the window.
fn inherited(answer: &ProcessesAnswer, all: &[&Levels], id: usize) -> Option<u64> {
    let find = |id: usize| answer.processes.iter().find(|process| process.id == id).unwrap();
    let (process, window) = (find(id), answer.window);
    let parent = process.parent.filter(|_| process.relation == Some(Relation::Fork))?;
    let start = all[id].start;
    let is_known = (window.from_ns..=window.to_ns).contains(&start) && start <= all[parent].end;
    let own = is_known.then(|| all[parent].at(start))?;
    match find(parent).relation {
        Some(Relation::Fork) => Some(own + inherited(answer, all, parent)?),
        _ => Some(own),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn totals_are_the_sums_over_all_events(
        mut programs in programs(),
        points in 1usize..90,
        window in prop::option::of((0u64..9000, 0u64..9000)),
        at in 0u64..9000,
    ) {
        let folder = Folder::new();
        let files = recorded(&mut programs, &folder);
        let zero = programs[0].start;
        let levels: Vec<Levels> = programs.iter().map(|program| Levels::of(program, zero)).collect();
        let all: Vec<&Levels> = levels.iter().collect();
        let (from, to) = match window {
            Some((a, b)) => (Some(a.min(b)), Some(a.max(b))),
            None => (None, None),
        };
        let options = ProcessesOptions { from, to, points, lane_points: points / 2 + 1, stacked: 3 };
        let answer = processes(&files, &options, &Work::quiet()).unwrap();
        prop_assert_eq!(answer.processes.len(), programs.len());
        prop_assert_eq!(&answer.problems, &[]);
        check(&answer, &all, &programs);
        let held = processes_held(&files, at, &Work::quiet()).unwrap();
        for each in &held.held {
            prop_assert_eq!(each.bytes, levels[each.id].at(at));
        }
        prop_assert_eq!(held.total_bytes, all.iter().map(|levels| levels.at(at)).sum::<u64>());
    }
}

fn program(start: u64, steps: &[(u64, u64, Option<u64>)]) -> Program {
    Program { start: EPOCH + start, steps: steps.to_vec(), parent: None, forked: false }
}

fn written(name: &str, folder: &Folder, pid: u64, parent_pid: u64, of: &Program) -> PathBuf {
    let source = Source {
        kind: SourceKind::NATIVE,
        program: name.to_owned(),
        pid,
        parent_pid,
        start_unix_ns: of.start,
        ..Source::default()
    };
    let path = folder.0.join(format!("{pid}-{name}.hw"));
    write(of, &source, &path);
    path
}

#[test]
fn the_peaks_of_processes_that_did_not_run_together_do_not_add_up() {
    let folder = Folder::new();
    let make = program(0, &[(0, 1, Some(100)), (5000, 1, None)]);
    let one = program(1000, &[(0, 1, Some(10_000)), (900, 1, None)]);
    let two = program(2000, &[(0, 1, Some(3000)), (500, 2, Some(4000)), (400, 1, None)]);
    let paths = [
        written("make", &folder, 10, 1, &make),
        written("cc1", &folder, 11, 10, &one),
        written("cc1", &folder, 12, 10, &two),
    ];
    let files: Vec<ProcessFile> = paths.into_iter().enumerate().map(|(id, path)| ProcessFile { id, path }).collect();
    let options = ProcessesOptions { from: None, to: None, points: 50, lane_points: 50, stacked: 2 };
    let answer = processes(&files, &options, &Work::quiet()).unwrap();
    let highest = answer.highest.unwrap();
    assert_eq!((highest.at_ns, highest.bytes), (1000, 10_100));
    let held: Vec<(usize, u64)> = answer.processes.iter().map(|process| (process.id, process.held_bytes)).collect();
    assert_eq!(held, [(0, 100), (1, 10_000), (2, 0)]);
    let depths: Vec<(Option<usize>, usize)> =
        answer.processes.iter().map(|process| (process.parent, process.depth)).collect();
    assert_eq!(depths, [(None, 0), (Some(0), 1), (Some(0), 1)]);
    // The 4,000 bytes that it held at its end are gone with it.
    assert_eq!(processes_held(&files, 2900, &Work::quiet()).unwrap().total_bytes, 4100);
    assert_eq!(processes_held(&files, 2901, &Work::quiet()).unwrap().total_bytes, 100);
}

#[test]
fn what_ended_with_the_instant_before_is_in_no_total() {
    let folder = Folder::new();
    let first = program(0, &[(6, 0, None), (1595, 1, Some(1)), (0, 1, None)]);
    let second = program(1449, &[(151, 1, Some(1))]);
    let paths = [written("first", &folder, 10, 1, &first), written("second", &folder, 11, 1, &second)];
    let files: Vec<ProcessFile> = paths.into_iter().enumerate().map(|(id, path)| ProcessFile { id, path }).collect();
    // Wherever the bins begin.
    for points in 1..90 {
        let options = ProcessesOptions { from: None, to: None, points, lane_points: 9, stacked: 2 };
        let highest = processes(&files, &options, &Work::quiet()).unwrap().highest.unwrap();
        assert_eq!((highest.at_ns, highest.bytes), (1600, 1), "{points} points");
    }
}

#[test]
fn a_process_that_executes_another_program_is_above_it_and_a_reused_id_is_another_process() {
    let folder = Folder::new();
    let run = |start| program(start, &[(0, 1, Some(10)), (100, 1, None)]);
    let paths = [
        written("sh", &folder, 10, 1, &run(0)),
        written("env", &folder, 11, 10, &run(200)),
        written("cc", &folder, 11, 10, &run(400)),
        written("cc1", &folder, 12, 11, &run(450)),
        written("ld", &folder, 11, 12, &run(900)),
    ];
    // The last two have the id of an earlier one: the paths differ by name.
    let files: Vec<ProcessFile> = paths.into_iter().enumerate().map(|(id, path)| ProcessFile { id, path }).collect();
    let options = ProcessesOptions { from: None, to: None, points: 10, lane_points: 10, stacked: 2 };
    let answer = processes(&files, &options, &Work::quiet()).unwrap();
    let found: Vec<(usize, Option<usize>, Option<Relation>)> =
        answer.processes.iter().map(|process| (process.id, process.parent, process.relation)).collect();
    let expected = [
        (0, None, None),
        (1, Some(0), Some(Relation::Start)),
        (2, Some(1), Some(Relation::Exec)),
        (3, Some(2), Some(Relation::Start)),
        (4, Some(3), Some(Relation::Start)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn files_that_are_no_recordings_of_processes_are_named() {
    let folder = Folder::new();
    let good = written("make", &folder, 10, 1, &program(0, &[(0, 1, Some(100))]));
    let unplaced = folder.0.join("unplaced.hw");
    write(&program(0, &[(0, 1, Some(7))]), &Source { pid: 3, ..Source::default() }, &unplaced);
    let zeros = folder.0.join("zeros.hw");
    std::fs::write(&zeros, [0; 100]).unwrap();
    let files: Vec<ProcessFile> = [good, unplaced, zeros, folder.0.join("none.hw")]
        .into_iter()
        .enumerate()
        .map(|(id, path)| ProcessFile { id, path })
        .collect();
    let options = ProcessesOptions { from: None, to: None, points: 10, lane_points: 10, stacked: 2 };
    let answer = processes(&files, &options, &Work::quiet()).unwrap();
    assert_eq!(answer.processes.len(), 1);
    assert_eq!(answer.problems.iter().map(|problem| problem.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(answer.problems.iter().all(|problem| !problem.what.is_empty()));
    let none = processes(&files[1..], &options, &Work::quiet()).unwrap();
    assert_eq!((none.highest, none.processes.len(), none.end_ns), (None, 0, 0));
}

#[test]
fn work_that_no_client_waits_for_ends() {
    let folder = Folder::new();
    let path = written("make", &folder, 10, 1, &program(0, &[(0, 1, Some(100))]));
    let mut nobody = |_: Option<(f64, &str)>| false;
    std::thread::sleep(std::time::Duration::from_millis(1));
    let options = ProcessesOptions { from: None, to: None, points: 10, lane_points: 10, stacked: 2 };
    let work = Work::asked_by(&mut nobody);
    std::thread::sleep(std::time::Duration::from_millis(150));
    let answer = processes(&[ProcessFile { id: 0, path }], &options, &work);
    assert_eq!(answer.unwrap_err(), highwater_query::QueryError::Cancelled);
}
