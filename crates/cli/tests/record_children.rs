//! Which process a recording is of: names, children, and resident memory.

mod support;

use serde_json::Value;
use std::os::unix::fs::symlink;
use support::Place;
use support::programs;
use support::recorded::{Recording, record, run};
use support::viewer::Viewer;

/// A shell that starts one process that does little, and one that holds 8 MiB.
fn shell(place: &Place, options: &[&str]) -> String {
    let (busy, toucher) = (programs::c("busy"), programs::c("toucher"));
    let script = format!("{} 0 10 0; {} 8 1 1; exit 0", busy.display(), toucher.display());
    let ended = run(record(place, options, "/bin/sh").args(["-c", &script])).succeeded();
    ended.stderr_text()
}

#[test]
fn children_lie_in_one_folder_and_only_the_large_ones_are_kept() {
    let place = Place::new();
    let said = shell(&place, &[]);
    assert_eq!(place.names(), ["recording.children", "recording.hw"]);
    let kept = Recording::read_children(&place);
    let [child] = &kept[..] else { panic!("{} recordings were kept", kept.len()) };
    assert_eq!(child.report["source"]["program"], "toucher");
    assert!(said.contains("1 recorded"), "{said}");
    assert!(said.contains("not kept (peak below 1.0 MiB; --keep-children 0 keeps all)"), "{said}");
    // The child holds more than the shell: it is named first, and is the suggested next recording to open.
    let first = said.lines().find(|line| !line.starts_with("highwater: ")).unwrap();
    assert!(first.starts_with("most memory  in a child: toucher, peak 8.0 MiB: recording.children/"), "{said}");
    assert!(said.contains("next: highwater view recording.children/"), "{said}");
    // The program's recording knows how many there were, and the list of processes says so.
    let processes = place.json("processes recording.hw");
    let notes = processes["notes"].as_array().unwrap();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    let pattern =
        r"^sh \(\d+\): (1 child|\d+ children) without a recording, with less than 1,024 KiB at the peak: .* (\d+) KiB$";
    let found =
        regex::Regex::new(pattern).unwrap().captures(note.as_str().unwrap()).unwrap_or_else(|| panic!("{note}"));
    assert!((1..1024 * 8).contains(&found[2].parse::<u64>().unwrap()), "{note}");
    let listed = place.highwater("processes recording.hw").stdout;
    assert!(listed.contains(note.as_str().unwrap()), "{listed}");
}

#[test]
fn all_children_are_kept_on_demand_and_listed_by_peak() {
    let place = Place::new();
    let said = shell(&place, &["--keep-children", "0"]);
    assert!(Recording::read_children(&place).len() >= 2);
    let (large, small) = (said.find("-toucher.hw (").unwrap(), said.find("-busy.hw (").unwrap());
    assert!(large < small, "{said}");
    // The next recording of that name replaces this one, including its children.
    run(record(&place, &[], programs::c("toucher")).args(["1", "1", "1"])).succeeded();
    assert_eq!(place.names(), ["recording.hw"]);
}

#[test]
fn the_viewer_shows_children_with_the_program() {
    let place = Place::new();
    shell(&place, &["--keep-children", "0"]);
    let viewer = Viewer::new(&place, "recording.hw");
    let processes = viewer.ask("processes");
    let names: Vec<&str> =
        processes["processes"].as_array().unwrap().iter().map(|process| process["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "sh", "{names:?}");
    assert!(names.contains(&"toucher") && names.contains(&"busy"), "{names:?}");
}

#[test]
fn a_program_is_called_what_was_typed() {
    let place = Place::new();
    symlink(programs::c("toucher"), place.file("server")).unwrap();
    run(record(&place, &[], "./server").args(["1", "1", "1"])).succeeded();
    let source = Recording::read(&place).report["source"].clone();
    assert_eq!(source["program"], "server");
    assert!(source["executable"].as_str().unwrap().ends_with("/toucher"), "{source}");
    place.highwater("report recording.hw").stdout_has(&["program    server (pid ", ", executable ", "/toucher"]);
    // If both names are the same, only one is printed.
    run(record(&place, &[], programs::c("toucher")).args(["1", "1", "1"])).succeeded();
    assert!(!place.highwater("report recording.hw").stdout.contains(", executable "));
}

/// Readings of the resident set: seconds and mebibytes.
fn resident(place: &Place) -> Vec<(f64, f64)> {
    let timeline: Value = serde_json::from_str(&place.highwater("timeline recording.hw --json").stdout).unwrap();
    let readings = timeline["gauges"].as_array().unwrap().iter().filter(|gauge| gauge["name"] == "rss");
    readings
        .map(|gauge| (gauge["time_ns"].as_f64().unwrap() / 1e9, gauge["value"].as_f64().unwrap() / f64::from(1 << 20)))
        .collect()
}

/// Resident memory grows while nothing is allocated, in a program that a shell execs. Each reading has the time at which it was made, from the start
/// on.
#[test]
fn what_is_resident_is_read_from_the_start_and_at_its_time_after_an_exec_too() {
    let place = Place::new();
    let script = format!("exec {} 96 12 50", programs::c("toucher").display());
    run(record(&place, &["--keep-children", "0"], "/bin/sh").args(["-c", &script])).succeeded();
    let readings = resident(&place);
    assert!(readings.len() >= 3, "{readings:?}");
    assert!(readings[0].1 < 48.0, "the first reading is of the start: {readings:?}");
    assert!(readings.last().unwrap().1 > 60.0, "{readings:?}");
    let times: Vec<f64> = readings.iter().map(|reading| reading.0).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "each has a time of its own: {readings:?}");
    // The program allocated its block at once: if readings had the time of the latest event, they would all have that time.
    let allocated =
        Recording::read_at(&place, "recording.hw", "peak").report["recording"]["peak_at_ns"].as_f64().unwrap();
    assert!(times.last().unwrap() * 1e9 > allocated, "{readings:?}");
}
