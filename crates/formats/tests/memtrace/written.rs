//! Written traces: reading them again gives the same events, and a reader that shares no code with ours agrees.

use crate::fixtures::{GOOD, Read, bytes, read};
use highwater_formats::memtrace::{MemtraceOmissions, TraceWriter, Version};
use highwater_model::{
    AddressLedger, Anomaly, Catalog, Event, EventKind, FrameText, Heap, Nanos, NumberLedger, Placement, Source,
    SourceKind, StackId, Step, Tag, TagId, ThreadId, Weight,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn write(read: &Read, version: Version) -> (Vec<u8>, MemtraceOmissions) {
    let source = read.decoder.source().unwrap();
    let mut writer = TraceWriter::new(Vec::new(), &source, version).unwrap();
    for event in &read.events {
        writer.write_event(event, &read.catalog).unwrap();
    }
    let (left_out, bytes) = writer.finish(&read.catalog).unwrap();
    (bytes, left_out)
}

/// An event with its handles resolved, and objects numbered in the order of their appearance.
type ResolvedEvent = (u64, u64, String);

fn resolved_events(read: &Read, with_domains: bool) -> Vec<ResolvedEvent> {
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let mut stacks: HashMap<StackId, String> = HashMap::new();
    let mut resolve = |event: &Event| {
        let what = match event.kind {
            EventKind::Allocate(Placement { address, size, stack, tag, weight, .. }) => {
                let number = numbers.len();
                numbers.insert(address, number);
                let stack = stacks.entry(stack).or_insert_with(|| frames(&read.catalog, stack));
                let heap = read.catalog.tag(tag).heap.name();
                format!("alloc {number} {size} {} {} {heap} {stack}", weight.samples(), weight.value())
            }
            EventKind::Deallocate { address, .. } => format!("collect {:?}", numbers.get(&address)),
            EventKind::Promote { address, .. } => format!("promote {:?}", numbers.get(&address)),
            other => panic!("{other:?}"),
        };
        (event.time.0, if with_domains { event.thread.0 } else { 0 }, what)
    };
    read.events.iter().map(&mut resolve).collect()
}

/// Every frame with its code, source locations, lines and columns.
fn frames(catalog: &Catalog, stack: StackId) -> String {
    let frame = |frame: FrameText<'_>| {
        let FrameText { function, file, line, address, inlined, columns, .. } = frame;
        format!("{address:x} {function} {file} {line} {}-{} {inlined}", columns.start, columns.end)
    };
    catalog.frame_texts(stack).map(frame).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_is_read_and_written_is_read_as_it_was() {
    for name in GOOD {
        let first = read(&bytes(name));
        for version in [Version::V2, Version::V3] {
            let (written, left_out) = write(&first, version);
            let again = read(&written);
            let with_domains = version == Version::V3;
            assert_eq!((again.decoder.damage(), left_out), (vec![], MemtraceOmissions::default()), "{name}");
            // Only the writer that truncated a stack knows that it is truncated.
            let oddities = |read: &Read| -> Vec<_> {
                let odd = read.decoder.oddities().into_iter();
                odd.filter(|(anomaly, _)| *anomaly != Anomaly::TruncatedStack).collect()
            };
            assert_eq!(oddities(&again), oddities(&first), "{name}");
            let (before, after) = (resolved_events(&first, with_domains), resolved_events(&again, with_domains));
            let differs = before.iter().zip(&after).position(|(before, after)| before != after);
            if let Some(at) = differs {
                panic!("{name} {version:?}: event {at}:\n{:?}\n{:?}", before[at], after[at]);
            }
            assert_eq!(before.len(), after.len(), "{name}");
            let source = first.decoder.source().unwrap();
            assert_eq!(again.decoder.source().unwrap(), source, "{name}");
            // It is at most 10 % larger than the reference's trace of the same events.
            let length = bytes(name).len() as f64;
            assert!((written.len() as f64) < length * 1.1, "{name}: {} of {length}", written.len());
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memtrace/independent_decoder.py")
}

/// The output of the independent decoder: a line for each event, in the order of the file.
fn decoded_independently(name: &str, bytes: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.ctf"));
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new("python3").arg(script()).arg(&path).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same from our events, which must be in the order of the file.
fn as_lines(read: &Read) -> String {
    let mut text = String::new();
    for event in &read.events {
        let id = |address: u64| highwater_formats::memtrace::id_of(address);
        let time = event.time.0 / 1000;
        text += &match event.kind {
            EventKind::Allocate(place) => {
                let words = place.size / 8;
                let heap = read.catalog.tag(place.tag).heap.name();
                let number = id(place.address);
                let mut slots: Vec<String> = Vec::new();
                for frame in read.catalog.stacks.recorded_frames_of(place.stack) {
                    let code = read.catalog.stacks.frame(frame).unwrap().address;
                    let mut places: Vec<String> = Vec::new();
                    if read.catalog.stacks.is_resolved(frame) {
                        for id in read.catalog.stacks.frame_ids(frame).rev() {
                            let text = read.catalog.frame_text(&read.catalog.stacks.frames()[id as usize]);
                            let FrameText { function, file, line, columns, .. } = text;
                            places.push(format!("{function}@{file}:{line}:{}-{}", columns.start, columns.end));
                        }
                    }
                    slots.push(format!("{code}[{}]", places.join(",")));
                }
                slots.reverse();
                format!("{time} {number} alloc {} {words} {heap} {}\n", place.weight.samples(), slots.join(" "))
            }
            EventKind::Deallocate { address, .. } => format!("{time} {} collect\n", id(address)),
            EventKind::Promote { address, .. } => format!("{time} {} promote\n", id(address)),
            other => panic!("{other:?}"),
        };
    }
    text
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_reader_that_shares_no_code_with_ours_agrees() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("python3 is not there; not compared");
        return;
    }
    for name in GOOD {
        let original = bytes(name);
        let first = read(&original);
        // The reference's trace, and ours.
        let (v2, v3) = (write(&first, Version::V2).0, write(&first, Version::V3).0);
        for (which, bytes) in [("original", original), ("v2", v2), ("v3", v3)] {
            let found = decoded_independently(&format!("{name}-{which}"), &bytes);
            let ours = as_lines(&read(&bytes));
            // With several domains, the order of the file is not that of time.
            let (found, ours) = (sorted(&found), sorted(&ours));
            let differs = found.iter().zip(&ours).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let words = found[at].split(' ').zip(ours[at].split(' ')).find(|(a, b)| a != b);
                panic!("{name} {which}: {words:?}");
            }
            assert_eq!(found.len(), ours.len(), "{name} {which}");
        }
    }
}

/// The history of a native program: blocks of all sizes, resized, freed by other threads, at two sites.
fn native() -> (Source, Catalog, Vec<Event>) {
    let mut catalog = Catalog::default();
    let frame = |function, address| FrameText { function, file: "a.c", line: 7, address, ..FrameText::default() };
    let deep: Vec<String> = (0..900).map(|at| format!("recurse_{at}")).collect();
    let deep: Vec<FrameText<'_>> = deep.iter().map(|name| frame(name, 0)).collect();
    let bare = FrameText { address: 0x4010, module: "/lib/libc.so.6", ..FrameText::default() };
    let stacks = [
        catalog.intern_stack(&[frame("grow", 0x1000), frame("main", 0x2000)]),
        // Another function at the same address: its module was unloaded in between.
        catalog.intern_stack(&[frame("other", 0x1000), bare, frame("main", 0x2000)]),
        StackId::UNKNOWN,
        catalog.intern_stack(&deep),
    ];
    let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
    let name = catalog.strings.intern("loaded");
    let source = Source {
        kind: SourceKind::NATIVE,
        program: "demo".to_owned(),
        pid: 42,
        host: "box".to_owned(),
        start_unix_ns: 1_700_000_000_123_456_789,
        ..Source::default()
    };
    let mut events = Vec::new();
    for at in 0..5000u64 {
        let place = |size| Placement {
            address: 0x1000 + at % 700 * 64,
            size,
            stack: stacks[(at % 37 % 4) as usize],
            tag: if at % 50 == 0 { mapped } else { TagId::NONE },
            ..Placement::default()
        };
        let kind = match at % 5 {
            0..3 => EventKind::Allocate(place(at % 300)),
            3 => EventKind::free(0x1000 + (at * 7) % 700 * 64, None),
            _ if at % 900 == 4 => EventKind::Mark { name },
            _ => EventKind::Reallocate {
                old_address: 0x1000 + (at * 3) % 700 * 64,
                claimed_old_size: None,
                new: place(at),
            },
        };
        // Long pauses: longer than the limit for a packet.
        let pause = at / 1000 * 40_000_000_000;
        events.push(Event { time: Nanos(at * 1500 + pause), thread: ThreadId(1000 + at % 3), kind });
    }
    (source, catalog, events)
}

#[test]
fn a_native_recording_becomes_a_trace_in_which_every_word_is_a_sample() {
    let (source, catalog, events) = native();
    let (mut ledger, mut steps) = (AddressLedger::default(), Vec::<Step>::new());
    events.iter().for_each(|event| ledger.record(event, &mut steps));
    let mut writer = TraceWriter::new(Vec::new(), &source, Version::V3).unwrap();
    let mut replayed = NumberLedger::default();
    let mut bytes_in_words = 0;
    for step in &steps {
        writer.write_step(step, replayed.accounts().next_id(), &catalog).unwrap();
        replayed.replay(step);
    }
    for block in replayed.accounts().blocks() {
        bytes_in_words += block.size.div_ceil(8).max(1) * 8;
    }
    let (left_out, trace) = writer.finish(&catalog).unwrap();
    let again = read(&trace);
    assert_eq!(again.decoder.damage(), []);
    let source = again.decoder.source().unwrap();
    assert_eq!((source.program.as_str(), source.host.as_str(), source.pid), ("demo", "box", 42));
    assert_eq!(source.word_sampling.unwrap().rate(), 1.0);
    assert!(left_out.remarks > 0 && left_out.unmatched > 0, "{left_out:?}");
    let (figures, before) = (&again.accounts.totals().figures, &replayed.accounts().totals().figures);
    assert_eq!(figures.live_records(), before.live_blocks());
    assert_eq!(figures.live_bytes(), bytes_in_words);
    assert_eq!(figures.records(), before.allocations + before.reallocations);
    assert_eq!(again.accounts.threads().len(), 1);
    assert!(again.events.is_sorted_by_key(|event| event.time));
    // Stacks are unchanged, except for the one that is too deep.
    let functions = |catalog: &Catalog, stack| -> Vec<String> {
        catalog.frame_texts(stack).map(|frame| format!("{} {}", frame.function, frame.line)).collect()
    };
    let mut seen = std::collections::BTreeSet::new();
    for event in &again.events {
        if let EventKind::Allocate(place) = event.kind {
            seen.insert(functions(&again.catalog, place.stack));
        }
    }
    for (stack, _) in replayed.accounts().sites().iter().filter(|(_, figures)| !figures.is_empty()) {
        let functions = functions(&catalog, stack);
        assert!(functions.len() > 400 || seen.contains(&functions), "{functions:?}");
    }
    assert!(left_out.cut_stacks > 0);
}

#[test]
fn estimates_of_sampled_native_recordings_stay_right_on_the_average() {
    let source = Source { kind: SourceKind::NATIVE, sample_rate: Some(4096), ..Source::default() };
    let catalog = Catalog::default();
    let mut writer = TraceWriter::new(Vec::new(), &source, Version::V2).unwrap();
    let (mut expected, mut largest) = (0, 0);
    for at in 0..20_000u64 {
        let size = 1 + at * 7919 % 9000;
        let weight = Weight::of_sample(size, 4096);
        expected += weight.bytes(size);
        largest = largest.max(size);
        let place = Placement { address: at * 16 * 1024, size, weight, ..Placement::default() };
        let event = Event { time: Nanos(at * 1000), thread: ThreadId(1), kind: EventKind::Allocate(place) };
        writer.write_event(&event, &catalog).unwrap();
    }
    let again = read(&writer.finish(&catalog).unwrap().1);
    let found = again.accounts.totals().figures.allocated_bytes;
    assert!((found as f64 / expected as f64 - 1.0).abs() < 0.01, "{found} instead of {expected}");
    assert_eq!(again.decoder.source().unwrap().sample_rate, Some(4096));
}
