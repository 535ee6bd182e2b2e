//! The cost of a request to a collector: time while it does not answer, and work for processes that no client asked about.
#![allow(missing_docs)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use support::live::{Collector, Holder, wait_for};

fn signal(collector: &Collector, signal: Signal) {
    kill_process(Pid::from_child(&collector.child), signal).unwrap();
}

#[test]
fn a_stopped_collector_is_reported_and_not_waited_for() {
    let collector = Collector::new();
    let holder = collector.holder(&[]);
    collector.highwater(&format!("snapshot --pid {} -o before.hw", holder.pid)).succeeded();
    signal(&collector, Signal::STOP);
    let (pid, stopped) = (holder.pid, collector.child.id());
    for line in [
        // There is a limit without the option, too.
        "ps".to_owned(),
        "ps --timeout 1s".to_owned(),
        format!("snapshot --pid {pid} --timeout 1s"),
        format!("watch --pid {pid} --timeout 1s"),
        format!("set --pid {pid} --sample 1MiB --timeout 1s"),
        format!("diff before.hw --pid {pid} --timeout 1s"),
        "snapshots --timeout 1s".to_owned(),
        "snapshots get 1 --timeout 1s".to_owned(),
    ] {
        let ended = collector.highwater(&line);
        assert_eq!(ended.shell_status(), 1, "{line}");
        let said = ended.stderr_text();
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        assert!(said.contains(&format!("its process {stopped} is stopped; 'kill -CONT {stopped}'")), "{line}: {said}");
    }
    signal(&collector, Signal::CONT);
    collector.highwater("ps").succeeded();
    collector.highwater(&format!("snapshot --pid {pid}")).succeeded();
}

#[test]
fn a_collector_that_stops_while_it_is_watched_ends_the_watching() {
    let collector = Collector::new();
    let holder = collector.holder(&[]);
    let line = format!("watch --pid {} --json --interval 0.05 --timeout 1s", holder.pid);
    let mut command = collector.command(line.split_whitespace());
    let watching = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    signal(&collector, Signal::STOP);
    let ended = watching.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("is stopped"), "{said}");
}

/// The number of reads by the collector's process: lists of mappings and descriptors, names, states.
fn reads(collector: &Collector) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/io", collector.child.id())).unwrap();
    text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

fn reads_for(collector: &Collector, line: &str) -> u64 {
    let before = reads(collector);
    collector.highwater(line).succeeded();
    reads(collector) - before
}

#[test]
fn a_snapshot_of_one_process_costs_nothing_for_the_others() {
    const OTHERS: usize = 24;
    let collector = Collector::new();
    let holder = collector.holder(&[]);
    let by_number = format!("snapshot --pid {} --json", holder.pid);
    let alone = reads_for(&collector, &by_number);
    let others: Vec<Holder> = (0..OTHERS).map(|_| collector.holder(&[])).collect();
    wait_for("all to register", || {
        let listed = collector.json("ps");
        others.iter().all(|other| listed["processes"].to_string().contains(&format!("\"pid\":{}", other.pid)))
    });
    let among_others = reads_for(&collector, &by_number);
    let of_all = reads_for(&collector, "ps --json");
    // The list reads every process, the snapshot only one.
    assert!(of_all >= OTHERS as u64, "a list takes {of_all} reads");
    assert!(
        among_others < alone + OTHERS as u64 / 2,
        "{among_others} reads among {OTHERS} others, {alone} without them"
    );
}
