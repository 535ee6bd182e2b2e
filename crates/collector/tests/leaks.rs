//! Processes that come and go leave nothing behind in the collector. Alone in its program: it counts all that this process has.
mod support;

use highwater_collector::CollectorOptions;
use highwater_collector::protocol::{Detail, ProcessState, Retention};
use support::child::{Running, be_child};
use support::{Collector, TestFolder, snapshot_in, wait_for};

#[test]
#[ignore = "the program that the tests start, not a test"]
fn child() {
    be_child();
}

/// Descriptors, threads, mappings.
fn possessions() -> [usize; 3] {
    let entries = |path| std::fs::read_dir(path).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    [entries("/proc/self/fd"), entries("/proc/self/task"), maps.lines().filter(|line| line.contains("memfd")).count()]
}

#[test]
fn who_comes_and_goes_leaves_nothing() {
    let folder = TestFolder::new();
    let options = CollectorOptions { kept_tables: Retention { count: 2, bytes: 1 << 30 }, ..folder.options() };
    let collector = Collector::start(options);
    let come_and_go = || {
        let child = Running::start(collector.socket(), 20);
        let pid = child.pid();
        let mut client = collector.client();
        wait_for("registering", || client.processes().unwrap().iter().any(|info| info.pid == pid));
        for detail in [Detail::Sites, Detail::Blocks] {
            let contents = (detail == Detail::Blocks).then_some(4);
            snapshot_in(client.snapshot(pid, detail, contents).unwrap().file);
        }
        child.kill();
        wait_for("the end", || {
            let all = client.processes().unwrap();
            all.iter().any(|info| info.pid == pid && info.state == ProcessState::Exited)
        });
    };
    (0..5).for_each(|_| come_and_go());
    let settled = || {
        // Connections are noticed to be over a moment later.
        std::thread::sleep(std::time::Duration::from_millis(600));
        possessions()
    };
    let before = settled();
    (0..30).for_each(|_| come_and_go());
    assert_eq!(before, settled());
}
