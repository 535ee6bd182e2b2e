//! Mappings in the live table. All are records of one shard, so that a change of several of them, as when one is unmapped in its middle,
//! is one change under one lock.
//!
//! A sorted list, private to the process, says which record covers which addresses. Invariant: its ranges are not empty and do not overlap.
//!
//! Reservations and files are in the list, but have no record: they are no blocks. The table's header has their sums.
//!
//! A second list has the parts of memory that the program gave back and keeps mapped (`returned.rs`). They stay parts of their blocks.

use super::ranges::{LiveRange, LiveRanges};
use super::shard::Locked;
use super::{block_of, returned, with_mappings};
use crate::session::Session;
use crate::thread::AgentThread;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use highwater_shm::ring_v1::mapping;
use highwater_shm::table_v1::{Count, TableBlock};

const PAGE: u64 = 4096;

/// Instead of a record: a reservation.
const RESERVATION: u32 = u32::MAX;
/// Instead of a record: a file.
const FILE: u32 = u32::MAX - 1;

/// The sum to which the bytes of a range belong; `None` if it is a block.
fn sum_of(range: &LiveRange) -> Option<&'static AtomicU64> {
    match range.record {
        RESERVATION => Some(&super::header().reserved_bytes),
        FILE => Some(&super::header().file_bytes),
        _ => None,
    }
}

/// Adds to a sum. Only under the lock of the mappings' shard.
fn add_to(sum: &AtomicU64, bytes: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

/// The list of all threads.
struct SharedRanges(UnsafeCell<LiveRanges>);
// SAFETY: only touched under the lock of the mappings' shard.
unsafe impl Sync for SharedRanges {}
static RANGES: SharedRanges = SharedRanges(UnsafeCell::new(LiveRanges::new()));

/// Forgets all ranges, in a process that begins a new session.
pub fn forget_all() {
    // SAFETY: no thread uses the table yet.
    unsafe { (*RANGES.0.get()).clear() };
    returned::forget_all();
}

/// Changes the list and the records, under the lock.
fn change<T>(session: &Session, work: impl FnOnce(&mut LiveRanges, &mut Locked<'_>) -> T) -> Option<T> {
    // SAFETY: the lock is held.
    with_mappings(session, |shard| work(unsafe { &mut *RANGES.0.get() }, shard))
}

fn put(ranges: &mut LiveRanges, shard: &mut Locked<'_>, start: u64, end: u64, block: &TableBlock) -> bool {
    let block = TableBlock { address: start | 1, size: end - start, ..*block };
    let Some(record) = shard.birth(&block) else {
        shard.count(Count::Untracked, 1);
        return false;
    };
    let at = ranges.first_behind(start);
    if !ranges.insert(at, LiveRange { start, end, record }) {
        shard.death(record);
        shard.count(Count::Untracked, 1);
        return false;
    }
    true
}

/// Adds a range that is no block: a reservation or a file.
fn put_beside(ranges: &mut LiveRanges, shard: &mut Locked<'_>, range: LiveRange) {
    let at = ranges.first_behind(range.start);
    if !ranges.insert(at, range) {
        return shard.count(Count::Untracked, 1);
    }
    if let Some(sum) = sum_of(&range) {
        add_to(sum, range.bytes());
    }
}

/// Takes `start .. end` out of every range that covers it. Returns the bytes of blocks that were removed, and the number of blocks.
fn clear(ranges: &mut LiveRanges, shard: &mut Locked<'_>, start: u64, end: u64) -> (u64, u64) {
    let (mut bytes, mut whole) = (0, 0);
    returned::take_out(shard, start, end);
    loop {
        let at = ranges.first_behind(start);
        let Some(&range) = ranges.all().get(at).filter(|range| range.start < end) else { break };
        ranges.remove(at);
        let parts = [(range.start, start), (end, range.end)];
        if let Some(sum) = sum_of(&range) {
            add_to(sum, range.bytes().wrapping_neg());
            let kept = parts.into_iter().filter(|(start, end)| start < end);
            kept.for_each(|(start, end)| put_beside(ranges, shard, LiveRange { start, end, ..range }));
            continue;
        }
        let kept = split(ranges, shard, range, parts);
        whole += u64::from(kept == 0);
        bytes += range.end - range.start - kept;
    }
    (bytes, whole)
}

/// A mapping that was taken out of the list becomes these parts of it. Each part is a mapping of its own with the same birth; empty ones are skipped.
/// Returns the bytes that they hold.
fn split(ranges: &mut LiveRanges, shard: &mut Locked<'_>, range: LiveRange, parts: [(u64, u64); 2]) -> u64 {
    let block = shard.block(range.record);
    let (mut kept, mut pieces) = (0, 0);
    // New records first: no record is used twice in one change.
    for (start, end) in parts {
        if start < end && put(ranges, shard, start, end, &block) {
            kept += end - start;
            pieces += 1;
        }
    }
    shard.death(range.record);
    if pieces == 0 {
        shard.count(Count::Frees, 1);
    } else {
        shard.count(Count::Reallocations, 1);
        shard.count(Count::Allocations, pieces - 1);
    }
    shard.count(Count::FreedBytes, range.end - range.start - kept);
    kept
}

fn rounded(address: u64, length: u64) -> Option<(u64, u64)> {
    let end = address.checked_add(length.checked_next_multiple_of(PAGE)?)?;
    (address.is_multiple_of(PAGE) && end > address && end < 1 << 48).then_some((address, end))
}

/// Something was mapped.
pub fn mapped(thread: &mut AgentThread, session: &Session, address: u64, length: u64, what: u32, node: u32) {
    let Some((start, end)) = rounded(address, length) else { return };
    let block = block_at(thread, session, start, end, node);
    let cleared = change(session, |ranges, shard| {
        let cleared = clear(ranges, shard, start, end);
        put_as(ranges, shard, start, end, what, &block);
        cleared
    });
    note_new_of(thread, what, end - start);
    note_gone(thread, cleared);
}

/// The protection of memory was changed. Reservations become blocks of the caller that makes them accessible, and the other way round. Files stay
/// files. Memory that is not in the list is ignored.
pub fn protected(thread: &mut AgentThread, session: &Session, address: u64, length: u64, what: u32, node: u32) {
    let Some((start, end)) = rounded(address, length) else { return };
    let block = block_at(thread, session, start, end, node);
    let mut gone = (0, 0);
    change(session, |ranges, shard| {
        let mut at = start;
        while at < end {
            let index = ranges.first_behind(at);
            let Some(&range) = ranges.all().get(index).filter(|range| range.start < end) else { break };
            let (from, to) = (range.start.max(start), range.end.min(end));
            let changes = match range.record {
                FILE => false,
                RESERVATION => what == mapping::MEMORY,
                _ => what != mapping::MEMORY,
            };
            if changes {
                gone = sum_pair(gone, clear(ranges, shard, from, to));
                put_as(ranges, shard, from, to, what, &block);
                note_new_of(thread, what, to - from);
            } else {
                // A runtime protects memory anew that it is going to use again.
                returned::take_out(shard, from, to);
            }
            at = to;
        }
    });
    note_gone(thread, Some(gone));
}

fn block_at(thread: &mut AgentThread, session: &Session, start: u64, end: u64, node: u32) -> TableBlock {
    TableBlock { rate: 0, ..block_of(thread, session, start, end - start, 0, node) }
}

/// The program gave memory back, or asked for it again. Only what it mapped and can touch counts.
pub fn given_back(session: &Session, address: u64, length: u64, is_returned: bool) {
    let Some((start, end)) = rounded(address, length) else { return };
    change(session, |ranges, shard| {
        if !is_returned {
            return returned::take_out(shard, start, end);
        }
        let hit = ranges.all().iter().skip(ranges.first_behind(start)).take_while(|range| range.start < end);
        for range in hit.filter(|range| is_block(range)) {
            returned::add(shard, range.start.max(start), range.end.min(end));
        }
    });
}

fn is_block(range: &LiveRange) -> bool {
    sum_of(range).is_none()
}

/// Adds a range where there is none.
fn put_as(ranges: &mut LiveRanges, shard: &mut Locked<'_>, start: u64, end: u64, what: u32, block: &TableBlock) {
    match what {
        mapping::RESERVATION => put_beside(ranges, shard, LiveRange { start, end, record: RESERVATION }),
        mapping::FILE => put_beside(ranges, shard, LiveRange { start, end, record: FILE }),
        _ => {
            if put(ranges, shard, start, end, block) {
                shard.count(Count::Allocations, 1);
                shard.count(Count::AllocatedBytes, end - start);
            }
        }
    }
}

fn note_new(thread: &mut AgentThread, bytes: u64) {
    thread.own.stats.allocations += 1;
    thread.own.stats.allocated_bytes += bytes;
}

/// Memory is about to be unmapped.
pub fn unmapping(thread: &mut AgentThread, session: &Session, address: u64, length: u64) {
    if let Some((start, end)) = rounded(address, length) {
        let cleared = change(session, |ranges, shard| clear(ranges, shard, start, end));
        note_gone(thread, cleared);
    }
}

fn note_gone(thread: &mut AgentThread, cleared: Option<(u64, u64)>) {
    let (bytes, whole) = cleared.unwrap_or_default();
    thread.own.stats.frees += whole;
    thread.own.stats.freed_bytes += bytes;
}

/// A mapping is about to be moved or resized: it becomes a mapping of its own, and its addresses may be given to another. If it consists of several ranges,
/// which the kernel may have made one mapping, they stay where they are until it was moved.
pub fn remapping(thread: &mut AgentThread, session: &Session, address: u64, length: u64) {
    let Some((start, end)) = rounded(address, length) else { return };
    let aside = change(session, |ranges, shard| {
        returned::take_out(shard, start, end);
        let at = ranges.first_behind(start);
        let &range = ranges.all().get(at).filter(|range| range.start <= start && end <= range.end)?;
        ranges.remove(at);
        if let Some(sum) = sum_of(&range) {
            // The part that moves is counted again as the range that it becomes.
            add_to(sum, range.bytes().wrapping_neg());
            let rest = [(range.start, start), (end, range.end)].into_iter().filter(|(start, end)| start < end);
            rest.for_each(|(start, end)| put_beside(ranges, shard, LiveRange { start, end, ..range }));
            return Some(range.record);
        }
        if (range.start, range.end) == (start, end) {
            return Some(range.record);
        }
        // It is a part of a mapping, which becomes two or three.
        let middle = TableBlock { address: start | 1, size: end - start, ..shard.block(range.record) };
        let record = shard.birth(&middle);
        split(ranges, shard, range, [(range.start, start), (end, range.end)]);
        if record.is_some() {
            shard.count(Count::Allocations, 1);
            shard.count(Count::AllocatedBytes, end - start);
        } else {
            shard.count(Count::Untracked, 1);
        }
        record
    });
    thread.own.mapping_aside = aside.flatten();
}

/// A mapping was moved or resized; `new` is 0 if that failed.
pub fn remapped(thread: &mut AgentThread, session: &Session, old: (u64, u64), new: (u64, u64), node: u32) {
    let aside = thread.own.mapping_aside.take();
    let Some((start, end)) = rounded(new.0, new.1) else {
        if let (Some(record), Some((start, end))) = (aside, rounded(old.0, old.1)) {
            change(session, |ranges, shard| put_beside(ranges, shard, LiveRange { start, end, record }));
        }
        return;
    };
    if let Some(record @ (RESERVATION | FILE)) = aside {
        let cleared = change(session, |ranges, shard| {
            let cleared = clear(ranges, shard, start, end);
            put_beside(ranges, shard, LiveRange { start, end, record });
            cleared
        });
        return note_gone(thread, cleared);
    }
    let Some(record) = aside else { return moved_in_parts(thread, session, old, (start, end), node) };
    let mut block = TableBlock { rate: 0, ..block_of(thread, session, start, end - start, 0, node) };
    let before = change(session, |ranges, shard| {
        let was = shard.block(record);
        block.stamp = was.stamp;
        clear(ranges, shard, start, end);
        let is_kept = put(ranges, shard, start, end, &block);
        shard.death(record);
        if is_kept {
            shard.count(Count::FreedBytes, was.size);
            shard.count(Count::AllocatedBytes, end - start);
            shard.count(Count::Reallocations, 1);
        } else {
            shard.count_death(&was);
        }
        was.size
    });
    thread.own.stats.allocated_bytes += end - start;
    thread.own.stats.freed_bytes += before.unwrap_or(0);
}

/// Several ranges were moved as one, or a mapping was duplicated (`old` has no length then), or one that is not in the list was moved. Each part keeps its kind;
/// growth has that of the last one; memory becomes blocks of the caller.
fn moved_in_parts(thread: &mut AgentThread, session: &Session, old: (u64, u64), new: (u64, u64), node: u32) {
    let (is_duplicate, mut at) = (old.1 == 0, old.0);
    let Some((_, old_end)) = rounded(old.0, old.1.max(1)) else { return };
    let block = block_at(thread, session, new.0, new.1, node);
    let mut gone = (0, 0);
    change(session, |ranges, shard| {
        let mut put_until = new.0;
        let mut kind = mapping::MEMORY;
        while let Some(&range) = ranges.all().get(ranges.first_behind(at)).filter(|range| range.start < old_end) {
            kind = kind_of(&range);
            if is_duplicate {
                break;
            }
            let (from, to) = (range.start.max(at), range.end.min(old_end));
            gone = sum_pair(gone, clear(ranges, shard, from, to));
            let start = new.0 + (from - old.0);
            let end = (new.0 + (to - old.0)).min(new.1);
            if start < end {
                gone = sum_pair(gone, clear(ranges, shard, start, end));
                put_as(ranges, shard, start, end, kind, &block);
                note_new_of(thread, kind, end - start);
                put_until = end;
            }
            at = to;
        }
        if put_until < new.1 {
            gone = sum_pair(gone, clear(ranges, shard, put_until, new.1));
            put_as(ranges, shard, put_until, new.1, kind, &block);
            note_new_of(thread, kind, new.1 - put_until);
        }
    });
    note_gone(thread, Some(gone));
}

fn kind_of(range: &LiveRange) -> u32 {
    match range.record {
        RESERVATION => mapping::RESERVATION,
        FILE => mapping::FILE,
        _ => mapping::MEMORY,
    }
}

fn sum_pair(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

fn note_new_of(thread: &mut AgentThread, kind: u32, bytes: u64) {
    if kind == mapping::MEMORY {
        note_new(thread, bytes);
    }
}
