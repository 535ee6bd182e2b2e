//! Stacks, shared memory, and processes that change, end, or belong to another user.

mod scene;

use highwater_model::{RssBreakdown, RssKind};
use highwater_resident::parts::PageSource;
use highwater_resident::{LiveMemory, PageScan, ScanError, ScanOptions, process_memory};
use scene::{Scene, assert_adds_up, compiled, table};
use std::process::{Child, Command, Stdio};

#[test]
fn stacks_of_threads_are_found_and_those_that_are_kept() {
    let mut scene = Scene::start("stacks", &["200"]);
    let breakdown = scene.breakdown();
    let stacks = breakdown.resident(RssKind::Stacks);
    assert!((200 * (64 << 10)..200 * (100 << 10)).contains(&stacks), "{}", table(&breakdown));
    assert_eq!((breakdown.resident(RssKind::CachedStacks), breakdown.process.threads), (0, 201));
    scene.command('e');
    let breakdown = scene.breakdown();
    let (stacks, kept) = (breakdown.resident(RssKind::Stacks), breakdown.resident(RssKind::CachedStacks));
    assert!((100 * (64 << 10)..100 * (100 << 10)).contains(&stacks), "{}", table(&breakdown));
    // glibc gives back most of a stack that it keeps.
    assert!(kept >= 100 * (4 << 10), "{}", table(&breakdown));
}

#[test]
fn shared_memory_counts_in_each_process_and_in_each_mapping() {
    let mut scene = Scene::start("shared", &[]);
    let breakdown = scene.breakdown();
    assert_eq!(breakdown.resident(RssKind::SharedMemory), 3 * (16 << 20), "{}", table(&breakdown));
    let twice = breakdown.files.iter().find(|file| file.path.starts_with("/memfd:twice")).unwrap();
    assert_eq!((twice.shared, twice.private), (32 << 20, 0));
    assert!(breakdown.process.pss.unwrap() < breakdown.process.rss - (20 << 20));
    let child: u32 = scene.command('p')[0].parse().unwrap();
    let of_child = PageScan::read(child, ScanOptions::default()).unwrap().breakdown(LiveMemory::default());
    assert_eq!(of_child.resident(RssKind::SharedMemory), 16 << 20, "{}", table(&of_child));
    assert_adds_up(&of_child, process_memory(child).unwrap().rss);
}

#[test]
fn pages_by_entries_give_the_same_rows() {
    for (name, arguments) in [("shared", &[][..]), ("untouched", &[]), ("every_40th", &["2", "50000", "7", "300"])] {
        let mut scene = Scene::start(name, arguments);
        let live = scene.live();
        let read = |source| {
            let scan = PageScan::read_with(scene.pid(), ScanOptions::default(), Some(source)).unwrap();
            scan.breakdown(live.clone())
        };
        let (scanned, entries) = (read(PageSource::Scan), read(PageSource::Entries));
        assert_eq!(scanned.rows, entries.rows, "{name}\n{}\n{}", table(&scanned), table(&entries));
        assert_eq!(scanned.sites, entries.sites, "{name}");
        assert_eq!(scanned.sum(), scene.rss(), "{name}");
    }
}

/// Ends a process at the end of a test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(name: &str, arguments: &[&str]) -> Killed {
    Killed(Command::new(compiled(name)).args(arguments).stdout(Stdio::null()).spawn().unwrap())
}

/// A reading of a process that changes: it adds up, or says why not.
fn examine(read: Result<PageScan, ScanError>) -> Option<RssBreakdown> {
    match read {
        Ok(scan) => {
            let breakdown = scan.breakdown(LiveMemory::default());
            let (rss, after) = (breakdown.process.rss, breakdown.process.rss_after);
            let off =
                rss.min(after).saturating_sub(breakdown.sum()).max(breakdown.sum().saturating_sub(rss.max(after)));
            assert!(off <= breakdown.uncertain, "{}", table(&breakdown));
            Some(breakdown)
        }
        Err(ScanError::Ended | ScanError::Replaced) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn two_programs_of_one_process_are_never_mixed() {
    let program = started("exec", &[]);
    let mut read = 0;
    for _ in 0..300 {
        if let Some(breakdown) = examine(PageScan::read(program.0.id(), ScanOptions::default())) {
            read += 1;
            // Besides the program's block of 8 MiB, which nobody has named, pages in no mapping would be here.
            assert!(breakdown.resident(RssKind::Other) <= (8 << 20) + (512 << 10), "{}", table(&breakdown));
        }
    }
    assert!(read > 0, "not once between two programs");
}

#[test]
fn a_process_that_ends_is_reported_as_ended() {
    for round in 0..20 {
        let mut program = started("exec", &[&(round % 5).to_string()]);
        let pid = program.0.id();
        while program.0.try_wait().unwrap().is_none() {
            drop(examine(PageScan::read(pid, ScanOptions::default())));
        }
        let read = PageScan::read(pid, ScanOptions::default());
        assert!(matches!(read, Err(ScanError::Ended)), "{read:?}");
    }
}

#[test]
fn a_killed_process_is_reported_as_ended_before_its_parent_knows() {
    let mut program = started("forks", &[]);
    let pid = program.0.id();
    for _ in 0..50 {
        assert!(examine(PageScan::read(pid, ScanOptions { proportional: true })).is_some());
    }
    program.0.kill().unwrap();
    loop {
        match PageScan::read(pid, ScanOptions::default()) {
            Err(ScanError::Ended) => break,
            read => drop(examine(read)),
        }
    }
    assert_eq!(ScanError::Ended.to_string(), "the process ended while it was read");
}

#[test]
fn the_process_of_another_user_is_refused_but_its_rss_is_known() {
    let scene = Scene::start("huge", &[]);
    let pid = if rustix::process::getuid().is_root() { scene.pid() } else { 1 };
    let nobody = std::thread::spawn(move || {
        // SAFETY: the call itself, unlike the C library's function, changes this thread alone.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        (PageScan::read(pid, ScanOptions::default()).map(drop), process_memory(pid).map(|memory| memory.rss))
    });
    let (read, rss) = nobody.join().unwrap();
    let error = read.unwrap_err();
    assert_eq!(error.to_string(), "its pages may be read by its own user and by root only");
    assert!(rss.unwrap() > 1 << 20);
}

#[test]
fn a_thread_of_the_kernel_has_no_memory() {
    if let Err(error) = process_memory(2) {
        assert!(matches!(error, ScanError::KernelThread | ScanError::Ended), "{error}");
    }
    assert!(matches!(process_memory(u32::MAX >> 1), Err(ScanError::Ended)));
}

#[test]
fn reading_does_not_change_the_process() {
    let mut scene = Scene::start("every_40th", &["4", "100000", "40", "200"]);
    scene.command('t');
    let faults = |scene: &Scene| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", scene.pid())).unwrap();
        let after_name: Vec<String> = stat.rsplit(')').next().unwrap().split_whitespace().map(str::to_owned).collect();
        (after_name[7].clone(), after_name[9].clone())
    };
    let entries = |scene: &Scene| PageScan::read(scene.pid(), ScanOptions::default()).unwrap().image().regions.clone();
    let before = entries(&scene);
    let faults_before = faults(&scene);
    for _ in 0..5 {
        drop(PageScan::read(scene.pid(), ScanOptions { proportional: true }).unwrap());
    }
    assert_eq!(entries(&scene), before, "a page appeared, or the page of zeros");
    assert_eq!(faults(&scene), faults_before);
}
