//! A real multi-threaded program that counts its own allocations, compared with its recording.

use highwater::event_store::{EventStore, MemoryEvent};
use highwater_model::{ThreadId, When};
use highwater_store::Recording;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The program's own counters, per thread.
#[derive(Default)]
struct Counters {
    allocations: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    cross_thread_frees: AtomicU64,
}

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;

struct Program {
    store: EventStore,
    counters: [Counters; THREADS],
    /// Blocks on their way from one thread to another: their bytes, and the thread that allocated them.
    exchange: Mutex<VecDeque<(Vec<u8>, usize)>>,
}

impl Program {
    fn allocate(&self, thread: usize, size: usize) -> Vec<u8> {
        let block: Vec<u8> = Vec::with_capacity(size);
        let counters = &self.counters[thread];
        counters.allocations.fetch_add(1, Ordering::Relaxed);
        counters.allocated_bytes.fetch_add(block.capacity() as u64, Ordering::Relaxed);
        self.store.record(MemoryEvent::allocate(block.as_ptr() as usize, block.capacity(), thread as u64));
        block
    }

    fn free(&self, thread: usize, block: Vec<u8>, owner: usize) {
        let counters = &self.counters[owner];
        counters.freed_bytes.fetch_add(block.capacity() as u64, Ordering::Relaxed);
        counters.cross_thread_frees.fetch_add(u64::from(thread != owner), Ordering::Relaxed);
        // Recorded before the free: another block may get the address right after that.
        self.store.record(MemoryEvent::deallocate(block.as_ptr() as usize, block.capacity(), thread as u64));
    }

    fn run(&self, thread: usize) {
        for round in 0..ROUNDS {
            let size = 16 + (round * 7919 + thread * 31) % 700;
            let block = self.allocate(thread, size);
            let taken = {
                let mut exchange = self.exchange.lock().unwrap();
                exchange.push_back((block, thread));
                if exchange.len() > 50 { exchange.pop_front() } else { None }
            };
            if let Some((block, owner)) = taken {
                self.free(thread, block, owner);
            }
        }
    }
}

#[test]
fn the_recording_agrees_with_the_program_to_the_byte() {
    let program = Arc::new(Program {
        store: EventStore::with_limit(1 << 20),
        counters: Default::default(),
        exchange: Mutex::default(),
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let program = &program;
            scope.spawn(move || program.run(thread));
        }
    });
    let path = std::env::temp_dir().join(format!("highwater-test-{}-counting.hw", std::process::id()));
    program.store.save(&path).unwrap();
    let recording = Recording::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    let end = recording.snapshot(&When::End).unwrap();
    assert!(end.accounts.anomalies().is_empty(), "{:?}", end.accounts.anomalies());
    for (thread, counters) in program.counters.iter().enumerate() {
        let account = end.accounts.threads().iter().find(|account| account.id == ThreadId(thread as u64)).unwrap();
        let count_of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = &account.figures;
        assert_eq!(figures.allocations, count_of(&counters.allocations), "thread {thread}");
        assert_eq!(figures.allocated_bytes, count_of(&counters.allocated_bytes), "thread {thread}");
        assert_eq!(figures.freed_bytes, count_of(&counters.freed_bytes), "thread {thread}");
        assert_eq!(figures.cross_thread_frees, count_of(&counters.cross_thread_frees), "thread {thread}");
    }
    let exchange = program.exchange.lock().unwrap();
    let held: usize = exchange.iter().map(|(block, _)| block.capacity()).sum();
    assert_eq!(end.accounts.totals().figures.live_bytes(), held as u64);
    assert_eq!(end.accounts.totals().figures.live_blocks(), exchange.len() as u64);
    for (block, _) in exchange.iter() {
        let address = block.as_ptr() as u64;
        assert!(end.accounts.blocks().any(|live| live.address == address && live.size == block.capacity() as u64));
    }
}
