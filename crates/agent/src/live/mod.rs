//! The live table: every live block of this process, in memory that a collector can read at any time, as of one instant, without the process's help.
//!
//! The layout and the protocol are defined in [`table_v1`](highwater_shm::table_v1). This module is the writer: `shard` changes records under a
//! shard's lock, [`index`] (private) knows where they are, `parked` keeps those that a snapshot needs, [`mappings`] does the same for
//! mappings, [`settings`] applies the settings that a collector changes, [`register`] registers the process with a collector.
//!
//! A thread holds a shard's lock for some tens of nanoseconds: the stack was walked and the clock read before.

pub mod index;
mod index_slots;
pub mod mappings;
mod parked;
mod ranges;
pub mod register;
mod returned;
pub mod settings;
mod shard;
mod weight;

use crate::session::Session;
use crate::thread::AgentThread;
use crate::{clock, sampling, sys};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use highwater_shm::control_v1::{CONTROL_BYTES, ControlPage};
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::{
    BLOCK_SHARDS, Count, FLAG_CONTENTS, FLAG_FORKED, FLAG_NO_ARGS, FLAG_USABLE_SIZES, MAGIC, MAPPINGS, SHARDS,
    STAMP_SHIFT, TableBlock, TableCapacity, TableHeader, TableShard, ThreadEntry, socket_mark,
};
pub use index::expect;
use index::shard_and_rest;
use shard::{Locked, Private, lock, unlock};

static TABLE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static CONTROL: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// Offset of the records from the table's beginning.
static RECORDS: AtomicU64 = AtomicU64::new(0);
static SHARD_LIMIT: AtomicU32 = AtomicU32::new(0);

struct Privates([UnsafeCell<Private>; SHARDS as usize]);
// SAFETY: each is touched only under its shard's lock.
unsafe impl Sync for Privates {}
static PRIVATES: Privates = Privates([const { UnsafeCell::new(Private::new()) }; SHARDS as usize]);

/// A thread's own data for the table.
#[derive(Clone, Copy, Default)]
pub struct Own {
    /// Its number in the table.
    number: u32,
    /// The record of a block that it is about to resize.
    aside: Option<u32>,
    /// The record of a mapping that it is about to move.
    mapping_aside: Option<u32>,
    /// Its own allocations and frees.
    pub stats: Stats,
}

/// Blocks and bytes allocated and freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks allocated.
    pub allocations: u64,
    /// Bytes allocated, including growth by resizing.
    pub allocated_bytes: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes freed, including shrinking by resizing.
    pub freed_bytes: u64,
}

/// Where the table begins in the memory of a live process, and the size of the whole memory.
pub fn layout(capacity: &Capacity, table: &TableCapacity) -> (u64, u64) {
    let start = TableCapacity::start_after(capacity);
    (start, start + table.bytes())
}

fn table_at(offset: u64) -> *mut u8 {
    // SAFETY: offsets lie within the table.
    unsafe { TABLE.load(Ordering::Relaxed).add(offset as usize) }
}

/// The table's header.
pub fn header() -> &'static TableHeader {
    // SAFETY: mapped as long as the process is live.
    unsafe { &*TABLE.load(Ordering::Relaxed).cast() }
}

/// The control page.
#[inline(always)]
pub fn control() -> &'static ControlPage {
    // SAFETY: as above.
    unsafe { &*CONTROL.load(Ordering::Relaxed).cast() }
}

#[inline(always)]
fn shard_of(shard: u32) -> &'static TableShard {
    let offset = highwater_shm::table_v1::HEADER_BYTES as usize + shard as usize * size_of::<TableShard>();
    // SAFETY: within the table.
    unsafe { &*TABLE.load(Ordering::Relaxed).add(offset).cast() }
}

fn rate_bytes(rate: u8) -> u64 {
    header().rate_bytes[usize::from(rate)].load(Ordering::Relaxed)
}

/// Locks a shard while `work` runs; `None`, without running it, if the shard cannot be locked.
#[inline(always)]
fn with_shard<T>(session: &Session, shard: u32, work: impl FnOnce(&mut Locked<'_>) -> T) -> Option<T> {
    let shared = shard_of(shard);
    if !lock(shared) {
        session.count_missed();
        return None;
    }
    let word = control().load();
    // SAFETY: locked, and everything is this shard's.
    let done = unsafe { work(&mut locked(shard, shared, word)) };
    unlock(shared);
    settings::look_at(word);
    Some(done)
}

/// SAFETY: the shard is locked, the word was loaded since, and no other [`Locked`] of it exists.
#[inline(always)]
unsafe fn locked(shard: u32, shared: &'static TableShard, word: highwater_shm::control_v1::Word) -> Locked<'static> {
    let capacity = SHARD_LIMIT.load(Ordering::Relaxed);
    let records = table_at(RECORDS.load(Ordering::Relaxed)).cast();
    // SAFETY: the caller's.
    unsafe { Locked::new(shard, shared, records, capacity, &mut *PRIVATES.0[shard as usize].get(), word) }
}

fn block_of(thread: &AgentThread, session: &Session, address: u64, size: u64, surplus: i32, node: u32) -> TableBlock {
    TableBlock {
        address,
        size,
        node,
        thread: thread.own.number,
        rate: settings::rate(),
        stamp: clock::before_next(session) >> STAMP_SHIFT,
        surplus,
    }
}

/// Puts a block into its shard and its index.
#[inline(always)]
fn put(shard: &mut Locked<'_>, rest: u64, block: &TableBlock) -> bool {
    let Some(number) = shard.birth(block) else {
        shard.count(Count::Untracked, 1);
        return false;
    };
    match shard.insert(rest, block.address, number) {
        Ok(None) => {}
        Ok(Some(before)) => evict(shard, before),
        Err(index::NoMemory) => {
            shard.death(number);
            shard.count(Count::Untracked, 1);
            return false;
        }
    }
    true
}

/// Removes a block whose free was never seen.
#[cold]
fn evict(shard: &mut Locked<'_>, number: u32) {
    let block = shard.block(number);
    shard.death(number);
    shard.count_death(&block);
    shard.count(Count::Duplicates, 1);
}

/// A block was allocated.
#[inline(always)]
pub fn allocated(thread: &mut AgentThread, session: &Session, address: u64, size: u64, surplus: i32, node: u32) {
    let block = block_of(thread, session, address, size, surplus, node);
    let (shard, rest) = shard_and_rest(address);
    with_shard(session, shard, |shard| {
        if put(shard, rest, &block) {
            shard.count_birth(&block);
        }
    });
    thread.own.stats.allocations += 1;
    thread.own.stats.allocated_bytes += size;
}

/// A block is about to be freed. `expected` says that it must be in the table. Returns false if it is not.
#[inline(always)]
pub fn freeing(thread: &mut AgentThread, session: &Session, address: u64, expected: bool) -> bool {
    expect(address);
    let (shard, rest) = shard_and_rest(address);
    let gone = with_shard(session, shard, |shard| {
        let Some(number) = shard.remove(rest, address) else {
            if expected {
                shard.count(Count::UnknownFrees, 1);
            }
            return None;
        };
        let block = shard.block(number);
        shard.death(number);
        shard.count_death(&block);
        Some((block.size, block.rate))
    });
    if let Some(Some((size, rate))) = gone {
        thread.own.stats.frees += 1;
        thread.own.stats.freed_bytes += size;
        if rate != 0 {
            sampling::remove(address);
        }
    }
    gone != Some(None)
}

/// A block is about to be resized. From now on another thread may be given its address, so it is removed from the index. Its record stays.
pub fn reallocating(thread: &mut AgentThread, session: &Session, address: u64) {
    let (shard, rest) = shard_and_rest(address);
    thread.own.aside = with_shard(session, shard, |shard| shard.remove(rest, address)).flatten();
}

/// A block was resized, and perhaps moved: one change, so that at no instant both or neither are in the table. `new` is 0 if that failed. Returns false if the old one was
/// not in the table.
pub fn reallocated(thread: &mut AgentThread, session: &Session, old: u64, new: u64, resized: Resized) -> bool {
    let aside = thread.own.aside.take();
    let (old_shard, old_rest) = shard_and_rest(old);
    let take_old =
        |shard: &mut Locked<'_>| aside.or_else(|| if resized.begun { None } else { shard.remove(old_rest, old) });
    if new == 0 {
        if let Some(number) = aside {
            with_shard(session, old_shard, |shard| shard.insert(old_rest, old, number));
        }
        return true;
    }
    let mut block = block_of(thread, session, new, resized.size, resized.surplus, resized.node);
    let (new_shard, new_rest) = shard_and_rest(new);
    let before = if old_shard == new_shard {
        with_shard(session, new_shard, |shard| {
            let before = take_old(shard);
            let was = before.map(|number| shard.block(number));
            block.stamp = was.map_or(block.stamp, |was| was.stamp);
            let is_kept = put(shard, new_rest, &block);
            if let Some(number) = before {
                shard.death(number);
            }
            count_move(shard, None, was, is_kept.then_some(&block));
            was
        })
    } else {
        with_two(session, old_shard, new_shard, |from, to| {
            let before = take_old(from);
            let was = before.map(|number| from.block(number));
            block.stamp = was.map_or(block.stamp, |was| was.stamp);
            let is_kept = put(to, new_rest, &block);
            if let Some(number) = before {
                from.death(number);
            }
            count_move(to, Some(from), was, is_kept.then_some(&block));
            was
        })
    };
    thread.own.stats.allocated_bytes += resized.size;
    let was_known = !matches!(before, Some(None));
    match before.flatten() {
        Some(was) => {
            thread.own.stats.freed_bytes += was.size;
            if was.rate != 0 {
                sampling::remove(old);
            }
        }
        None => thread.own.stats.allocations += 1,
    }
    was_known
}

/// The parameters of a reallocation.
#[derive(Clone, Copy)]
pub struct Resized {
    /// The new size.
    pub size: u64,
    /// Usable bytes beyond what is expected of the size.
    pub surplus: i32,
    /// The stack that resized it.
    pub node: u32,
    /// Whether it was announced by [`reallocating`].
    pub begun: bool,
}

/// Counts a resized block, in the shards where it is and was (`None` if that is the same).
fn count_move(to: &Locked<'_>, from: Option<&Locked<'_>>, was: Option<TableBlock>, is: Option<&TableBlock>) {
    let from = from.unwrap_or(to);
    match (was, is) {
        (Some(was), Some(is)) if was.rate == 0 && is.rate == 0 => {
            from.count(Count::FreedBytes, was.size);
            to.count(Count::AllocatedBytes, is.size);
            to.count(Count::Reallocations, 1);
        }
        (was, is) => {
            match was {
                Some(was) => from.count_death(&was),
                None if settings::every_block_is_known() => from.count(Count::UnknownFrees, 1),
                None => {}
            }
            if let Some(is) = is {
                to.count_birth(is);
            }
        }
    }
}

/// Locks two different shards before the control word is loaded.
fn with_two<T>(
    session: &Session,
    one: u32,
    other: u32,
    work: impl FnOnce(&mut Locked<'_>, &mut Locked<'_>) -> T,
) -> Option<T> {
    let (first, second) = (shard_of(one.min(other)), shard_of(one.max(other)));
    if !lock(first) {
        session.count_missed();
        return None;
    }
    if !lock(second) {
        unlock(first);
        session.count_missed();
        return None;
    }
    let word = control().load();
    // SAFETY: both are locked, and they are different ones.
    let done = unsafe { work(&mut locked(one, shard_of(one), word), &mut locked(other, shard_of(other), word)) };
    unlock(second);
    unlock(first);
    settings::look_at(word);
    Some(done)
}

/// A thread begins: gives it a number in the table.
pub fn number_thread(session: &Session, id: u32, name: &[u8]) -> Own {
    let threads = &header().threads;
    let capacity = header().thread_capacity.load(Ordering::Relaxed);
    let number = threads.fetch_add(1, Ordering::AcqRel);
    if number >= capacity {
        threads.store(capacity, Ordering::Release);
        return Own::default();
    }
    let entry = thread_entry(number);
    entry.stamp.store(clock::before_next(session), Ordering::Relaxed);
    entry.id.store(id, Ordering::Relaxed);
    set_name(entry, name);
    Own { number, ..Own::default() }
}

fn thread_entry(number: u32) -> &'static ThreadEntry {
    // SAFETY: numbers lie below the capacity.
    unsafe { &*table_at(TableCapacity::CHOICES[0].threads()).cast::<ThreadEntry>().add(number as usize) }
}

/// The calling thread has another name.
pub fn name_thread(thread: &AgentThread, name: &[u8]) {
    if thread.own.number != 0 {
        set_name(thread_entry(thread.own.number), name);
    }
}

fn set_name(entry: &ThreadEntry, name: &[u8]) {
    let name = &name[..name.len().min(16)];
    for (at, word) in entry.name.iter().enumerate() {
        let byte = |index: usize| u64::from(name.get(at * 8 + index).copied().unwrap_or(0)) << (index * 8);
        word.store((0..8).map(byte).sum(), Ordering::Relaxed);
    }
    entry.name_length.store(name.len() as u32, Ordering::Release);
}

/// The counts of all shards, up to about now.
pub fn stats() -> Stats {
    let sum = |count: Count| {
        (0..SHARDS).map(|shard| shard_of(shard).counts.words[count as usize].load(Ordering::Relaxed)).sum::<u64>()
    };
    let blocks = |recorded: Count, more: Count| sum(recorded) + sum(more) / 256;
    Stats {
        // Freed before allocated, so that no block is counted as freed that was not counted as allocated.
        frees: blocks(Count::Frees, Count::MoreFrees),
        freed_bytes: sum(Count::FreedBytes) + sum(Count::MoreFreedBytes),
        allocations: blocks(Count::Allocations, Count::MoreAllocations),
        allocated_bytes: sum(Count::AllocatedBytes) + sum(Count::MoreAllocatedBytes),
    }
}

/// The parameters of a new table.
pub struct Beginning<'a> {
    /// Room in it.
    pub capacity: TableCapacity,
    /// The maximum number of blocks, 0 for as many as there is room for.
    pub limit: u64,
    /// Mean bytes per sample.
    pub sample_bytes: u64,
    /// Contents may be read.
    pub contents: bool,
    /// Usable sizes are known.
    pub usable_sizes: bool,
    /// Forked from another live process.
    pub forked: bool,
    /// The program's arguments must not be read.
    pub no_args: bool,
    /// The socket path of its collector.
    pub socket: &'a [u8],
}

/// Begins the table at `table`, which is zero, with its control page. False if there is no memory.
pub fn begin(table: *mut u8, control: *mut u8, beginning: &Beginning<'_>) -> bool {
    let capacity = &beginning.capacity;
    index_slots::forget_all();
    for (number, private) in (0..).zip(&PRIVATES.0) {
        // SAFETY: no thread uses the table yet; in a forked child there is no other thread.
        let private = unsafe { &mut *private.get() };
        private.end();
        if number < BLOCK_SHARDS && !private.index.begin(number) {
            return false;
        }
    }
    mappings::forget_all();
    TABLE.store(table, Ordering::Relaxed);
    CONTROL.store(control, Ordering::Relaxed);
    RECORDS.store(capacity.records(), Ordering::Relaxed);
    let per_shard = beginning.limit.div_ceil(u64::from(BLOCK_SHARDS)).min(capacity.shard_records.into()) as u32;
    let limit = if per_shard == 0 { capacity.shard_records } else { per_shard };
    SHARD_LIMIT.store(limit, Ordering::Relaxed);
    let header = header();
    header.shard_records.store(capacity.shard_records, Ordering::Relaxed);
    header.thread_capacity.store(capacity.threads, Ordering::Relaxed);
    header.threads.store(1, Ordering::Relaxed);
    header.shard_limit.store(limit, Ordering::Relaxed);
    header.socket.store(socket_mark(beginning.socket), Ordering::Relaxed);
    let flags = [
        (beginning.contents, FLAG_CONTENTS),
        (beginning.usable_sizes, FLAG_USABLE_SIZES),
        (beginning.forked, FLAG_FORKED),
        (beginning.no_args, FLAG_NO_ARGS),
    ];
    header.flags.store(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum(), Ordering::Relaxed);
    settings::begin(beginning.sample_bytes);
    header.magic.store(MAGIC, Ordering::Release);
    true
}

/// Leaves the parent's table, in a forked child.
///
/// # Safety
/// No other thread is left, and this one is not using the table.
pub unsafe fn leave() {
    let control = CONTROL.swap(core::ptr::null_mut(), Ordering::Relaxed);
    TABLE.store(core::ptr::null_mut(), Ordering::Relaxed);
    if !control.is_null() {
        // SAFETY: the caller's.
        unsafe { sys::unmap(control, CONTROL_BYTES as usize) };
    }
    register::forget();
}

/// Locks the shard of mappings.
#[inline(always)]
fn with_mappings<T>(session: &Session, work: impl FnOnce(&mut Locked<'_>) -> T) -> Option<T> {
    with_shard(session, MAPPINGS, work)
}
