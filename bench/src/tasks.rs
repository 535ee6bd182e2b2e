//! One measurement each, run in a process of its own: prints `name value` lines.

use crate::measure::{cpu_of, highest_resident_bytes, resident_bytes};
use crate::workload::{Random, Workload};
use highwater::event_store::{EventStore, MemoryEvent};
use highwater::snapshot::SnapshotEngine;
use highwater_model::diff::{diff_blocks, diff_rows};
use highwater_model::groups::GroupBy;
use highwater_model::{Catalog, Event, EventKind, Nanos, Source, When};
use highwater_store::{Recording, Writer};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RECORDED: u64 = 10_000_000;

fn say(name: &str, value: f64) {
    println!("{name} {value}");
}

/// Allocations and frees in turn, as the plainest program makes them.
fn record_events(store: &EventStore, thread: u64, count: u64) {
    for number in 0..count / 2 {
        let address = ((thread << 32) + (number % 4096) * 64 + 64) as usize;
        store.record(MemoryEvent::allocate(address, 48, thread));
        store.record(MemoryEvent::deallocate(address, 48, thread));
    }
}

/// Recording on one thread.
pub fn record() {
    let store = EventStore::new();
    let (cpu, ()) = cpu_of(|| record_events(&store, 1, RECORDED));
    say("record_ns", cpu.as_nanos() as f64 / RECORDED as f64);
    say("store_bytes_per_event", store.memory_bytes() as f64 / RECORDED as f64);
}

/// Events per second of `threads` threads recording at once.
pub fn record_rate(threads: u64) {
    let store = EventStore::new();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || record_events(store, thread, RECORDED));
        }
    });
    say("events_per_second", (threads * RECORDED) as f64 / start.elapsed().as_secs_f64());
}

fn memory_event(event: &Event, offset: usize) -> MemoryEvent {
    let thread = event.thread.0 + (offset as u64 >> 40);
    let place = |address: u64| address as usize ^ offset;
    match event.kind {
        EventKind::Allocate(block) => {
            MemoryEvent::allocate(place(block.address), block.size as usize, thread).with_stack(block.stack)
        }
        EventKind::Reallocate { old_address, new, .. } => {
            let event = MemoryEvent::reallocate(place(new.address), 0, new.size as usize, thread);
            MemoryEvent { old_size: None, ..event.moved_from(place(old_address)).with_stack(new.stack) }
        }
        EventKind::Deallocate { address, .. } => MemoryEvent::deallocate(place(address), 0, thread),
        _ => MemoryEvent::mark("other", thread),
    }
}

/// The workload from four threads at once, into a store.
fn fill(store: &Arc<EventStore>, from: u64, count: u64) {
    std::thread::scope(|scope| {
        for thread in 1..=4u64 {
            scope.spawn(move || {
                let mut catalog = Catalog::default();
                let mut workload = Workload::new(thread, 25_000, &mut catalog);
                for number in 0..(from + count) / 4 {
                    let event = workload.next_event();
                    if number >= from / 4 {
                        store.record(memory_event(&event, (thread as usize) << 44));
                    }
                }
            });
        }
    });
}

/// The first snapshot of ten million events, and the next one.
pub fn snapshot() {
    const MORE: u64 = 100_000;
    let base = resident_bytes();
    let store = Arc::new(EventStore::new());
    fill(&store, 0, RECORDED);
    let held = resident_bytes() - base;
    let engine = SnapshotEngine::new(Arc::clone(&store));
    let (first, mut snapshot) = cpu_of(|| engine.build_snapshot());
    say("first_snapshot_s", first.as_secs_f64());
    say("first_snapshot_memory", (highest_resident_bytes() - base) as f64 / held as f64);
    say("store_bytes_per_event_mixed", store.memory_bytes() as f64 / RECORDED as f64);
    fill(&store, RECORDED, MORE);
    let (next, ()) = cpu_of(|| engine.update(&mut snapshot));
    say("next_snapshot_part", first.as_secs_f64() / next.as_secs_f64());
    assert_eq!(snapshot.active_allocations.len(), engine.build_snapshot().active_count());
}

/// Writes a file of so many events and says how large it got and how long it took.
pub fn write(path: &Path, events: u64, keep: usize) {
    let mut catalog = Catalog::default();
    let mut workload = Workload::new(1, keep, &mut catalog);
    let mut writer = Writer::create(path, &Source::default()).expect("the file can be created");
    let mut batch: Vec<Event> = Vec::new();
    let mut spent = Duration::ZERO;
    let mut left = events;
    while left > 0 {
        // Large enough for the thread's clock, which ticks slowly.
        batch.clear();
        batch.extend((0..left.min(2_000_000)).map(|_| workload.next_event()));
        left -= batch.len() as u64;
        let (cpu, appended) = cpu_of(|| writer.append(&batch, &catalog));
        appended.expect("the disk has room");
        spent += cpu;
    }
    let (cpu, finished) = cpu_of(|| writer.finish(&catalog, &Source::default()));
    let (written, _) = finished.expect("the disk has room");
    let spent = (spent + cpu).as_secs_f64();
    say("append_rate", events as f64 / spent);
    say("bytes_per_event", written.bytes as f64 / events as f64);
}

/// Opens a file and goes to random instants.
pub fn travel(path: &Path, seed: u64) {
    let base = resident_bytes();
    let mut random = Random::new(seed);
    let (cpu, snapshot) = cpu_of(|| {
        let recording = Recording::open(path).expect("the file was just written");
        let time = random.below(recording.source().duration.0);
        recording.snapshot(&When::At(Nanos(time))).expect("the time lies inside")
    });
    say("travel_s", cpu.as_secs_f64());
    say("travel_bytes", (highest_resident_bytes() - base) as f64);
    say("travel_live", snapshot.accounts.totals().figures.live_blocks() as f64);
}

/// Compares two random instants of a file.
pub fn diff(path: &Path, seed: u64) {
    let mut random = Random::new(seed);
    let (cpu, changed) = cpu_of(|| {
        let recording = Recording::open(path).expect("the file was just written");
        let mut at = || When::At(Nanos(random.below(recording.source().duration.0)));
        let (a, b) = (recording.snapshot(&at()), recording.snapshot(&at()));
        let (a, b) = (a.expect("inside"), b.expect("inside"));
        let blocks = diff_blocks(&a, &b);
        diff_rows(&a, &b, GroupBy::Site, None).expect("fewer calls than the limit").len()
            + blocks.appeared.len()
            + blocks.gone.len()
    });
    assert!(changed > 0);
    say("diff_s", cpu.as_secs_f64());
}
