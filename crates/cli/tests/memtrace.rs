//! Traces of OCaml programs, from the user's point of view.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::{Place, Run};

/// The commands that read one file.
const READING: [&str; 5] = ["report", "leaks", "timeline", "info", "check"];

/// Checks on the result of a run.
trait Outcome {
    fn succeeded(&self);
    fn stderr_has(&self, texts: &[&str]);
}

impl Outcome for Run {
    fn succeeded(&self) {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
    }

    fn stderr_has(&self, texts: &[&str]) {
        for text in texts {
            assert!(self.stderr.contains(text), "'{text}' is not in:\n{}", self.stderr);
        }
    }
}

const GOOD: [&str; 10] = [
    "steady",
    "deep",
    "extern",
    "full",
    "longrun-pause",
    "multidom",
    "multidom-par",
    "tcp-client",
    "old-v1",
    "mirage-client",
];

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/memtrace");
    let bytes = std::fs::read(folder.join(name)).unwrap();
    if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

fn trace(name: &str) -> Vec<u8> {
    fixture(&format!("{name}.ctf.zst"))
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&fixture(&format!("{name}.expected.json"))).unwrap()
}

/// A directory with a trace.
fn with(name: &str) -> Place {
    let place = Place::new();
    place.write("trace.ctf", trace(name));
    place
}

#[test]
fn every_figure_is_that_of_the_reference_in_the_trace_and_in_its_recording() {
    for name in GOOD {
        let (place, expected) = (with(name), expected(name));
        place.highwater("import trace.ctf -o trace.hw").succeeded();
        place.highwater("check trace.hw").stdout_has(&["sound"]);
        for file in ["trace.ctf", "trace.hw"] {
            let report = place.json(&format!("report {file}"));
            let totals = &report["totals"];
            let field = |field: &str| &expected[field];
            assert_eq!(totals["samples"], *field("sum_nsamples"), "{name}");
            assert_eq!(totals["live_samples"], *field("live_nsamples_at_end"), "{name}");
            assert_eq!(totals["live_records"], *field("live_objects_at_end"), "{name}");
            assert_eq!(totals["allocated_bytes"].as_f64(), field("allocated_bytes_estimate").as_f64(), "{name}");
            assert_eq!(totals["allocated_words"].as_f64(), field("allocated_words_estimate").as_f64(), "{name}");
            let events = &expected["events"];
            assert_eq!(
                (&totals["records"], &totals["freed_records"]),
                (&events["alloc"], &events["collect"]),
                "{name}"
            );
            let promoted = totals.get("promoted_records").cloned().unwrap_or(json!(0));
            assert_eq!(promoted, events["promote"], "{name}");
            assert_eq!(totals["peak_at_ns"], field("max_live_nsamples_time_order_at_us").as_u64().unwrap() * 1000);
            let spacing = report["source"]["bytes_per_sample"].as_f64().unwrap();
            let peak = field("max_live_nsamples_time_order").as_f64().unwrap() * spacing;
            assert_eq!(totals["peak_bytes"].as_f64().unwrap(), peak, "{name}");
            assert_eq!(
                report["sites"].as_array().unwrap().len() as u64,
                field("distinct_backtraces").as_u64().unwrap()
            );
            assert_eq!(report["recording"]["events"], events_of(events), "{name}");
        }
        let (trace, recording) = (place.json("report trace.ctf"), place.json("report trace.hw"));
        assert!(trace == recording, "{name}: the trace and its recording differ");
    }
}

fn events_of(events: &Value) -> u64 {
    ["alloc", "promote", "collect"].iter().map(|kind| events[kind].as_u64().unwrap()).sum()
}

#[test]
fn the_functions_that_allocate_most_are_those_of_the_reference() {
    for name in GOOD {
        let (place, expected) = (with(name), expected(name));
        let report = place.json("report trace.ctf --by function --metric allocated");
        let samples = |function: &str| {
            let row = report["functions"].as_array().unwrap().iter().find(|row| row["name"] == function);
            row.map_or(0, |row| row["samples"].as_u64().unwrap())
        };
        for row in expected["top_functions_direct"].as_array().unwrap() {
            let (function, wanted) = (row["function"].as_str().unwrap(), row["nsamples"].as_u64().unwrap());
            // In a few of the invented traces, functions in several files have the same name; here they are one row.
            let is_exact = name != "multidom";
            assert!(samples(function) == wanted || (!is_exact && samples(function) > wanted), "{name}: {function}");
        }
    }
}

#[test]
fn every_reading_command_works_on_a_trace() {
    let place = with("extern");
    for command in READING {
        place.highwater(&format!("{command} trace.ctf")).succeeded();
        assert_eq!(place.json(&format!("{command} trace.ctf"))["source"]["kind"], "memtrace", "{command}");
    }
    place.highwater("report trace.ctf --at peak --by thread").stdout_has(&["domain 0"]);
    place.highwater("report trace.ctf --at 50%").stdout_has(&["at 50%"]);
    place.highwater("diff trace.ctf@50% trace.ctf").stdout_has(&["change"]);
    place.highwater("timeline trace.ctf --width 80").stdout_has(&["live bytes", "peak ~27.1 MiB"]);
    for format in ["pprof", "folded", "flamegraph", "json", "memtrace"] {
        place.highwater(&format!("export trace.ctf --to {format} -o out.{format}")).succeeded();
        assert!(std::fs::metadata(place.file(&format!("out.{format}"))).unwrap().len() > 100, "{format}");
    }
    assert_eq!(place.json("info out.memtrace")["source"]["context"], "external and large blocks");
}

#[test]
fn info_tells_whose_trace_it_is() {
    let place = with("extern");
    let run = place.highwater("info trace.ctf");
    run.stdout_has(&[
        "memtrace trace, version 2, 54.6 KiB",
        "program    extern.exe (pid 14356 on fixture-host)",
        "context    external and large blocks",
        "runtime    a=2,b=0,H=0",
        "sampled    each word with a chance of 0.0001: one sample for each 78.1 KiB on average",
        "objects    2,699 sampled, 2,539 of them freed, 953 promoted",
        "allocated  ~360.0 MiB (349.8–370.3 MiB), from 4,719 samples",
        "events     6,191",
    ]);
    place.highwater("import trace.ctf -o trace.hw").succeeded();
    place.highwater("info trace.hw").stdout_has(&["context    external and large blocks", "runtime    a=2,b=0,H=0"]);
    let (trace, recording) = (place.json("info trace.ctf"), place.json("info trace.hw"));
    assert_eq!(trace["source"], recording["source"]);
    assert_eq!((&trace["file"]["kind"], &trace["file"]["version"]), (&json!("memtrace"), &json!(2)));
    // A unikernel has no process id.
    let place = with("tcp-client");
    assert_eq!(place.json("info trace.ctf")["source"]["pid"], -1);
    place.highwater("info trace.ctf").stdout_has(&["unikernel (on mirage_unikernel)"]);
}

#[test]
fn heaps_and_promotions_are_kept_shown_and_filterable() {
    let place = with("extern");
    let events = expected("extern")["events"].clone();
    let heaps = place.json("report trace.ctf --by heap --metric allocated");
    let of = |name: &str| heaps["heaps"].as_array().unwrap().iter().find(|heap| heap["name"] == name).unwrap().clone();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(of("minor")["records"], events["alloc_minor"]);
    assert_eq!(of("external")["records"], events["alloc_external"]);
    // Promoted blocks enter the major heap, beside the blocks allocated there.
    assert_eq!(of("major")["promoted_records"], events["promote"]);
    assert_eq!(number(&of("major")["records"]), number(&events["alloc_major"]) + number(&events["promote"]));
    for heap in ["minor", "major", "external"] {
        let alone = place.json(&format!("report trace.ctf --filter heap:{heap}"));
        for figure in ["live_bytes", "allocated_bytes", "records", "live_records", "samples", "live_samples"] {
            assert_eq!(alone["totals"][figure], of(heap)[figure], "{heap}: {figure}");
        }
    }
    place.highwater("report trace.ctf --filter heap:major").stdout_has(&["only       heap:major", "promotions"]);
}

#[test]
fn where_every_word_was_sampled_figures_are_exact_and_not_marked() {
    let place = with("full");
    let run = place.highwater("report trace.ctf");
    run.stdout_has(&["peak       30.4 KiB at 5.2ms", "Every word was sampled: figures are exact"]);
    assert!(!run.stdout.contains('~'), "{}", run.stdout);
}

#[test]
fn lifetimes_of_what_is_gone_are_told() {
    let place = with("steady");
    place.highwater("report trace.ctf --lifetimes").stdout_has(&["lifetimes  ", "or less for half of what is gone"]);
    let lifetimes = place.json("report trace.ctf --lifetimes")["lifetimes"].clone();
    let number = |field: &str| lifetimes[field].as_u64().unwrap();
    assert!(number("median_ns") <= number("p90_ns") && number("mean_ns") > 0);
    let histogram = lifetimes["histogram"].as_array().unwrap();
    assert_eq!(histogram.iter().map(|row| row["blocks"].as_u64().unwrap()).sum::<u64>(), number("blocks"));
    // Blocks of the major heap live longer.
    let major = place.json("report trace.ctf --lifetimes --filter heap:major")["lifetimes"]["median_ns"].clone();
    assert!(major.as_u64().unwrap() > number("median_ns"));
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let place = Place::new();
    let bytes = trace("multidom-par");
    let run = place.run_with_input("report - --at peak --json", &bytes);
    run.succeeded();
    let piped: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(piped["totals"]["live_samples"], expected("multidom-par")["max_live_nsamples_time_order"]);
    place.run_with_input("import - -o piped.hw", &bytes).succeeded();
    place.highwater("check piped.hw").stdout_has(&["sound"]);
}

#[test]
fn damage_is_a_warning_with_its_offset_and_an_error_with_strict() {
    let place = Place::new();
    let mut bytes = trace("steady");
    bytes.truncate(130_778);
    place.write("cut.ctf", &bytes);
    let run = place.highwater("report cut.ctf");
    run.succeeded();
    run.stderr_has(&["cut.ctf: the trace is cut within a packet; its whole events are used at offset 130778"]);
    place.highwater("report cut.ctf --strict").is_one_clear_line_about(&["cut.ctf", "damaged: the trace is cut"]);
    place
        .highwater("import cut.ctf -o strict.hw --strict")
        .is_one_clear_line_about(&["cut.ctf", "nothing was written"]);
    assert!(!place.names().contains(&"strict.hw".to_owned()));
    place.highwater("import cut.ctf -o cut.hw").stdout_has(&["1 damaged part"]);
    let check = place.highwater("check cut.ctf");
    assert_eq!(check.code, 1);
    assert!(check.stdout.contains("damage: the trace is cut within a packet"), "{}", check.stdout);
    assert!(check.stdout.contains("not sound"), "{}", check.stdout);
    assert_eq!(place.json("info cut.ctf")["damage"][0]["offset"], 130_778);

    bytes.extend([0; 500]);
    bytes[28] = 9;
    place.write("version.ctf", &bytes);
    bytes[0] = 7;
    place.write("magic.ctf", &bytes);
    bytes.truncate(0);
    place.write("empty.ctf", &bytes);
    for command in READING {
        let run = place.highwater(&format!("{command} version.ctf"));
        run.is_one_clear_line_about(&["version.ctf", "a memtrace trace of version 9", "versions 1 to 3"]);
        place.highwater(&format!("{command} magic.ctf")).is_one_clear_line_about(&["of no known format"]);
        place.highwater(&format!("{command} empty.ctf")).is_one_clear_line_about(&["empty"]);
    }
}

#[test]
fn a_clock_that_stepped_back_is_an_oddity_and_no_damage() {
    let place = with("bad-clock-back");
    let run = place.highwater("report trace.ctf --strict");
    run.succeeded();
    run.stdout_has(&[
        "2  times the clock was set back",
        "microseconds by which the clock was set back, all steps together",
    ]);
    // 9,000 events of up to 0.9 ms each; the steps of the clock lose none of that time.
    let duration = place.json("report trace.ctf")["source"]["duration_ns"].as_u64().unwrap();
    assert!(duration > 3_900_000_000, "{duration}");
    place.highwater("check trace.ctf").stdout_has(&["sound"]);
}

#[test]
fn a_native_recording_is_exported_as_a_trace_and_read_again() {
    let place = Place::new();
    let story = [
        json!({"event": "source", "program": "kitchen", "pid": 7, "host": "home", "start_unix_ns": 1_700_000_000_000_000_000u64}),
        json!({"event": "allocate", "address": 16, "size": 800, "stack": ["chop", "main"], "time_ns": 1_000_000, "thread": 3}),
        json!({"event": "allocate", "address": 32, "size": 100, "stack": ["boil", "main"], "time_ns": 2_000_000, "thread": 4}),
        json!({"event": "reallocate", "old_address": 16, "address": 64, "size": 1600, "time_ns": 3_000_000, "thread": 3}),
        json!({"event": "mark", "name": "served", "time_ns": 3_500_000}),
        json!({"event": "deallocate", "address": 32, "time_ns": 4_000_000, "thread": 4}),
    ];
    place.import("kitchen.hw", &story);
    for version in [2, 3] {
        let run = place
            .highwater(&format!("export kitchen.hw --to memtrace --memtrace-version {version} --force -o kitchen.ctf"));
        run.succeeded();
        run.stderr_has(&["marks and gauges, which the format does not know, are left out: 1"]);
        let report = place.json("report kitchen.ctf");
        assert_eq!(place.json("info kitchen.ctf")["file"]["version"], version);
        assert_eq!(report["source"]["program"], "kitchen");
        assert_eq!(report["source"]["start_unix_ns"], 1_700_000_000_000_000_000u64);
        let totals = &report["totals"];
        assert_eq!((&totals["live_bytes"], &totals["peak_bytes"]), (&json!(1600), &json!(1704)));
        let functions: Vec<&Value> =
            report["sites"][0]["stack"].as_array().unwrap().iter().map(|frame| &frame["function"]).collect();
        assert_eq!(functions, ["chop", "main"]);
    }
    let run = place.highwater("export kitchen.hw --to memtrace --at peak -o x.ctf");
    assert_eq!(run.code, 2);
    run.stderr_has(&["--at and --filter do not apply"]);
}

#[test]
fn guessed_locations_are_marked_in_every_output_and_reported_by_check() {
    let place = with("bad-columns-spill");
    let check = place.highwater("check trace.ctf");
    assert_eq!(check.code, 1, "{}", check.stdout);
    for text in ["locations are the likeliest readings, and are marked [guessed]", "not sound"] {
        assert!(check.stdout.contains(text), "'{text}' is not in:\n{}", check.stdout);
    }
    let warned = place.highwater("report trace.ctf --top 1");
    warned.stderr_has(&["are marked [guessed]"]);
    warned.stdout_has(&["[guessed]", "source locations that are guesses"]);
    assert_eq!(place.highwater("report trace.ctf --strict").code, 1);
    assert_eq!(place.highwater("import trace.ctf -o trace.hw").code, 0);
    let imported = place.highwater("check trace.hw");
    imported.stdout_has(&["guesses: ", "marked [guessed]", "trace.hw: sound"]);
    for file in ["trace.ctf", "trace.hw"] {
        let report = place.json(&format!("report {file} --top 0"));
        assert_eq!(place.highwater(&format!("check {file}")).code, i32::from(file == "trace.ctf"));
        assert!(report["anomalies"]["guessed_locations"].as_u64() > Some(0), "{file}");
        let frames = report["sites"].as_array().unwrap().iter().flat_map(|site| site["stack"].as_array().unwrap());
        let mut marked = 0;
        for frame in frames {
            let is_marked = frame["function"].as_str().is_some_and(|name| name.ends_with(" [guessed]"));
            assert_eq!(frame["guessed"] == true, is_marked, "{frame}");
            marked += usize::from(is_marked);
        }
        assert!(marked > 0, "{file}");
        place.highwater(&format!("export {file} --to folded -o -")).stdout_has(&[" [guessed]"]);
    }
}
