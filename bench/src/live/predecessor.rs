//! The layout that the live table replaces: 65,536 lists of 40-byte nodes by address, one lock over all of it.

use std::sync::Mutex;

const BUCKETS: usize = 1 << 16;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    next: u32,
    address: u64,
    size: u64,
    _time: u64,
    _thread_and_stack: u64,
}

/// A table of live blocks, as it was.
pub struct Predecessor {
    table: Mutex<Table>,
}

struct Table {
    heads: Vec<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

fn bucket(address: u64) -> usize {
    (address >> 4) as usize % BUCKETS
}

impl Predecessor {
    /// Empty, with room.
    pub fn new(room: usize) -> Self {
        let table =
            Table { heads: vec![NONE; BUCKETS], nodes: Vec::with_capacity(room), free: Vec::with_capacity(room) };
        Self { table: Mutex::new(table) }
    }

    /// Puts a block in, if it is not there.
    pub fn insert(&mut self, address: u64, size: u64) {
        let mut table = self.table.lock().unwrap();
        let mut at = table.heads[bucket(address)];
        while at != NONE {
            let node = &table.nodes[at as usize];
            if node.address == address {
                return;
            }
            at = node.next;
        }
        table.push(address, size);
    }

    /// Puts a block in that is not there.
    pub fn push(&mut self, address: u64, size: u64) {
        self.table.lock().unwrap().push(address, size);
    }

    /// Takes a block out.
    pub fn remove(&mut self, address: u64) {
        let mut table = self.table.lock().unwrap();
        let (mut before, mut at) = (NONE, table.heads[bucket(address)]);
        while at != NONE {
            let node = table.nodes[at as usize];
            if node.address == address {
                std::hint::black_box(node.size);
                match before {
                    NONE => table.heads[bucket(address)] = node.next,
                    before => table.nodes[before as usize].next = node.next,
                }
                table.free.push(at);
                return;
            }
            (before, at) = (at, node.next);
        }
    }
}

impl Table {
    fn push(&mut self, address: u64, size: u64) {
        let next = self.heads[bucket(address)];
        let node = Node { next, address, size, _time: 0, _thread_and_stack: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.heads[bucket(address)] = number;
    }
}
