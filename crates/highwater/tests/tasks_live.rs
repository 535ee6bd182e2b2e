//! Tasks of a live program, in snapshots with sites and with blocks, and of a forked child.
#![allow(unsafe_code, reason = "fork, and mappings")]

use highwater::task;
use highwater_collector::protocol::Detail;
use highwater_collector::{CollectorClient, CollectorOptions, CollectorServer};
use highwater_model::groups::{GroupBy, GroupKey, Metric, NO_TASK, rows};
use highwater_model::{Snapshot, When};
use highwater_store::Recording;
use std::alloc::System;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
}

fn take(socket: &Path, pid: u32, detail: Detail) -> Snapshot {
    let taken = CollectorClient::connect(socket).unwrap().snapshot(pid, detail, None).unwrap();
    assert!(taken.cut.exact && taken.cut.verified, "{:?}", taken.cut);
    Recording::from_file(taken.file).unwrap().snapshot(&When::End).unwrap()
}

/// Live bytes by task.
fn by_task(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    assert_eq!(snapshot.violations(), Vec::<String>::new());
    let name = |key| match key {
        GroupKey::Name(name) => name,
        other => panic!("{other:?}"),
    };
    let rows = rows(snapshot, GroupBy::Task, Metric::Live, None);
    let tasks: BTreeMap<String, u64> = rows.into_iter().map(|row| (name(row.key), row.figures.live_bytes())).collect();
    let whole = snapshot.accounts.totals().figures.live_bytes();
    assert!(tasks.is_empty() || tasks.values().sum::<u64>() == whole, "{tasks:?}, {whole}");
    tasks
}

/// Stops the server when the test ends, also after a panic.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_snapshot_has_the_tasks_of_its_blocks() {
    let folder = std::env::temp_dir().join(format!("highwater-tasks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    let server = CollectorServer::bind(CollectorOptions::new(socket.clone(), folder.join("kept"))).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&stop, &|_| ()));
        let _stops = Stops(&stop);
        highwater::Live::new().socket(&socket).start().unwrap();
        let pid = std::process::id();
        let block = |task: &str, size: usize| {
            let _entered = task::enter(task);
            black_box(vec![1u8; size])
        };
        // The same call for several tasks, on several threads.
        let held = [block("α", 12_345), block("b", 1_000), block("α", 5)];
        let elsewhere = scope.spawn(move || (block("b", 777), block("", 50_000))).join().unwrap();
        let mut moved = block("gone", 4_000);
        moved.reserve_exact(40_000);
        for detail in [Detail::Sites, Detail::Blocks] {
            let tasks = by_task(&take(&socket, pid, detail));
            let known = |name: &str| tasks.get(name).copied();
            assert_eq!([known("α"), known("b"), known("gone")], [Some(12_350), Some(1_777), None], "{tasks:?}");
            assert!(known(NO_TASK).unwrap() >= 94_000, "{tasks:?}");
        }
        drop(held);
        drop((elsewhere, moved));
        assert!(!by_task(&take(&socket, pid, Detail::Sites)).contains_key("α"));

        // A child announces the names anew, also that of a task it was forked in.
        let entered = task::enter("inherited");
        let (mut from_child, mut to_parent) = std::io::pipe().unwrap();
        let (mut from_parent, mut to_child) = std::io::pipe().unwrap();
        // SAFETY: the child uses nothing that another thread could hold, and the C library takes care of the allocator's own locks.
        let child = unsafe { fork() };
        if child == 0 {
            let held = [black_box(vec![1u8; 22_222]), block("b", 33_333)];
            let _ = to_parent.write_all(b"!");
            let _ = from_parent.read(&mut [0]);
            drop(black_box(held));
            // SAFETY: ends the child without running what belongs to its parent.
            unsafe { _exit(0) };
        }
        drop(entered);
        from_child.read_exact(&mut [0]).unwrap();
        let tasks = by_task(&take(&socket, child as u32, Detail::Blocks));
        assert_eq!([tasks.get("inherited"), tasks.get("b")], [Some(&22_222), Some(&33_333)], "{tasks:?}");
        to_child.write_all(b"!").unwrap();
    });
    let _ = std::fs::remove_dir_all(&folder);
    names_beyond_the_limit_are_one_task();
}

/// Last, because it uses all the names there can be.
fn names_beyond_the_limit_are_one_task() {
    // As many as there can be, and each known again.
    let first = task::Task::named("limit 1");
    for number in 0..20_000 {
        let named = task::Task::named(format!("limit {number}"));
        assert_ne!(named, task::Task::NONE);
    }
    assert_eq!(task::Task::named("limit 1"), first);
    assert_eq!(task::Task::named("limit 19998"), task::Task::named("limit 19999"), "both are among the others");
    assert_ne!(task::Task::named("limit 19999"), first);
    assert_eq!(task::Task::named(""), task::Task::NONE);
    let long = "ä".repeat(500);
    assert_eq!(task::Task::named(&long), task::Task::named(&long[..256]));
}
