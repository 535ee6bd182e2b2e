//! Records programs that count their own blocks: every figure agrees, in total, by function and by thread.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use support::Place;
use support::c_library::Linked;
use support::programs;
use support::recorded::{Counts, Recording, Site, Witness, plain, record, run};

/// The program's own counts, printed by `tally.h` and by `counting.rs`.
struct Tally(Value);

impl Tally {
    fn functions(&self) -> BTreeMap<&str, &Value> {
        self.0["functions"].as_object().unwrap().iter().map(|(name, row)| (name.as_str(), row)).collect()
    }

    fn threads(&self) -> &[Value] {
        self.0["threads"].as_array().unwrap()
    }
}

/// The sites of a recording, by the innermost function that the program tallies. Other sites (start-up, the C library and the runtime) are under
/// `None`: their stack has no such function, or one of the functions in `apart` further in.
fn by_function<'a>(
    recording: &'a Recording,
    tally: &'a Tally,
    apart: &[&'a str],
) -> BTreeMap<Option<&'a str>, Vec<&'a Site>> {
    let tallied: Vec<&str> = tally.functions().into_keys().collect();
    let all: Vec<&str> = tallied.iter().chain(apart).copied().collect();
    let mut groups: BTreeMap<Option<&str>, Vec<&Site>> = BTreeMap::new();
    for site in &recording.sites {
        let owner = site.owner(&all).filter(|owner| tallied.contains(owner));
        groups.entry(owner).or_default().push(site);
    }
    groups
}

fn sum<'a>(sites: impl IntoIterator<Item = &'a Site>) -> Counts {
    let mut sum = Counts::default();
    for site in sites {
        sum += site.counts;
    }
    sum
}

/// All counts of the program agree with the recording.
fn compare(recording: &Recording, tally: &Tally, apart: &[&str]) {
    recording.has_no_oddities();
    let groups = by_function(recording, tally, apart);
    for (function, row) in tally.functions() {
        let sites = groups.get(&Some(function)).unwrap_or_else(|| panic!("{function} is not in the recording"));
        assert_eq!(sum(sites.iter().copied()), Counts::of(row), "{function}");
        // The peaks of several stacks do not add up; if several threads ran a function, the order is not known.
        if let ([site], Some(peak)) = (&sites[..], row["peak_bytes"].as_u64()) {
            assert_eq!(site.peak_bytes, peak, "peak of {function}");
        }
    }

    let runtime = groups.get(&None).cloned().unwrap_or_default();
    let (elsewhere, here): (Vec<&Site>, Vec<&Site>) = runtime.iter().partition(|site| site.is_on_another_thread());
    let mut total = sum(runtime.iter().copied());
    total += Counts::of(&tally.0["totals"]);
    assert_eq!(without_reuse(recording.totals()), without_reuse(total), "in total");
    compare_threads(recording, tally, &sum(here), &sum(elsewhere));
}

/// The runtime's blocks on threads other than the first are the sum of those threads' blocks beyond their tally.
fn compare_threads(recording: &Recording, tally: &Tally, on_main: &Counts, elsewhere: &Counts) {
    let recorded: BTreeMap<u64, &Value> =
        recording.report["threads"].as_array().unwrap().iter().map(|row| (row["id"].as_u64().unwrap(), row)).collect();
    let mut others_tally = *elsewhere;
    let mut others = Counts::default();
    for (index, thread) in tally.threads().iter().enumerate() {
        let id = thread["id"].as_u64().unwrap();
        let row = recorded.get(&id).unwrap_or_else(|| panic!("thread {id} is not in the recording"));
        if index == 0 {
            let mut expected = Counts::of(thread);
            expected += *on_main;
            assert_eq!(without_reuse(Counts::of(row)), without_reuse(expected), "the first thread");
            continue;
        }
        if *elsewhere == Counts::default() {
            assert_eq!(Counts::of(row), Counts::of(thread), "thread {id}");
            assert_eq!(row["peak_bytes"], thread["peak_bytes"], "peak of thread {id}");
        }
        others += Counts::of(row);
        others_tally += Counts::of(thread);
    }
    assert_eq!(without_reuse(others), without_reuse(others_tally), "all threads but the first");
}

/// Leaves out temporary blocks: only the recording knows which blocks of the runtime were temporary.
fn without_reuse(counts: Counts) -> Counts {
    Counts { temporary_allocations: 0, ..counts }
}

/// At the peak, the program's own blocks have the number of bytes that it counted.
fn compare_peak(place: &Place, recording: &Recording, tally: &Tally, apart: &[&str]) {
    let at_peak = Recording::read_at(place, "recording.hw", "peak");
    let groups = by_function(&at_peak, tally, apart);
    let own: u64 = groups
        .iter()
        .filter(|(owner, _)| owner.is_some())
        .map(|(_, sites)| sum(sites.iter().copied()).live_bytes)
        .sum();
    let runtime = groups.get(&None).map_or(0, |sites| sum(sites.iter().copied()).live_bytes);
    let peak = recording.report["totals"]["peak_bytes"].as_u64().unwrap();
    assert_eq!(own, tally.0["totals"]["peak_bytes"].as_u64().unwrap(), "the program's own at its peak");
    assert_eq!(own + runtime, peak, "everything at the peak");
}

/// A file with a short first line, and a second one that needs a larger buffer.
fn two_lines(place: &Place) -> std::path::PathBuf {
    place.write("lines", format!("short\n{}\n", "x".repeat(999)))
}

fn recorded_with_tally(place: &Place, program: &Path, arguments: &[&Path]) -> (Recording, Tally) {
    let ended = run(record(place, &["--no-mmap"], program).args(arguments)).succeeded();
    let tally = Tally(ended.json());
    (Recording::read(place), tally)
}

#[test]
fn every_function_of_the_malloc_family_is_recorded_exactly() {
    let place = Place::new();
    let lines = two_lines(&place);
    let (recording, tally) = recorded_with_tally(&place, &programs::c("counting"), &[&lines]);
    assert!(Counts::of(&tally.0["totals"]).cross_thread_frees > 0);
    compare(&recording, &tally, &[]);
    compare_peak(&place, &recording, &tally, &[]);
}

#[test]
fn the_names_of_threads_are_recorded() {
    let place = Place::new();
    let lines = two_lines(&place);
    let (recording, _) = recorded_with_tally(&place, &programs::c("counting"), &[&lines]);
    let mut names: Vec<&str> =
        recording.report["threads"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["counting", "worker-0", "worker-1", "worker-2", "worker-3"]);
}

#[test]
fn a_cpp_program_is_recorded_exactly_from_before_main_until_after_it() {
    let place = Place::new();
    let (recording, tally) = recorded_with_tally(&place, &programs::cpp("counting", &[]), &[]);
    compare(&recording, &tally, &["throw_an_exception", "new_that_fails"]);
    compare_peak(&place, &recording, &tally, &["throw_an_exception", "new_that_fails"]);
}

#[test]
fn a_rust_program_is_recorded_exactly() {
    let place = Place::new();
    let (recording, tally) = recorded_with_tally(&place, &programs::rust("counting"), &[]);
    compare(&recording, &tally, &[]);
}

/// Static programs as well, with every block of their C library; and each block once, where the preloaded library is there too.
#[test]
fn programs_that_contain_the_c_library_are_recorded_exactly() {
    let apart = ["throw_an_exception", "new_that_fails"];
    for linked in Linked::ALL {
        let place = Place::new();
        let lines = two_lines(&place);
        let (recording, tally) = recorded_with_tally(&place, &linked.c("counting"), &[&lines]);
        compare(&recording, &tally, &[]);
        compare_peak(&place, &recording, &tally, &[]);
        let (recording, tally) = recorded_with_tally(&place, &linked.cpp("counting"), &[]);
        compare(&recording, &tally, &apart);
        compare_peak(&place, &recording, &tally, &apart);
    }
}

/// Another library counts in the same process: even the runtime's blocks must agree.
#[test]
fn a_second_witness_in_the_same_process_counts_the_same() {
    let place = Place::new();
    let lines = two_lines(&place);
    for program in [programs::c("counting"), programs::cpp("counting", &[]), programs::rust("counting")] {
        let mut command = record(&place, &["--no-mmap"], &program);
        let folder = Witness::join(&mut command, &place);
        run(command.arg(&lines)).succeeded();
        let recording = Recording::read(&place);
        let seen = Witness::read_all(&folder)[&recording.report["source"]["pid"].as_u64().unwrap()];
        // The two may see threads in a different order: their peaks are only close.
        let ours = Witness { peak_bytes: seen.peak_bytes, peak_blocks: seen.peak_blocks, ..Witness::of(&recording) };
        assert_eq!(ours, seen, "{}", program.display());
    }
}

#[test]
fn mappings_are_blocks_of_their_own_heap_even_when_unmapped_in_parts() {
    let linked = Linked::ALL.map(|linked| linked.c("mapping"));
    for program in linked.into_iter().chain([programs::c("mapping")]) {
        compare_mappings(&program);
    }
}

fn compare_mappings(program: &Path) {
    let place = Place::new();
    let lines = two_lines(&place);
    let said = run(record(&place, &[], program).arg(&lines)).succeeded().json();
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    let mapped = recording.heap(&place, "mmap");
    assert_eq!(mapped["live_bytes"], said["live_bytes"]);
    // Reserved address space and files are in no figure, and are reported separately.
    assert_eq!(recording.report["source"]["reserved_bytes"], said["reserved_bytes"]);
    assert_eq!(recording.report["source"]["mapped_file_bytes"], said["file_bytes"]);
    place.highwater("report recording.hw").stdout_has(&["not counted", "reserved address space", "mapped files"]);
    for (function, live) in said["functions"].as_object().unwrap() {
        assert_eq!(recording.of_function(function).live_bytes, live.as_u64().unwrap(), "{function}");
    }
    // The program holds nothing else that is large: its peak is that of the mappings.
    let at_peak = Recording::read_at(&place, "recording.hw", "peak");
    let functions: Vec<&str> = said["functions"].as_object().unwrap().keys().map(String::as_str).collect();
    let own: u64 =
        at_peak.sites.iter().filter(|site| site.owner(&functions).is_some()).map(|site| site.counts.live_bytes).sum();
    assert_eq!(own, said["peak_bytes"].as_u64().unwrap());

    run(record(&place, &["--no-mmap"], program).arg(&lines)).succeeded();
    let without = Recording::read(&place);
    assert_eq!(without.heap(&place, "mmap"), Value::Null);
    assert!(without.totals().allocations > 0, "blocks are still recorded");
}

#[test]
fn a_recorded_program_says_what_it_says_by_itself() {
    let place = Place::new();
    let lines = two_lines(&place);
    let program = programs::c("counting");
    let alone = run(plain(&place, &program).arg(&lines)).succeeded().json();
    let recorded = run(record(&place, &[], &program).arg(&lines)).succeeded().json();
    assert_eq!(alone["totals"], recorded["totals"]);
    assert_eq!(alone["functions"], recorded["functions"]);
}
