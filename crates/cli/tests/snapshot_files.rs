//! The answers of the reading commands about a snapshot file, with every block and with figures only.

mod support;

use highwater_model::{AccountsState, Blocks, Nanos, Source, When};
use highwater_store::{Recording, write_snapshot};
use serde_json::{Value, json};
use support::{Place, in_the_kitchen};

/// The kitchen at its peak, taken in the tenth second, as `blocks.hw` and `figures.hw`.
fn with_snapshots() -> Place {
    let place = in_the_kitchen();
    let recording = Recording::open(&place.file("kitchen.hw")).unwrap();
    let peak = recording.snapshot(&When::Peak).unwrap();
    let mut state = peak.accounts.to_state();
    // A live process has no known peak.
    state.totals.peak_event = 0;
    for (name, aggregated) in [("blocks.hw", false), ("figures.hw", true)] {
        let source = Source { aggregated, usable_sizes: true, duration: Nanos(10_000_000_000), ..peak.source.clone() };
        let blocks = if aggregated { Blocks::default() } else { state.blocks.clone() };
        let state = AccountsState { blocks, ..state.clone() };
        let file = write_snapshot(Vec::new(), &source, &peak.catalog, &state).unwrap().0;
        place.write(name, file);
    }
    place
}

const BOTH: [&str; 2] = ["blocks.hw", "figures.hw"];

#[test]
fn a_report_says_that_it_is_a_snapshot_and_of_what() {
    let place = with_snapshots();
    let expected = "\
snapshot   of kitchen (pid 7 on home) at 10.00s
live       5.4 KiB in 3 blocks
usable     5.4 KiB in 5.4 KiB of blocks (slack 12 B)
allocated  5.4 KiB in 3 allocations

share     live  blocks  site
90.9%  4.9 KiB       2  bake  src/bake.rs:1
 9.1%    500 B       1  chop  src/chop.rs:1
";
    assert_eq!(place.highwater("report blocks.hw --stacks top").stdout, expected);
    let without_usable: Vec<&str> = expected.split_inclusive('\n').filter(|line| !line.starts_with("usable")).collect();
    assert_eq!(place.highwater("report figures.hw --stacks top").stdout, without_usable.concat());
    for file in BOTH {
        let (report, recorded) =
            (place.json(&format!("report {file}")), place.json("report kitchen.hw --at peak --by site"));
        assert_eq!(report["totals"]["live_bytes"], recorded["totals"]["live_bytes"]);
        assert_eq!(report["sites"][0]["stack"], recorded["sites"][0]["stack"]);
        assert_eq!((&report["recording"], &report["source"]["snapshot"]), (&Value::Null, &json!(true)));
        assert_eq!(report["source"]["aggregated"], file == "figures.hw");
        for name in ["peak_bytes", "peak_blocks", "peak_at_ns", "peak_bytes_inside_reallocation"] {
            assert_eq!(report["totals"][name], Value::Null, "{name}");
        }
        assert_eq!(report["totals"]["usable_bytes"].is_null(), file == "figures.hw");
        place.highwater(&format!("report {file} --by thread")).stdout_has(&["main  thread 1", "worker  thread 2"]);
        place.highwater(&format!("report {file} --by heap")).stdout_has(&["100.0%  5.4 KiB       3  malloc"]);
    }
    let recorded = place.json("report kitchen.hw");
    assert_eq!((&recorded["source"]["snapshot"], &recorded["source"]["aggregated"]), (&json!(false), &json!(false)));
}

#[test]
fn there_is_one_instant_and_no_peak() {
    let place = with_snapshots();
    for file in BOTH {
        for when in ["start", "peak", "5s", "50%", "mark:loaded"] {
            let report = place.highwater(&format!("report {file} --at {when}"));
            report.is_one_clear_line_about(&[file, "one instant only", "10.00s"]);
            place.highwater(&format!("diff {file}@{when} kitchen.hw")).is_one_clear_line_about(&["one instant only"]);
        }
        place.highwater(&format!("report {file} --at 10s")).stdout_has(&["5.4 KiB in 3 blocks"]);
        place.highwater(&format!("timeline {file}")).is_one_clear_line_about(&[file, "no timeline"]);
        place.highwater(&format!("timeline {file} --json")).is_one_clear_line_about(&[file, "no timeline"]);
        place.highwater(&format!("report {file} --metric peak")).is_one_clear_line_about(&["no peaks", "--metric"]);
        let export = place.highwater(&format!("export {file} --to folded --metric peak -o -"));
        export.is_one_clear_line_about(&["no peaks", "--metric"]);
        for metric in ["allocated", "allocations", "temporary"] {
            let report = place.highwater(&format!("report {file} --metric {metric}"));
            report.is_one_clear_line_about(&["a snapshot knows what is live", "--metric live"]);
            let export = place.highwater(&format!("export {file} --to flamegraph --metric {metric} -o -"));
            export.is_one_clear_line_about(&["a snapshot knows what is live", "--metric live"]);
        }
    }
}

#[test]
fn info_tells_what_is_held() {
    let place = with_snapshots();
    let blocks = place.highwater("info blocks.hw");
    blocks.stdout_has(&[
        "Highwater snapshot, format 1, ",
        "taken    10.00s after it began",
        "5.4 KiB in 3 blocks, every single one",
    ]);
    assert!(!blocks.stdout.contains("\nevents"), "{}", blocks.stdout);
    place.highwater("info figures.hw").stdout_has(&["5.4 KiB in 3 blocks, by site, thread and type, no single blocks"]);
    let info = place.json("info figures.hw");
    assert_eq!((&info["file"]["kind"], &info["file"]["bytes_per_event"]), (&json!("snapshot"), &Value::Null));
    for file in BOTH {
        place.highwater(&format!("check {file}")).stdout_has(&[": sound (a snapshot, "]);
        assert_eq!(place.json(&format!("check {file}"))["sound"], true);
    }
}

#[test]
fn ages_are_known_of_single_blocks_only() {
    let place = with_snapshots();
    place.highwater("leaks blocks.hw").stdout_has(&[
        "snapshot  of kitchen (pid 7 on home) at 10.00s\nlive      5.4 KiB in 3 blocks\n",
        "share     live  blocks  oldest  site",
        "90.9%  4.9 KiB       2   9.00s  bake",
    ]);
    place.highwater("leaks figures.hw").stdout_has(&["share     live  blocks  site", "90.9%  4.9 KiB       2  bake"]);
    assert_eq!(place.json("leaks blocks.hw")["sites"][0]["oldest_age_ns"], 9_000_000_000u64);
    assert_eq!(place.json("leaks figures.hw")["sites"][0].get("oldest_age_ns"), None);
    for file in BOTH {
        let nobody = place.highwater(&format!("leaks {file} --filter nobody"));
        nobody.stdout_has(&["Nothing that is live matches 'nobody'."]);
    }
}

#[test]
fn snapshots_are_compared_with_each_other_and_with_recordings() {
    let place = with_snapshots();
    place.highwater("diff blocks.hw figures.hw").stdout_has(&["Nothing changed."]);
    let diff = place.json("diff figures.hw kitchen.hw");
    assert_eq!((&diff["live_bytes_delta"], &diff["sites"][0]["change"]), (&json!(800 - 5500), &json!("went")));
    assert_eq!(place.json("diff kitchen.hw@mark:loaded blocks.hw")["live_bytes_delta"], 4000);
}

#[test]
fn every_format_can_be_exported() {
    let place = with_snapshots();
    for file in BOTH {
        let folded = place.highwater(&format!("export {file} --to folded -o -"));
        let mut lines: Vec<&str> = folded.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["main;cook;bake 5000", "main;cook;chop 500"]);
        place.highwater(&format!("export {file} --to flamegraph -o -")).stdout_has(&["<svg", "bake"]);
        assert_eq!(place.highwater(&format!("export {file} --to pprof -o {file}.pb.gz")).code, 0);
    }
    let document = |file: &str| -> Value {
        serde_json::from_str(&place.highwater(&format!("export {file} --to json -o -")).stdout).unwrap()
    };
    assert_eq!(document("blocks.hw")["blocks"].as_array().unwrap().len(), 3);
    let figures = document("figures.hw");
    assert_eq!((&figures["blocks"], figures["sites"].as_array().unwrap().len()), (&Value::Null, 2));
}

#[test]
fn one_heap_is_told_by_blocks() {
    let place = with_snapshots();
    place
        .highwater("report blocks.hw --filter heap:malloc")
        .stdout_has(&["only       heap:malloc", "5.4 KiB in 3 blocks"]);
    place.highwater("report blocks.hw --filter heap:mmap").stdout_has(&["Nothing is live."]);
    let refused = place.highwater("report figures.hw --filter heap:malloc");
    refused.is_one_clear_line_about(&["figures.hw", "not single blocks"]);
}

#[test]
fn a_damaged_snapshot_is_one_line_or_a_warning() {
    let place = with_snapshots();
    for file in BOTH {
        let bytes = std::fs::read(place.file(file)).unwrap();
        for length in (1..bytes.len()).step_by(7) {
            place.write("cut.hw", &bytes[..length]);
            let run = place.highwater("report cut.hw");
            assert!(run.stderr.lines().count() <= 1, "{length}: {run:?}");
            if run.code == 0 {
                assert!(run.stdout.contains("5.4 KiB in 3 blocks"), "{length}: {run:?}");
            } else {
                assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (1, "", 1), "{length}");
                assert_eq!(place.highwater("check cut.hw").code, 1, "{length}");
            }
        }
        for at in (0..bytes.len()).step_by(11) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            place.write("flipped.hw", &flipped);
            let run = place.highwater("report flipped.hw");
            assert!(run.stderr.lines().count() <= 1, "{at}: {run:?}");
            assert!(run.code == 1 || run.stdout.contains("5.4 KiB in 3 blocks"), "{at}: {run:?}");
        }
    }
}
