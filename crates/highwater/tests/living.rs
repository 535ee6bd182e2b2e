//! A live program with the crate's allocator. A collector reads its table: with every block, with samples, and of a forked child.
#![allow(unsafe_code, reason = "fork")]

use highwater_collector::protocol::Detail;
use highwater_collector::{CollectorClient, CollectorOptions, CollectorServer};
use highwater_model::{Snapshot, When};
use highwater_store::Recording;
use std::alloc::System;
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

/// The number of live blocks of a size, and the number of their threads.
fn blocks_of(snapshot: &Snapshot, size: u64) -> (usize, usize) {
    let found: Vec<u32> =
        snapshot.accounts.blocks().filter(|block| block.size == size).map(|block| block.thread).collect();
    let mut threads = found.clone();
    threads.sort_unstable();
    threads.dedup();
    (found.len(), threads.len())
}

fn take(socket: &Path, pid: u32) -> Snapshot {
    let taken = CollectorClient::connect(socket).unwrap().snapshot(pid, Detail::Blocks, None).unwrap();
    assert!(taken.cut.exact && taken.cut.verified, "{:?}", taken.cut);
    Recording::from_file(taken.file).unwrap().snapshot(&When::End).unwrap()
}

/// Stops the server when the test ends, also after a panic.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_live_program_tells_what_it_holds() {
    let folder = std::env::temp_dir().join(format!("highwater-living-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    let server = CollectorServer::bind(CollectorOptions::new(socket.clone(), folder.join("kept"))).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&stop, &|_| ()));
        let _stops = Stops(&stop);
        assert!(highwater::global_stats().is_none() && highwater::snapshot("too early").is_err());
        highwater::Live::new().socket(&socket).start().unwrap();
        // A second start has no effect.
        highwater::Live::new().socket(&socket).start().unwrap();
        let pid = std::process::id();

        let before = (highwater::global_stats().unwrap(), highwater::thread_stats().unwrap());
        let held: Vec<Vec<u8>> = (0..70).map(|_| black_box(vec![1u8; 12_345])).collect();
        let grown = scope.spawn(|| {
            let mut grown = Vec::with_capacity(10);
            grown.resize(black_box(54_321), 1u8);
            grown.shrink_to_fit();
            grown
        });
        let grown = grown.join().unwrap();
        drop(black_box(vec![2u8; 777]));
        let after = (highwater::global_stats().unwrap(), highwater::thread_stats().unwrap());
        let own = after.1.allocated_bytes - before.1.allocated_bytes;
        let at_least = 70 * 12_345 + 777;
        assert!((at_least..at_least + 20_000).contains(&own), "{own}");
        assert!(after.0.allocated_bytes - before.0.allocated_bytes >= own + 54_321);
        assert!(after.0.freed_bytes >= before.0.freed_bytes + 777 && after.1.frees > before.1.frees);

        let snapshot = take(&socket, pid);
        assert_eq!(blocks_of(&snapshot, 12_345), (70, 1));
        assert_eq!(blocks_of(&snapshot, 54_321), (1, 1));
        assert_eq!(blocks_of(&snapshot, 777), (0, 0));
        let deep = snapshot.accounts.blocks().find(|block| block.size == 12_345).unwrap();
        assert!(snapshot.catalog.stacks.frames_of(deep.stack).count() > 3, "its stack is known");

        highwater::snapshot("with all of it").unwrap();
        drop(held);
        let kept = loop {
            let (kept, _) = CollectorClient::connect(&socket).unwrap().kept().unwrap();
            if let Some(one) = kept.first() {
                break one.clone();
            }
            std::thread::yield_now();
        };
        assert_eq!(kept.name, "with all of it");
        let (_, file) = CollectorClient::connect(&socket).unwrap().get(kept.id).unwrap();
        let kept = Recording::from_file(file).unwrap().snapshot(&When::End).unwrap();
        assert_eq!(blocks_of(&kept, 12_345).0, 70);
        assert_eq!(blocks_of(&take(&socket, pid), 12_345).0, 0);

        // A child has its own table, and the parent's table is not touched.
        let (mut from_child, mut to_parent) = std::io::pipe().unwrap();
        let (mut from_parent, mut to_child) = std::io::pipe().unwrap();
        // SAFETY: the child does only what is permitted after a fork with several threads, except that it allocates: it uses nothing that another
        // thread could hold, and the C library takes care of the allocator's own locks.
        let child = unsafe { fork() };
        if child == 0 {
            let held: Vec<Vec<u8>> = (0..5).map(|_| black_box(vec![1u8; 22_222])).collect();
            let _ = to_parent.write_all(b"!");
            let _ = from_parent.read(&mut [0]);
            drop(held);
            // SAFETY: ends the child, and does nothing else.
            unsafe { _exit(0) };
        }
        from_child.read_exact(&mut [0]).unwrap();
        let of_child = take(&socket, child as u32);
        assert_eq!((blocks_of(&of_child, 22_222).0, blocks_of(&of_child, 54_321).0), (5, 0));
        assert_eq!((blocks_of(&take(&socket, pid), 22_222).0, blocks_of(&take(&socket, pid), 54_321).0), (0, 1));
        to_child.write_all(b"!").unwrap();

        // Samples from now on, then every block again.
        CollectorClient::connect(&socket).unwrap().set_sample(pid, 4096).unwrap();
        let sampled: Vec<Vec<u8>> = (0..2000).map(|_| black_box(vec![1u8; 1000])).collect();
        let snapshot = take(&socket, pid);
        assert!(snapshot.is_estimate());
        let of_thousand = snapshot.accounts.blocks().filter(|block| block.size == 1000);
        let (samples, bytes) =
            of_thousand.fold((0, 0), |(samples, bytes), block| (samples + 1, bytes + block.live_bytes()));
        assert!((300..560).contains(&samples) && (1_500_000..2_500_000).contains(&bytes), "{samples} {bytes}");
        assert_eq!(blocks_of(&snapshot, 54_321).0, 1, "what was known stays known");
        drop(grown);
        assert_eq!(blocks_of(&take(&socket, pid), 54_321).0, 0, "and is found when it goes");
        drop(sampled);
        assert_eq!(blocks_of(&take(&socket, pid), 1000).0, 0);
        assert!(highwater::global_stats().unwrap().allocated_bytes > after.0.allocated_bytes + 1_500_000);
    });
    let _ = std::fs::remove_dir_all(&folder);
}
