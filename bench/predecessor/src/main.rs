//! Measures the predecessor as `highwater-bench` measures Highwater. Prints `name value` lines.

use memscope_rs::event_store::{EventStore, MemoryEvent};
use memscope_rs::snapshot::SnapshotEngine;
use std::sync::Arc;
use std::time::Instant;

/// Fewer than ours: it needs more than half a kilobyte for each.
const RECORDED: u64 = 2_000_000;

fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel tells it");
    text.split(' ').next().and_then(|text| text.parse().ok()).expect("a number")
}

fn status_bytes(key: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells it");
    let line = status.lines().find(|line| line.starts_with(key)).expect("the kernel tells it");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok()).expect("a number") * 1024.0
}

fn record_events(store: &EventStore, thread: u64, count: u64) {
    for number in 0..count / 2 {
        let address = ((thread << 32) + (number % 4096) * 64 + 64) as usize;
        store.record(MemoryEvent::allocate(address, 48, thread));
        store.record(MemoryEvent::deallocate(address, 48, thread));
    }
}

fn rate(threads: u64) -> f64 {
    let store = Arc::new(EventStore::new());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || record_events(store, thread, RECORDED / 2));
        }
    });
    (threads * RECORDED / 2) as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let base = status_bytes("VmRSS:");
    let store = Arc::new(EventStore::new());
    let before = cpu_ns();
    record_events(&store, 1, RECORDED);
    println!("record_ns {}", (cpu_ns() - before) / RECORDED as f64);
    let held = status_bytes("VmRSS:") - base;
    println!("store_bytes_per_event {}", held / RECORDED as f64);
    let engine = SnapshotEngine::new(Arc::clone(&store));
    let before = cpu_ns();
    std::hint::black_box(engine.build_snapshot());
    // Scaled up to the ten million events that ours is measured with.
    println!("first_snapshot_s {}", (cpu_ns() - before) / 1e9 * (10_000_000 / RECORDED) as f64);
    println!("first_snapshot_memory {}", (status_bytes("VmHWM:") - base) / held);
    drop((engine, store));
    println!("two_threads {}", rate(2) / rate(1));
}
