//! A collector finds processes that have not registered. Alone in its program: it would find what other tests have.
mod support;

use highwater_collector::protocol::{Detail, ProcessState};
use highwater_collector::{CollectorClient, CollectorOptions};
use highwater_shm::table_v1::TableBlock;
use std::path::Path;
use std::sync::atomic::Ordering;
use support::child::{Running, be_child};
use support::fake::Fake;
use support::{Collector, TestFolder, snapshot_in, wait_for};

#[test]
#[ignore = "the program that the tests start, not a test"]
fn child() {
    be_child();
}

fn state_of(client: &mut CollectorClient, pid: u32) -> Option<ProcessState> {
    client.processes().unwrap().iter().find(|info| info.pid == pid).map(|info| info.state)
}

#[test]
fn processes_are_found_by_a_collector_that_comes_later() {
    let folder = TestFolder::new();
    let options = CollectorOptions { searches: true, ..folder.options() };
    let own = std::process::id();
    let mut fake = Fake::new(own);
    fake.belong_to(&options.socket);
    (1..=10).for_each(|number| fake.allocate(TableBlock { address: number * 16, size: 1, ..TableBlock::default() }));
    let first = Collector::start(options.clone());
    assert_eq!(state_of(&mut first.client(), own), Some(ProcessState::Live));
    assert_eq!(fake.control().collector.load(Ordering::Relaxed), own);
    let mut child = Running::start(first.socket(), 7);
    let pid = child.pid();
    assert_eq!(
        snapshot_in(first.client().snapshot(pid, Detail::Blocks, None).unwrap().file).accounts.blocks().count(),
        7
    );
    first.stop();
    assert_eq!(fake.control().collector.load(Ordering::Relaxed), 0);
    // As if it had been killed in the middle of a snapshot.
    fake.control().cut(9);
    let second = Collector::start(options);
    let mut client = second.client();
    wait_for("taking over", || fake.control().load().active_epoch() == 0);
    let info = client.processes().unwrap().into_iter().find(|info| info.pid == pid).unwrap();
    assert_eq!((info.state, info.live_blocks), (ProcessState::Live, 7));
    assert!(info.command.iter().any(|word| word == "--exact"));
    let taken = client.snapshot(own, Detail::Sites, None).unwrap();
    assert!(taken.cut.exact && taken.cut.verified);
    assert_eq!(child.tell("snapshot again"), "+");
    // One that nobody told of us.
    let quiet = Running::start_quiet(second.socket(), 3);
    let taken = client.snapshot(quiet.pid(), Detail::Blocks, None).unwrap();
    assert_eq!(snapshot_in(taken.file).accounts.blocks().count(), 3);
    // One that belongs to another collector.
    let foreign = Running::start_quiet(Path::new("/nowhere"), 3);
    assert_eq!(state_of(&mut client, foreign.pid()), None);
    wait_for("keeping", || client.kept().unwrap().0.len() == 1);
}
