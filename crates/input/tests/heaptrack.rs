//! Files of heaptrack, compared with the output of `heaptrack_print`.
//!
//! `fixtures/heaptrack-v3.zst` was made by `g++ -g -O1 -std=c++17 heaptrack.cpp -o demo && heaptrack ./demo` (heaptrack 1.4); the other files are made of its text.
#![allow(missing_docs)]

use highwater_input::{InputFile, open};
use highwater_model::{Nanos, Snapshot, When, laws};
use proptest::prelude::*;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Figures from `heaptrack_print` 1.4 for the fixture.
const ALLOCATIONS: u64 = 1609;
const LEAKED_BYTES: u64 = 1440;
const PEAK_BYTES: u64 = 106_467;
/// From `heaptrack_print -F … --flamegraph-cost-type allocations`.
const OF_PEAK: u64 = 500;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn text() -> String {
    let mut text = String::new();
    let file = std::fs::File::open(fixture("heaptrack-v3.zst")).unwrap();
    zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn opened(name: &str, content: impl AsRef<[u8]>) -> InputFile {
    let path = std::env::temp_dir().join(format!("highwater-heaptrack-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    let opened = open(&path).unwrap();
    opened.recording(&mut |_, _| true).unwrap();
    std::fs::remove_file(&path).unwrap();
    opened
}

/// The allocations of all stacks that contain a function with this name.
fn allocations_in(snapshot: &Snapshot, function: &str) -> u64 {
    let sites = snapshot.accounts.sites().iter();
    let inside =
        sites.filter(|(stack, _)| snapshot.catalog.frame_texts(*stack).any(|frame| frame.function == function));
    inside.map(|(_, figures)| figures.allocations).sum()
}

fn is_the_fixture(opened: &InputFile) {
    assert_eq!(opened.format().key(), "heaptrack");
    assert_eq!((opened.problems().bad_lines, opened.damage()), (0, vec![]));
    let end = opened.end().unwrap();
    assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
    let totals = end.accounts.totals();
    assert_eq!(totals.figures.allocations, ALLOCATIONS);
    assert_eq!((totals.figures.live_bytes(), totals.figures.live_blocks()), (LEAKED_BYTES, 30));
    assert_eq!(totals.figures.peak_bytes, PEAK_BYTES);
    assert_eq!(allocations_in(&end, "peak(int)"), OF_PEAK);
    assert_eq!(allocations_in(&end, "leak(int)"), 30);
    assert_eq!((opened.source().program.as_str(), opened.source().kind.key()), ("demo", "heaptrack"));
    // The program slept for 60 ms.
    assert!(opened.source().duration >= Nanos(60_000_000), "{}", opened.source().duration);
}

#[test]
fn figures_are_those_of_heaptrack_print() {
    is_the_fixture(&open(&fixture("heaptrack-v3.zst")).unwrap());
    is_the_fixture(&open(&fixture("heaptrack-v3.gz")).unwrap());
    is_the_fixture(&opened("plain", text()));
}

#[test]
fn older_versions_of_the_format_are_read() {
    // Before version 3 strings have no length.
    let without_lengths = |line: &str| match line.strip_prefix("s ").and_then(|rest| rest.split_once(' ')) {
        Some((_, string)) => format!("s {string}\n"),
        None => format!("{line}\n"),
    };
    let older = text().replacen("v 10400 3", "v 10200 2", 1);
    is_the_fixture(&opened("v2", older.lines().map(without_lengths).collect::<String>()));
    let oldest = "v 10000\nX ./old\ns main\ni 10 0 1\nt 1 0\n+ 40 1 7000\n+ 20 1 8000\nc 5\n- 7000\n";
    let end = opened("v0", oldest).end().unwrap();
    assert_eq!((end.accounts.totals().figures.allocations, end.accounts.totals().figures.live_bytes()), (2, 0x20));
    assert_eq!(allocations_in(&end, "main"), 2);
}

#[test]
fn a_history_has_instants_and_gauges() {
    let opened = open(&fixture("heaptrack-v3.zst")).unwrap();
    let recording = opened.recording(&mut |_, _| true).unwrap();
    let peak = recording.snapshot(&When::Peak).unwrap();
    assert_eq!(peak.accounts.totals().figures.live_bytes(), PEAK_BYTES);
    assert!(opened.may_have_remarks());
    let gauges = recording.gauges().unwrap();
    assert!(
        gauges.iter().all(|gauge| gauge.name == "rss" && gauge.value > 1 << 20) && !gauges.is_empty(),
        "{gauges:?}"
    );
    assert!(recording.check(&mut |_| {}).unwrap().violations.is_empty());
}

#[test]
fn the_frames_of_inlined_calls_stand_inside_of_their_callers() {
    let end = open(&fixture("heaptrack-v3.zst")).unwrap().end().unwrap();
    let (stack, _) = end.accounts.sites().iter().find(|(_, figures)| figures.allocations == OF_PEAK).unwrap();
    let frames: Vec<_> = end.catalog.frame_texts(stack).collect();
    let functions: Vec<&str> = frames.iter().map(|frame| frame.function).collect();
    let place = |part: &str| functions.iter().position(|function| function.contains(part)).expect(part);
    assert!(place("make_unique") < place("peak(int)") && place("peak(int)") < place("main"), "{functions:?}");
    assert!(frames[place("make_unique")].inlined && !frames[place("main")].inlined);
    assert!(frames[place("peak(int)")].file.ends_with("demo.cpp") && frames[place("peak(int)")].line > 0);
}

#[test]
fn what_makes_no_sense_is_reported_and_the_rest_keeps_its_numbers() {
    let content = "v 10400 3\nX ./odd\ns 4 main\ns zz nonsense\ns 5 other\ni 10 0 3\ni nonsense\nt 1 0\nt 9 9\na 40 1\na 10 99\n\
                   + 0\n+ 1\n+ 77\n- 0\n- 0\n? what\nc 1\n";
    let opened = opened("odd", content);
    let lines: Vec<u64> = opened.problems().first_bad_lines.iter().map(|line| line.number).collect();
    assert_eq!(lines, [4, 7, 9, 11, 14, 17]);
    let end = opened.end().unwrap();
    assert_eq!((end.accounts.totals().figures.allocations, end.accounts.totals().figures.frees), (2, 1));
    assert_eq!(end.accounts.anomalies().get(highwater_model::Anomaly::UnmatchedFree), 1);
    assert_eq!(allocations_in(&end, "other"), 1);
}

/// Lines of every kind, with mostly valid numbers.
fn any_line() -> impl Strategy<Value = String> {
    let number = || prop_oneof![4 => 0u64..6, 1 => any::<u64>()];
    prop_oneof![
        (number(), "[a-z ]{0,8}").prop_map(|(length, text)| format!("s {length:x} {text}")),
        (number(), number(), prop::collection::vec(number(), 0..7)).prop_map(|(address, module, places)| {
            let places: String = places.iter().map(|place| format!(" {place:x}")).collect();
            format!("i {address:x} {module:x}{places}")
        }),
        (number(), number()).prop_map(|(address, caller)| format!("t {address:x} {caller:x}")),
        (number(), number()).prop_map(|(size, call)| format!("a {size:x} {call:x}")),
        number().prop_map(|index| format!("+ {index:x}")),
        number().prop_map(|index| format!("- {index:x}")),
        number().prop_map(|time| format!("c {time:x}")),
        number().prop_map(|pages| format!("R {pages:x}")),
        "[ -~]{0,12}",
    ]
}

proptest! {
    #[test]
    fn whatever_the_lines_say_the_laws_hold(lines in prop::collection::vec(any_line(), 0..80), version in 0u64..4) {
        let content = format!("v 10400 {version:x}\nX ./any\n{}\n", lines.join("\n"));
        let path = std::env::temp_dir().join(format!("highwater-heaptrack-any-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let opened = open(&path).unwrap();
        let end = opened.end().unwrap();
        prop_assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
        let recording = opened.recording(&mut |_, _| true).unwrap();
        let report = recording.check(&mut |_| {}).unwrap();
        prop_assert_eq!((report.violations, recording.damage()), (vec![], vec![]));
        prop_assert_eq!(recording.snapshot(&When::End).unwrap().accounts.to_state(), end.accounts.to_state());
    }
}

#[test]
fn a_file_that_was_cut_is_used_up_to_there() {
    let whole = std::fs::read(fixture("heaptrack-v3.gz")).unwrap();
    let opened = opened("cut", &whole[..whole.len() * 2 / 3]);
    assert_eq!(opened.damage().len(), 1);
    assert!(opened.end().unwrap().accounts.totals().figures.allocations > 0);
}
