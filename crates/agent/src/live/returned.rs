//! Parts of the program's memory that it gave back to the kernel (`madvise`) and keeps mapped. They stay parts of their blocks: the program may touch them again
//! at any time, and no call shows that. The table's header has their sum, as an upper bound of what is not resident for this reason.
//!
//! A part ends when it is mapped, moved or protected anew, or when the program asks the kernel for it.

use super::ranges::{LiveRange, LiveRanges};
use super::shard::Locked;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of parts: 384 KiB of list. A program that gives back every other page has more; its further parts are not counted.
const MOST_PARTS: usize = 1 << 14;

/// The list of all threads.
struct SharedParts(UnsafeCell<LiveRanges>);
// SAFETY: only touched under the lock of the mappings' shard.
unsafe impl Sync for SharedParts {}
static PARTS: SharedParts = SharedParts(UnsafeCell::new(LiveRanges::new()));

/// Forgets all parts, in a process that begins a new session.
pub fn forget_all() {
    // SAFETY: no thread uses the table yet.
    unsafe { (*PARTS.0.get()).clear() };
}

/// The list, for the holder of the lock of the mappings' shard.
fn parts<'a>(_lock: &'a mut Locked<'_>) -> &'a mut LiveRanges {
    // SAFETY: the lock is held for as long as the result lives, and callers drop one before they ask for another.
    unsafe { &mut *PARTS.0.get() }
}

fn sum() -> &'static AtomicU64 {
    &super::header().returned_bytes
}

fn remove(parts: &mut LiveRanges, at: usize) {
    if let Some(part) = parts.remove(at) {
        sum().store(sum().load(Ordering::Relaxed).wrapping_sub(part.bytes()), Ordering::Relaxed);
    }
}

fn insert(parts: &mut LiveRanges, start: u64, end: u64) {
    let at = parts.first_behind(start);
    if start < end && parts.all().len() < MOST_PARTS && parts.insert(at, LiveRange { start, end, record: 0 }) {
        sum().store(sum().load(Ordering::Relaxed).wrapping_add(end - start), Ordering::Relaxed);
    }
}

/// These addresses are not given back any more.
pub fn take_out(lock: &mut Locked<'_>, start: u64, end: u64) {
    let parts = parts(lock);
    loop {
        let at = parts.first_behind(start);
        let Some(&part) = parts.all().get(at).filter(|part| part.start < end) else { break };
        remove(parts, at);
        insert(parts, part.start, start);
        insert(parts, end, part.end);
    }
}

/// These addresses are memory of the program, and it gave them back.
pub fn add(lock: &mut Locked<'_>, start: u64, end: u64) {
    let known = parts(lock);
    // Runtimes give the same memory back again and again.
    if known.all().get(known.first_behind(start)).is_some_and(|part| part.start <= start && end <= part.end) {
        return;
    }
    take_out(lock, start, end);
    let parts = parts(lock);
    let (mut from, mut to) = (start, end);
    let mut at = parts.first_behind(start);
    // Programs give memory back piece by piece: neighbours become one part.
    if let Some(&after) = parts.all().get(at).filter(|part| part.start == end) {
        to = after.end;
        remove(parts, at);
    }
    at = at.wrapping_sub(1);
    if let Some(&before) = parts.all().get(at).filter(|part| part.end == start) {
        from = before.start;
        remove(parts, at);
    }
    insert(parts, from, to);
}
