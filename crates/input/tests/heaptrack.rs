//! Files of heaptrack, compared with the output of `heaptrack_print`: `fixtures/heaptrack/README.md`.
#![allow(missing_docs)]

use highwater_input::{InputFile, open};
use highwater_model::{FrameText, Nanos, Snapshot, StackId, ThreadId, When, laws};
use highwater_symbols::{ModuleIdentity, demangle};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Figures from `heaptrack_print` 1.4 for the fixture.
const ALLOCATIONS: u64 = 1609;
const LEAKED_BYTES: u64 = 1440;
const PEAK_BYTES: u64 = 106_467;
/// From `heaptrack_print -F … --flamegraph-cost-type allocations`.
const OF_PEAK: u64 = 500;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/heaptrack").join(name)
}

fn text() -> String {
    text_of("heaptrack-v3.zst")
}

fn text_of(name: &str) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(fixture(name)).unwrap();
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

/// Allocations, temporary allocations, leaked bytes, bytes at the peak.
type Costs = [u64; 4];

/// The figures of each stack, and the sums, as `heaptrack_print` has them.
fn printed(name: &str) -> (BTreeMap<String, Costs>, Costs) {
    let text = std::fs::read_to_string(fixture(&format!("{name}.stacks.txt"))).unwrap();
    let mut stacks = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let costs = [0, 1, 2, 3].map(|column| words[column].parse::<u64>().unwrap());
        let frames = words[4].split(';').map(|frame| {
            let (function, file) = frame.split_once(' ').unwrap_or((frame, ""));
            if function.starts_with("_R") { format!("{} {file}", demangle(function)) } else { frame.to_owned() }
        });
        add(&mut stacks, frames.map(|frame| frame.trim().to_owned()).collect::<Vec<_>>().join(";"), costs);
    }
    let sums = sums(&stacks);
    (stacks, sums)
}

fn add(stacks: &mut BTreeMap<String, Costs>, stack: String, costs: Costs) {
    let sum = stacks.entry(stack).or_default();
    (0..4).for_each(|at| sum[at] += costs[at]);
}

fn sums(stacks: &BTreeMap<String, Costs>) -> Costs {
    stacks.values().fold([0; 4], |sum, costs| [0, 1, 2, 3].map(|at| sum[at] + costs[at]))
}

/// A stack as `heaptrack_print` writes it into a flame graph: it ends at `main`, leaves `operator new` out, and has the calls that were inlined at one address in the order
/// from the innermost to the outermost.
fn as_printed(snapshot: &Snapshot, stack: StackId) -> String {
    let frames: Vec<FrameText<'_>> = snapshot.catalog.frame_texts(stack).collect();
    let mut addresses: Vec<&[FrameText<'_>]> = frames.chunk_by(|inner, _| inner.inlined).collect();
    let news = addresses.iter().take_while(|frames| frames[0].function.starts_with("operator new")).count();
    addresses.drain(..news);
    let stops = ["main", "__libc_start_main", "__static_initialization_and_destruction_0"];
    let end = addresses.iter().position(|frames| stops.contains(&frames[0].function));
    addresses.truncate(end.map_or(addresses.len(), |end| end + 1));
    let frames = addresses.iter().rev().flat_map(|frames| frames.iter()).map(|frame| {
        let name = if frame.function.is_empty() { format!("{:#x}", frame.address) } else { frame.function.to_owned() };
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        if file.is_empty() { name } else { format!("{name} ({file})") }
    });
    frames.map(|frame| format!("{frame};")).collect()
}

fn ours(opened: &InputFile) -> BTreeMap<String, Costs> {
    let recording = opened.recording(&mut |_, _| true).unwrap();
    let (peak, end) = (recording.snapshot(&When::Peak).unwrap(), recording.snapshot(&When::End).unwrap());
    let mut stacks = BTreeMap::new();
    for (stack, figures) in end.accounts.sites().iter() {
        let costs = [figures.allocations, figures.temporary_allocations, figures.live_bytes(), 0];
        add(&mut stacks, as_printed(&end, stack), costs);
    }
    for (stack, figures) in peak.accounts.sites().iter() {
        add(&mut stacks, as_printed(&peak, stack), [0, 0, 0, figures.live_bytes()]);
    }
    stacks
}

/// How often `heaptrack_print` takes a free for that of a temporary allocation by mistake. It keeps the number of the latest allocation, and 0 after a free; but 0 is also the
/// number of the file's first allocation.
fn mistakes(text: &str) -> u64 {
    let events: Vec<&str> = text.lines().filter(|line| line.starts_with("+ ") || line.starts_with("- ")).collect();
    events.windows(2).filter(|pair| pair[0].starts_with('-') && pair[1] == "- 0").count() as u64
}

#[test]
fn every_figure_of_every_stack_is_that_of_heaptrack_print() {
    for name in ["churn", "nodes", "words", "nodes-v2", "nodes-v1"] {
        let opened = open(&fixture(&format!("{name}.zst"))).unwrap();
        assert_eq!((opened.problems().bad_lines, opened.damage()), (0, vec![]), "{name}");
        let (mut printed, sums_printed) = printed(name);
        let ours = ours(&opened);
        let by_mistake = mistakes(&text_of(&format!("{name}.zst")));
        assert_eq!(by_mistake, 1, "{name}: the C++ library frees its reserve at the end");
        let first = printed.iter_mut().find(|(stack, _)| ours.get(*stack).is_some_and(|of| of[3] == 72_704)).unwrap();
        first.1[1] -= by_mistake;
        assert_eq!(ours, printed, "{name}");
        let summary = std::fs::read_to_string(fixture(&format!("{name}.print.txt"))).unwrap();
        for (line, sum) in
            [("calls to allocation functions: ", sums_printed[0]), ("temporary memory allocations: ", sums_printed[1])]
        {
            assert!(summary.contains(&format!("{line}{sum} (")), "{name}: {line}{sum}");
        }
        let totals = opened.end_totals().unwrap().figures;
        let figures =
            [totals.allocations, totals.temporary_allocations + by_mistake, totals.live_bytes(), totals.peak_bytes];
        assert_eq!(figures, sums_printed, "{name}");
    }
}

/// `heaptrack_interpret` compares addresses, `heaptrack_print` only sizes and stacks: it takes more allocations for temporary.
#[test]
fn a_raw_file_has_the_figures_of_its_interpreted_file() {
    for (name, raw) in [
        ("churn", "churn.raw.zst"),
        ("nodes", "nodes.raw.zst"),
        ("words", "words.raw.zst"),
        ("nodes", "nodes-v2.raw.zst"),
    ] {
        let opened = open(&fixture(raw)).unwrap();
        assert_eq!(
            (opened.format().key(), opened.problems().bad_lines, opened.damage()),
            ("heaptrack", 0, vec![]),
            "{raw}"
        );
        let end = opened.end().unwrap();
        assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
        // The interpreter leaves out frees of blocks that are older than the recording.
        let known = end.accounts.anomalies().get(highwater_model::Anomaly::UnmatchedFree);
        assert_eq!(known, if name == "words" { 2 } else { 0 }, "{raw}");
        let totals = end.accounts.totals().figures;
        let (_, printed) = printed(name);
        assert_eq!(
            [totals.allocations, totals.live_bytes(), totals.peak_bytes],
            [printed[0], printed[2], printed[3]],
            "{raw}"
        );
        let interpreted = std::fs::read_to_string(fixture(&format!("{name}.interpret.txt"))).unwrap();
        let numbers: Vec<u64> = interpreted.lines().filter_map(|line| line.rsplit('\t').next()?.parse().ok()).collect();
        assert_eq!(vec![totals.allocations, totals.live_blocks(), totals.temporary_allocations], numbers, "{raw}");
        // The interpreted file has one row for each stack, too.
        let rows = open(&fixture(&format!("{name}.zst"))).unwrap().end().unwrap();
        let costs = |snapshot: &Snapshot| {
            let sites = snapshot.accounts.sites().iter();
            let mut costs: Vec<_> = sites.map(|(_, figures)| (figures.allocations, figures.live_bytes())).collect();
            costs.sort_unstable();
            costs
        };
        assert_eq!(costs(&end), costs(&rows), "{raw}");
        assert_eq!(opened.source().executable, format!("/srv/demo/{name}"));
        assert_eq!(end.accounts.threads().iter().map(|thread| thread.id).collect::<Vec<_>>(), [ThreadId::UNKNOWN]);
    }
}

/// The addresses of a raw file get their names from the files that the program was loaded from, if these are still the same.
#[test]
fn addresses_of_a_raw_file_are_named_if_the_module_is_still_there() {
    let folder = std::env::temp_dir().join(format!("highwater-heaptrack-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (program, source) = (folder.join("program"), folder.join("program.c"));
    std::fs::write(&source, "int outer(void) { return 1; }\nint main(void) { return outer(); }\n").unwrap();
    let made = std::process::Command::new("cc").args(["-g", "-O0", "-o"]).args([&program, &source]).status().unwrap();
    assert!(made.success());
    let symbols = std::process::Command::new("nm").arg(&program).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let segments = ModuleIdentity::of(&program).unwrap().segments;
    let path = program.to_str().unwrap();
    let file = |growth: u64| {
        let base = 0x5500_0000_0000u64;
        let parts: String = segments.iter().map(|(at, size)| format!(" {at:x} {:x}", size + growth)).collect();
        format!(
            "v 10400 3\nx {:x} {path}\nX ./program\nI 1000 10\nm 1 -\nm 1 x {base:x}{parts}\nt {:x} 0\nt {:x} 1\n+ 20 2 7000\nc 3\n- 7000\n",
            path.len(),
            base + address("main") + 5,
            base + address("outer") + 5,
        )
    };
    let functions = |opened: &InputFile| -> Vec<String> {
        let recording = opened.recording(&mut |_, _| true).unwrap();
        let end = recording.snapshot(&When::End).unwrap();
        let stack = end.accounts.sites().iter().next().unwrap().0;
        end.catalog.frame_texts(stack).map(|frame| frame.function.to_owned()).collect()
    };
    let same = opened("named", file(0));
    assert_eq!(functions(&same), ["outer", "main"]);
    assert_eq!(same.source().notes, Vec::<String>::new());
    let other = opened("unnamed", file(1));
    assert_eq!(functions(&other), ["", ""], "names of another build would be wrong");
    let note = format!("When this file was read, 2 of 2 code addresses had no name: {path} was not found as recorded.");
    assert_eq!(other.source().notes, [note]);
    std::fs::remove_dir_all(&folder).unwrap();
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
        (number(), number(), number()).prop_map(|(size, call, address)| format!("+ {size:x} {call:x} {address:x}")),
        Just("x 8 /no/such".to_owned()),
        (number(), prop::collection::vec(number(), 0..5)).prop_map(|(base, parts)| {
            let parts: String = parts.iter().map(|part| format!(" {part:x}")).collect();
            format!("m 1 x {base:x}{parts}")
        }),
        Just("m 1 -".to_owned()),
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
