//! Compares recorded stacks with those of an independent unwinder (libgcc's), which the programs call at every allocation.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use support::Place;
use support::programs;
use support::recorded::{Ended, Frame, Recording, Site, record, run};

/// A stack from the other unwinder, innermost first: addresses, and names if the dynamic linker knows them.
struct Trace {
    size: u64,
    addresses: Vec<u64>,
    names: Vec<Option<String>>,
}

fn traces(ended: &Ended) -> Vec<Trace> {
    let trace = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let frames = value["frames"].as_array().unwrap();
        Trace {
            size: value["size"].as_u64().unwrap(),
            // For a signal frame the recorded address is one byte further: as with return addresses, the byte before it is in the instruction.
            addresses: frames.iter().map(|frame| frame[0].as_u64().unwrap() + frame[1].as_u64().unwrap()).collect(),
            names: frames.iter().map(|frame| frame[2].as_str().map(str::to_owned)).collect(),
        }
    };
    ended.stdout_text().lines().map(trace).collect()
}

/// The callers' addresses, without the innermost frame: its two calls (to malloc, to the unwinder) have different addresses.
type Callers = Vec<u64>;

/// The frames of a recorded stack with a return address of their own: not those inlined into another.
fn physical(frames: &[Frame]) -> Vec<&Frame> {
    frames.iter().filter(|frame| !frame.inlined).collect()
}

/// All stacks that the program noted are in the recording, with the same allocated sizes, summed by callers.
fn compare(recording: &Recording, traces: &[Trace]) {
    recording.has_no_oddities();
    let mut expected: BTreeMap<Callers, (u64, u64)> = BTreeMap::new();
    for trace in traces {
        let entry = expected.entry(trace.addresses[1..].to_vec()).or_default();
        entry.0 += 1;
        entry.1 += trace.size;
    }
    let mut recorded: BTreeMap<Callers, (u64, u64)> = BTreeMap::new();
    for site in &recording.sites {
        let Some(callers) = callers_of(site) else { continue };
        let entry = recorded.entry(callers).or_default();
        entry.0 += site.counts.allocations;
        entry.1 += site.counts.allocated_bytes;
    }
    let mut wrong = Vec::new();
    for trace in traces {
        let callers = &trace.addresses[1..];
        if recorded.get(callers) != expected.get(callers) {
            wrong.push(describe(recording, trace));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} stacks differ, such as\n{}",
        wrong.len(),
        traces.len(),
        wrong.into_iter().take(5).collect::<String>()
    );
}

fn describe(recording: &Recording, trace: &Trace) -> String {
    let shown = |name: &str, address: u64| format!("    {address:#x} {name}\n");
    let other: String = trace
        .names
        .iter()
        .zip(&trace.addresses)
        .map(|(name, &at)| shown(name.as_deref().unwrap_or("?"), at))
        .take(60)
        .collect();
    let ours = recording.sites.iter().find(|site| site.counts.allocated_bytes == trace.size).map_or_else(
        || "    no site of this size\n".to_owned(),
        |site| {
            let line = |frame: &&Frame| shown(&frame.function, frame.address.unwrap_or(0));
            physical(&site.frames).iter().map(line).take(60).collect()
        },
    );
    format!("size {}:\n  libgcc ({} frames)\n{other}  recorded\n{ours}", trace.size, trace.addresses.len())
}

/// The addresses of a recorded stack's callers; `None` if one is not known.
fn callers_of(site: &Site) -> Option<Callers> {
    physical(&site.frames).iter().skip(1).map(|frame| frame.address).collect()
}

/// If the dynamic linker knows a name, the recording has the same one.
fn compare_names(recording: &Recording, traces: &[Trace]) {
    let sites: BTreeMap<Callers, &Site> =
        recording.sites.iter().filter_map(|site| Some((callers_of(site)?, site))).collect();
    // If several names have one address in the C library, any of them is accepted.
    let in_library = ["qsort_r", "gsignal", "imaxabs", "ffsll", "__libc_start_main"];
    for trace in traces {
        let site = sites[&trace.addresses[1..]];
        for (frame, name) in physical(&site.frames).iter().zip(&trace.names) {
            let Some(name) = name.as_deref().filter(|name| !in_library.contains(name)) else { continue };
            assert_eq!(frame.function, name, "size {}", trace.size);
        }
    }
}

fn stacks_of_c(flags: &[&str], output: &str) -> (Place, Ended) {
    let place = Place::new();
    let plugin_a = programs::library("plugin", "plugin_a", &["-DNAME=plugin_a", "-DPADDING=64"]);
    let plugin_b = programs::library("plugin", "plugin_b", &["-DNAME=plugin_b", "-DPADDING=480", "-DLONGER"]);
    let common = ["-rdynamic", "-foptimize-sibling-calls", "-Wl,-z,lazy"];
    let program = programs::c_as("stacks", output, &[&common[..], flags].concat());
    let ended = run(record(&place, &["--no-mmap"], program).arg(plugin_a).arg(plugin_b)).succeeded();
    (place, ended)
}

#[test]
fn stacks_of_c_are_those_of_another_unwinder() {
    let (place, ended) = stacks_of_c(&[], "stacks");
    let (recording, traces) = (Recording::read(&place), traces(&ended));
    assert!(traces.len() > 3000, "{}", traces.len());
    compare(&recording, &traces);
    compare_names(&recording, &traces);
}

#[test]
fn stacks_with_frame_pointers_are_the_same() {
    let (place, ended) = stacks_of_c(&["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"], "stacks-fp");
    compare(&Recording::read(&place), &traces(&ended));
}

#[test]
fn stacks_without_optimisation_are_the_same() {
    let (place, ended) = stacks_of_c(&["-O0"], "stacks-O0");
    compare(&Recording::read(&place), &traces(&ended));
}

#[test]
fn stacks_of_a_program_at_a_fixed_place_are_the_same() {
    let (place, ended) = stacks_of_c(&["-no-pie", "-fno-pie", "-Wl,-z,now"], "stacks-no-pie");
    compare(&Recording::read(&place), &traces(&ended));
}

#[test]
fn stacks_of_a_program_with_pages_missing_between_its_segments_are_the_same() {
    let (place, ended) = stacks_of_c(&["-Wl,--section-start=.text=0x200000"], "stacks-apart");
    let (recording, traces) = (Recording::read(&place), traces(&ended));
    compare(&recording, &traces);
    compare_names(&recording, &traces);
}

#[test]
fn a_recursion_of_ten_thousand_is_stored_whole() {
    let (place, _) = stacks_of_c(&[], "stacks");
    let recording = Recording::read(&place);
    let deep: Vec<usize> = recording
        .sites
        .iter()
        .filter(|site| site.counts.allocated_bytes == 70601)
        .map(|site| site.frames.iter().filter(|frame| frame.function == "descend").count())
        .collect();
    assert_eq!(deep, [10001, 10001], "from two places, both to the bottom");
    assert_eq!(recording.report["anomalies"]["truncated_stacks"], 0);
}

#[test]
fn functions_of_unloaded_libraries_keep_their_names_even_where_another_was_loaded_in_their_place() {
    let (place, _) = stacks_of_c(&[], "stacks");
    let recording = Recording::read(&place);
    for turn in 0..3 {
        for (size, plugin) in [(70501 + turn * 2, "plugin_a"), (70502 + turn * 2, "plugin_b")] {
            let found: Vec<Vec<&str>> = recording
                .sites
                .iter()
                .filter(|site| site.frames.iter().any(|frame| frame.function == format!("enter_{plugin}")))
                .map(|site| site.frames.iter().map(|frame| frame.function.as_str()).collect())
                .collect();
            assert!(!found.is_empty(), "size {size}: nobody came through {plugin}");
            for functions in found {
                assert_eq!(
                    functions[..3],
                    ["allocate_plainly", &format!("inside_{plugin}"), &format!("enter_{plugin}")]
                );
            }
        }
    }
    let modules = place.json("info recording.hw")["modules"].to_string();
    assert!(modules.contains("plugin_a.so") && modules.contains("plugin_b.so"), "{modules}");
}

#[test]
fn stacks_of_cpp_are_those_of_another_unwinder_through_exceptions_and_callbacks() {
    let place = Place::new();
    let program = programs::cpp("stacks", &["-rdynamic"]);
    let ended = run(&mut record(&place, &["--no-mmap"], program)).succeeded();
    let recording = Recording::read(&place);
    compare(&recording, &traces(&ended));

    let of_size = |size: u64| {
        let site = recording.sites.iter().find(|site| site.counts.allocated_bytes == size);
        &site.unwrap_or_else(|| panic!("nothing of size {size}")).frames
    };
    let inlined: Vec<(&str, bool)> =
        of_size(80201).iter().map(|frame| (frame.function.as_str(), frame.inlined)).take(3).collect();
    assert_eq!(inlined, [("inlined_inner", true), ("inlined_middle", true), ("not_inlined_outer", false)]);
    let name = of_size(80104)[0].full_name.clone().unwrap();
    assert!(name.starts_with("shapes::Polygon<3>::visit("), "{name}");
    assert!(of_size(80104)[0].line.is_some_and(|line| line > 50));
}
