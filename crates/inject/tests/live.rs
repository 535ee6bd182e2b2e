//! The live table that the image keeps, against what the test itself did.

mod support;

use highwater_clock::Counter;
use highwater_collector::LiveTable;
use highwater_shm::attach_v1::{AttachLayout, FLAG_LIVE, FunctionIndex, LoggedFree, MODE_EXACT, MODE_SAMPLED};
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::TableCapacity;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Injected, Numbers};

fn live() -> Injected {
    let layout = AttachLayout::for_live(Capacity::LIVE_CHOICES[2], TableCapacity::CHOICES[2]);
    let injected = Injected::new(layout, |header| header.flags |= FLAG_LIVE);
    injected.begin();
    injected
}

/// The table as a collector opens it. The agent has begun.
fn table_of(injected: &Injected) -> LiveTable {
    LiveTable::open_attached(injected.object(), &injected.layout(), None::<Counter>).unwrap()
}

/// The blocks of the table at one instant: address, size, and the rate at which they were sampled.
fn blocks(table: &LiveTable) -> HashMap<u64, (u64, u8)> {
    let mut cut = table.cut(Duration::from_secs(60)).unwrap();
    cut.settle();
    let (extent, mut blocks) = (table.extent().unwrap(), HashMap::new());
    let scan = cut.scan(&extent, |_, block| assert!(blocks.insert(block.address, (block.size, block.rate)).is_none()));
    assert_eq!(scan.unwrap().blocks, blocks.len() as u64);
    assert!(cut.is_exact() && cut.end());
    blocks
}

/// Allocates, resizes and frees; returns what is left.
fn work(injected: &Injected, seed: u64, calls: usize) -> Vec<(usize, usize)> {
    let (mut numbers, mut live): (_, Vec<(usize, usize)>) = (Numbers(seed), Vec::new());
    for _ in 0..calls {
        let size = 1 + numbers.below(500);
        match numbers.below(5) {
            0 if !live.is_empty() => injected.free(live.swap_remove(numbers.below(live.len())).0),
            2 if !live.is_empty() => {
                let at = numbers.below(live.len());
                live[at] = (injected.call(FunctionIndex::Realloc, [live[at].0, size, 0]), size);
            }
            3 => live.push((injected.call(FunctionIndex::Calloc, [1, size, 0]), size)),
            _ => live.push((injected.malloc(size), size)),
        }
    }
    live
}

#[test]
fn the_table_has_exactly_the_blocks_that_are_live() {
    let injected = live();
    let left: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let injected = &injected;
                    move || work(injected, seed, 20_000)
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let table = table_of(&injected);
    let expected: HashMap<u64, (u64, u8)> =
        left.iter().map(|&(block, size)| (block as u64, (size as u64, 0))).collect();
    let found = blocks(&table);
    let wrong: Vec<_> = expected.iter().filter(|&(address, block)| found.get(address) != Some(block)).take(3).collect();
    let odd: Vec<_> = found.iter().filter(|&(address, block)| expected.get(address) != Some(block)).take(3).collect();
    let missed = injected.session.header().missed.load(Ordering::Relaxed);
    assert!(found == expected, "not in the table {wrong:x?}, wrongly in it {odd:x?}, missed {missed}");
    assert!(expected.len() > 1000);
    left.iter().for_each(|&(block, _)| injected.free(block));
    assert_eq!(blocks(&table), HashMap::new());
    assert_eq!(injected.memory.counts().unknown_frees, 0);
    assert_eq!(injected.session.header().missed.load(Ordering::Relaxed), 0);
}

#[test]
fn frees_of_older_blocks_are_counted_with_what_they_held() {
    let layout = AttachLayout::for_live(Capacity::LIVE_CHOICES[2], TableCapacity::CHOICES[2]);
    let injected = Injected::new(layout, |header| header.flags |= FLAG_LIVE);
    let older = [injected.malloc(1000), injected.malloc(5000)];
    let resized = injected.malloc(700);
    injected.switch_on();
    let newer = injected.malloc(300);
    older.into_iter().for_each(|block| injected.free(block));
    let counts = injected.memory.counts();
    assert_eq!(counts.unknown_frees, 2);
    // glibc gives a block at most 24 bytes more than it was asked for.
    assert!((6000..6048).contains(&counts.unknown_bytes), "{counts:?}");
    assert_eq!(blocks(&table_of(&injected)), HashMap::from([(newer as u64, (300, 0))]));
    let log = injected.memory.unknown_frees();
    assert_eq!(
        [0, 1, 2].map(|number| log.at(number)),
        [LoggedFree::Address(older[0] as u64), LoggedFree::Address(older[1] as u64), LoggedFree::NotYet]
    );
    // One that is resized is known from then on.
    let moved = injected.call(FunctionIndex::Realloc, [resized, 90_000, 0]);
    assert_eq!((injected.memory.counts().unknown_frees, log.at(2)), (3, LoggedFree::Address(resized as u64)));
    injected.free(injected.call(FunctionIndex::Realloc, [moved, 10, 0]));
    assert_eq!(injected.memory.counts().unknown_frees, 3);
}

#[test]
fn sampling_can_be_switched_on_and_off_while_the_program_runs() {
    const MEAN: u64 = 8192;
    let injected = live();
    let exact = work(&injected, 1, 5000);
    let table = table_of(&injected);
    assert_eq!(blocks(&table).len(), exact.len());
    let set = |bytes: u64| {
        table.control().sample_bytes.store(bytes, Ordering::Relaxed);
        table.control().change_settings();
        // The program sees the settings at its next call.
        injected.free(injected.malloc(1));
    };
    set(MEAN);
    assert_eq!(injected.mode(), MODE_SAMPLED);
    let sampled = work(&injected, 2, 20_000);
    let in_table = blocks(&table);
    for &(block, size) in &exact {
        assert_eq!(in_table.get(&(block as u64)), Some(&(size as u64, 0)));
    }
    let all: HashMap<u64, u64> = sampled.iter().map(|&(block, size)| (block as u64, size as u64)).collect();
    let samples: Vec<_> = in_table.iter().filter(|(_, (_, rate))| *rate != 0).collect();
    assert!(samples.iter().all(|&(address, (size, _))| all.get(address) == Some(size)));
    assert!(!samples.is_empty() && samples.len() < all.len() / 5, "{} of {}", samples.len(), all.len());
    // Blocks from before go when they are freed, though they are no samples.
    exact.iter().for_each(|&(block, _)| injected.free(block));
    assert!(blocks(&table).values().all(|(_, rate)| *rate != 0));
    set(0);
    let block = injected.malloc(50_000);
    assert_eq!(injected.mode(), MODE_EXACT);
    sampled.iter().for_each(|&(block, _)| injected.free(block));
    assert_eq!(blocks(&table), HashMap::from([(block as u64, (50_000, 0))]));
}

#[test]
fn an_index_that_grows_takes_its_memory_from_the_object() {
    let injected = live();
    // A reader provides more records as they are used. This table has none.
    injected.memory.page().shard_records_provided.store(u64::MAX, Ordering::Relaxed);
    let left: Vec<usize> = (0..200_000).map(|_| injected.malloc(16)).collect();
    let table = table_of(&injected);
    assert_eq!(blocks(&table).len(), left.len());
    let page = injected.memory.page();
    assert!(page.private_used.load(Ordering::Relaxed) > 1 << 20);
    for area in injected.session.agent_ranges() {
        assert!(injected.has_in_private_part(area.clone()), "{area:x?}");
    }
    left.into_iter().for_each(|block| injected.free(block));
    assert_eq!(blocks(&table), HashMap::new());
}
