//! Several processes on one time axis: `highwater processes`, and the viewer's answers about them.

mod support;

use serde_json::Value;
use std::fs;
use support::Place;
use support::programs;
use support::recorded::{record, run};
use support::viewer::Viewer;

const MIB: u64 = 1 << 20;

/// A program that held 3 MiB, with a forked child that held 2 MiB and then an executed one that held 4 MiB.
fn family() -> Place {
    let place = Place::new();
    run(&mut record(&place, &["--keep-children", "0"], programs::c("family"))).succeeded();
    place
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The figures of a process are those of a report of its file.
fn has_the_figures_of_its_report(place: &Place, process: &Value) {
    let path = process["path"].as_str().unwrap();
    let report = place.json(&format!("report {path}"));
    let recording = &report["totals"];
    for (own, reported) in [
        ("peak_bytes", &recording["peak_bytes"]),
        ("allocated_bytes", &recording["allocated_bytes"]),
        ("allocations", &recording["allocations"]),
        ("live_at_end_bytes", &recording["live_bytes"]),
        ("pid", &report["source"]["pid"]),
    ] {
        assert_eq!(process[own], *reported, "{own} of {path}");
    }
    let peak_at = number(&process["peak_ns"]) - number(&process["offset_ns"]);
    assert_eq!(Value::from(peak_at), recording["peak_at_ns"], "{path}");
}

#[test]
fn a_tree_has_parents_inherited_memory_and_the_highest_total() {
    let place = family();
    let tree = place.json("processes recording.hw");
    let all = tree["processes"].as_array().unwrap();
    let [parent, forked, executed] = &all[..] else { panic!("{} processes: {tree:#}", all.len()) };
    all.iter().for_each(|process| has_the_figures_of_its_report(&place, process));
    assert_eq!((&parent["relation"], &parent["depth"]), (&Value::Null, &Value::from(0)));
    for (child, relation) in [(forked, "fork"), (executed, "start")] {
        assert_eq!(
            (&child["relation"], &child["parent"], &child["depth"]),
            (&relation.into(), &parent["id"], &1.into())
        );
        assert_eq!(child["parent_pid"], parent["pid"]);
    }
    // The parent's 3 MiB are not in the child, and are named.
    let small = 64 << 10;
    assert!((3 * MIB..3 * MIB + small).contains(&number(&forked["inherited_bytes"])), "{forked}");
    assert!((2 * MIB..2 * MIB + small).contains(&number(&forked["peak_bytes"])), "{forked}");
    assert_eq!(executed["inherited_bytes"], Value::Null);
    // The forked child had ended when the other one held its 4 MiB.
    let highest = &tree["highest"];
    assert!((7 * MIB..7 * MIB + small).contains(&number(&highest["bytes"])), "{highest}");
    assert_eq!(highest["bytes"], highest["at_most_bytes"]);
    assert_eq!(number(&forked["held_bytes"]), 0);
    let sum: u64 = all.iter().map(|process| number(&process["held_bytes"])).sum();
    assert_eq!(sum, number(&highest["bytes"]));
}

#[test]
fn an_idle_process_holds_its_memory_until_it_ends() {
    let place = Place::new();
    run(&mut record(&place, &["--keep-children", "0"], programs::c("idle"))).succeeded();
    let tree = place.json("processes recording.hw");
    let highest = &tree["highest"];
    let small = 64 << 10;
    assert!((5 * MIB..5 * MIB + small).contains(&number(&highest["bytes"])), "{tree:#}");
    let held: Vec<u64> = tree["processes"].as_array().unwrap().iter().map(|one| number(&one["held_bytes"])).collect();
    assert!(held[0] >= 3 * MIB && held[1] >= 2 * MIB, "{held:?}");

    // At an instant after its last event, and in a window that begins there.
    let viewer = Viewer::new(&place, "recording.hw");
    let offset = number(&tree["processes"][0]["offset_ns"]);
    let later = number(&place.json("info recording.hw")["marks"][0]["time_ns"]) + offset;
    let held = viewer.ask(&format!("processes/held?at={later}"));
    assert!((5 * MIB..5 * MIB + small).contains(&number(&held["total_bytes"])), "{held:#}");
    let window = viewer.ask(&format!("processes?from={later}&to={}&points=10", later + 50_000_000));
    assert!((5 * MIB..5 * MIB + small).contains(&number(&window["highest"]["bytes"])), "{window:#}");
}

#[test]
fn totals_at_marks_are_the_sums_of_the_reports_at_these_instants() {
    let place = family();
    let viewer = Viewer::new(&place, "recording.hw");
    let tree = viewer.ask("processes");
    let processes = tree["processes"].as_array().unwrap();
    let offset = number(&processes[0]["offset_ns"]);
    let marks = place.json("info recording.hw")["marks"].clone();
    let mib = [("held", 3), ("forked", 5), ("executed", 7)];
    for (mark, (name, expected)) in marks.as_array().unwrap().iter().zip(mib) {
        assert_eq!(mark["name"], name);
        let at = number(&mark["time_ns"]) + offset;
        let held = viewer.ask(&format!("processes/held?at={at}"));
        let mut sum = 0;
        for each in held["held"].as_array().unwrap() {
            let process = processes.iter().find(|process| process["id"] == each["id"]).unwrap();
            let (path, own) = (process["path"].as_str().unwrap(), at - number(&process["offset_ns"]));
            let report = place.json(&format!("report {path} --at {own}ns"));
            assert_eq!(each["bytes"], report["totals"]["live_bytes"], "{name}: {path}");
            sum += number(&each["bytes"]);
        }
        assert_eq!(number(&held["total_bytes"]), sum);
        assert!((expected * MIB..expected * MIB + (64 << 10)).contains(&sum), "{name}: {sum}");
    }
}

#[test]
fn the_viewer_opens_a_process_when_it_is_asked_for() {
    let place = family();
    let viewer = Viewer::new(&place, "recording.hw");
    let sources = viewer.ask("sources");
    assert_eq!(sources["sources"].as_array().unwrap().len(), 1, "children are not opened yet");
    assert_eq!(sources["processes"], serde_json::json!({ "count": 3, "is_tree": true }));
    let tree = viewer.ask("processes?points=50");
    for process in tree["processes"].as_array().unwrap() {
        let id = &process["id"];
        let overview = viewer.ask(&format!("overview?source={id}&at=end"));
        assert_eq!(overview["figures"]["live_bytes"], process["live_at_end_bytes"]);
        let open = viewer.ask(&format!("sources?open={id}"));
        let about = open["sources"].as_array().unwrap().iter().find(|source| source["id"] == *id).unwrap();
        assert_eq!(about["peak"]["bytes"], process["peak_bytes"]);
        assert_eq!(about["pid"], process["pid"]);
    }
    assert_eq!(viewer.ask("sources?open=99")["sources"].as_array().unwrap().len(), 3, "there is no such process");
    for bad in ["processes?from=9&to=3", "processes?points=x", "processes/held", "processes/held?at=-1"] {
        assert_eq!(viewer.request("GET", bad).status, 400, "{bad}");
    }
}

#[test]
fn the_table_is_a_tree_or_sorted() {
    let place = family();
    let text = place.highwater("processes recording.hw").stdout;
    assert!(text.contains("3 processes in "), "{text}");
    assert!(text.contains("highest   7.0 MiB at "), "{text}");
    let programs: Vec<&str> = text.lines().filter_map(|line| line.find("family").map(|at| &line[at..])).collect();
    assert!(programs.iter().any(|line| line.starts_with("family  forked, inherited up to 3.0 MiB")), "{text}");
    let sorted = place.json("processes recording.hw --sort peak");
    let peaks: Vec<u64> = sorted["processes"].as_array().unwrap().iter().map(|p| number(&p["peak_bytes"])).collect();
    assert!(peaks.is_sorted_by(|a, b| a >= b) && peaks.len() == 3, "{peaks:?}");
    // A folder of recordings; those of the children alone have no parent among them.
    let folder = place.json("processes recording.children");
    let roots = folder["processes"].as_array().unwrap();
    assert_eq!((roots.len(), &roots[0]["parent"]), (2, &Value::Null));
    assert_eq!(place.highwater("processes recording.hw --sort peak --top 1").stdout.matches("family").count(), 2);
    place.highwater("processes missing.hw").is_one_clear_line_about(&["missing.hw"]);
}

#[test]
fn a_saved_page_of_a_tree_has_the_processes_and_the_largest_of_them() {
    let place = family();
    place.highwater("view recording.hw --save tree.html");
    let page = fs::read_to_string(place.file("tree.html")).unwrap();
    let tree = place.json("processes recording.hw");
    let peak = &tree["highest"]["bytes"];
    assert!(page.contains(&format!("\"bytes\":{peak}")), "the highest total is not in the page");
    for id in 0..3 {
        assert!(page.contains(&format!("\"overview?source={id}\"")), "process {id} is not in the page");
    }
}
