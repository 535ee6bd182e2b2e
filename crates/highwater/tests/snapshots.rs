//! Snapshots: consistent under concurrency, brought up to date, in the past, saved and opened again.

use highwater::event_store::{EventStore, MemoryEvent, MemoryEventType};
use highwater::snapshot::{MemorySnapshot, SnapshotEngine};
use highwater::{FrameText, Name};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn store_and_engine() -> (Arc<EventStore>, SnapshotEngine) {
    let store = Arc::new(EventStore::new());
    let engine = SnapshotEngine::new(Arc::clone(&store));
    (store, engine)
}

fn assert_equal(a: &MemorySnapshot, b: &MemorySnapshot) {
    assert_eq!(a.active_allocations, b.active_allocations);
    assert_eq!(a.thread_stats, b.thread_stats);
    assert_eq!((&a.stats, &a.anomalies, a.timestamp), (&b.stats, &b.anomalies, b.timestamp));
}

/// Each thread keeps a window of blocks: allocate the next, free the oldest. So at every instant a thread has between
/// `WINDOW` and `WINDOW + 1` blocks once it is warm, and these are neighbours.
#[test]
fn snapshots_taken_while_threads_record_show_one_instant() {
    const WINDOW: usize = 8;
    const THREADS: u64 = 3;
    let (store, engine) = store_and_engine();
    let stop = AtomicBool::new(false);
    let failures: Vec<String> = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let address = |block: usize| ((thread as usize) << 40) + (block + 1) * 16;
                let mut block = 0;
                while !stop.load(Ordering::Relaxed) && block < 400_000 {
                    store.record(MemoryEvent::allocate(address(block), 10, thread));
                    if block >= WINDOW {
                        store.record(MemoryEvent::deallocate(address(block - WINDOW), 10, thread));
                    }
                    block += 1;
                }
            });
        }
        let mut failures = Vec::new();
        let mut running = engine.build_snapshot();
        for _ in 0..40 {
            engine.update(&mut running);
            for snapshot in [&engine.build_snapshot(), &running] {
                for thread in 0..THREADS {
                    let mut blocks: Vec<usize> = snapshot
                        .active_allocations
                        .keys()
                        .filter(|ptr| (**ptr >> 40) as u64 == thread)
                        .copied()
                        .collect();
                    blocks.sort_unstable();
                    let neighbours = blocks.windows(2).all(|pair| pair[1] - pair[0] == 16);
                    let right_number = blocks.len() <= WINDOW + 1;
                    if !neighbours || !right_number || !snapshot.anomalies.is_empty() {
                        failures.push(format!("thread {thread}: {blocks:x?} {:?}", snapshot.anomalies));
                    }
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        failures
    });
    assert_eq!(failures, Vec::<String>::new());
}

/// One thread allocates and hands over, another frees: a free is never seen without its allocation.
#[test]
fn a_snapshot_never_shows_an_effect_without_its_cause() {
    let (store, engine) = store_and_engine();
    let (send, receive) = std::sync::mpsc::sync_channel::<usize>(64);
    std::thread::scope(|scope| {
        let (producer, consumer) = (&store, &store);
        scope.spawn(move || {
            for block in 1..=100_000 {
                producer.record(MemoryEvent::allocate(block * 16, 10, 1));
                send.send(block * 16).unwrap();
            }
        });
        scope.spawn(move || {
            while let Ok(address) = receive.recv() {
                consumer.record(MemoryEvent::deallocate(address, 10, 2));
            }
        });
        for _ in 0..30 {
            let snapshot = engine.build_snapshot();
            assert_eq!(snapshot.anomalies.unmatched_deallocations, 0);
            assert!(snapshot.active_count() <= 64 + 3, "{}", snapshot.active_count());
        }
    });
    let end = engine.build_snapshot();
    assert_eq!((end.active_count(), end.thread_stats[&1].cross_thread_deallocations), (0, 100_000));
}

#[derive(Clone, Debug)]
struct Script(Vec<MemoryEvent>);

fn script() -> impl Strategy<Value = Script> {
    let event = (0usize..4, 1usize..20, 0usize..100, 1u64..4, prop::option::of(0usize..3), 1usize..20);
    prop::collection::vec(event, 0..200).prop_map(|events| {
        let make = |(at, (kind, block, size, thread, name, old))| {
            let event = match kind {
                0 | 1 => MemoryEvent::allocate(block * 16, size, thread),
                2 => MemoryEvent::deallocate(block * 16, size, thread),
                _ => MemoryEvent::reallocate(block * 16, size, size + 5, thread).moved_from(old * 16),
            };
            let event = event.at(10 * at as u64 + 10);
            match name {
                Some(which) => event.with_type_name(["A", "B", "C"][which]),
                None => event,
            }
        };
        Script(events.into_iter().enumerate().map(make).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn updating_gives_what_building_gives(script in script(), cut in 0usize..200) {
        let (store, engine) = store_and_engine();
        let cut = cut.min(script.0.len());
        script.0[..cut].iter().cloned().for_each(|event| store.record(event));
        let mut updated = engine.build_snapshot();
        script.0[cut..].iter().cloned().for_each(|event| store.record(event));
        engine.update(&mut updated);
        assert_equal(&updated, &engine.build_snapshot());
        assert_equal(&updated, &engine.build_snapshot_from_events(script.0));
    }

    #[test]
    fn any_past_instant_is_the_snapshot_of_the_events_until_then(script in script(), percent in 0usize..=100) {
        let (store, engine) = store_and_engine();
        script.0.iter().cloned().for_each(|event| store.record(event));
        let count = script.0.len() * percent / 100;
        let time = 10 * count as u64 + 5;
        let past = engine.snapshot_at(time);
        let expected = engine.build_snapshot_from_events(script.0[..count].to_vec());
        assert_equal(&past, &expected);
    }

    #[test]
    fn a_spilled_or_saved_store_answers_as_one_in_memory(script in script(), percent in 0u64..=100) {
        let (memory, engine) = store_and_engine();
        // With this limit every chunk is written to the file.
        let spilled = Arc::new(EventStore::with_limit(1));
        for event in &script.0 {
            memory.record(event.clone());
            spilled.record(event.clone());
        }
        let path = std::env::temp_dir().join(format!("highwater-test-{}-{:?}.hw", std::process::id(), std::thread::current().id()));
        spilled.save(&path).unwrap();
        let opened = Arc::new(EventStore::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let (from_spill, from_file) = (SnapshotEngine::new(Arc::clone(&spilled)), SnapshotEngine::new(Arc::clone(&opened)));
        let time = 10 * script.0.len() as u64 * percent / 100;
        for other in [&from_spill, &from_file] {
            assert_equal(&other.build_snapshot(), &engine.build_snapshot());
            assert_equal(&other.snapshot_at(time), &engine.snapshot_at(time));
            assert_equal(&other.snapshot_at_peak(), &engine.snapshot_at_peak());
        }
        prop_assert_eq!(opened.len(), memory.len());
        prop_assert_eq!(spilled.len(), memory.len());
    }
}

#[test]
fn a_store_with_a_limit_stays_within_it_and_forgets_nothing() {
    let limit = 1 << 20;
    let store = Arc::new(EventStore::with_limit(limit));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                for block in 0..100_000usize {
                    let address = ((thread as usize) << 40) + (block % 1000 + 1) * 64;
                    store.record(MemoryEvent::allocate(address, 48, thread));
                    store.record(MemoryEvent::deallocate(address, 48, thread));
                }
            });
        }
    });
    assert!(store.memory_bytes() <= limit + 4 * (256 << 10), "{} bytes", store.memory_bytes());
    assert_eq!(store.len(), 800_000);
    assert_eq!(store.failure(), None);
    let snapshot = SnapshotEngine::new(Arc::clone(&store)).build_snapshot();
    assert_eq!((snapshot.stats.total_allocations, snapshot.active_count()), (400_000, 0));
    assert!(snapshot.anomalies.is_empty(), "{:?}", snapshot.anomalies);
}

#[test]
fn an_opened_store_goes_on_recording() {
    let path = std::env::temp_dir().join(format!("highwater-test-{}-goes-on.hw", std::process::id()));
    let first = EventStore::new();
    first.record(MemoryEvent::allocate(0x10, 100, 1).with_type_name("Row"));
    first.save(&path).unwrap();
    let second = Arc::new(EventStore::open(&path).unwrap());
    second.record(MemoryEvent::deallocate(0x10, 100, 2));
    second.record(MemoryEvent::allocate(0x20, 7, 2).with_type_name("Row"));
    second.save(&path).unwrap();
    let third = Arc::new(EventStore::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let now = SnapshotEngine::new(third).build_snapshot();
    assert_eq!((now.active_count(), now.current_memory(), now.peak_memory()), (1, 7, 100));
    assert_eq!(now.active_allocations[&0x20].type_name.as_deref(), Some("Row"));
    assert!(now.anomalies.is_empty());
}

#[test]
fn what_cannot_be_opened_or_saved_is_said_in_a_line() {
    let error = EventStore::open("/nonexistent/a.hw").unwrap_err().to_string();
    assert_eq!(error, "/nonexistent/a.hw: No such file or directory (os error 2)");
    let store = EventStore::new();
    (0..100_000).for_each(|block| store.record(MemoryEvent::allocate(block * 16, 8, 1)));
    let error = store.save("/dev/full").unwrap_err().to_string();
    assert_eq!(error, "/dev/full: No space left on device (os error 28)");
    assert_eq!(store.len(), 100_000, "the store goes on as it was");
}

#[test]
fn marks_peaks_and_diffs() {
    let (store, engine) = store_and_engine();
    let parse = store.intern_stack(&[FrameText { function: "parse", ..FrameText::default() }]);
    store.record(MemoryEvent::allocate(0x10, 100, 1).with_type_name("Row").with_stack(parse));
    store.record(MemoryEvent::allocate(0x20, 200, 2).with_type_name("Page"));
    store.record(MemoryEvent::mark("loaded", 1));
    store.record(MemoryEvent::deallocate(0x20, 200, 2));
    store.record(MemoryEvent::reallocate(0x10, 100, 150, 1));
    store.record(MemoryEvent::allocate(0x20, 30, 3).with_type_name("Row"));
    assert!(engine.snapshot_at_mark("unloaded").is_none());
    let (loaded, now) = (engine.snapshot_at_mark("loaded").unwrap(), engine.build_snapshot());
    assert_eq!((loaded.current_memory(), engine.snapshot_at_peak().current_memory()), (300, 300));

    let diff = loaded.diff(&now);
    let sizes =
        |blocks: &[highwater::snapshot::ActiveAllocation]| blocks.iter().map(|block| block.size).collect::<Vec<_>>();
    assert_eq!((sizes(&diff.appeared), sizes(&diff.gone)), (vec![30], vec![200]), "the same address, another block");
    let grown: Vec<(usize, usize)> = diff.grown().map(|(before, after)| (before.size, after.size)).collect();
    assert_eq!(grown, [(100, 150)]);
    assert_eq!(diff.types["Row"].bytes_change(), 80);
    assert!(diff.types["Page"].is_gone() && diff.threads[&3].has_appeared());
    assert_eq!(diff.sites[&Some(parse)].bytes_change(), 50, "a reallocation without a stack keeps the block's");
    assert!(now.diff(&now).is_empty());
}

#[test]
fn the_events_can_be_had_back() {
    let (store, _) = store_and_engine();
    let stack = store.caller_stack();
    let event =
        MemoryEvent::allocate(0x10, 100, 1).at(5).with_var_name("rows").with_type_name("Vec<Row>").with_stack(stack);
    store.record(event.clone());
    store.record(MemoryEvent::mark(String::from("done"), 1).at(9));
    let events = store.snapshot().unwrap();
    assert_eq!(events[0], event);
    assert_eq!((events[1].event_type, events[1].var_name.clone()), (MemoryEventType::Mark, Some(Name::from("done"))));
}

#[test]
fn threads_that_come_and_go_share_their_room() {
    let (store, engine) = store_and_engine();
    for thread in 0..2_000u64 {
        let store = Arc::clone(&store);
        std::thread::spawn(move || store.record(MemoryEvent::allocate(thread as usize * 16 + 16, 1, thread)))
            .join()
            .unwrap();
    }
    assert_eq!(engine.build_snapshot().active_count(), 2_000);
    assert!(store.memory_bytes() < 200_000, "{} bytes for 2,000 events", store.memory_bytes());
}

#[test]
fn a_thread_is_not_late_because_one_that_ended_was_ahead() {
    let (store, engine) = store_and_engine();
    for (thread, time) in [(1u64, 9_000), (2, 1_000), (3, 5_000)] {
        let event = MemoryEvent::allocate(thread as usize * 16, 1, thread).at(time);
        let store = Arc::clone(&store);
        std::thread::spawn(move || store.record(event)).join().unwrap();
    }
    let now = engine.build_snapshot();
    assert!(now.anomalies.is_empty(), "{:?}", now.anomalies);
    assert_eq!((now.active_count(), engine.snapshot_at(5_000).active_count()), (3, 2));
}
