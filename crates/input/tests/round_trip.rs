//! A recording, written as event lines and imported, is the same recording.
//!
//! The comparison shares no code with either direction: it resolves every handle to the text that it stands for, and compares operation by operation.

use highwater_export::{ExportOptions, Write, by_key};
use highwater_model::{
    Accounts, AddressLedger, Anomaly, Block, Catalog, Clock, ColumnRange, Event, EventKind, Figures, FrameText, Heap,
    Module, Nanos, NumberLedger, Op, Placement, SampleSpacing, Source, SourceKind, StackId, Step, Tag, TagId, ThreadId,
    Weight, WordSampling, mapped_address,
};
use highwater_store::{NumberedWriter, Recording, WalkItem, Writer};
use proptest::prelude::*;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Seek, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The event lines of a recording.
fn lines(recording: &Recording) -> Vec<u8> {
    let Write::History(write) = by_key("events-jsonl").unwrap().write() else { panic!("not a history") };
    let options = ExportOptions { memtrace_version: 3, ..ExportOptions::default() };
    let mut out = Vec::new();
    assert_eq!(write(recording, &options, &mut out).unwrap(), []);
    out
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("highwater-round-trip-{}-{name}", std::process::id()))
}

/// The recording of some event lines, and the number of bad lines.
fn imported(lines: &[u8]) -> (Recording, u64) {
    let path = temporary(&format!("{:?}.jsonl", std::thread::current().id()));
    let target = highwater_input::temporary_file().unwrap();
    File::create(&path).unwrap().write_all(lines).unwrap();
    let mut file = target.try_clone().unwrap();
    let imported = highwater_input::import(&path, target, &mut |_, _| true);
    std::fs::remove_file(&path).unwrap();
    let imported = imported.unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    (Recording::from_file(file).unwrap(), imported.problems.bad_lines)
}

/// Everything that a frame says.
fn frame(catalog: &Catalog, frame: &highwater_model::Frame) -> String {
    let module = catalog.module_of(frame).map(|module| {
        let Module { path, build_id, start, end, file_offset, loaded, unloaded } = module.clone();
        let (path, build_id) = (catalog.strings.get(path), catalog.strings.get(build_id));
        format!("{path:?} {build_id:?} {start} {end} {file_offset} {loaded:?} {unloaded:?}")
    });
    format!("{:?} in {module:?}", catalog.frame_text(frame))
}

/// The stacks of a catalog: a hash of all that each says. Deep stacks are compared in every step.
struct Stacks(Vec<u64>);

impl Stacks {
    fn of(catalog: &Catalog) -> Self {
        let mut hashes: Vec<u64> = Vec::new();
        for node in catalog.stacks.nodes() {
            let mut hasher = DefaultHasher::new();
            if let Some(own) = catalog.stacks.frame(node.frame).filter(|_| !hashes.is_empty()) {
                hashes[node.parent.0 as usize].hash(&mut hasher);
                frame(catalog, own).hash(&mut hasher);
                if catalog.stacks.is_resolved(node.frame) {
                    let resolved = catalog.stacks.frame_ids(node.frame);
                    resolved.for_each(|id| frame(catalog, &catalog.stacks.frames()[id as usize]).hash(&mut hasher));
                }
            }
            hashes.push(hasher.finish());
        }
        Self(hashes)
    }

    fn hash(&self, stack: StackId) -> Option<u64> {
        self.0.get(stack.0 as usize).copied()
    }
}

fn tag(catalog: &Catalog, id: TagId) -> (bool, [String; 3], Heap) {
    let Tag { variable, type_name, heap, task } = catalog.tag(id);
    let text = |id| catalog.strings.get(id).to_owned();
    (id == TagId::NONE, [variable, type_name, task].map(text), heap)
}

/// A step with its texts.
fn step(catalog: &Catalog, stacks: &Stacks, step: &Step) -> String {
    let Step { time, thread, op } = *step;
    let rest = match op {
        Op::Allocate(place) => {
            let texts = (stacks.hash(place.stack), tag(catalog, place.tag));
            let plain = Placement { stack: StackId(0), tag: TagId(0), ..place };
            format!("{plain:?} unknown {} {texts:?}", place.stack == StackId::UNKNOWN)
        }
        Op::Reallocate { id, moved_to, size, stack: site, tag: of, surplus, weight } => {
            let unknown = site == StackId::UNKNOWN;
            let texts = (stacks.hash(site), tag(catalog, of));
            format!("{id:?} {moved_to:?} {size} {unknown} {surplus} {weight:?} {texts:?}")
        }
        Op::Free { id, stack } => format!("free {id:?} {} {:?}", stack == StackId::UNKNOWN, stacks.hash(stack)),
        Op::Promote { id, tag: of } => format!("promote {id:?} {:?}", tag(catalog, of)),
        Op::Mark { name } => format!("mark {:?}", catalog.strings.get(name)),
        Op::Gauge { name, value } => format!("gauge {:?} {value}", catalog.strings.get(name)),
        other => format!("{other:?}"),
    };
    format!("{time:?} {thread:?} {rest}")
}

/// A state with its texts.
fn state(catalog: &Catalog, stacks: &Stacks, accounts: &Accounts) -> Vec<String> {
    let state = accounts.to_state();
    let mut all = vec![
        format!("{:?}", state.totals),
        format!("{:?} {} {} {:?}", state.anomalies, state.events, state.next_id, state.last_time),
    ];
    all.extend(state.threads.iter().map(|thread| format!("{thread:?}")));
    let rows = |rows: Vec<(String, Figures)>| {
        let mut rows: Vec<String> =
            rows.into_iter().filter(|(_, figures)| !figures.is_empty()).map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    };
    all.extend(rows(state.sites.iter().map(|(id, figures)| (format!("{:?}", stacks.hash(id)), *figures)).collect()));
    all.extend(rows(
        (0..).zip(&state.tags).map(|(id, figures)| (format!("{:?}", tag(catalog, TagId(id))), *figures)).collect(),
    ));
    all.extend(state.blocks.iter().map(|block| {
        let texts = (stacks.hash(block.stack), tag(catalog, block.tag));
        format!("{:?} {texts:?}", Block { stack: StackId(0), tag: TagId(0), ..block })
    }));
    all
}

/// A whole recording as texts.
fn texts(recording: &Recording) -> Vec<String> {
    let catalog = recording.catalog();
    let stacks = Stacks::of(catalog);
    let modules: Vec<String> = (1..=catalog.modules.len() as u32)
        .map(|module| frame(catalog, &highwater_model::Frame { module, ..Default::default() }))
        .collect();
    let mut all = vec![format!("{:?} {modules:?}", recording.source())];
    all.extend(
        catalog.thread_names().iter().map(|entry| format!("{:?} {}", entry.thread, catalog.strings.get(entry.name))),
    );
    let end = recording
        .walk(|seen| {
            match seen {
                WalkItem::Block(..) => {}
                WalkItem::Step(_, seen) => all.push(step(catalog, &stacks, seen)),
                WalkItem::Stored(ledger) => all.extend(state(catalog, &stacks, ledger.accounts())),
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    all.extend(state(catalog, &stacks, &end));
    all
}

/// Checks that a recording survives the way through event lines.
fn must_survive(recording: &Recording, what: &str) {
    let before = lines(recording);
    let (after, bad_lines) = imported(&before);
    assert_eq!(bad_lines, 0, "{what}");
    let (old, new) = (texts(recording), texts(&after));
    for (number, (old, new)) in old.iter().zip(&new).enumerate() {
        assert_eq!(old, new, "{what}: {number}");
    }
    assert_eq!(old.len(), new.len(), "{what}");
    let report = after.check(&mut |_| {}).unwrap();
    assert_eq!(report.violations, Vec::<String>::new(), "{what}");
    assert_eq!(after.damage(), [], "{what}");
}

/// Something that happens, from which an event is made.
type Doing = (u8, u64, u64, u64, (bool, i32, u64), (u64, u8, String));

fn doing() -> impl Strategy<Value = Doing> {
    let surplus = prop_oneof![4 => Just(0), 1 => -64..64i32, 1 => any::<i32>()];
    let weight = prop_oneof![2 => Just(0), 1 => 0..1u64 << 22, 2 => 0..1u64 << 19];
    let size = prop_oneof![8 => 0..5000u64, 1 => Just(u64::MAX / 3)];
    let name = prop_oneof![3 => "[a-c]", 1 => any::<String>()];
    let odd = (prop::bool::weighted(0.2), surplus, weight);
    (0..17u8, 1..12u64, 1..12u64, size, odd, (0..4u64, 0..5u8, name))
}

/// A catalog as recorders make it: modules, resolved frames, inlined frames, columns.
fn catalog() -> (Catalog, [StackId; 4]) {
    let mut catalog = Catalog::default();
    let path = catalog.strings.intern("/usr/lib/liba.so \"x\"\n");
    let build_id = catalog.strings.intern("00ff");
    let module =
        Module { path, build_id, start: 0x1000, end: 0x9000, file_offset: 64, loaded: Nanos(3), unloaded: None };
    let first = catalog.add_module(module.clone()) + 1;
    let again = Module { start: 0x9000, end: 0xa000, unloaded: Some(Nanos(77)), ..module };
    let second = catalog.add_module(again) + 1;
    let recorded = |address, module| highwater_model::Frame { address, module, ..Default::default() };
    let frames = [recorded(0x1234, first), recorded(0x9234, second), recorded(0x1238, first)];
    let frames = frames.map(|frame| catalog.stacks.intern_frame(frame));
    let inner = FrameText { function: "inner<T>", file: "a.rs", line: 3, inlined: true, ..FrameText::default() };
    let outer = FrameText {
        function: "outer",
        file: "b \\ .rs",
        line: u32::MAX,
        columns: ColumnRange { start: 3, end: 9 },
        ..FrameText::default()
    };
    catalog.resolve(frames[0], &[inner, outer]);
    catalog.resolve(frames[1], &[outer]);
    let main = catalog.intern_stack(&[FrameText { function: "main", module: "app", ..FrameText::default() }]);
    let one = catalog.stacks.intern_child(main, frames[0]);
    let two = catalog.stacks.intern_child(one, frames[1]);
    let three = catalog.stacks.intern_child(one, frames[2]);
    catalog.name_thread(ThreadId(1), "wor\nker");
    catalog.name_thread(ThreadId(1), "worker 2");
    catalog.name_thread(ThreadId(9), "idle");
    (catalog, [StackId::UNKNOWN, one, two, three])
}

fn event(doing: &Doing, time: u64, stacks: &[StackId; 4], catalog: &mut Catalog) -> Event {
    let (kind, address, old, size, (is_mapped, surplus, weight), (thread, late, name)) = doing;
    let at = |number: u64| if *is_mapped { mapped_address(number << 12) } else { number << 12 };
    let samples = if weight % 3 == 1 { (*size).min(7) as u32 } else { 0 };
    let spacing = SampleSpacing::new(if weight % 2 == 1 { 16_000.0 } else { 26.7 });
    let text = catalog.strings.intern(name);
    let heap = match late {
        _ if *is_mapped => Heap::Mapped,
        1 => Heap::Minor,
        2 => Heap::Major,
        _ => Heap::Malloc,
    };
    let named = if size % 4 == 1 { text } else { Default::default() };
    let task = if size % 7 == 1 { text } else { Default::default() };
    let tag = match catalog.intern_tag(Tag { variable: named, heap, task, ..Tag::default() }) {
        TagId::NONE if size % 7 == 2 => catalog.no_task(),
        tag => tag,
    };
    let place = Placement {
        address: at(*address),
        size: *size,
        stack: stacks[(*size % 4) as usize],
        tag,
        surplus: *surplus,
        weight: Weight::from_bits(*weight).unwrap().of_samples(samples, spacing),
    };
    let kind = match kind {
        0..6 => EventKind::Allocate(place),
        6..9 => EventKind::Deallocate {
            address: place.address,
            claimed_size: (size % 2 == 0).then_some(*size),
            stack: place.stack,
        },
        9..12 => EventKind::Reallocate {
            old_address: at(*old),
            claimed_old_size: (size % 5 == 0).then_some(*size),
            new: place,
        },
        12 => EventKind::Promote { address: place.address, tag },
        13 => EventKind::Mark { name: text },
        14 => EventKind::Gauge { name: text, value: *size },
        _ => EventKind::Dropped { count: *size },
    };
    // Some times run backwards.
    Event { time: Nanos(if *late == 4 { time / 2 } else { time }), thread: ThreadId(*thread), kind }
}

fn source() -> Source {
    Source {
        kind: SourceKind::NATIVE,
        program: "pro \"gram\"".to_owned(),
        executable: "/bin/pro gram".to_owned(),
        pid: 42,
        parent_pid: 41,
        command: vec!["./a".to_owned(), String::new(), "b\n\u{202e}".to_owned()],
        host: "h\u{e9}".to_owned(),
        start_unix_ns: u64::MAX,
        sample_rate: Some(4096),
        word_sampling: WordSampling::new(3e-4, 8),
        context: "nightly \\".to_owned(),
        runtime_parameters: "s=4k".to_owned(),
        usable_sizes: true,
        clock: Clock::Lines,
        notes: vec!["Ended early.".to_owned(), String::new()],
        ..Source::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_recording_survives(doings in prop::collection::vec(doing(), 1..120), cut in 0..120usize) {
        let (mut catalog, stacks) = catalog();
        let events: Vec<Event> =
            doings.iter().zip(1..).map(|(doing, time)| event(doing, time * 10, &stacks, &mut catalog)).collect();
        let mut writer = Writer::new(highwater_input::temporary_file().unwrap(), &source()).unwrap();
        writer.append(&events, &catalog).unwrap();
        writer.note(Anomaly::TruncatedStack, 3, &catalog).unwrap();
        let (_, file) = writer.finish(&catalog, &Source { duration: Nanos(1 << 40), ..source() }).unwrap();
        must_survive(&Recording::from_file(file).unwrap(), "whole");

        // The same, joined late.
        let mut ledger = AddressLedger::default();
        let mut steps = Vec::new();
        let cut = cut.min(events.len() - 1);
        events[..cut].iter().for_each(|event| ledger.record(event, &mut ()));
        let begin = ledger.accounts().to_state();
        events[cut..].iter().for_each(|event| ledger.record(event, &mut steps));
        let mut writer = NumberedWriter::new(highwater_input::temporary_file().unwrap(), &source()).unwrap();
        writer.continue_from(begin, &catalog).unwrap();
        for step in &steps {
            writer.step(step, &catalog).unwrap();
        }
        let (_, file) = writer.finish(&catalog, &source()).unwrap();
        must_survive(&Recording::from_file(file).unwrap(), "joined late");
    }

    /// Damaged lines are reported or used, and what they lead to is lawful.
    #[test]
    fn damaged_lines_never_break_a_recording(
        doings in prop::collection::vec(doing(), 1..40),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let (mut catalog, stacks) = catalog();
        let mut ledger = AddressLedger::default();
        let mut steps = Vec::new();
        let events: Vec<Event> =
            doings.iter().zip(1..).map(|(doing, time)| event(doing, time * 10, &stacks, &mut catalog)).collect();
        let half = events.len() / 2;
        events[..half].iter().for_each(|event| ledger.record(event, &mut ()));
        let begin = ledger.accounts().to_state();
        events[half..].iter().for_each(|event| ledger.record(event, &mut steps));
        let mut writer = NumberedWriter::new(highwater_input::temporary_file().unwrap(), &source()).unwrap();
        writer.continue_from(begin, &catalog).unwrap();
        steps.iter().for_each(|step| writer.step(step, &catalog).unwrap());
        let (_, file) = writer.finish(&catalog, &source()).unwrap();
        let mut bytes = lines(&Recording::from_file(file).unwrap());
        // The first line stays: without it, these are other lines.
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for (index, byte) in hits {
            let length = bytes.len() - first;
            bytes[first + index.index(length)] = byte;
        }
        let mut kept: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for index in gone {
            if kept.len() > 2 {
                let at = 1 + index.index(kept.len() - 1);
                kept.remove(at);
            }
        }
        let path = temporary(&format!("{:?}-damaged.jsonl", std::thread::current().id()));
        std::fs::write(&path, kept.concat()).unwrap();
        let target = highwater_input::temporary_file().unwrap();
        let file = target.try_clone().unwrap();
        let imported = highwater_input::import(&path, target, &mut |_, _| true);
        std::fs::remove_file(&path).unwrap();
        if imported.is_ok() {
            let recording = Recording::from_file(file).unwrap();
            prop_assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
            prop_assert_eq!(recording.damage(), []);
        }
    }
}

/// The ledger of a recorder has two blocks at one address while one of them moves: numbers tell them apart, addresses do not.
#[test]
fn blocks_that_share_an_address_stay_apart() {
    let mut ledger = AddressLedger::default();
    let mut steps = Vec::new();
    let at = |address, size| EventKind::Allocate(Placement { address, size, ..Placement::default() });
    let happen = |ledger: &mut AddressLedger, steps: &mut Vec<Step>, time, kind| {
        ledger.record(&Event { time: Nanos(time), thread: ThreadId(1), kind }, steps);
    };
    happen(&mut ledger, &mut steps, 1, at(0x1000, 10));
    assert!(ledger.set_aside(0x1000, u64::MAX));
    happen(&mut ledger, &mut steps, 2, at(0x1000, 20));
    happen(&mut ledger, &mut steps, 3, EventKind::free(0x1000, None));
    let new = Placement { address: 0x1000, size: 30, ..Placement::default() };
    let kind = EventKind::Reallocate { old_address: u64::MAX, claimed_old_size: None, new };
    happen(&mut ledger, &mut steps, 4, kind);
    let catalog = Catalog::default();
    let mut writer = NumberedWriter::new(highwater_input::temporary_file().unwrap(), &Source::default()).unwrap();
    steps.iter().for_each(|step| writer.step(step, &catalog).unwrap());
    let (_, file) = writer.finish(&catalog, &Source::default()).unwrap();
    must_survive(&Recording::from_file(file).unwrap(), "aside");
}

#[test]
fn every_trace_survives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/memtrace");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let packed = entry.unwrap().path();
        if packed.extension().is_some_and(|extension| extension == "zst") {
            let path = temporary("trace.ctf");
            std::fs::write(&path, zstd::decode_all(File::open(&packed).unwrap()).unwrap()).unwrap();
            let opened = highwater_input::open(&path).unwrap();
            must_survive(opened.recording(&mut |_, _| true).unwrap(), &packed.display().to_string());
            std::fs::remove_file(&path).unwrap();
            count += 1;
        }
    }
    assert!(count > 3, "{count}");
}

/// Lines that a user has removed must not make later lines mean other blocks.
#[test]
fn a_removed_allocation_shifts_no_number() {
    let text = concat!(
        "{\"event\":\"recording\",\"version\":1}\n",
        "{\"event\":\"allocate\",\"time_ns\":1,\"block\":0,\"address\":\"0x10\",\"size\":1}\n",
        "{\"event\":\"allocate\",\"time_ns\":3,\"block\":2,\"address\":\"0x30\",\"size\":4}\n",
        "{\"event\":\"deallocate\",\"time_ns\":4,\"block\":1,\"address\":\"0x20\"}\n",
        "{\"event\":\"deallocate\",\"time_ns\":5,\"block\":2,\"address\":\"0x30\"}\n",
    );
    let (recording, bad_lines) = imported(text.as_bytes());
    let mut ledger = NumberLedger::default();
    recording.for_each_step(|_, step| ledger.replay(step)).unwrap();
    assert_eq!((bad_lines, ledger.accounts().totals().figures.live_bytes()), (1, 1));
}

#[test]
fn bad_lines_say_what_is_wrong() {
    for (line, why) in [
        (r#"{"event":"deallocate","block":7,"address":1}"#, "block 7 is not live"),
        (r#"{"event":"allocate","address":1,"size":1,"stack":5}"#, "\"stack\" 5 was not defined before"),
        (r#"{"event":"stack","stack":1,"frame":9}"#, "\"frame\" 9 was not defined before"),
        (r#"{"event":"frame","frame":1,"module":3}"#, "\"module\" 3 was not defined before"),
        (
            r#"{"event":"frame","frame":1,"resolved":[{"line":-1}]}"#,
            "frame 0 of \"stack\": \"line\" must not be negative",
        ),
        (r#"{"event":"continue"}"#, "there is no state to continue"),
        (
            r#"{"event":"live","block":1,"address":1,"size":1,"time_ns":1}"#,
            "a part of a state without a \"state\" line before it",
        ),
        (
            r#"{"event":"note","anomaly":"bad luck","count":1}"#,
            "\"anomaly\" must be the name of a counter, such as repaired_times",
        ),
        (r#"{"event":"source","pid":3}"#, "\"source\" must come before the first event"),
        (
            r#"{"event":"recording","version":2}"#,
            "this version of event lines is not known: use a newer version of highwater",
        ),
    ] {
        let mark = r#"{"event":"mark","name":"m"}"#;
        let text = format!("{{\"event\":\"recording\",\"version\":1}}\n{mark}\n{line}\n{mark}\n");
        let path = temporary(&format!("{:?}-bad.jsonl", std::thread::current().id()));
        std::fs::write(&path, text).unwrap();
        let imported =
            highwater_input::import(&path, highwater_input::temporary_file().unwrap(), &mut |_, _| true).unwrap();
        std::fs::remove_file(&path).unwrap();
        let found: Vec<String> = imported.problems.first_bad_lines.iter().map(ToString::to_string).collect();
        assert_eq!(found, [format!("line 3: {why}")], "{line}");
        assert_eq!(imported.written.events, 2);
    }
}
