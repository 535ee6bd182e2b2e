//! A process that shares a live table of version 1. The layouts beside this file are as they were when that version was published, and are
//! never changed: whatever becomes of the project's own, a collector must read this process.
//!
//! `agent SOCKET VERSION`: registers as of that version with the collector at the socket, says so on standard output, and waits for its input to end.
#![allow(dead_code, unexpected_cfgs)]

mod atomic;
mod control_v1;
mod live_hello_v1;
mod modules_v1 {}
mod ring_v1;
mod session_v1;
mod stacks_v1;
mod table_v1;

use control_v1::{CONTROL_BYTES, Word};
use live_hello_v1::{CONTROL_NAME, LiveHello, MEMORY_NAME, Purpose};
use session_v1::{Capacity, Header};
use stacks_v1::Node;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use table_v1::{Block, Count, Record, SHARDS, STAMP_SHIFT, Shard, TableCapacity, TableHeader, ThreadEntry};

unsafe extern "C" {
    fn memfd_create(name: *const c_char, flags: u32) -> c_int;
    fn ftruncate(file: c_int, bytes: i64) -> c_int;
    fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(socket: c_int, address: *const c_void, length: u32) -> c_int;
    fn sendmsg(socket: c_int, message: *const Message, flags: c_int) -> isize;
}

#[repr(C)]
struct Message {
    name: usize,
    name_length: u32,
    pieces: *const (*const u8, usize),
    piece_count: usize,
    control: *const Descriptors,
    control_length: usize,
    flags: c_int,
}

#[repr(C)]
struct Descriptors {
    length: usize,
    level: c_int,
    kind: c_int,
    descriptors: [c_int; 2],
}

/// A sealed object, mapped.
unsafe fn shared(name: &CStr, bytes: u64) -> (c_int, *mut u8) {
    const ADD_SEALS: c_int = 1033;
    unsafe {
        let object = memfd_create(name.as_ptr(), 3);
        assert!(object >= 0 && ftruncate(object, bytes as i64) == 0);
        let memory = mmap(std::ptr::null_mut(), bytes as usize, 3, 1, object, 0).cast::<u8>();
        assert!(memory as isize != -1);
        assert_eq!(fcntl(object, ADD_SEALS, if bytes == CONTROL_BYTES { 2 | 4 } else { 2 | 4 | 16 }), 0);
        (object, memory)
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    let version: u32 = arguments[2].to_str().unwrap().parse().unwrap();
    let capacity = Capacity { rings: 32, nodes: 1024 };
    let table_capacity = TableCapacity { shard_records: 4096, threads: 4096 };
    let start = capacity.bytes().next_multiple_of(table_v1::ALIGNMENT);
    unsafe {
        // One from the future names its memory so.
        let name = if version == live_hello_v1::VERSION { MEMORY_NAME } else { c"highwater-live-v2" };
        let (memory, base) = shared(name, start + table_capacity.bytes());
        let (control, page) = shared(CONTROL_NAME, CONTROL_BYTES);

        let header = &*base.cast::<Header>();
        header.pid.store(std::process::id(), Relaxed);
        header.ring_capacity.store(capacity.rings, Relaxed);
        header.node_capacity.store(capacity.nodes, Relaxed);
        let nodes = base.add(capacity.stacks() as usize).cast::<Node>();
        for (number, (parent, pc)) in [(1, (0, 0x1000)), (2, (1, 0x2000)), (3, (1, 0x3000))] {
            (*nodes.add(number)).parent.store(parent, Relaxed);
            (*nodes.add(number)).pc.store(pc, Relaxed);
        }
        header.nodes.store(4, Relaxed);
        header.magic.store(session_v1::MAGIC, Relaxed);

        let table = base.add(start as usize);
        let about = &*table.cast::<TableHeader>();
        about.shard_records.store(table_capacity.shard_records, Relaxed);
        about.thread_capacity.store(table_capacity.threads, Relaxed);
        about.shard_limit.store(table_capacity.shard_records, Relaxed);
        about.rates.store(1, Relaxed);
        about.threads.store(2, Relaxed);
        let thread = &*table.add(table_capacity.threads() as usize).cast::<ThreadEntry>().add(1);
        thread.id.store(4711, Relaxed);
        thread.name[0].store(u64::from_le_bytes(*b"frozen\0\0"), Relaxed);
        thread.name_length.store(6, Relaxed);

        // Two hundred blocks and a mapping. Every tenth block is freed again.
        let shards = table.add(table_capacity.shard(0) as usize).cast::<Shard>();
        let records = table.add(table_capacity.records() as usize).cast::<Record>();
        let word = Word(0);
        for number in 0..201u64 {
            let shard = if number == 200 { SHARDS - 1 } else { (number % 7) as u32 };
            let place = &*shards.add(shard as usize);
            assert!(place.try_lock());
            place.begin_change(word);
            let used = place.used.load(Relaxed);
            place.used.store(used + 1, Relaxed);
            let record = &*records.add(table_v1::position(shard, used));
            let block = if number == 200 {
                Block { address: 0x7000_0000_0001, size: 8192, node: 3, thread: 1, ..Block::default() }
            } else {
                Block {
                    address: 0x5000_0000 + number * 64,
                    size: number + 1,
                    node: 2,
                    thread: 1,
                    stamp: (number * 1000) >> STAMP_SHIFT,
                    ..Block::default()
                }
            };
            record.birth(&block, word);
            place.counts.add(Count::Allocations, 1);
            place.counts.add(Count::AllocatedBytes, block.size);
            if number % 10 == 9 {
                record.death(word);
                place.counts.add(Count::Frees, 1);
                place.counts.add(Count::FreedBytes, block.size);
            }
            place.unlock();
        }
        about.magic.store(table_v1::MAGIC, Relaxed);
        assert_eq!((*page.cast::<control_v1::Control>()).load(), word);

        let mut address = [0u8; 110];
        address[0] = 1;
        let path = arguments[1].as_bytes();
        address[2..2 + path.len()].copy_from_slice(path);
        let socket = socket(1, 5, 0);
        assert_eq!(connect(socket, address.as_ptr().cast(), (2 + path.len() + 1) as u32), 0);
        let hello = LiveHello { version, purpose: Purpose::Register as u32, pid: std::process::id(), forked_from: 0 };
        let mut text = hello.to_bytes().to_vec();
        text.extend(b"/opt/frozen\0frozen\0--option\0");
        let piece = (text.as_ptr(), text.len());
        let attached = Descriptors { length: 24, level: 1, kind: 1, descriptors: [memory, control] };
        let message = Message {
            name: 0,
            name_length: 0,
            pieces: &raw const piece,
            piece_count: 1,
            control: &raw const attached,
            control_length: size_of::<Descriptors>(),
            flags: 0,
        };
        assert_eq!(sendmsg(socket, &raw const message, 0), text.len() as isize);
    }
    println!("registered");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
