//! Object logs, from the user's point of view.

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use support::Place;

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/objlog");
    let bytes = std::fs::read(folder.join(name)).unwrap();
    if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&fixture(&format!("{name}.expected.json"))).unwrap()
}

/// A directory with a log.
fn with(name: &str) -> Place {
    let place = Place::new();
    place.write("console.log", fixture(&format!("{name}.log.zst")));
    place
}

/// The rows of a document by the name of their type.
fn by_type(document: &Value) -> BTreeMap<&str, &Value> {
    let rows = document["types"].as_array().unwrap();
    rows.iter().map(|row| (row["type"].as_str().unwrap(), row)).collect()
}

#[test]
fn every_figure_of_a_big_log_is_in_its_document_and_in_its_recordings() {
    let (place, truth) = (with("big"), expected("big"));
    let found = place.json("objects console.log");
    for key in ["lines", "ids", "object_lines", "noise_lines", "leaked_bytes_total", "drops_before_their_allocate"] {
        assert_eq!(found[key], truth[key], "{key}");
    }
    let order: Vec<&Value> = found["types"].as_array().unwrap().iter().map(|row| &row["type"]).collect();
    assert_eq!(order, truth["order_by_leaked_bytes"].as_array().unwrap().iter().collect::<Vec<_>>());
    let names = [
        ("allocated", "allocations"),
        ("allocated_bytes", "allocated_bytes"),
        ("dropped", "drops"),
        ("dropped_bytes", "dropped_bytes"),
        ("leaked", "live_objects"),
        ("leaked_bytes", "live_bytes"),
    ];
    let agree = |document: &Value, what: &str| {
        let rows = by_type(document);
        for (name, one) in truth["types"].as_object().unwrap() {
            for (theirs, ours) in names {
                assert_eq!(rows[name.as_str()][ours], one[theirs], "{what}: {name}: {ours}");
            }
        }
    };
    agree(&found, "objects");
    assert_eq!(found["trust"]["verdict"], "yes");
    assert_eq!(found["perfect"], json!(["WasmFpSrs", "WasmGPallas"]));
    // As a recording.
    place.highwater("import console.log -o console.hw").stdout_has(&["194,459 events"]);
    place.highwater("check console.hw").stdout_has(&["sound"]);
    for file in ["console.log", "console.hw"] {
        let report = place.json(&format!("report {file} --by type"));
        agree(&report, file);
        assert_eq!(report["source"]["kind"], "objlog");
        let anomalies = report["anomalies"].as_object().unwrap();
        assert!(anomalies.values().all(|count| count == 0), "a drop before its birth is no anomaly: {anomalies:?}");
        assert_eq!(place.json(&format!("leaks {file}"))["totals"]["live_bytes"], truth["leaked_bytes_total"]);
    }
    agree(&place.json("objects console.hw"), "objects of a recording");
    place.highwater("timeline console.log").stdout_has(&["live bytes", "live blocks"]);
    place.highwater("diff console.log@50% console.hw --by type").stdout_has(&["WasmPastaFpPlonkIndex"]);
    place.highwater("info console.log").stdout_has(&["object log"]);
}

#[test]
fn everything_that_is_wrong_with_a_damaged_log_is_told() {
    let (place, truth) = (with("damaged"), expected("damaged"));
    let found = place.json("objects console.log");
    let trust = &found["trust"];
    assert_eq!(found["lines"], truth["total_lines"]);
    for key in [
        "malformed_at_lines",
        "last_line_truncated",
        "duplicate_allocate_ids",
        "duplicate_drop_ids",
        "size_mismatch_ids",
        "type_mismatch_ids",
        "drop_without_allocate_ids",
        "leaked_among_undamaged_ids",
    ] {
        assert_eq!(trust[key], truth[key], "{key}");
    }
    assert_eq!(trust["verdict"], "mostly");
    let run = place.highwater("objects console.log --show-bad");
    run.stdout_has(&["25 × ALLOCATE twice", "11 malformed", "the last line is cut", "95 contradictions"]);
    for example in truth["malformed_examples"].as_array().unwrap() {
        run.stdout_has(&[example.as_str().unwrap().trim_end()]);
    }
    run.stdout_has(&["20,193", truth["truncated_text"].as_str().unwrap()]);
    place.highwater("objects console.log --strict").is_one_clear_line_about(&["line 1580"]);
    place.highwater("import console.log -o out.hw --strict").is_one_clear_line_about(&["line 1580"]);
    let run = place.highwater("import console.log -o out.hw");
    run.stdout_has(&["11 bad lines skipped"]);
    let anomalies = &place.json("report out.hw")["anomalies"];
    assert_eq!(anomalies["duplicate_allocations"], 25);
    assert_eq!(anomalies["unmatched_frees"], 30 + 15);
    assert_eq!(anomalies["type_mismatches"], 5);
    let again = place.json("objects out.hw");
    assert_eq!(again["trust"]["verdict"], "mostly", "{}", again["trust"]);
}

#[test]
fn a_module_is_looked_at_at_every_instant_at_which_its_memory_was_saved() {
    for name in ["leaky_rs", "leaky_c", "clean_rs", "clean_c"] {
        let (place, truth) = (with(name), expected(name));
        let found = place.json("objects console.log");
        assert_eq!(found["lines"], truth["log_lines"]);
        assert_eq!(found["object_lines"], truth["object_lines"]);
        let log = String::from_utf8(fixture(&format!("{name}.log.zst"))).unwrap();
        for dump in truth["dumps"].as_array().unwrap() {
            // The line at which the module had made and dropped this number of objects.
            let events = dump["allocations"].as_u64().unwrap() + dump["drops"].as_u64().unwrap();
            let objects = log.lines().enumerate().filter(|(_, line)| line.starts_with('@'));
            let line = objects.map(|(at, _)| at + 1).nth(events as usize - 1).unwrap();
            let then = place.json(&format!("objects console.log --at line:{line}"));
            let totals = &then["totals"];
            assert_eq!(totals["allocations"], dump["allocations"], "{name}");
            assert_eq!(totals["frees"], dump["drops"]);
            assert_eq!(totals["allocated_bytes"], dump["allocated_bytes"]);
            assert_eq!(totals["freed_bytes"], dump["dropped_bytes"]);
            assert_eq!((&totals["live_blocks"], &totals["live_bytes"]), (&dump["live_objects"], &dump["live_bytes"]));
            for (name, row) in by_type(&then) {
                let zero = json!(0);
                let one = dump["per_type"].get(name);
                assert_eq!(&row["live_objects"], one.map_or(&zero, |one| &one["objects"]), "{name}");
                assert_eq!(&row["live_bytes"], one.map_or(&zero, |one| &one["bytes"]), "{name}");
            }
        }
    }
}

const ROUNDS: &str = "\
@ MEMORY 1000000 start
@ ALLOCATE 5000 src/cache.rs:3 Cache 0
@ ALLOCATE 1000 src/a.rs:1 Leak 1
@ ALLOCATE 800 src/b.rs:2 Fine 2
@ DROP 800 Fine 2
@ MEMORY 1006500 one
@ ALLOCATE 1000 src/a.rs:1 Leak 3
@ ALLOCATE 800 src/b.rs:2 Fine 4
@ DROP 800 Fine 4
@ MEMORY 1007600 two
@ ALLOCATE 1000 src/a.rs:9 Leak 5
@ MEMORY 1008700 three
";

#[test]
fn what_each_iteration_leaves_behind_is_told_by_type() {
    let place = Place::new();
    place.write("log", ROUNDS);
    let found = place.json("objects log");
    let iterations = &found["iterations"];
    let ends: Vec<&Value> = iterations["ends"].as_array().unwrap().iter().map(|end| &end["name"]).collect();
    assert_eq!(ends, ["start", "one", "two", "three", "after"]);
    let types = iterations["types"].as_array().unwrap();
    let of = |name: &str| types.iter().find(|row| row["type"] == name).unwrap();
    assert_eq!(
        (&of("Leak")["pattern"], &of("Leak")["each"]),
        (&json!("constant"), &json!({"objects": 1, "bytes": 1000}))
    );
    assert_eq!(of("Cache")["pattern"], "once");
    let memory = &found["trust"]["memory"];
    assert_eq!((&memory["growth_bytes"], &memory["never_dropped_bytes"]), (&json!(8700), &json!(8000)));
    assert_eq!((&memory["explanation"], &memory["explained_percent"]), (&json!("explained"), &json!(91)));
    let run = place.highwater("objects log");
    run.stdout_has(&["grows by 1 object, 1000 B every iteration", "made once", "perfect: every one dropped", "Fine"]);
    run.stdout_has(&[
        "Yes: every id was made once and dropped at most once, and 91% of the memory's growth is explained.",
    ]);
    // The same from a recording of the log.
    place.highwater("import log -o log.hw").stdout_has(&["events"]);
    assert_eq!(place.json("objects log.hw")["iterations"]["types"], iterations["types"]);
    assert_eq!(place.json("info log.hw")["gauges"][0]["name"], "memory");
    place.highwater("diff log.hw@mark:one log.hw@mark:three --by type").stdout_has(&["+2.0 KiB", "Leak"]);
}

#[test]
fn rows_are_types_places_or_both_at_any_instant() {
    let place = Place::new();
    place.write("log", ROUNDS);
    let names = |line: &str, list: &str, key: &str| -> Vec<String> {
        let found = place.json(line);
        found[list].as_array().unwrap().iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("objects log", "types", "type"), ["Cache", "Leak", "Fine"]);
    assert_eq!(
        names("objects log --by place", "places", "place"),
        ["src/cache.rs:3", "src/a.rs:1", "src/a.rs:9", "src/b.rs:2"]
    );
    assert_eq!(names("objects log --by both --top 2", "sites", "place"), ["src/cache.rs:3", "src/a.rs:1"]);
    let live = |at: &str| place.json(&format!("objects log --at {at}"))["totals"]["live_bytes"].clone();
    assert_eq!(live("start"), 0);
    assert_eq!(live("line:3"), 6000);
    assert_eq!(live("mark:two"), 7000);
    assert_eq!(live("end"), 8000);
    assert_eq!(live("peak"), 8000);
    assert_eq!(live("50%"), 6000, "six of twelve events");
    place.highwater("objects log --at mark:four").is_one_clear_line_about(&["'four'", "start, one, two, three"]);
    place.highwater("objects log --at 5s").is_one_clear_line_about(&["no times", "line:N"]);
    let piped = place.run_with_input("objects --at 50% --json", ROUNDS.as_bytes());
    let piped: Value = serde_json::from_str(&piped.stdout).unwrap();
    assert_eq!(piped["totals"]["live_bytes"], 6000, "what cannot be read twice is copied");
}

#[test]
fn times_threads_and_stacks_of_the_json_form_reach_the_recording() {
    let place = Place::new();
    let lines = [
        json!({"event": "ALLOCATE", "bytes": 64, "file": "a.js", "line": 3, "type": "Node", "id": 1, "time": 1000, "thread": "worker",
               "stack": ["make", "main"]}),
        json!({"event": "ALLOCATE", "bytes": 32, "file": "a.js", "line": 4, "type": "Edge", "id": 2, "time": 2000.5}),
        json!({"event": "DROP", "bytes": 64, "type": "Node", "id": 1, "time": 3000, "thread": 7}),
        // Late in the file, early in time.
        json!({"event": "ALLOCATE", "bytes": 16, "file": "a.js", "line": 5, "type": "Early", "id": 3, "time": 500}),
    ];
    let log: String = lines.iter().map(|line| format!("@ {line}\n")).collect();
    place.write("log", log);
    let live = |line: &str| place.json(line)["totals"]["live_bytes"].clone();
    for command in ["objects", "report"] {
        assert_eq!(live(&format!("{command} log --at 600ms")), 16, "{command}");
        assert_eq!(live(&format!("{command} log --at 2.1s")), 112, "{command}");
        assert_eq!(live(&format!("{command} log --at 50%")), 80, "{command}");
        assert_eq!(live(&format!("{command} log")), 48, "{command}");
    }
    let report = place.json("report log --at 2s");
    let functions: Vec<&Value> =
        report["sites"][0]["stack"].as_array().unwrap().iter().map(|frame| &frame["function"]).collect();
    assert_eq!(functions, ["make", "main"]);
    assert!(report["threads"].as_array().unwrap().iter().any(|thread| thread["name"] == "worker"));
    let anomalies = report["anomalies"].as_object().unwrap();
    assert!(anomalies.values().all(|count| count == 0), "{anomalies:?}");
}

const UNTIMED: &str = "hello\n@ ALLOCATE 100 src/a.rs:7 Key 0\n@ ALLOCATE 30 src/a.rs:9 Table 1\n@ MARK half\n@ DROP 30 Table 1\n\n@ ALLOCATE 5 src/a.rs:7 Key 2\n";

#[test]
fn a_log_without_times_has_lines_and_no_invented_times() {
    let place = Place::new();
    place.write("console.log", UNTIMED);
    place.highwater("import console.log -o console.hw").stdout_has(&[]);
    for file in ["console.log", "console.hw"] {
        place.highwater(&format!("report {file} --stacks top")).stdout_has(&[
            "events in 7 lines",
            "peak       130 B at line 3",
            "at end (line 7)",
            "src/a.rs:7",
        ]);
        place.highwater(&format!("report {file} --at line:4")).stdout_has(&["130 B in 2 blocks at line 4"]);
        place.highwater(&format!("report {file} --from line:4 --to line:6")).stdout_has(&["from line 4 to line 6"]);
        place.highwater(&format!("diff {file}@line:2 {file}")).stdout_has(&["at line 2", "at end (line 7)"]);
        place.highwater(&format!("leaks {file}")).stdout_has(&["at end (line 7)", "5 lines"]);
        place.highwater(&format!("timeline {file}")).stdout_has(&["peak 130 B at line 3", "line 4  half"]);
        place.highwater(&format!("info {file}")).stdout_has(&["7 lines; it has no times", "line 4  half"]);
        for when in ["2s", "3ns"] {
            let report = place.highwater(&format!("report {file} --at {when}"));
            report.is_one_clear_line_about(&[file, "has no times", "line:N"]);
        }
        place.highwater(&format!("report {file} --from 1ns")).is_one_clear_line_about(&[file, "has no times"]);
        place.highwater(&format!("report {file} --at line:9")).is_one_clear_line_about(&["line 9", "is 7"]);
        let report = place.json(&format!("report {file}"));
        assert_eq!((&report["source"]["timed"], &report["source"]["duration_lines"]), (&json!(false), &json!(7)));
        assert_eq!((&report["totals"]["peak_at_line"], &report["totals"]["peak_at_ns"]), (&json!(3), &Value::Null));
        assert_eq!((&report["at_line"], &report["at_ns"]), (&json!(7), &Value::Null));
        let points = place.json(&format!("timeline {file}"))["points"].take();
        assert!(
            points.as_array().unwrap().iter().all(|point| point["time_ns"].is_null() && point["time_line"].is_u64())
        );
        let text = place.highwater(&format!("export {file} --to json -o -")).stdout;
        let blocks = serde_json::from_str::<Value>(&text).unwrap()["blocks"].take();
        assert_eq!((&blocks[0]["time_line"], &blocks[0]["time_ns"]), (&json!(2), &Value::Null));
    }
}

#[test]
fn what_comes_before_the_first_time_of_a_log_happened_then_at_the_latest() {
    let place = Place::new();
    let timed = r#"@ {"event":"ALLOCATE","bytes":64,"file":"a.rs","line":1,"type":"Key","id":1,"time":2.5}
@ {"event":"DROP","bytes":100,"type":"Key","id":0,"time":4}
"#;
    place.write("console.log", format!("@ ALLOCATE 100 src/a.rs:7 Key 0\n{timed}"));
    let report = place.json("report console.log");
    assert_eq!((&report["source"]["timed"], &report["source"]["duration_ns"]), (&json!(true), &json!(4_000_000)));
    assert_eq!(report["totals"]["peak_at_ns"], 2_500_000);
    place.highwater("report console.log --at 3ms").stdout_has(&["164 B in 2 blocks"]);
    place.highwater("report console.log --at 2ms").stdout_has(&["0 B in 0 blocks"]);
    place.highwater("report console.log --at line:2").is_one_clear_line_about(&["without times"]);
}

#[test]
fn what_is_no_log_is_told_to_be_none() {
    let place = Place::new();
    place.write("text", "hello\nworld\n");
    place.write("binary", [0u8, 159, 146, 150, b'\n', b'@', 255].repeat(1000));
    let mut gigantic = vec![b'@'; 5 << 20];
    gigantic.extend_from_slice(b"\n@ ALLOCATE 8 a.rs:1 T\xff 0\n");
    place.write("gigantic", gigantic);
    place.write("empty", "");
    for name in ["text", "binary", "empty"] {
        let run = place.highwater(&format!("objects {name}"));
        run.stdout_has(&["Nothing to trust: not one object"]);
        assert_eq!(run.stderr, "");
        assert_eq!(place.json(&format!("objects {name}"))["trust"]["verdict"], "nothing");
    }
    let found = place.json("objects gigantic");
    assert_eq!(found["trust"]["malformed_by_kind"], json!({"too_long": 1}));
    assert_eq!((&found["totals"]["live_blocks"], &found["trust"]["names_not_utf8"]), (&json!(1), &json!(1)));
    place.highwater("objects missing").is_one_clear_line_about(&["missing"]);
    place.highwater("report text").is_one_clear_line_about(&["of no known format"]);
}

#[test]
fn more_than_the_memory_holds_is_impossible_and_more_than_it_grew_by_needs_free_room() {
    let place = Place::new();
    // The heap reused free memory: the log cannot show that.
    place.write(
        "log",
        "@ MEMORY 200000\n@ ALLOCATE 5000 a.rs:1 T 1\n@ MEMORY 200000\n@ ALLOCATE 70000 a.rs:1 T 2\n@ MEMORY 204464\n",
    );
    let run = place.highwater("objects log");
    run.stdout_has(&[
        "Not known: ",
        "possible only if the heap had at least 68.9 KiB of free room, which the log does not say",
    ]);
    assert!(!run.stdout.contains("impossible") && !run.stdout.contains("at fault"), "{}", run.stdout);
    let trust = &place.json("objects log")["trust"];
    assert_eq!((&trust["verdict"], &trust["memory"]["explanation"]), (&json!("unknown"), &json!("needs_free_room")));
    assert_eq!(trust["memory"]["excess_bytes"], 75_000 - 4_464);
    place.write("log", "@ MEMORY 1000\n@ ALLOCATE 5000 a.rs:1 T 1\n@ MEMORY 2000\n");
    let run = place.highwater("objects log");
    run.stdout_has(&["No: ", "which is impossible", "the method is at fault"]);
    place.write("log", "@ MEMORY 1000000\n@ ALLOCATE 5000 a.rs:1 T 1\n@ MEMORY 2000000\n");
    place.highwater("objects log").stdout_has(&["Mostly: ", "971.7 KiB lie elsewhere", "types that are not tracked"]);
}

#[test]
fn a_growing_log_is_followed_until_the_pipe_ends() {
    let place = Place::new();
    let arguments = ["objects", "--follow", "--json"];
    let mut child = place.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).ok()
    };
    input.write_all(b"@ ALLOCATE 8 a.rs:1 T 1\n@ ALLOCATE 8 a.rs:1 T 2\n@ DR").unwrap();
    let mut look = next().unwrap();
    while look["lines"] != 2 {
        look = next().unwrap();
    }
    assert_eq!(look["totals"]["live_blocks"], 2);
    input.write_all(b"OP 8 T 1\n").unwrap();
    drop(input);
    let mut last = look;
    while let Some(look) = next() {
        last = look;
    }
    assert_eq!((&last["totals"]["live_blocks"], &last["lines"]), (&json!(1), &json!(3)));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_growing_file_is_followed_until_a_signal_and_ends_with_a_report() {
    let place = Place::new();
    let path = place.write("log", "@ ALLOCATE 8 a.rs:1 T 1\n");
    let child = place.command(["objects", "log", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    let mut child = child;
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"@ DROP 8 T 1\n").unwrap();
    let mut live = 1;
    while live != 0 {
        line.clear();
        output.read_line(&mut line).unwrap();
        live = serde_json::from_str::<Value>(&line).unwrap()["totals"]["live_blocks"].as_u64().unwrap();
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["totals"]["frees"], 1, "the last word");
    assert!(child.wait().unwrap().success());
}
