//! The cut is exact: one instant of the whole process, while four threads change the table as fast as they can.
//!
//! The agent and the reader are the real ones, in one process; addresses are made up, so that each block tells who made it and when.
//!
//! * *Sliding window*: a thread allocates block i, then frees block i − W. So of each thread the cut has W or W + 1 blocks, with numbers in a row.
//!   Each block also tells how far its neighbour had got when it was made: what a block has seen must be in the cut as well.
//! * *Reallocation ring*: a thread moves its blocks from address to address. So the cut has exactly as many blocks as there are.
//!
//! The same is asked of a plain copy of the table, which does not pass: the test can fail.

#[path = "support/own_table.rs"]
mod own_table;

use highwater_agent as agent;
use highwater_agent::here::reallocated_here;
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::{SHARDS, TableBlock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WRITERS: usize = 4;
const WINDOW: u64 = 2_000;
const RING: u64 = 500;
const SNAPSHOTS: usize = 1_000;
const PLAIN_COPIES: usize = 1_000;

/// How far each writer has got: blocks below this are allocated for sure.
static DONE: [AtomicU64; WRITERS] = [const { AtomicU64::new(0) }; WRITERS];
static STOP: AtomicBool = AtomicBool::new(false);

/// Blocks of the window have even thread numbers in their addresses, blocks of the ring odd ones.
fn address(writer: usize, is_ring: bool, number: u64) -> u64 {
    ((writer as u64 * 2 + u64::from(is_ring)) << 42) | (number + 1) << 4
}

fn write(writer: usize) {
    let neighbour = (writer + 1) % WRITERS;
    let mut ring: Vec<u64> = (0..RING).collect();
    for &number in &ring {
        agent::allocated_at(address(writer, true, number), number + 1, 0);
    }
    for (number, next_slot) in (0..).zip(RING..) {
        let seen = DONE[neighbour].load(Ordering::SeqCst);
        agent::allocated_at(address(writer, false, number), seen, 0);
        DONE[writer].store(number + 1, Ordering::SeqCst);
        if number >= WINDOW {
            agent::freeing(address(writer, false, number - WINDOW) as *mut u8);
        }
        let moving = (number % RING) as usize;
        let (old, new) = (address(writer, true, ring[moving]), address(writer, true, next_slot));
        let begun = agent::reallocating(old as *mut u8);
        // SAFETY: called as declared; the addresses are only told, not used.
        unsafe { reallocated_here(old as *mut u8, new as *mut u8, moving + 1, begun.into()) };
        ring[moving] = next_slot;
        if STOP.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// What is wrong with a set of blocks, if anything is.
fn fault(blocks: &[TableBlock]) -> Option<String> {
    let mut windows: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    let mut rings: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    for block in blocks {
        let (owner, number) = (block.address >> 42, (block.address >> 4 & ((1 << 38) - 1)) - 1);
        if *numbers.entry(owner / 2).or_insert(block.thread) != block.thread {
            return Some(format!("torn: block {:x} is of thread {}", block.address, block.thread));
        }
        if owner % 2 == 0 {
            windows.entry(owner / 2).or_default().push((number, block.size));
        } else {
            rings.entry(owner / 2).or_default().push(block.size);
        }
    }
    for (writer, sizes) in &mut rings {
        sizes.sort_unstable();
        if !sizes.iter().copied().eq(1..=RING) {
            return Some(format!("writer {writer} has {} of {RING} blocks in its ring", sizes.len()));
        }
    }
    if rings.len() != WRITERS || windows.len() != WRITERS {
        return Some("a writer is missing".into());
    }
    let mut newest = HashMap::new();
    for (&writer, window) in &mut windows {
        window.sort_unstable();
        let (first, last) = (window[0].0, window[window.len() - 1].0);
        let in_a_row = last - first + 1 == window.len() as u64;
        let expected = if last < WINDOW { first == 0 } else { (WINDOW..=WINDOW + 1).contains(&(window.len() as u64)) };
        if !in_a_row || !expected {
            return Some(format!("writer {writer} has {} blocks from {first} to {last}", window.len()));
        }
        newest.insert(writer, (last, window[window.len() - 1].1));
    }
    for (&writer, &(_, seen)) in &newest {
        let neighbour = (writer + 1) % WRITERS as u64;
        // It had seen blocks below that number.
        if seen > newest[&neighbour].0 + 1 {
            return Some(format!(
                "writer {writer} saw {seen} blocks of {neighbour}, of which the last is {}",
                newest[&neighbour].0
            ));
        }
    }
    None
}

#[test]
fn a_cut_is_one_instant_and_a_plain_copy_is_not() {
    let table = own_table::begin();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
        while DONE.iter().any(|done| done.load(Ordering::Relaxed) <= WINDOW) {
            std::thread::yield_now();
        }
        let (mut wrong, mut not_settled, mut void) = (Vec::new(), 0, 0);
        let mut taken = 0;
        while taken < SNAPSHOTS {
            let mut cut = table.cut(Duration::from_secs(2)).unwrap();
            cut.settle();
            let extent = table.extent().unwrap();
            let mut blocks = Vec::new();
            let scan = cut.scan(&extent, |_, block| blocks.push(*block));
            let is_exact = cut.is_exact();
            if !cut.end() {
                void += 1;
                continue;
            }
            let scan = scan.unwrap();
            if !is_exact {
                // A writer was off the processor for long, with a lock: told to the user, and only then may a move be half seen.
                not_settled += 1;
                continue;
            }
            taken += 1;
            if !scan.is_verified() {
                wrong.push("not as many as the process counted".to_owned());
            }
            wrong.extend(fault(&blocks));
        }
        let mut wrong_copies = 0;
        for _ in 0..PLAIN_COPIES {
            let extent = table.extent().unwrap();
            let mut blocks = Vec::new();
            for shard in 0..SHARDS {
                let records = table.records(shard, extent.used[shard as usize]);
                blocks.extend(records.filter_map(|record| record.read(Word(0), |_| ())));
            }
            wrong_copies += usize::from(fault(&blocks).is_some());
        }
        STOP.store(true, Ordering::Relaxed);
        eprintln!(
            "{taken} cuts, {void} given up, {not_settled} not settled; {wrong_copies} of {PLAIN_COPIES} plain copies wrong"
        );
        assert!(wrong.is_empty(), "{} of {taken} wrong, the first: {}", wrong.len(), wrong[0]);
        assert!(wrong_copies > 0, "a plain copy was never wrong: this test proves nothing");
        assert!(not_settled < SNAPSHOTS, "hardly ever settled");
    });
}
