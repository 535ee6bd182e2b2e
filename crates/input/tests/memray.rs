//! Captures of memray, compared with what memray says of them: `fixtures/memray/README.md`.
#![allow(missing_docs)]

use highwater_input::{InputFile, open, recognize};
use highwater_model::{Catalog, Heap, Snapshot, StackId, When, laws};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memray").join(name)
}

fn opened(name: &str) -> InputFile {
    open(&fixture(&format!("{name}.bin"))).unwrap()
}

fn oracle(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap()).unwrap()
}

fn numbers(value: &Value) -> BTreeMap<String, u64> {
    value.as_object().unwrap().iter().map(|(name, number)| (name.clone(), number.as_u64().unwrap())).collect()
}

/// The Python calls of a stack. Native calls have addresses.
fn python_stack(catalog: &Catalog, stack: StackId) -> String {
    let python = catalog.frame_texts(stack).filter(|frame| frame.address == 0);
    let frames: Vec<String> = python.map(|frame| format!("{} {}:{}", frame.function, frame.file, frame.line)).collect();
    frames.join(";")
}

/// Live blocks and bytes by Python stack.
fn live(snapshot: &Snapshot) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (stack, figures) in snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_blocks() > 0) {
        let sum = sums.entry(python_stack(&snapshot.catalog, stack)).or_default();
        *sum = (sum.0 + figures.live_blocks(), sum.1 + figures.live_bytes());
    }
    sums
}

fn live_of(value: &Value) -> BTreeMap<String, (u64, u64)> {
    let pair = |pair: &Value| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap());
    value.as_object().unwrap().iter().map(|(stack, sums)| (stack.clone(), pair(sums))).collect()
}

/// All captures of a history.
const ALL: [&str; 8] =
    ["plain", "uncompressed", "python3.10", "python3.13", "allocators", "native", "fork", "fork-child"];

#[test]
fn totals_are_those_of_memray() {
    for name in ALL {
        let (opened, oracle) = (opened(name), oracle(name));
        assert_eq!((opened.format().key(), opened.damage()), ("memray", vec![]), "{name}");
        let end = opened.end().unwrap();
        assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
        let totals = end.accounts.totals().figures;
        let figures = [totals.allocations, totals.allocated_bytes, totals.peak_bytes];
        let expected = ["allocations", "allocated_bytes", "peak_bytes"].map(|key| oracle[key].as_u64().unwrap());
        assert_eq!(figures, expected, "{name}");
        let source = opened.source();
        assert_eq!((source.kind.key(), source.pid), ("memray", oracle["pid"].as_u64().unwrap()));
        assert_eq!(source.program, if name.starts_with("fork") { "fork.py" } else { "work.py" });
        assert_eq!(source.duration.0 / 1_000_000, oracle["duration_ms"].as_u64().unwrap(), "{name}");
    }
}

#[test]
fn every_stack_has_at_the_peak_and_at_the_end_what_memray_says() {
    for name in ALL {
        let (opened, oracle) = (opened(name), oracle(name));
        let recording = opened.recording(&mut |_, _| true).unwrap();
        let (peak, end) = (recording.snapshot(&When::Peak).unwrap(), recording.snapshot(&When::End).unwrap());
        assert_eq!(live(&peak), live_of(&oracle["peak"]), "{name}");
        assert_eq!(live(&end), live_of(&oracle["leaked"]), "{name}");
        let mut by_thread: BTreeMap<String, u64> = BTreeMap::new();
        for thread in peak.accounts.threads().iter().filter(|thread| thread.figures.live_bytes() > 0) {
            *by_thread.entry(peak.catalog.thread_name(thread.id).to_owned()).or_default() +=
                thread.figures.live_bytes();
        }
        assert_eq!(by_thread, numbers(&oracle["peak_by_thread"]), "{name}");
        assert!(recording.check(&mut |_| {}).unwrap().violations.is_empty());
    }
}

#[test]
fn locations_and_allocators_have_the_figures_of_memray_stats() {
    for name in ALL {
        let (end, oracle) = (opened(name).end().unwrap(), oracle(name));
        let (mut bytes, mut counts): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
        for (stack, figures) in end.accounts.sites().iter() {
            let mut frames = end.catalog.frame_texts(stack).filter(|frame| frame.address == 0);
            // Here memray does not leave its own calls out.
            let Some(innermost) = frames.next() else { continue };
            let location = format!("{} {}:{}", innermost.function, innermost.file, innermost.line);
            *bytes.entry(location.clone()).or_default() += figures.allocated_bytes;
            *counts.entry(location).or_default() += figures.allocations;
        }
        let is_of_memray = |location: &str| location.contains("/memray/") || location.contains("<unknown>");
        let expected = |key: &str| -> BTreeMap<String, u64> {
            numbers(&oracle[key]).into_iter().filter(|(location, _)| !is_of_memray(location)).collect()
        };
        // One call of memray, in which the program starts, is left.
        bytes.retain(|location, _| !is_of_memray(location));
        counts.retain(|location, _| !is_of_memray(location));
        assert_eq!(bytes, expected("bytes_by_location"), "{name}");
        assert_eq!(counts, expected("allocations_by_location"), "{name}");
        let mut by_allocator: BTreeMap<String, u64> = BTreeMap::new();
        for (tag, figures) in end.catalog.tags().iter().zip(&end.accounts.to_state().tags).skip(1) {
            let name = if tag.heap == Heap::Mapped { "mmap" } else { end.catalog.strings.get(tag.type_name) };
            by_allocator.insert(name.to_uppercase(), figures.allocations);
        }
        by_allocator.retain(|_, count| *count > 0);
        assert_eq!(by_allocator, numbers(&oracle["by_allocator"]), "{name}");
    }
}

#[test]
fn the_resident_set_and_the_names_of_threads_are_kept() {
    let (opened, oracle) = (opened("plain"), oracle("plain"));
    let recording = opened.recording(&mut |_, _| true).unwrap();
    let gauges = recording.gauges().unwrap();
    let resident: Vec<(u64, u64)> = gauges.iter().map(|gauge| (gauge.time.0 / 1_000_000, gauge.value)).collect();
    let expected = oracle["memory"].as_array().unwrap().iter();
    let expected: Vec<(u64, u64)> =
        expected.map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap())).collect();
    assert!(expected.iter().all(|reading| resident.contains(reading)), "{resident:?} {expected:?}");
    let end = opened.end().unwrap();
    let names: Vec<&str> = end.accounts.threads().iter().map(|thread| end.catalog.thread_name(thread.id)).collect();
    assert!(names.contains(&"worker 0") && names.contains(&"worker 1"), "{names:?}");
}

/// The machine that runs this test may have the interpreter of the fixture, or not.
#[test]
fn native_calls_have_names_or_the_recording_says_that_they_have_none() {
    let opened = opened("native");
    let end = opened.end().unwrap();
    let is_native = |stack| end.catalog.frame_texts(stack).any(|frame| frame.address != 0);
    let has_native = end.accounts.sites().iter().any(|(stack, _)| is_native(stack));
    if has_native {
        let expected = numbers(&oracle("native")["peak_hybrid"]);
        let peak = opened.recording(&mut |_, _| true).unwrap().snapshot(&When::Peak).unwrap();
        let mut ours: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, figures) in peak.accounts.sites().iter().filter(|(_, figures)| figures.live_bytes() > 0) {
            let functions: Vec<&str> = peak.catalog.frame_texts(stack).map(|frame| frame.function).collect();
            *ours.entry(functions.join(";")).or_default() += figures.live_bytes();
        }
        // Where memray has no native calls it keeps its own Python calls, too.
        let cut =
            |stack: &str| stack.split(";_run_with_file_output").next().unwrap_or_default().replace("<unknown>", "");
        let expected: BTreeMap<String, u64> = expected.iter().map(|(stack, sum)| (cut(stack), *sum)).collect();
        assert_eq!(ours, expected);
    } else {
        assert!(opened.source().notes.iter().any(|note| note.contains("no native calls")), "{:?}", opened.source());
    }
}

#[test]
fn other_captures_are_refused_in_one_line() {
    let error = |name: &str, content: &[u8]| {
        let path = std::env::temp_dir().join(format!("highwater-memray-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        assert_eq!(recognize(content).map(|format| format.key()), Some("memray"));
        let error = open(&path).map(drop).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        error.replace(&path.display().to_string(), "FILE")
    };
    let aggregated = std::fs::read(fixture("aggregated.bin")).unwrap();
    assert_eq!(
        error("aggregated", &aggregated),
        "FILE: an aggregated capture has no history; 'memray run' without --aggregate writes one"
    );
    let mut older = std::fs::read(fixture("uncompressed.bin")).unwrap();
    older[7] = 11;
    assert_eq!(
        error("older", &older),
        "FILE: memray format 11 is not supported, only format 13 (memray 1.20); 'memray run' of that version writes it"
    );
    assert_eq!(error("short", b"memray\0\x0d\0"), "FILE: the capture ends too early");
}

#[test]
fn a_capture_that_was_cut_is_used_up_to_there() {
    let open_part = |name: &str, content: &[u8]| {
        let path = std::env::temp_dir().join(format!("highwater-memray-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let opened = open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        opened
    };
    let whole = std::fs::read(fixture("uncompressed.bin")).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap();
    // A program that was killed leaves a file with zeros at its end.
    let mut killed = whole[..end * 2 / 3].to_vec();
    killed.resize(end + 4096, 0);
    for content in [&whole[..end * 2 / 3], &killed] {
        let opened = open_part("killed", content);
        assert!(opened.end().unwrap().accounts.totals().figures.allocations > 50);
        assert!(!opened.source().notes.is_empty() || !opened.damage().is_empty());
    }
    let compressed = std::fs::read(fixture("allocators.bin")).unwrap();
    let opened = open_part("cut", &compressed[..compressed.len() - 100]);
    assert!(opened.end().unwrap().accounts.totals().figures.allocations > 1000);
    assert_eq!((opened.source().notes.len(), opened.damage().len()), (1, 0), "{:?}", opened.source());
    let mut damaged = compressed.clone();
    let at = compressed.len() - 500;
    damaged[at..at + 40].fill(0xff);
    let opened = open_part("damaged", &damaged);
    assert_eq!(opened.damage().len(), 1, "{:?}", opened.damage());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Bytes of a capture are overwritten, or it is cut.
    #[test]
    fn whatever_the_bytes_say_the_laws_hold(
        is_native in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
    ) {
        let name = if is_native { "native" } else { "plain" };
        let file = std::fs::read(fixture(&format!("{name}.bin"))).unwrap();
        let mut records = Vec::new();
        lz4_flex::frame::FrameDecoder::new(&file[..]).read_to_end(&mut records).unwrap();
        // The header stays as it is.
        let header = 700;
        for (at, byte) in changes {
            let at = header + at.index(records.len() - header);
            records[at] = byte;
        }
        records.truncate(header + length.index(records.len() - header));
        let path = std::env::temp_dir().join(format!("highwater-memray-any-{}", std::process::id()));
        std::fs::write(&path, records).unwrap();
        if let Ok(opened) = open(&path) {
            let end = opened.end().unwrap();
            prop_assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
            let recording = opened.recording(&mut |_, _| true).unwrap();
            let report = recording.check(&mut |_| {}).unwrap();
            prop_assert_eq!((report.violations, recording.damage()), (vec![], vec![]));
            prop_assert_eq!(recording.snapshot(&When::End).unwrap().accounts.to_state(), end.accounts.to_state());
        }
    }
}
