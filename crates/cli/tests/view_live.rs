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

/// What a request about a process names it by.
fn key(viewer: &Viewer, pid: u32) -> String {
    process(viewer, pid)["key"].as_str().unwrap().to_owned()
}

fn row<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["rows"].as_array().unwrap().iter().find(|row| row["key"] == name).unwrap_or(&Value::Null)
}

#[test]
fn looks_show_how_every_function_grew_and_any_of_them_opens() {
    let collector = Collector::new();
    let viewer = Viewer::start(&mut collector.command(["view", "--live", "--no-open"]));
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    assert_eq!(holder.holds("keep 1000 100"), (1000, 100_000));
    wait_for("the process", || process(&viewer, pid)["live_blocks"].as_u64() >= Some(1000));
    let key = key(&viewer, pid);
    let looks = |count: u64| {
        let looks = viewer.post(&format!("live/look?process={key}"))["looks"].clone();
        assert_eq!(looks.as_array().unwrap().len() as u64, count);
        let last = looks[count as usize - 1].clone();
        assert_eq!((&last["is_verified"], &last["number"]), (&true.into(), &(count - 1).into()));
        last
    };
    let first = looks(1);
    // Nothing happened between the look and the command: all figures are the same.
    let report = collector.json(&format!("snapshot --pid {pid} --by function --top 0"));
    assert_eq!(first["live_bytes"], report["totals"]["live_bytes"]);
    assert_eq!(first["live_blocks"], report["totals"]["live_blocks"]);

    assert_eq!(holder.holds("keep 7 5000"), (1007, 135_000));
    looks(2);
    assert_eq!(holder.holds("drop 3"), (1004, 120_000));
    let last = looks(3);
    let growth = viewer.ask(&format!("live/growth?process={key}&by=function&limit=1000"));
    let kept = row(&growth, "keep_blocks");
    assert_eq!((&kept["live_bytes"], &kept["live_blocks"]), (&120_000.into(), &1004.into()));
    assert_eq!((&kept["growth_bytes"], &kept["growth_blocks"]), (&20_000.into(), &4.into()));
    assert_eq!((&kept["lately_bytes"], &kept["lately_blocks"]), (&(-15_000).into(), &(-3).into()));
    let since_first = viewer.ask(&format!("live/growth?process={key}&by=function&lately=2&sort=lately"));
    assert_eq!(row(&since_first, "keep_blocks")["lately_bytes"], 20_000);
    assert_eq!(since_first["rows"][0]["key"], "keep_blocks");
    // Each row has what the command says, and the rows add up to the whole.
    let report = collector.json(&format!("snapshot --pid {pid} --by function --top 0"));
    let functions = report["functions"].as_array().unwrap();
    let sum =
        |name: &str| growth["rows"].as_array().unwrap().iter().map(|row| row[name].as_i64().unwrap()).sum::<i64>();
    for function in functions.iter().filter(|function| function["live_bytes"].as_u64() > Some(0)) {
        let name = function["name"].as_str().unwrap();
        let shown = row(&growth, name);
        assert_eq!(shown["live_bytes"], function["live_bytes"], "{name}: {function}");
    }
    assert_eq!(Some(sum("live_bytes")), growth["now"]["live_bytes"].as_i64());
    assert_eq!(growth["now"]["live_bytes"], report["totals"]["live_bytes"]);
    assert_eq!(growth["now"]["live_bytes"], last["live_bytes"]);
    let grew = last["live_bytes"].as_i64().unwrap() - first["live_bytes"].as_i64().unwrap();
    assert_eq!((sum("growth_bytes"), growth["found_growth"].as_i64()), (grew, Some(grew)));
    let found = viewer.ask(&format!("live/growth?process={key}&search=keep_blocks"));
    assert_eq!((&found["found_bytes"], &found["found_growth"]), (&120_000.into(), &20_000.into()));
    assert!(found["rows"][0]["stack"].to_string().contains("keep_blocks"), "{found}");
    // The flame graphs: what is live, and what changed.
    let tree = viewer.ask(&format!("live/tree?process={key}"));
    assert_eq!(tree["node_value"][0], last["live_bytes"]);
    let tree = viewer.ask(&format!("live/tree?process={key}&since=opened"));
    assert_eq!((&tree["node_before"][0], &tree["node_after"][0]), (&first["live_bytes"], &last["live_bytes"]));

    // A look becomes a source, and two are compared.
    let open = |number: u64| viewer.post(&format!("live/open?process={key}&look={number}"))["source"].clone();
    let (earlier, later) = (open(0), open(1));
    assert_eq!((&earlier["kind"], &earlier["live_at_end"]["bytes"]), (&"live".into(), &first["live_bytes"]));
    assert_eq!(of_function(&viewer, &earlier, "keep_blocks"), (1000, 100_000));
    let compared = viewer.ask(&format!("compare?a={}@end&b={}@end&by=function", earlier["id"], later["id"]));
    assert_eq!(row(&compared, "keep_blocks")["change"], 35_000);
    assert_eq!(viewer.request("POST", &format!("live/open?process={key}&look=99")).status, 404);

    // The collector's timeline ends with the same figures.
    wait_for("the timeline", || {
        let timeline = viewer.ask(&format!("live/timeline?process={key}&bins=50"));
        let last = |figures: &Value| figures["last"].as_array().unwrap().last().cloned().unwrap_or_default();
        let at_most = timeline["to_unix_ns"].as_array().unwrap().len() <= 50;
        at_most
            && last(&timeline["live_bytes"]) == growth["now"]["live_bytes"]
            && last(&timeline["rss_bytes"]).as_u64() > Some(1 << 20)
    });
    let listed = collector.json("ps --json --timeline 20");
    let listed = listed["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid).unwrap();
    assert_eq!(listed["timeline"]["live_bytes"]["last"].as_array().unwrap().last(), Some(&growth["now"]["live_bytes"]));
    assert!(collector.process(pid)["timeline"].is_null());

    // Forgotten, growth counts from the next look.
    viewer.post(&format!("live/forget?process={key}"));
    assert!(
        viewer.request("GET", &format!("live/growth?process={key}")).problem().unwrap().contains("not been looked at")
    );
    looks(1);
    let fresh = viewer.ask(&format!("live/growth?process={key}&by=function"));
    assert_eq!(row(&fresh, "keep_blocks")["growth_bytes"], 0);
    // Nonsense is refused.
    for wrong in ["live/growth?process=7", "live/growth", "live/timeline?process=1-2-3", "live/tree?process=a-b"] {
        assert_eq!(viewer.request("GET", wrong).status, 400, "{wrong}");
    }
    assert_eq!(viewer.request("POST", "live/look?process=1-2").status, 404);
    assert_eq!(viewer.request("GET", &format!("live/look?process={key}")).status, 405);
    assert_eq!(viewer.request("GET", &format!("live/growth?process={key}&lately=12")).status, 400);
}

#[test]
fn ended_processes_and_snapshots_of_programs_are_listed_and_open() {
    let collector = Collector::new();
    let viewer = Viewer::start(&mut collector.command(["view", "--live", "--no-open"]));
    assert_eq!(viewer.ask("live/own")["snapshots"], Value::Array(Vec::new()));
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    holder.tell("keep 500 100");
    assert_eq!(holder.tell("snapshot half way"), "0");
    holder.tell("keep 500 100");
    wait_for("the snapshot", || viewer.ask("live/own")["snapshots"][0]["name"] == "half way");
    let own = viewer.ask("live/own")["snapshots"][0].clone();
    assert_eq!((&own["pid"], &own["program"]), (&pid.into(), &"holder".into()));
    assert!(own["taken_unix_ns"].as_u64().unwrap() > 1_500_000_000_000_000_000);
    let opened = viewer.post(&format!("live/own/open?id={}", own["id"]))["source"].clone();
    assert_eq!((&opened["snapshot_name"], &opened["live_at_end"]["bytes"]), (&"half way".into(), &own["live_bytes"]));
    assert_eq!(of_function(&viewer, &opened, "keep_blocks"), (500, 50_000));
    assert!(viewer.request("POST", "live/own/open?id=99").problem().unwrap().contains("no kept snapshot 99"));
    assert_eq!(viewer.request("POST", "live/own/open?id=x").status, 400);

    wait_for("the process", || !process(&viewer, pid).is_null());
    let key = key(&viewer, pid);
    viewer.post(&format!("live/look?process={key}"));
    holder.kill();
    wait_for("the end", || process(&viewer, pid).is_null());
    let ended = viewer.ask("live")["ended"][0].clone();
    assert_eq!((&ended["key"], &ended["name"]), (&key.as_str().into(), &"holder".into()));
    assert!(ended["exited_unix_ns"].as_u64() > ended["since_unix_ns"].as_u64());
    assert!(ended["live_blocks"].as_u64().unwrap() >= 1000);
    // Its timeline ends with its last state, and so does the last look; there is nothing to look at after that.
    let timeline = viewer.ask(&format!("live/timeline?process={key}"));
    assert_eq!(timeline["live_bytes"]["last"].as_array().unwrap().last(), Some(&ended["live_bytes"]));
    for _ in 0..3 {
        let looks = viewer.post(&format!("live/look?process={key}"))["looks"].clone();
        assert_eq!((looks.as_array().unwrap().len(), &looks[1]["has_exited"]), (2, &true.into()));
        assert_eq!(looks[1]["live_bytes"], ended["live_bytes"]);
    }
    let last = viewer.post(&format!("live/snapshot?process={key}"))["source"].clone();
    assert_eq!(of_function(&viewer, &last, "keep_blocks"), (1000, 100_000));
}
