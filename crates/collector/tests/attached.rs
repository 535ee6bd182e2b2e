//! Agents that were injected into running processes: what a collector believes of them, and what it does for them. The object is made here, as an attacher makes it.
mod support;

use highwater_collector::protocol::{Detail, ProcessState, Which};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorError, PageDetail};
use highwater_session::AttachedMemory;
use highwater_shm::attach_v1::{AttachHeader, AttachLayout, ENDED_NO_READER, FLAG_LIVE, OBJECT_NAME};
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::TableCapacity;
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use support::{Collector, TestFolder, snapshot_in, wait_for};

fn layout() -> AttachLayout {
    AttachLayout::for_live(Capacity::LIVE_CHOICES[2], TableCapacity::CHOICES[2])
}

fn object(bytes: u64, seals: SealFlags) -> OwnedFd {
    let object = rustix::fs::memfd_create(OBJECT_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&object, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&object, seals).unwrap();
    object
}

const SEALED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// An object that is ready for an agent. This process has it mapped as long as the memory lives.
fn prepared(sample_bytes: u64) -> (OwnedFd, AttachedMemory) {
    prepared_with(layout(), sample_bytes)
}

fn prepared_with(layout: AttachLayout, sample_bytes: u64) -> (OwnedFd, AttachedMemory) {
    let object = object(layout.bytes(), SEALED);
    let memory = AttachedMemory::open(&object, layout).unwrap();
    // SAFETY: a header is numbers, for which zeros are valid.
    let mut header: AttachHeader = unsafe { std::mem::zeroed() };
    header.flags = FLAG_LIVE;
    header.sample_bytes = sample_bytes;
    memory.prepare(&mut header, std::process::id(), None).unwrap();
    (object, memory)
}

/// A process that has nothing of ours, ended with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn an_agent_is_read_before_it_begins_and_kept_alive() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let (object, memory) = prepared(4096);
    let pid = std::process::id();
    client.attach(pid, layout(), None, object.as_fd()).unwrap();
    let info = client.processes_among(&Which::Pid(pid)).unwrap().remove(0);
    assert_eq!((info.state, info.is_attached, info.live_blocks), (ProcessState::Live, true, 0));
    assert_eq!(info.sample_bytes, 4096);
    let beat = || memory.page().heartbeat.load(Ordering::Relaxed);
    let first = beat();
    wait_for("ten signs of life", || beat() >= first + 10);
    let taken = client.snapshot(pid, Detail::Blocks, None).unwrap();
    assert!(taken.cut.verified && taken.cut.exact);
    let snapshot = snapshot_in(taken.file);
    assert!(
        snapshot.source.notes.iter().any(|note| note.contains("Highwater attached")),
        "{:?}",
        snapshot.source.notes
    );
    // An agent that has ended by itself shows nothing any more, and says why.
    memory.page().ended.store(ENDED_NO_READER, Ordering::Relaxed);
    let info = client.processes_among(&Which::Pid(pid)).unwrap().remove(0);
    assert!(info.state == ProcessState::Refused && info.problem.contains("highwater attach"), "{info:?}");
    assert!(matches!(client.snapshot(pid, Detail::Sites, None), Err(CollectorError::Failed(_))));
    // Another one takes its place: the process has not exited.
    let (other, _memory) = prepared(0);
    client.attach(pid, layout(), None, other.as_fd()).unwrap();
    let all = client.processes_among(&Which::Pid(pid)).unwrap();
    assert_eq!(all.iter().map(|info| info.state).collect::<Vec<_>>(), [ProcessState::Live]);
    assert!(client.detach(pid).unwrap() && !client.detach(pid).unwrap());
    assert!(client.processes_among(&Which::Pid(pid)).unwrap().is_empty());
}

#[test]
fn blocks_from_before_are_in_every_figure_until_they_are_freed() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let (object, memory) = prepared(0);
    let pid = std::process::id();
    client.attach(pid, layout(), None, object.as_fd()).unwrap();
    let log = memory.unknown_frees();
    // The list is of later.
    log.append(0x1000_0010);
    let list = [(0x1000_0010, 24), (0x1000_0030, 1000), (0x2000_0010, 5000)];
    assert_eq!(client.set_older(pid, 1, list.into_iter()).unwrap(), (3, 6024));
    // One of them, and one that is on no list.
    [0x1000_0030, 0x5555].into_iter().for_each(|address| log.append(address));
    let info = client.processes_among(&Which::Pid(pid)).unwrap().remove(0);
    assert_eq!((info.live_blocks, info.live_bytes), (2, 5024));
    for (detail, blocks) in [(Detail::Sites, 0), (Detail::Blocks, 2)] {
        let taken = client.snapshot(pid, detail, None).unwrap();
        assert!(taken.cut.verified && taken.cut.exact);
        let snapshot = snapshot_in(taken.file);
        let figures = snapshot.accounts.totals().figures;
        assert_eq!((figures.live_blocks(), figures.live_bytes(), figures.allocations), (2, 5024, 3), "{detail:?}");
        assert_eq!(snapshot.accounts.blocks().count(), blocks);
        let notes = snapshot.source.notes.join(" ");
        assert!(
            notes.contains("3 blocks of glibc's heap from before") && notes.contains("1 of them, of 1000"),
            "{notes}"
        );
    }
    let pages = SnapshotRequest { detail: Detail::Sites, contents: None, pages: Some(PageDetail::Rows) };
    snapshot_in(client.snapshot_with(pid, pages).unwrap().file);
    // Lists that make no sense, and processes that were not attached to.
    for (process, list) in
        [(pid, [(8, 8), (9, 8)]), (pid, [(0x2000, 64), (0x2010, 8)]), (1, [(0x2000, 8), (0x3000, 8)])]
    {
        let refused = client.set_older(process, 0, list.into_iter());
        assert!(matches!(refused, Err(CollectorError::Failed(_))), "{refused:?}");
    }
    let info = client.processes_among(&Which::Pid(pid)).unwrap().remove(0);
    assert_eq!(info.live_blocks, 2);
}

#[test]
fn memory_is_allocated_ahead_of_the_agent() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let (object, memory) = prepared(0);
    let held = || rustix::fs::fstat(&object).unwrap().st_blocks as u64 * 512;
    let before = held();
    collector.client().attach(std::process::id(), layout(), None, object.as_fd()).unwrap();
    // The session, its stacks and modules, threads and the first records.
    assert!(held() > before + (2 << 20), "{before} {}", held());
    let used = &memory.page().private_used;
    used.store(40 << 20, Ordering::Relaxed);
    wait_for("private memory", || memory.page().private_provided.load(Ordering::Relaxed) > 40 << 20);
    assert!(held() > 40 << 20);
}

#[test]
fn a_process_that_claims_to_need_all_memory_gets_little() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let large = AttachLayout::for_live(Capacity::LIVE_CHOICES[1], TableCapacity::CHOICES[1]);
    let (object, memory) = prepared_with(large, 0);
    collector.client().attach(std::process::id(), large, None, object.as_fd()).unwrap();
    let page = memory.page();
    page.private_used.store(u64::MAX, Ordering::Relaxed);
    let beat = || page.heartbeat.load(Ordering::Relaxed);
    wait_for("the limit", || page.private_provided.load(Ordering::Relaxed) >= 128 << 20);
    let first = beat();
    wait_for("some signs of life", || beat() >= first + 5);
    assert!(page.private_provided.load(Ordering::Relaxed) < 1 << 30 && large.private_bytes > 2 << 30);
}

#[test]
fn what_is_no_agents_memory_or_another_processes_is_refused() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let pid = std::process::id();
    let mut refusal = |pid: u32, object: &OwnedFd| match client.attach(pid, layout(), None, object.as_fd()) {
        Err(CollectorError::Failed(line)) => line,
        other => panic!("{other:?}"),
    };
    let (good, _memory) = prepared(0);
    let other = Other(Command::new("sleep").arg("1000").spawn().unwrap());
    assert!(refusal(other.0.id(), &good).contains("does not have this agent"));
    assert!(refusal(i32::MAX as u32, &good).contains("cannot be examined"));
    assert!(refusal(pid, &object(layout().bytes(), SealFlags::empty())).contains("not sealed"));
    assert!(refusal(pid, &object(4096, SEALED)).contains("not that of an agent"));
    // Of the right size, but empty.
    assert!(refusal(pid, &object(layout().bytes(), SEALED)).contains("not that of an agent"));
    assert!(client.processes().unwrap().is_empty());
    // A layout that the header of the table contradicts.
    let (object, memory) = prepared(0);
    let smaller = TableCapacity { shard_records: (1 << 12) - 4, threads: 1 << 12 };
    assert_ne!(AttachLayout::for_live(layout().capacity, smaller).bytes(), memory.layout().bytes());
    let contradicted = client.attach(pid, AttachLayout::for_live(layout().capacity, smaller), None, object.as_fd());
    assert!(matches!(contradicted, Err(CollectorError::Failed(_))));
}
