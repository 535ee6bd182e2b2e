//! `highwater view --live` with a real collector and real programs under it.

mod support;

use serde_json::Value;
use support::live::{Collector, wait_for};
use support::viewer::Viewer;

/// The entry of a process in `live`; null if there is none.
fn process(viewer: &Viewer, pid: u32) -> Value {
    let live = viewer.ask("live");
    let found = live["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid);
    found.cloned().unwrap_or_default()
}

fn snapshot(viewer: &Viewer, pid: u32) -> Value {
    viewer.post(&format!("live/snapshot?pid={pid}"))["source"].clone()
}

/// Blocks and bytes of a function itself.
fn of_function(viewer: &Viewer, source: &Value, name: &str) -> (u64, u64) {
    let rows = viewer.ask(&format!("rows?by=function&source={}", source["id"]));
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["key"] == name);
    row.map_or((0, 0), |row| (row["blocks"].as_u64().unwrap(), row["value"].as_u64().unwrap()))
}

#[test]
fn a_live_process_is_listed_ticks_and_is_looked_into() {
    let mut collector = Collector::new();
    let viewer = Viewer::start(&mut collector.command(["view", "--live", "--no-open"]));
    let empty = viewer.ask("live");
    assert_eq!((&empty["processes"], &empty["problem"]), (&Value::Array(Vec::new()), &Value::Null));
    assert_eq!(empty["collector"], collector.socket().display().to_string());
    assert_eq!(viewer.ask("sources")["sources"], Value::Array(Vec::new()));

    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    assert_eq!(holder.holds("keep 1000 100"), (1000, 100_000));
    wait_for("the process", || process(&viewer, pid)["live_blocks"].as_u64() >= Some(1000));
    let listed = process(&viewer, pid);
    assert_eq!((&listed["name"], &listed["mode"]), (&"holder".into(), &"exact".into()));
    assert!(listed["since_unix_ns"].as_u64().unwrap() > 1_500_000_000_000_000_000);
    // Figures are updated.
    let before = listed["live_bytes"].as_u64().unwrap();
    holder.tell("keep 10 1000000");
    wait_for("the figures", || process(&viewer, pid)["live_bytes"].as_u64() >= Some(before + 10_000_000));
    holder.tell("drop 10");
    wait_for("the figures", || process(&viewer, pid)["live_bytes"].as_u64() < Some(before + 10_000_000));

    // A snapshot is a source that answers as files do, with the same figures as the command.
    let first = snapshot(&viewer, pid);
    assert_eq!((&first["kind"], &first["pid"], &first["problem"]), (&"live".into(), &pid.into(), &Value::Null));
    assert_eq!(of_function(&viewer, &first, "keep_blocks"), (1000, 100_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (1000, 100_000));
    assert_eq!(viewer.source(first["id"].as_u64().unwrap() as usize)["live_at_end"], first["live_at_end"]);
    let blocks =
        viewer.ask(&format!("blocks?source={}&filter=size:100..100&filter=inside:equal:keep_blocks", first["id"]));
    assert_eq!((&blocks["count"], &blocks["bytes"]), (&1000.into(), &100_000.into()));

    // A second one is compared with the first.
    assert_eq!(holder.holds("keep 7 5000"), (1007, 135_000));
    let second = snapshot(&viewer, pid);
    assert_ne!(first["id"], second["id"]);
    let compared = viewer.ask(&format!("compare?a={}@end&b={}@end&by=function", first["id"], second["id"]));
    let kept = compared["rows"].as_array().unwrap().iter().find(|row| row["key"] == "keep_blocks").unwrap();
    assert_eq!((&kept["change"], &kept["what"], &kept["blocks_after"]), (&35_000.into(), &"grew".into(), &1007.into()));

    // An unknown process; an exited one whose last state is known; then no collector. Each case is reported, and the snapshots taken still answer.
    let nobody = viewer.request("POST", "live/snapshot?pid=4194999");
    assert_eq!(nobody.status, 500, "{nobody:?}");
    assert!(nobody.problem().unwrap().contains("4194999"), "{nobody:?}");
    assert_eq!(viewer.request("POST", "live/snapshot").status, 400);
    assert_eq!(viewer.request("GET", &format!("live/snapshot?pid={pid}")).status, 405);
    holder.kill();
    wait_for("the end", || process(&viewer, pid).is_null());
    assert_eq!(of_function(&viewer, &snapshot(&viewer, pid), "keep_blocks"), (1007, 135_000));
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    let gone = viewer.ask("live");
    assert_eq!(gone["processes"], Value::Array(Vec::new()));
    assert!(gone["problem"].as_str().unwrap().contains("no collector listens"), "{gone}");
    let refused = viewer.request("POST", &format!("live/snapshot?pid={pid}"));
    assert!(refused.problem().unwrap().contains("no collector listens"), "{refused:?}");
    assert_eq!(of_function(&viewer, &second, "keep_blocks"), (1007, 135_000));

    // A restarted collector is found again.
    collector.restart();
    let mut next = collector.holder(&[]);
    next.tell("keep 3 70");
    wait_for("the next process", || process(&viewer, next.pid)["live_blocks"].as_u64() >= Some(3));
    assert_eq!(viewer.ask("live")["problem"], Value::Null);
    let third = snapshot(&viewer, next.pid);
    assert_eq!(of_function(&viewer, &third, "keep_blocks"), (3, 210));
}

#[test]
fn a_sampled_process_is_told_from_an_exact_one() {
    let collector = Collector::new();
    let viewer = Viewer::start(&mut collector.command(["view", "--live", "--no-open"]));
    let mut holder = collector.holder(&["--sample", "4KiB"]);
    holder.tell("keep 20000 100");
    wait_for("the process", || !process(&viewer, holder.pid).is_null());
    assert_eq!(process(&viewer, holder.pid)["mode"], "1 in 4 KiB");
    let taken = snapshot(&viewer, holder.pid);
    assert_eq!(taken["estimated"], true);
    let rows = viewer.ask(&format!("rows?by=function&source={}", taken["id"]));
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["key"] == "keep_blocks").unwrap();
    // More than four hundred samples: the estimate is within a third.
    let bytes = row["value"].as_u64().unwrap();
    assert!((1_300_000..2_700_000).contains(&bytes), "{row}");
    assert!(row["samples"].as_u64().unwrap() > 300, "{row}");
}
