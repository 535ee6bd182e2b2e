//! Blocks that a process had before `highwater attach`: live totals are the process's own, and nothing that it frees stays.

mod support;

use serde_json::Value;
use std::process::Command;
use support::attachable::{Target, own};
use support::live::{Collector, Holder};
use support::{Place, programs};

const BEFORE: &str = "[allocated before attach]";

/// On a busy machine the heap is not copied in 50 ms.
fn attach(collector: &Collector, pid: u32) -> String {
    let said = collector.highwater(&format!("attach --pid {pid} --pause 10s")).succeeded().stdout_text();
    assert!(said.contains("from before ("), "{said}");
    said
}

/// Live blocks and bytes of a snapshot with every block, of those that the filters select.
#[track_caller]
fn live(collector: &Collector, pid: u32, filters: &str) -> (u64, u64) {
    collector.highwater(&format!("snapshot --pid {pid} -o all.hw --force")).succeeded();
    own(&collector.json(&format!("report all.hw --top 0 {filters}"))["totals"])
}

#[test]
fn live_totals_are_the_processs_own_if_all_threads_allocate_meanwhile() {
    let (collector, place) = (Collector::new(), Place::new());
    let mut target = Target::start(&place);
    let pid = target.pid();
    let older = own(&target.figures("p")["functions"]["allocated_before"]);
    for round in 0..4 {
        assert_eq!(target.order("c"), "churning\n");
        let said = attach(&collector, pid);
        let figures = target.figures("s");
        let (blocks, least) = own(&figures);
        let (found, bytes) = live(&collector, pid, "--filter size:1000..");
        assert_eq!(found, older.0 + blocks, "round {round}: {said}");
        // A block that was there before shows its usable size, another one what was requested.
        let most = figures["usable_bytes"].as_u64().unwrap();
        assert!((older.1 + least..=older.1 + most).contains(&bytes), "round {round}: {figures} {bytes} {said}");
        // The same without a list of blocks.
        assert_eq!(own(&collector.process(pid)), live(&collector, pid, ""), "round {round}");
        let sites = collector.json(&format!("snapshot --pid {pid}"));
        assert_eq!((own(&sites["totals"]), &sites["cut"]["verified"]), (own(&collector.process(pid)), &true.into()));
        collector.highwater(&format!("detach --pid {pid}")).succeeded();
    }
    target.ends();
}

#[test]
fn older_blocks_that_are_freed_or_resized_go() {
    let (collector, place) = (Collector::new(), Place::new());
    let mut target = Target::start(&place);
    let pid = target.pid();
    attach(&collector, pid);
    // Twice: the second time only newer blocks go.
    assert_eq!(target.order("w"), "worked\n");
    assert_eq!(target.order("w"), "worked\n");
    let left = own(&target.figures("p")["functions"]["allocated_before"]);
    collector.highwater(&format!("snapshot --pid {pid} -o all.hw --force")).succeeded();
    let mut report = collector.command(["report", "all.hw", "--top", "0", "--json", "--filter", "size:1000.."]);
    report.args(["--filter", &format!("inside:equal:{BEFORE}")]);
    assert_eq!(own(&support::recorded::run(&mut report).succeeded().json()["totals"]), left);
    let notes = collector.json(&format!("snapshot --pid {pid}"))["source"]["notes"].to_string();
    assert!(notes.contains(BEFORE) && notes.contains("were freed since"), "{notes}");
    target.ends();
}

#[test]
fn frees_that_come_faster_than_they_are_followed_leave_nothing_false() {
    let collector = Collector::new();
    let mut holder = Holder::start(Command::new(programs::c("holder")));
    let pid = holder.pid;
    holder.tell("keep 700000 16");
    attach(&collector, pid);
    let before = own(&collector.process(pid));
    assert!(before.0 >= 700_000, "{before:?}");
    holder.tell("drop 700000");
    let (after, process) = (collector.function(pid, BEFORE), collector.process(pid));
    assert_eq!(process["unknown_frees"], 700_000);
    if after != (0, 0) {
        assert_eq!(after, (before.0 - 700_000, before.1 - 700_000 * 24));
        return;
    }
    let notes = collector.json(&format!("snapshot --pid {pid}"))["source"]["notes"].to_string();
    assert!(notes.contains("freed faster"), "{notes}");
    assert_eq!(own(&process), (0, 0));
}

#[test]
fn samples_do_not_know_older_blocks() {
    let collector = Collector::new();
    let mut holder = Holder::start(Command::new(programs::c("holder")));
    let pid = holder.pid;
    holder.tell("keep 100 100");
    attach(&collector, pid);
    assert!(collector.function(pid, BEFORE).0 >= 100);
    collector.highwater(&format!("set --pid {pid} --sample 1KiB")).succeeded();
    holder.tell("keep 100 100000");
    assert_eq!(collector.function(pid, BEFORE), (0, 0));
    let notes = collector.json(&format!("snapshot --pid {pid}"))["source"]["notes"].to_string();
    assert!(notes.contains("no figure any more: a sample does not show"), "{notes}");
    let said = |options: &str| -> Value {
        let holder = Holder::start(Command::new(programs::c("holder")));
        collector.json(&format!("attach --pid {} {options}", holder.pid))["older_blocks"]["problem"].clone()
    };
    assert!(said("--sample 1KiB").as_str().unwrap().contains("a sample does not show"));
    assert!(said("--pause 0").as_str().unwrap().contains("not read"));
}
