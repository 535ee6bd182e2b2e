//! Many processes, many snapshots, and many processes that start and end at once: the collector does not grow.

mod support;

use highwater_collector::CollectorClient;
use highwater_collector::protocol::{Detail, ProcessState};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use support::live::{Collector, Holder, wait_for};

/// The resources of a process: descriptors, threads, mappings, and bytes of private memory.
#[derive(Clone, Copy, Debug)]
struct Size {
    descriptors: usize,
    threads: usize,
    mappings: usize,
    bytes: u64,
}

fn size_of(collector: &Collector) -> Size {
    let process = format!("/proc/{}", collector.child.id());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    Size {
        descriptors: collector.count_in_proc("fd"),
        threads: collector.count_in_proc("task"),
        mappings: std::fs::read_to_string(format!("{process}/maps")).unwrap().lines().count(),
        bytes: kibibytes * 1024,
    }
}

#[track_caller]
fn assert_no_larger(now: Size, before: Size) {
    let same = now.descriptors <= before.descriptors + 4
        && now.threads <= before.threads
        && now.mappings <= before.mappings + 16
        && now.bytes <= before.bytes + (8 << 20);
    assert!(same, "{before:?} became {now:?}");
}

#[test]
fn two_hundred_processes_and_fifty_snapshots_a_second() {
    const PROCESSES: usize = 200;
    let collector = Collector::new();
    let client = || CollectorClient::connect(&collector.socket()).unwrap();
    let idle = size_of(&collector);
    let script = format!("for i in $(seq {PROCESSES}); do sleep 1000 & done; echo pid $$; read line; kill $(jobs -p)");
    let mut command = collector.command(["run", "-q", "--", "bash", "-c"]);
    command.arg(script);
    let mut shell = Holder::start(command);
    let sleeping = || -> HashSet<u32> {
        let live = client().processes().unwrap().into_iter();
        live.filter(|process| process.state == ProcessState::Live && process.name == "sleep")
            .map(|one| one.pid)
            .collect()
    };
    wait_for("all to register", || sleeping().len() == PROCESSES);
    let pids: Vec<u32> = sleeping().into_iter().collect();
    let snapshot = |round: usize| {
        let taken = client().snapshot(pids[round % PROCESSES], Detail::Sites, None).unwrap();
        assert!(taken.cut.exact && taken.cut.verified, "{:?}", taken.cut);
    };
    (0..PROCESSES).for_each(&snapshot);
    let before = size_of(&collector);
    // At a rate of at least 50 per second.
    let begin = Instant::now();
    let mut taken = 0;
    while begin.elapsed() < Duration::from_secs(6) {
        snapshot(taken);
        taken += 1;
    }
    assert!(taken >= 300, "{taken} snapshots in 6 s");
    assert_no_larger(size_of(&collector), before);
    shell.kill_all(&pids);
    wait_for("all to go", || sleeping().is_empty());
    // The tables of some exited processes are kept, with a descriptor each.
    wait_for("the others to be given up", || size_of(&collector).descriptors <= idle.descriptors + 40);
}

#[test]
fn ten_thousand_that_register_and_die_at_once() {
    let collector = Collector::new();
    let client = || CollectorClient::connect(&collector.socket()).unwrap();
    let run = |times: u32| {
        let script = format!("i=0; while [ $i -lt {times} ]; do /bin/true; i=$((i+1)); done");
        let mut command = collector.command(["run", "-q", "--", "/bin/sh", "-c"]);
        assert!(command.arg(script).status().unwrap().success());
        wait_for("all to go", || {
            client().processes().unwrap().iter().all(|process| process.state != ProcessState::Live)
        });
    };
    run(200);
    let before = size_of(&collector);
    run(10_000);
    assert_no_larger(size_of(&collector), before);
    let kept = client().processes().unwrap();
    assert!(kept.len() <= 32, "{} are kept", kept.len());
    let log = std::fs::read_to_string(collector.place.file("collector.log")).unwrap();
    assert!(log.matches("registered").count() > 10_000, "they did register");
}
