//! `highwater export --at … -o x.hw`: an instant of a recording as a file of its own shows what the recording shows at that instant.

mod support;

use highwater::event_store::{EventStore, MemoryEvent};
use highwater::snapshot::{DiffBasis, MemorySnapshot, SnapshotEngine};
use serde_json::Value;
use std::sync::Arc;
use support::{Place, Run, in_the_kitchen};

/// A report without what says whether it is of a recording or of a snapshot.
fn figures(place: &Place, command: &str) -> Value {
    let mut document = place.json(command);
    let members = document.as_object_mut().unwrap();
    for name in ["source", "recording", "when"] {
        members.remove(name);
    }
    document
}

#[test]
fn every_figure_is_that_of_the_recording_at_that_instant() {
    let place = in_the_kitchen();
    for when in ["start", "peak", "end", "50%", "5s", "mark:loaded"] {
        let name = format!("{}.hw", when.replace([':', '%'], "-"));
        place.highwater(&format!("export kitchen.hw --at {when} -o {name}")).stdout_has(&[]);
        for by in ["site", "thread", "type", "heap", "function", "module"] {
            for metric in ["live", "own-peak", "allocated", "freed", "allocations", "temporary"] {
                let rest = format!("--by {by} --metric {metric} --top 0");
                let snapshot = figures(&place, &format!("report {name} {rest}"));
                let recording = figures(&place, &format!("report kitchen.hw --at {when} {rest}"));
                assert_eq!(snapshot, recording, "{when} {rest}");
            }
        }
        place.highwater(&format!("check {name}")).stdout_has(&[": sound (a snapshot, "]);
        let changes = place.json(&format!("diff kitchen.hw@{when} {name}"));
        assert_eq!(changes["sites"], Value::Array(Vec::new()), "{when}");
        // The snapshot of a snapshot is the same once more.
        let again = format!("again-{name}");
        place.highwater(&format!("export {name} -o {again}")).stdout_has(&[]);
        assert_eq!(std::fs::read(place.file(&again)).unwrap(), std::fs::read(place.file(&name)).unwrap());
        // Blocks keep their addresses and births.
        let blocks = |command: String| support::document(&place.highwater(&command).stdout)["blocks"].clone();
        let recorded = blocks(format!("export kitchen.hw --at {when} --to json -o -"));
        assert!(recorded.is_array());
        assert_eq!(blocks(format!("export {name} --to json -o -")), recorded);
    }
    place.highwater("report peak.hw").stdout_has(&["peak ", "until then"]);
    place.highwater("report peak.hw --metric peak").is_one_clear_line_about(&["one instant", "own-peak"]);
    place.highwater("report peak.hw --metric leaked").is_one_clear_line_about(&["one instant", "--metric live"]);
}

#[test]
fn filters_select_the_blocks_that_are_in_the_file() {
    let place = in_the_kitchen();
    for filter in ["bake", "thread:2", "size:1000..", "!bake"] {
        let name = "part.hw";
        place.highwater(&format!("export kitchen.hw --at peak --filter {filter} -o {name} --force")).stdout_has(&[]);
        let part = place.json(&format!("report {name} --top 0"));
        let whole = place.json(&format!("report kitchen.hw --at peak --filter {filter} --top 0"));
        let rows = |report: &Value| {
            let row = |row: &Value| (row["live_bytes"].clone(), row["live_blocks"].clone());
            report["sites"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(rows(&part), rows(&whole), "{filter}");
        let sum: u64 = rows(&part).iter().filter_map(|(bytes, _)| bytes.as_u64()).sum();
        assert_eq!(part["totals"]["live_bytes"].as_u64(), Some(sum), "{filter}");
        // Nothing is claimed of the past of a part.
        assert_eq!(part["totals"]["peak_bytes"], Value::Null);
    }
}

/// The command line is at fault: exit code 2, and nothing is written.
#[track_caller]
fn is_refused(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    words.iter().for_each(|word| assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr));
}

#[test]
fn the_ending_names_the_format_and_the_input_is_never_replaced() {
    let place = in_the_kitchen();
    let before = std::fs::read(place.file("kitchen.hw")).unwrap();
    std::os::unix::fs::symlink(place.file("kitchen.hw"), place.file("link.hw")).unwrap();
    for output in ["kitchen.hw", "./kitchen.hw --force", "link.hw --force"] {
        is_refused(&place.highwater(&format!("export kitchen.hw -o {output}")), &["is the input"]);
    }
    assert_eq!(std::fs::read(place.file("kitchen.hw")).unwrap(), before);
    place.highwater("export kitchen.hw -o sites.csv").stdout_has(&[]);
    is_refused(&place.highwater("export kitchen.hw -o picture.png"), &["picture.png", "--to", ".hw"]);
    is_refused(&place.highwater("export kitchen.hw -o -"), &["--to"]);
    is_refused(&place.highwater("export kitchen.hw --metric peak -o x.hw"), &["--metric does not apply"]);
    place.highwater("export kitchen.hw --at mark:nowhere -o x.hw").is_one_clear_line_about(&["no mark"]);
    assert!(!place.file("x.hw").exists());
}

#[test]
fn the_library_opens_what_the_command_wrote_and_the_other_way_round() {
    let place = in_the_kitchen();
    let store = Arc::new(EventStore::new());
    let engine = SnapshotEngine::new(Arc::clone(&store));
    let stack = store.caller_stack();
    store.record(MemoryEvent::allocate(0x1000, 700, 1).with_type_name("Index").with_stack(stack));
    store.record(MemoryEvent::mark("loaded", 1));
    store.record(MemoryEvent::allocate(0x2000, 300, 1).with_type_name("Index").with_stack(stack));
    store.save(place.file("app.hw")).unwrap();
    place.highwater("export app.hw --at mark:loaded -o loaded.hw").stdout_has(&[]);
    let loaded = MemorySnapshot::open(place.file("loaded.hw")).unwrap();
    let direct = engine.snapshot_at_mark("loaded").unwrap();
    assert_eq!(loaded, direct);
    // The recording says which store it is of: blocks are matched by number.
    let diff = loaded.diff(&engine.build_snapshot());
    assert_eq!((diff.basis, diff.appeared.len(), diff.gone.len()), (DiffBasis::Blocks, 1, 0));
    engine.build_snapshot().save(place.file("saved.hw")).unwrap();
    place.highwater("report saved.hw --by type").stdout_has(&["1000 B in 2 blocks", "Index"]);
    let report = place.json("report saved.hw --by type");
    assert_eq!((&report["totals"]["live_bytes"], &report["totals"]["peak_bytes"]), (&1000.into(), &1000.into()));
    let change = place.json("diff loaded.hw saved.hw");
    assert_eq!(
        (&change["sites"][0]["before"]["live_bytes"], &change["sites"][0]["after"]["live_bytes"]),
        (&700.into(), &1000.into())
    );
    let error = MemorySnapshot::open(place.file("kitchen.hw")).unwrap_err();
    assert!(error.to_string().contains("export --at"), "{error}");
}

/// Two processes number their blocks and stacks independently: files of both are compared by the words of their sites.
#[test]
fn files_of_two_stores_are_compared_by_site() {
    let place = in_the_kitchen();
    for (name, blocks, unused) in [("one.hw", 3usize, "a"), ("two.hw", 5, "b")] {
        let store = Arc::new(EventStore::new());
        let frame = |function| highwater::FrameText { function, file: "src/app.rs", line: 7, ..Default::default() };
        store.intern_stack(&[frame(unused), frame("main")]);
        let stack = store.intern_stack(&[frame("serve"), frame("main")]);
        for block in 0..blocks {
            store.record(MemoryEvent::allocate((block * blocks + 1) * 0x1000, 100, 1).with_stack(stack));
        }
        SnapshotEngine::new(store).build_snapshot().save(place.file(name)).unwrap();
    }
    let diff = place.json("diff one.hw two.hw");
    let sites = diff["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 1, "{diff}");
    assert_eq!((&sites[0]["before"]["live_blocks"], &sites[0]["after"]["live_blocks"]), (&3.into(), &5.into()));
}

/// Variables, places and owners are the same in a recording of objects, in a log of it, and in a snapshot of it.
#[test]
fn objects_have_variables_and_owners_in_recordings_logs_and_snapshots() {
    let place = in_the_kitchen();
    let arc = "alloc::sync::Arc<app::Config>";
    let line = |bytes: u64, line: u64, type_name: &str, id: u64| {
        serde_json::json!({"event": "ALLOCATE", "bytes": bytes, "file": "src/app.rs", "line": line, "type": type_name,
                           "id": id, "variable": "config"})
    };
    let births = [line(1040, 1, "app::Config", 0), line(0, 1, arc, 1), line(0, 9, arc, 2), line(0, 9, arc, 3)];
    let log: String = births.iter().map(|birth| format!("@ {birth}\n")).collect();
    place.write("console.log", format!("{log}@ DROP 0 {arc} 2\n"));
    place.highwater("import console.log -o console.hw").stdout_has(&[]);
    place.highwater("export console.hw -o end.hw").stdout_has(&[]);
    for file in ["console.log", "console.hw", "end.hw"] {
        let objects = place.json(&format!("objects {file} --by variable"));
        let owners = &objects["owners"][0];
        assert_eq!(
            (&owners["owners"], &owners["values"], &owners["variable"]),
            (&2.into(), &1.into(), &"config".into())
        );
        assert_eq!(objects["totals"]["live_bytes"], 1040, "{file}");
        assert_eq!(objects["variables"][0]["variable"], "config");
        place.highwater(&format!("objects {file} --by both")).stdout_has(&["src/app.rs:9  config", "Arc<app::Config>"]);
    }
}

/// A profile over time becomes a profile of one instant: its figures by site, and the peak until then.
#[test]
fn an_instant_of_a_profile_is_a_snapshot_of_figures() {
    let place = Place::new();
    let massif = concat!(env!("CARGO_MANIFEST_DIR"), "/../input/tests/fixtures/massif/milliseconds.out");
    for when in ["peak", "end", "50%"] {
        let name = format!("{}.hw", when.replace('%', ""));
        place.highwater(&format!("export {massif} --at {when} -o {name}")).stdout_has(&[]);
        let snapshot = figures(&place, &format!("report {name} --top 0"));
        assert_eq!(snapshot, figures(&place, &format!("report {massif} --at {when} --top 0")), "{when}");
        place.highwater(&format!("check {name}")).stdout_has(&[": sound (a snapshot, "]);
    }
    place
        .highwater(&format!("export {massif} --filter size:1.. -o x.hw"))
        .is_one_clear_line_about(&["not single blocks"]);
}
