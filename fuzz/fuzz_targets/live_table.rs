//! Any words written over a sound live table: it is opened, and snapshots of both kinds are taken, written and read.
#![no_main]

use highwater_collector::protocol::Detail;
use highwater_collector::take::{SnapshotRequest, SnapshotSubject, take};
use highwater_collector::{LiveTable, ProcessIdentity};
use highwater_model::{Nanos, When};
use highwater_shm::control_v1::{CONTROL_BYTES, ControlPage, Word};
use highwater_shm::session_v1::{self, Capacity, Header};
use highwater_shm::table_v1::{
    self, ALIGNMENT, Count, SHARDS, TableBlock, TableCapacity, TableHeader, TableRecord, TableShard, position,
};
use highwater_store::{Recording, write_snapshot};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const SESSION: Capacity = Capacity { rings: 1, nodes: 64 };
const TABLE: TableCapacity = TableCapacity { shard_records: 64, threads: 16 };

/// The two objects, mapped to be written: made once, since making them takes most of the time.
struct Objects {
    memory: OwnedFd,
    control: OwnedFd,
    base: usize,
    control_base: usize,
}

fn start() -> u64 {
    SESSION.bytes().next_multiple_of(ALIGNMENT)
}

fn bytes() -> u64 {
    start() + TABLE.bytes()
}

impl Objects {
    fn new() -> Self {
        let object = |bytes: u64| {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let object = rustix::fs::memfd_create("live-table", flags).expect("there is memory");
            rustix::fs::ftruncate(&object, bytes).expect("it can be that large");
            rustix::fs::fcntl_add_seals(&object, SealFlags::SHRINK | SealFlags::GROW).expect("it can be sealed");
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let (anywhere, length) = (std::ptr::null_mut(), bytes as usize);
            // SAFETY: a new mapping wherever the kernel likes.
            let base = unsafe { rustix::mm::mmap(anywhere, length, protection, MapFlags::SHARED, &object, 0) };
            (object, base.expect("it can be mapped") as usize)
        };
        let ((memory, base), (control, control_base)) = (object(bytes()), object(CONTROL_BYTES));
        Self { memory, control, base, control_base }
    }

    fn at<T>(&self, offset: u64) -> &T {
        assert!(offset + size_of::<T>() as u64 <= bytes());
        // SAFETY: within the mapping, which is never undone; everything asked for is atomics.
        unsafe { &*((self.base + offset as usize) as *const T) }
    }

    fn control(&self) -> &ControlPage {
        // SAFETY: a page of atomics, which is never unmapped.
        unsafe { &*(self.control_base as *const ControlPage) }
    }

    /// Everything is zero again.
    fn clear(&self) {
        let stacks = SESSION.stacks();
        for part in [0..SESSION.modules() + 4096, stacks..stacks + 64 * 16, start()..bytes()] {
            for offset in part.step_by(8) {
                self.at::<AtomicU64>(offset).store(0, Ordering::Relaxed);
            }
        }
        for word in [&self.control().word, &self.control().lease, &self.control().sample_bytes] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// A sound table with some blocks.
    fn fill(&self) {
        let header: &Header = self.at(0);
        header.ring_capacity.store(SESSION.rings, Ordering::Relaxed);
        header.node_capacity.store(SESSION.nodes, Ordering::Relaxed);
        header.nodes.store(64, Ordering::Relaxed);
        header.magic.store(session_v1::MAGIC, Ordering::Relaxed);
        let table: &TableHeader = self.at(start());
        table.shard_records.store(TABLE.shard_records, Ordering::Relaxed);
        table.thread_capacity.store(TABLE.threads, Ordering::Relaxed);
        table.threads.store(8, Ordering::Relaxed);
        table.rate_bytes[1].store(512, Ordering::Relaxed);
        table.magic.store(table_v1::MAGIC, Ordering::Relaxed);
        for number in 0..SHARDS {
            let shard: &TableShard = self.at(start() + TABLE.shard(number));
            let block = TableBlock {
                address: u64::from(number) * 16 + 0x10000 + u64::from(number == SHARDS - 1),
                size: u64::from(number) * 3,
                node: number % 64,
                thread: number % 8,
                rate: u8::from(number % 5 == 0),
                stamp: u64::from(number % 7),
                surplus: 0,
            };
            let record: &TableRecord = self.at(record_at(number, 0));
            record.birth(&block, Word(0));
            shard.used.store(2, Ordering::Relaxed);
            shard.counts.add(Count::Allocations, 1);
            shard.counts.add(Count::AllocatedBytes, block.size);
        }
    }
}

fn record_at(shard: u32, number: u32) -> u64 {
    start() + TABLE.records() + (position(shard, number) * size_of::<TableRecord>()) as u64
}

/// Where a word of the input goes: a part of the memory, and a place in it.
fn place(part: u8, at: u16) -> u64 {
    let at = u64::from(at);
    let (offset, length) = match part % 8 {
        0 => (0, size_of::<Header>() as u64),
        1 => (SESSION.modules(), 4096),
        2 => (SESSION.stacks(), 64 * 16),
        3 => (start(), size_of::<TableHeader>() as u64),
        4 => (start() + TABLE.shard(0), u64::from(SHARDS) * size_of::<TableShard>() as u64),
        5 => (start() + TABLE.threads(), u64::from(TABLE.threads) * 32),
        _ => (record_at(0, 0), TABLE.bytes() - TABLE.records()),
    };
    offset + at * 8 % length
}

fuzz_target!(|input: &[u8]| {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    let objects = OBJECTS.get_or_init(Objects::new);
    objects.clear();
    objects.fill();
    for change in input.chunks_exact(11) {
        let (at, value) = (u16::from_le_bytes([change[1], change[2]]), change[3..].try_into().expect("eight bytes"));
        let value = u64::from_le_bytes(value);
        if change[0] == u8::MAX {
            objects.control().word.store(value, Ordering::Relaxed);
        } else {
            objects.at::<AtomicU64>(place(change[0], at)).store(value, Ordering::Relaxed);
        }
    }
    for number in 0..SHARDS {
        let shard: &TableShard = objects.at(start() + TABLE.shard(number));
        // Nobody gives this lock back, and it would be waited for.
        if shard.lock.load(Ordering::Relaxed) & 1 == 1 {
            shard.abandoned.store(1, Ordering::Relaxed);
        }
    }
    let memory = objects.memory.try_clone().expect("there are descriptors");
    let Ok(table) = LiveTable::open(memory, &objects.control, None) else { return };
    let about = ProcessIdentity { pid: std::process::id(), ..ProcessIdentity::default() };
    for detail in [Detail::Sites, Detail::Blocks] {
        for gone in [None, Some(Nanos(1 << 20))] {
            let subject = SnapshotSubject { table: &table, about: &about, gone };
            let Ok(taken) = take(subject, SnapshotRequest { detail, contents: None, pages: None }, || ()) else { continue };
            assert_eq!(objects.control().load().active_epoch(), 0, "the cut is over");
            let written = write_snapshot(Vec::new(), &taken.source, &taken.catalog, &taken.accounts);
            let (file, _) = written.expect("what is taken can be written");
            let recording = Recording::from_bytes(file).expect("what is written can be opened");
            let snapshot = recording.snapshot(&When::End).expect("what is written can be read");
            assert_eq!(snapshot.violations(), Vec::<String>::new());
            assert_eq!(snapshot.accounts.totals(), &taken.accounts.totals);
        }
    }
});
