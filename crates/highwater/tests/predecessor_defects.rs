//! The defects of the predecessor: each test shows that one is absent, because the laws handle and count the case.

use highwater::event_store::{EventStore, MemoryEvent};
use highwater::snapshot::{MemorySnapshot, SnapshotEngine};
use std::sync::Arc;

fn snapshot_of(events: impl IntoIterator<Item = MemoryEvent>) -> MemorySnapshot {
    let store = Arc::new(EventStore::new());
    events.into_iter().for_each(|event| store.record(event));
    SnapshotEngine::new(store).build_snapshot()
}

#[test]
fn a_moved_realloc_leaves_no_ghost() {
    let now = snapshot_of([
        MemoryEvent::allocate(0x1000, 100, 1),
        MemoryEvent::reallocate(0x2000, 100, 300, 1).moved_from(0x1000),
    ]);
    assert_eq!((now.active_count(), now.current_memory()), (1, 300));
    assert!(!now.active_allocations.contains_key(&0x1000));
    assert_eq!(now.active_allocations[&0x2000].size, 300);
    assert_eq!((now.stats.total_allocations, now.stats.total_reallocations), (1, 1));
    assert!(now.anomalies.is_empty());
}

#[test]
fn a_realloc_of_an_unseen_block_is_counted() {
    let now = snapshot_of([MemoryEvent::reallocate(0x2000, 100, 300, 1).moved_from(0x1000)]);
    assert_eq!((now.active_count(), now.current_memory()), (1, 300));
    assert_eq!(now.anomalies.unmatched_reallocations, 1);
    assert_eq!(now.stats.total_allocations, 1, "the new block has to come from somewhere");
}

#[test]
fn a_free_on_another_thread_is_charged_to_the_owner() {
    let now = snapshot_of([
        MemoryEvent::allocate(0x1000, 100, 1),
        MemoryEvent::allocate(0x2000, 50, 2),
        MemoryEvent::deallocate(0x1000, 100, 2),
    ]);
    assert_eq!(now.thread_stats[&1].current_memory, 0);
    assert_eq!(now.thread_stats[&1].cross_thread_deallocations, 1);
    assert_eq!(now.thread_stats[&2].current_memory, 50);
    assert_eq!(now.thread_stats[&2].total_deallocated, 0);
}

#[test]
fn a_free_on_a_thread_without_stats_is_not_lost() {
    let now = snapshot_of([MemoryEvent::allocate(0x1000, 100, 1), MemoryEvent::deallocate(0x1000, 100, 99)]);
    assert_eq!((now.thread_stats[&1].current_memory, now.thread_stats[&1].total_deallocated), (0, 100));
    assert_eq!(now.current_memory(), 0);
}

#[test]
fn a_duplicate_address_does_not_count_twice() {
    let now = snapshot_of([MemoryEvent::allocate(0x1000, 100, 1), MemoryEvent::allocate(0x1000, 40, 2)]);
    assert_eq!((now.active_count(), now.current_memory()), (1, 40));
    assert_eq!((now.thread_stats[&1].current_memory, now.thread_stats[&2].current_memory), (0, 40));
    assert_eq!(now.anomalies.duplicate_allocations, 1);
}

#[test]
fn a_size_mismatch_on_free_is_counted_and_the_allocated_size_holds() {
    let now = snapshot_of([MemoryEvent::allocate(0x1000, 100, 1), MemoryEvent::deallocate(0x1000, 7, 1)]);
    assert_eq!((now.current_memory(), now.stats.total_deallocated), (0, 100));
    assert_eq!(now.anomalies.size_mismatches, 1);
}

#[test]
fn events_out_of_order_give_no_false_leak() {
    let now = snapshot_of([
        MemoryEvent::deallocate(0x1000, 100, 1).at(200),
        MemoryEvent::allocate(0x1000, 100, 1).at(100),
        MemoryEvent::allocate(0x2000, 10, 1).at(300),
    ]);
    assert_eq!((now.active_count(), now.current_memory(), now.peak_memory()), (1, 10, 100));
    assert_eq!(now.anomalies.out_of_order_events, 1);
    assert_eq!(now.anomalies.unmatched_deallocations, 0);
}

#[test]
fn sizes_do_not_wrap() {
    let now = snapshot_of([
        MemoryEvent::allocate(0x1000, usize::MAX, 1),
        MemoryEvent::allocate(0x2000, usize::MAX, 1),
        MemoryEvent::allocate(0x3000, 1, 2),
    ]);
    assert_eq!(now.stats.total_allocated, usize::MAX);
    assert_eq!((now.current_memory(), now.peak_memory()), (usize::MAX, usize::MAX));
    assert_eq!(now.anomalies.clamped_sizes, 2);
    assert_eq!(now.active_count(), 3);
}

#[test]
fn the_peak_sees_what_a_realloc_grew_to_and_the_instant_inside_it() {
    let now = snapshot_of([
        MemoryEvent::allocate(0x1000, 100, 1),
        MemoryEvent::reallocate(0x2000, 100, 300, 1).moved_from(0x1000),
        MemoryEvent::reallocate(0x2000, 300, 10, 1),
    ]);
    assert_eq!((now.current_memory(), now.peak_memory()), (10, 300));
    assert_eq!(now.stats.peak_memory_inside_reallocation, 400, "both places are held while the bytes are copied");
    let in_place = snapshot_of([MemoryEvent::allocate(0x1000, 100, 1), MemoryEvent::reallocate(0x1000, 100, 300, 1)]);
    assert_eq!(in_place.stats.peak_memory_inside_reallocation, 300, "nothing was copied");
}

#[test]
fn an_unmatched_free_changes_nothing_but_its_counter() {
    let now = snapshot_of([MemoryEvent::deallocate(0x1000, 100, 1)]);
    assert_eq!((now.active_count(), now.current_memory(), now.stats.total_deallocations), (0, 0, 0));
    assert_eq!((now.stats.unmatched_deallocations, now.anomalies.unmatched_deallocations), (1, 1));
}

#[test]
fn clearing_loses_no_event_that_is_being_recorded() {
    const THREADS: usize = 4;
    const EACH: usize = 20_000;
    let store = Arc::new(EventStore::new());
    let mut cleared = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = Arc::clone(&store);
                scope.spawn(move || {
                    for block in 0..EACH {
                        store.record(MemoryEvent::allocate((thread * EACH + block) * 16 + 16, 1, thread as u64));
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            cleared += store.clear();
        }
    });
    assert_eq!(cleared + store.len(), THREADS * EACH);
}
