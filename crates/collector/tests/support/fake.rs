//! A live table like that of an agent, written from the layouts.

use highwater_collector::LiveTable;
use highwater_shm::control_v1::{CONTROL_BYTES, ControlPage};
use highwater_shm::live_hello_v1::{CONTROL_NAME, LiveHello, MEMORY_NAME, Purpose, VERSION};
use highwater_shm::session_v1::{self, Capacity, Header};
use highwater_shm::stacks_v1::TrieNode;
use highwater_shm::table_v1::{
    self, ALIGNMENT, Count, Fate, MAPPINGS, TableBlock, TableCapacity, TableHeader, TableRecord, TableShard,
    ThreadEntry, position, socket_mark,
};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

pub const SESSION: Capacity = Capacity { rings: 1, nodes: 1 << 12 };
/// Stamps are nanoseconds since here.
pub const SMALL: TableCapacity = TableCapacity { shard_records: 4096, threads: 64 };

pub struct Fake {
    pub memory: OwnedFd,
    pub control: OwnedFd,
    base: *mut u8,
    bytes: usize,
    control_base: *mut u8,
    start: u64,
    capacity: TableCapacity,
    /// By address: the shard and number of its record.
    positions: HashMap<u64, (u32, u32)>,
    free: HashMap<u32, Vec<u32>>,
    parked: HashMap<u32, Vec<u32>>,
}

fn object(name: &CStr, bytes: u64) -> OwnedFd {
    let object = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&object, bytes).unwrap();
    object
}

fn map(object: &OwnedFd, bytes: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, object, 0).unwrap().cast() }
}

impl Fake {
    pub fn new(pid: u32) -> Self {
        Self::with_capacity(pid, SMALL)
    }

    pub fn with_capacity(pid: u32, capacity: TableCapacity) -> Self {
        let start = SESSION.bytes().next_multiple_of(ALIGNMENT);
        let bytes = start + capacity.bytes();
        let (memory, control) = (object(MEMORY_NAME, bytes), object(CONTROL_NAME, CONTROL_BYTES));
        let (base, control_base) = (map(&memory, bytes as usize), map(&control, CONTROL_BYTES as usize));
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&memory, seals | SealFlags::FUTURE_WRITE).unwrap();
        rustix::fs::fcntl_add_seals(&control, seals).unwrap();
        let fake = Self {
            memory,
            control,
            base,
            bytes: bytes as usize,
            control_base,
            start,
            capacity,
            positions: HashMap::new(),
            free: HashMap::new(),
            parked: HashMap::new(),
        };
        let now = highwater_session::monotonic_ns();
        let session = fake.session();
        session.pid.store(pid, Ordering::Relaxed);
        session.start.store(now, Ordering::Relaxed);
        session.start_monotonic.store(now, Ordering::Relaxed);
        session.ring_capacity.store(SESSION.rings, Ordering::Relaxed);
        session.node_capacity.store(SESSION.nodes, Ordering::Relaxed);
        session.nodes.store(1, Ordering::Relaxed);
        session.magic.store(session_v1::MAGIC, Ordering::Release);
        let header = fake.header();
        header.shard_records.store(capacity.shard_records, Ordering::Relaxed);
        header.thread_capacity.store(capacity.threads, Ordering::Relaxed);
        header.threads.store(1, Ordering::Relaxed);
        header.rates.store(1, Ordering::Relaxed);
        // Other collectors on this machine must not take it over.
        header.socket.store(socket_mark(b"nobody"), Ordering::Relaxed);
        header.magic.store(table_v1::MAGIC, Ordering::Release);
        fake
    }

    /// Allows a collector that listens at `socket` to find it.
    pub fn belong_to(&self, socket: &Path) {
        self.header().socket.store(socket_mark(socket.as_os_str().as_bytes()), Ordering::Relaxed);
    }

    pub fn open(&self) -> LiveTable {
        LiveTable::open(self.memory.try_clone().unwrap(), &self.control, None).unwrap()
    }

    fn at<T>(&self, offset: u64) -> &T {
        assert!(offset as usize + size_of::<T>() <= self.bytes);
        // SAFETY: within the mapping; all values asked for are atomics.
        unsafe { &*self.base.add(offset as usize).cast() }
    }

    pub fn session(&self) -> &Header {
        self.at(0)
    }

    pub fn header(&self) -> &TableHeader {
        self.at(self.start)
    }

    pub fn control(&self) -> &ControlPage {
        // SAFETY: a page of atomics.
        unsafe { &*self.control_base.cast() }
    }

    pub fn shard(&self, shard: u32) -> &TableShard {
        self.at(self.start + self.capacity.shard(shard))
    }

    pub fn record(&self, shard: u32, number: u32) -> &TableRecord {
        let offset = position(shard, number) * size_of::<TableRecord>();
        self.at(self.start + self.capacity.records() + offset as u64)
    }

    pub fn add_node(&self, parent: u32, pc: u64) -> u32 {
        let number = self.session().nodes.load(Ordering::Relaxed);
        let node: &TrieNode = self.at(SESSION.stacks() + u64::from(number) * size_of::<TrieNode>() as u64);
        node.parent.store(parent, Ordering::Relaxed);
        node.pc.store(pc, Ordering::Relaxed);
        self.session().nodes.store(number + 1, Ordering::Release);
        number
    }

    pub fn add_thread(&self, id: u32, name: &str) -> u32 {
        let number = self.header().threads.load(Ordering::Relaxed);
        let offset = self.capacity.threads() + u64::from(number) * size_of::<ThreadEntry>() as u64;
        let entry: &ThreadEntry = self.at(self.start + offset);
        entry.id.store(id, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (word, bytes) in entry.name.iter().zip(bytes.chunks(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Ordering::Relaxed);
        }
        entry.name_length.store(name.len() as u32, Ordering::Relaxed);
        self.header().threads.store(number + 1, Ordering::Release);
        number
    }

    /// Adds a rate. Returns its number.
    pub fn add_rate(&self, bytes: u64) -> u8 {
        let known = self.header().rates.load(Ordering::Relaxed);
        let is_it = |number: &u32| self.header().rate_bytes[*number as usize].load(Ordering::Relaxed) == bytes;
        if let Some(number) = (0..known).find(is_it) {
            return number as u8;
        }
        let number = self.header().rates.fetch_add(1, Ordering::Relaxed);
        self.header().rate_bytes[number as usize].store(bytes, Ordering::Relaxed);
        number as u8
    }

    fn shard_of(block: &TableBlock) -> u32 {
        if block.address & 1 == 1 { MAPPINGS } else { (block.address >> 4 & 255) as u32 }
    }

    pub fn stamp(&self) -> u64 {
        (highwater_session::monotonic_ns() - self.session().start.load(Ordering::Relaxed)) >> table_v1::STAMP_SHIFT
    }

    pub fn allocate(&mut self, block: TableBlock) {
        let shard = Self::shard_of(&block);
        let shared = self.shard(shard);
        assert!(shared.try_lock());
        let word = self.control().load();
        shared.begin_change(word);
        let number = self.free_record(shard);
        let shared = self.shard(shard);
        self.record(shard, number).birth(&block, word);
        shared.counts.add(Count::Allocations, 1);
        shared.counts.add(Count::AllocatedBytes, block.size);
        shared.unlock();
        self.positions.insert(block.address, (shard, number));
    }

    /// The number of a free record. Parked records become free when no snapshot needs them.
    fn free_record(&mut self, shard: u32) -> u32 {
        let epoch = self.control().load().active_epoch();
        let parked = self.parked.remove(&shard).unwrap_or_default();
        for number in parked {
            if epoch != 0 && self.record(shard, number).death_epoch() == epoch {
                self.parked.entry(shard).or_default().push(number);
            } else {
                self.record(shard, number).free();
                self.free.entry(shard).or_default().push(number);
            }
        }
        if let Some(number) = self.free.get_mut(&shard).and_then(Vec::pop) {
            return number;
        }
        let used = self.shard(shard).used.load(Ordering::Relaxed);
        self.shard(shard).used.store(used + 1, Ordering::Release);
        used
    }

    pub fn free(&mut self, address: u64) {
        let (shard, number) = self.positions.remove(&address).expect("it is live");
        let shared = self.shard(shard);
        assert!(shared.try_lock());
        let word = self.control().load();
        shared.begin_change(word);
        let record = self.record(shard, number);
        let size = record.block().size;
        let fate = record.death(word);
        shared.counts.add(Count::Frees, 1);
        shared.counts.add(Count::FreedBytes, size);
        shared.unlock();
        let list = if fate == Fate::Free { &mut self.free } else { &mut self.parked };
        list.entry(shard).or_default().push(number);
    }

    pub fn count(&self, count: Count, number: u64) {
        self.shard(0).counts.add(count, number);
    }

    /// Sends the message by which a program registers.
    pub fn register(&self, socket: &Path) {
        self.say_hello(socket, VERSION);
    }

    pub fn say_hello(&self, socket: &Path, version: u32) {
        let hello = LiveHello { version, purpose: Purpose::Register as u32, pid: std::process::id(), forked_from: 0 };
        let mut message = hello.to_bytes().to_vec();
        message.extend(b"/usr/bin/fake\0fake\0--many words\0");
        let connection = connect(socket);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.memory.as_fd(), self.control.as_fd()];
        assert!(attached.push(SendAncillaryMessage::ScmRights(&descriptors)));
        rustix::net::sendmsg(&connection, &[IoSlice::new(&message)], &mut attached, SendFlags::NOSIGNAL).unwrap();
    }
}

/// Requests a snapshot under a name. Returns the answer.
pub fn ask_for_snapshot(socket: &Path, name: &str) -> u8 {
    let purpose = Purpose::NamedSnapshot as u32;
    let hello = LiveHello { version: VERSION, purpose, pid: std::process::id(), forked_from: 0 };
    let mut message = hello.to_bytes().to_vec();
    message.extend(name.as_bytes());
    let connection = connect(socket);
    rustix::net::send(&connection, &message, SendFlags::NOSIGNAL).unwrap();
    let mut answer = [0];
    rustix::net::recv(&connection, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap();
    answer[0]
}

pub fn connect(socket: &Path) -> OwnedFd {
    let connection = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::connect(&connection, &SocketAddrUnix::new(socket.as_os_str().as_bytes()).unwrap()).unwrap();
    connection
}

impl Drop for Fake {
    fn drop(&mut self) {
        // SAFETY: mapped by `with_capacity`, and nothing borrows from it any more.
        unsafe {
            rustix::mm::munmap(self.base.cast(), self.bytes).unwrap();
            rustix::mm::munmap(self.control_base.cast(), CONTROL_BYTES as usize).unwrap();
        }
    }
}
