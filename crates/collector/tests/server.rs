//! A collector and real processes, over its socket.
mod support;

use highwater_collector::contents::read_contents;
use highwater_collector::protocol::{CollectorRequest, Detail, ProcessState, Retention, Which};
use highwater_collector::{BindError, CollectorClient, CollectorError, CollectorOptions, CollectorServer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use support::child::{Running, be_child};
use support::fake::{Fake, connect};
use support::{Collector, TestFolder, snapshot_in, wait_for};

#[test]
#[ignore = "the program that the tests start, not a test"]
fn child() {
    be_child();
}

fn failure<T: std::fmt::Debug>(result: Result<T, CollectorError>) -> String {
    match result {
        Err(CollectorError::Failed(line)) => line,
        other => panic!("{other:?}"),
    }
}

/// A process that is known, in this state.
fn has(client: &mut CollectorClient, pid: u32, state: ProcessState) -> bool {
    client.processes().unwrap().iter().any(|info| info.pid == pid && info.state == state)
}

#[test]
fn a_process_registers_and_is_looked_at_until_it_is_gone() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let mut child = Running::start(collector.socket(), 1000);
    let pid = child.pid();
    wait_for("registering", || has(&mut client, pid, ProcessState::Live));
    let info = client.processes().unwrap().into_iter().find(|info| info.pid == pid).unwrap();
    assert_eq!((info.live_blocks, info.live_bytes, info.name.as_str()), (1000, 16_000, "fake"));
    assert_eq!(info.command, ["fake", "--many words"]);
    assert!(info.table_bytes >= 32_000 && !info.is_estimate && info.allows_contents && info.exited_unix_ns == 0);
    assert_eq!(child.tell("free 7"), "done");
    let sites = client.snapshot(pid, Detail::Sites, None).unwrap();
    assert!(sites.cut.exact && sites.cut.verified && sites.contents.is_none());
    let snapshot = snapshot_in(sites.file);
    assert!(snapshot.source.aggregated && snapshot.source.snapshot);
    assert_eq!(snapshot.accounts.totals().figures.live_blocks(), 999);
    let blocks = client.snapshot(pid, Detail::Blocks, Some(8)).unwrap();
    let snapshot = snapshot_in(blocks.file);
    assert_eq!(snapshot.accounts.blocks().count(), 999);
    assert_eq!((snapshot.source.pid, snapshot.source.parent_pid), (pid.into(), std::process::id().into()));
    let contents = read_contents(blocks.contents.unwrap()).unwrap();
    assert_eq!((contents.len(), blocks.cut.contents_missing), (999, 0));
    for (number, block) in (0u64..1000).filter(|&number| number != 7).zip(snapshot.accounts.blocks()) {
        assert_eq!(contents[&block.address], [number as u8; 8]);
    }
    child.kill();
    wait_for("the end", || has(&mut client, pid, ProcessState::Exited));
    let taken = client.snapshot(pid, Detail::Blocks, None).unwrap();
    assert!(taken.cut.exited && taken.cut.exact && taken.cut.verified);
    assert_eq!(snapshot_in(taken.file).accounts.blocks().count(), 999);
    assert!(failure(client.snapshot(pid, Detail::Blocks, Some(8))).contains("is gone"));
    assert!(failure(client.set_sample(pid, 5)).contains("is gone"));
}

#[test]
fn a_process_has_a_timeline_also_after_its_end() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let mut child = Running::start(collector.socket(), 1000);
    let pid = child.pid();
    wait_for("registering", || has(&mut client, pid, ProcessState::Live));
    let bins = |client: &mut CollectorClient| client.timelines(&Which::Pid(pid), 100, None).unwrap().remove(0).bins;
    let first = bins(&mut client)[0];
    assert_eq!((first.live_blocks.last, first.live_bytes.last, first.is_estimate), (1000, 16_000, false));
    assert!(first.rss_bytes.last > 0);
    assert_eq!(child.tell("free 7"), "done");
    wait_for("a reading", || bins(&mut client).last().unwrap().live_blocks.last == 999);
    child.kill();
    wait_for("the end", || has(&mut client, pid, ProcessState::Exited));
    let all = bins(&mut client);
    let last = all.last().unwrap();
    assert_eq!((last.live_blocks.last, last.live_bytes.last, last.allocations), (999, 15_984, 1000));
    assert_eq!(all.iter().map(|bin| bin.live_blocks.high).max(), Some(1000));
    let info = client.processes().unwrap().into_iter().find(|info| info.pid == pid).unwrap();
    let timelines = client.timelines(&Which::All, 2, None).unwrap();
    assert!(timelines.iter().any(|one| (one.pid, one.since_unix_ns) == (pid, info.since_unix_ns)));
    assert!(timelines.iter().all(|one| one.bins.len() <= 2));
    // Of the last nanosecond there is nothing; of others neither. Extreme requests are harmless.
    assert!(client.timelines(&Which::Pid(pid), 100, Some(1)).unwrap()[0].bins.is_empty());
    assert!(client.timelines(&Which::Name("nobody".into()), 100, None).unwrap().is_empty());
    assert!(!client.timelines(&Which::Pid(pid), u64::MAX, Some(u64::MAX)).unwrap()[0].bins.is_empty());
    assert!(client.timelines(&Which::Pid(pid), 0, Some(0)).unwrap()[0].bins.is_empty());
}

#[test]
fn programs_keep_snapshots_of_themselves() {
    let folder = TestFolder::new();
    let options = CollectorOptions { kept_snapshots: Retention { count: 3, bytes: 1 << 20 }, ..folder.options() };
    let collector = Collector::start(options.clone());
    let mut client = collector.client();
    let mut child = Running::start(collector.socket(), 10);
    for number in 0..5 {
        assert_eq!(child.tell(&format!("snapshot number {number}")), "+");
        child.tell(&format!("free {number}"));
    }
    let names = |client: &mut CollectorClient| -> Vec<String> {
        client.kept().unwrap().0.into_iter().map(|kept| kept.name).collect()
    };
    wait_for("keeping", || names(&mut client) == ["number 2", "number 3", "number 4"]);
    let (kept, most) = client.kept().unwrap();
    assert_eq!(most, Retention { count: 3, bytes: 1 << 20 });
    assert_eq!((kept[1].live_blocks, kept[1].pid, kept[1].program.as_str()), (7, child.pid(), "fake"));
    let (info, file) = client.get(kept[1].id).unwrap();
    assert_eq!(info, kept[1]);
    assert_eq!(snapshot_in(file).accounts.blocks().count(), 7);
    assert_eq!(client.remove(&[kept[2].id, 4711]).unwrap(), 1);
    collector.stop();
    // What is foreign or broken does not disturb.
    std::fs::write(options.snapshot_folder.join("notes.txt"), "mine").unwrap();
    std::fs::write(options.snapshot_folder.join("99.json"), "{").unwrap();
    std::fs::write(options.snapshot_folder.join("98.hw"), "").unwrap();
    let collector = Collector::start(options.clone());
    let mut client = collector.client();
    assert_eq!(names(&mut client), ["number 2", "number 3"]);
    let mut other = Running::start(collector.socket(), 1);
    assert_eq!(other.tell("snapshot later"), "+");
    wait_for("keeping", || names(&mut client).len() == 3);
    let latest = client.kept().unwrap().0.pop().unwrap();
    assert!(latest.name == "later" && latest.id > kept[2].id);
    assert_eq!(client.remove(&[]).unwrap(), 3);
    assert!(client.kept().unwrap().0.is_empty());
    assert_eq!(failure(client.get(latest.id)), format!("there is no kept snapshot {}", latest.id));
    let mode = std::fs::metadata(&options.snapshot_folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn settings_are_followed() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut child = Running::start(collector.socket(), 1);
    let pid = child.pid();
    wait_for("registering", || has(&mut collector.client(), pid, ProcessState::Live));
    assert_eq!(collector.client().set_sample(pid, 512).unwrap(), (0, false));
    child.tell("follow");
    let socket = collector.socket().to_owned();
    let answer = std::thread::spawn(move || CollectorClient::connect(&socket).unwrap().set_sample(pid, 1024).unwrap());
    let begin = Instant::now();
    while !answer.is_finished() && begin.elapsed() < Duration::from_secs(5) {
        child.tell("follow");
    }
    // Whether it was applied in time for the answer is the scheduler's business; that it is applied is not.
    assert_eq!(answer.join().unwrap().0, 512);
    wait_for("the settings to be followed", || {
        child.tell("follow");
        let info = collector.client().processes().unwrap().into_iter().find(|info| info.pid == pid).unwrap();
        info.sample_bytes == 1024 && info.is_estimate
    });
    // Settings and snapshots do not disturb each other.
    let taken = collector.client().snapshot(pid, Detail::Sites, None).unwrap();
    assert!(taken.cut.verified && taken.cut.attempts == 1);
    assert_eq!(snapshot_in(taken.file).source.sample_rate, Some(1024));
}

#[test]
fn an_unknown_process_is_refused() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let own = std::process::id();
    assert_eq!(
        failure(client.snapshot(own, Detail::Sites, None)),
        format!(
            "no process {own} is registered; 'highwater attach --pid {own}' attaches to it, 'highwater run' starts one that is"
        )
    );
    assert_eq!(failure(client.snapshot(999_999_999, Detail::Sites, None)), "there is no process 999999999");
    let ask = |text: &str| {
        let connection = connect(collector.socket());
        rustix::net::send(&connection, text.as_bytes(), SendFlags::NOSIGNAL).unwrap();
        let mut answer = vec![0; 1000];
        let (length, _) = rustix::net::recv(&connection, &mut answer[..], RecvFlags::empty()).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    assert_eq!(ask("what?"), r#"{"failed":"the collector is sent no JSON"}"#);
    let newer = CollectorRequest::Processes(Which::All).to_json().to_string().replace("\"version\":1", "\"version\":2");
    assert!(ask(&newer).contains("the collector speaks version 1, you speak version 2: update the collector"));
}

#[test]
fn a_process_that_cannot_be_read_is_refused_and_says_why() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let own = std::process::id();
    let fake = Fake::new(own);
    fake.say_hello(collector.socket(), 2);
    wait_for("refusing", || has(&mut client, own, ProcessState::Refused));
    let line =
        format!("process {own} speaks version 2 of the live table, this collector knows 1: update the collector");
    assert_eq!(failure(client.snapshot(own, Detail::Sites, None)), line);
    let info = client.processes().unwrap().remove(0);
    assert_eq!((info.version, info.problem), (2, line));
    // Its memory is something else.
    let mut nonsense = Fake::new(own);
    nonsense.memory = nonsense.control.try_clone().unwrap();
    nonsense.register(collector.socket());
    wait_for("refusing", || client.processes().unwrap()[0].problem.contains("is not that of an agent"));
    // It registers properly after all.
    fake.register(collector.socket());
    wait_for("registering", || has(&mut client, own, ProcessState::Live));
    assert!(!has(&mut client, own, ProcessState::Refused));
    assert!(failure(client.snapshot(own, Detail::Sites, Some(1))).contains("'highwater run --allow-contents'"));
}

#[test]
fn a_process_that_begins_another_program_leaves_its_table() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let mut client = collector.client();
    let mut child = Running::start(collector.socket(), 5);
    let pid = child.pid();
    wait_for("registering", || has(&mut client, pid, ProcessState::Live));
    child.tell("again");
    wait_for("the other", || has(&mut client, pid, ProcessState::Exited) && has(&mut client, pid, ProcessState::Live));
    assert_eq!(client.processes().unwrap().iter().filter(|info| info.pid == pid).count(), 2);
    assert_eq!(child.tell("exec"), "gone");
    wait_for("the exec", || !has(&mut client, pid, ProcessState::Live));
    assert!(client.snapshot(pid, Detail::Sites, None).unwrap().cut.exited);
}

#[test]
fn only_so_many_that_are_gone_are_kept() {
    let folder = TestFolder::new();
    let options = CollectorOptions { kept_tables: Retention { count: 2, bytes: 1 << 30 }, ..folder.options() };
    let collector = Collector::start(options);
    let mut client = collector.client();
    let mut pids = Vec::new();
    for _ in 0..4 {
        let child = Running::start(collector.socket(), 5);
        let pid = child.pid();
        child.kill();
        wait_for("the end", || has(&mut client, pid, ProcessState::Exited));
        pids.push(pid);
    }
    let known: Vec<u32> = client.processes().unwrap().iter().map(|info| info.pid).collect();
    assert_eq!(known, pids[2..]);
    assert_eq!(failure(client.snapshot(pids[0], Detail::Sites, None)), format!("there is no process {}", pids[0]));
}

#[test]
fn there_is_one_collector_at_a_socket() {
    let folder = TestFolder::new();
    let first = CollectorServer::bind(folder.options()).unwrap();
    let socket = folder.path("socket");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let second = CollectorServer::bind(folder.options()).unwrap_err();
    assert_eq!(
        second.to_string(),
        format!("a collector already listens at {} (process {})", socket.display(), std::process::id())
    );
    // Even if somebody removed the lock.
    std::fs::remove_file(folder.path("socket.lock")).unwrap();
    assert!(matches!(CollectorServer::bind(folder.options()), Err(BindError::AlreadyListens { pid: None, .. })));
    drop(first);
    assert!(!socket.exists());
    // Not a socket.
    std::fs::write(&socket, "mine").unwrap();
    assert!(matches!(CollectorServer::bind(folder.options()), Err(BindError::NotASocket(_))));
    std::fs::remove_file(&socket).unwrap();
    // One that was killed leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    drop(CollectorServer::bind(folder.options()).unwrap());
    // A directory that everybody can write.
    let open = folder.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let options = CollectorOptions { socket: open.join("socket"), ..folder.options() };
    assert!(matches!(CollectorServer::bind(options), Err(BindError::NotOurs(_))));
    // One that is not there.
    let options = CollectorOptions { socket: folder.path("new").join("socket"), ..folder.options() };
    drop(CollectorServer::bind(options).unwrap());
    assert_eq!(std::fs::metadata(folder.path("new")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_idle_collector_ends() {
    let folder = TestFolder::new();
    let options = CollectorOptions { exit_when_idle: Some(Duration::from_millis(300)), ..folder.options() };
    let collector = Collector::start(options);
    let child = Running::start(collector.socket(), 1);
    std::thread::sleep(Duration::from_millis(600));
    assert!(!collector.has_ended());
    child.kill();
    wait_for("the end", || collector.has_ended());
    assert!(!folder.path("socket").exists());
}

#[test]
fn who_says_nothing_is_dropped_and_many_may_ask_at_once() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    let silent = connect(collector.socket());
    let child = Running::start(collector.socket(), 1000);
    let pid = child.pid();
    wait_for("registering", || has(&mut collector.client(), pid, ProcessState::Live));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let taken = collector.client().snapshot(pid, Detail::Blocks, None).unwrap();
                    assert!(taken.cut.exact && taken.cut.verified && taken.cut.attempts == 1);
                }
            });
        }
    });
    let (length, _) = rustix::net::recv(&silent, &mut [0][..], RecvFlags::empty()).unwrap();
    assert_eq!(length, 0);
}

#[test]
fn who_wants_very_many_connections_does_not_get_them() {
    let folder = TestFolder::new();
    let collector = Collector::start(folder.options());
    // More than the collector holds at a time.
    const MANY: usize = 256 + 100;
    let is_closed = |connection: &OwnedFd| {
        matches!(rustix::net::recv(connection, &mut [0][..], RecvFlags::DONTWAIT), Ok((0, _)) | Err(Errno::CONNRESET))
    };
    wait_for("the last hundred to be refused while the first one is held", || {
        let many: Vec<OwnedFd> = (0..MANY).map(|_| connect(collector.socket())).collect();
        loop {
            // Silent ones are dropped after a while, the oldest first: by then nothing can be seen any more, and new ones must try.
            let refused = many[MANY - 100..].iter().filter(|connection| is_closed(connection)).count();
            if is_closed(&many[0]) {
                return false;
            }
            if refused == 100 {
                return true;
            }
        }
    });
    wait_for("an answer", || collector.client().processes().is_ok());
}
