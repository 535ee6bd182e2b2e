//! The resident memory in a recording: curves, breakdowns at the highest RSS, at marks and before the end, and the instant `rss-peak`.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::recorded::{Ended, record, run};
use support::{HIGHWATER, Place, programs};

/// What `fragments.c` fills and then frees.
const FILLED: u64 = 200_000 * 112;
const MAPPED: u64 = 8 << 20;

fn recorded(options: &[&str]) -> (Place, PathBuf) {
    let place = Place::new();
    let program = programs::c("fragments");
    run(&mut record(&place, options, program)).succeeded();
    let file = place.file("recording.hw");
    (place, file)
}

fn highwater(arguments: &[&str], file: &Path) -> Ended {
    run(std::process::Command::new(HIGHWATER).args(arguments).arg(file))
}

fn info(file: &Path) -> Value {
    highwater(&["info", "--json"], file).succeeded().json()
}

fn gauge(info: &Value, name: &str) -> Option<Value> {
    info["gauges"].as_array().unwrap().iter().find(|gauge| gauge["name"] == name).cloned()
}

#[test]
fn the_curves_show_when_memory_became_free_and_stayed() {
    let (_place, file) = recorded(&[]);
    let info = info(&file);
    let highest =
        |name: &str| gauge(&info, name).unwrap_or_else(|| panic!("no {name}: {info}"))["highest"].as_u64().unwrap();
    let last = |name: &str| gauge(&info, name).unwrap()["last"].as_u64().unwrap();
    assert!(highest("rss") > FILLED + MAPPED);
    assert!((MAPPED..MAPPED + (1 << 20)).contains(&highest("mapped bytes")), "{info}");
    assert!(last("mapped bytes") < 1 << 20, "{info}");
    // Most of what was freed is on pages with blocks that are still live.
    assert!(last("free resident bytes") > FILLED / 2, "{info}");
    assert!(highest("slack bytes") < FILLED / 4, "{info}");
}

#[test]
fn breakdowns_are_kept_of_marks_the_highest_rss_and_the_end() {
    let (_place, file) = recorded(&[]);
    let info = info(&file);
    let breakdowns = info["breakdowns"].as_array().unwrap();
    let of = |reason: &str| breakdowns.iter().filter(|one| one["reason"] == reason).collect::<Vec<_>>();
    assert_eq!((of("mark").len(), of("rss-peak").len(), of("end").len()), (2, 1, 1), "{info}");
    let marks = info["marks"].as_array().unwrap();
    for (breakdown, mark) in of("mark").into_iter().zip(marks) {
        // Later, if another breakdown was being made.
        let late = breakdown["at_ns"].as_u64().unwrap() - mark["time_ns"].as_u64().unwrap();
        assert!(late < 400_000_000, "the state of a mark lasts that long: {info}");
    }
    let peak = of("rss-peak")[0];
    assert!(peak["at_ns"].as_u64() < marks[1]["time_ns"].as_u64(), "{info}");
    assert!(peak["rss_bytes"].as_u64().unwrap() > FILLED + MAPPED);
    // The mark's own, if the machine was too slow for another one.
    assert!(of("end")[0]["at_ns"].as_u64() >= marks[1]["time_ns"].as_u64(), "{info}");
    let check = highwater(&["check", "--json"], &file).succeeded().json();
    assert_eq!((&check["sound"], &check["breakdowns"]), (&Value::from(true), &Value::from(4)), "{check}");
}

#[test]
fn the_highest_rss_is_an_instant() {
    let (place, file) = recorded(&[]);
    let live_at = |when: &str| {
        let report = highwater(&["report", "--json", "--top", "1", "--at", when], &file).succeeded().json();
        report["totals"]["live_bytes"].as_u64().unwrap()
    };
    assert!(live_at("rss-peak") >= 200_000 * 104 + MAPPED, "{}", live_at("rss-peak"));
    assert!(live_at("end") < 1 << 20);
    // Of one instant, a file keeps the breakdown that was made then.
    let snapshot = place.file("holes.hw");
    let output = snapshot.to_str().unwrap();
    highwater(&["export", "--to", "hw", "-o", output, "--at", "mark:holes"], &file).succeeded();
    let kept = info(&snapshot);
    assert_eq!(kept["breakdowns"].as_array().unwrap().len(), 1, "{kept}");
}

#[test]
fn trimming_and_naming_keep_breakdowns() {
    let (place, file) = recorded(&[]);
    let reasons = |file: &Path| -> Vec<Value> {
        info(file)["breakdowns"].as_array().unwrap().iter().map(|one| one["reason"].clone()).collect()
    };
    let named = place.file("named.hw");
    highwater(&["symbolize", "-o", named.to_str().unwrap()], &file).succeeded();
    assert_eq!(reasons(&named), reasons(&file));
    let part = place.file("part.hw");
    highwater(&["trim", "--from", "mark:holes", "-o", part.to_str().unwrap(), "--names", "hash"], &file).succeeded();
    assert_eq!(reasons(&part), ["mark", "end"]);
    highwater(&["check"], &part).succeeded();
}

#[test]
fn without_readings_there_is_no_highest_rss() {
    let (_place, file) = recorded(&["--rss-every", "off"]);
    let info = info(&file);
    assert_eq!((gauge(&info, "rss"), info["breakdowns"].as_array().unwrap().len()), (None, 0), "{info}");
    let failed = highwater(&["report", "--at", "rss-peak"], &file);
    assert_eq!(failed.shell_status(), 1, "{}", failed.stderr_text());
    assert!(failed.stderr_text().contains("it has no RSS"), "{}", failed.stderr_text());
}

#[test]
fn samples_do_not_claim_to_know_free_memory() {
    let (_place, file) = recorded(&["--sample", "64KiB"]);
    let info = info(&file);
    assert!(gauge(&info, "rss").is_some());
    assert_eq!((gauge(&info, "free resident bytes"), gauge(&info, "slack bytes")), (None, None), "{info}");
}
