//! Sums of live blocks: by stack node, by thread, and of mappings.

use crate::table::TableExtent;
use highwater_model::{AllocId, ByteSum, Figures, Weight};
use rustc_hash::FxHashMap;

/// The maximum number of blocks that are counted, weights included: a file holds no larger counts.
pub const MOST_BLOCKS: u64 = (1 << 40) - (1 << 36);

/// Blocks and bytes of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of blocks that all records stand for.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: ByteSum,
    /// How many of the blocks have no record of their own.
    pub unrecorded: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, blocks: u64, bytes: ByteSum) {
        self.blocks += blocks;
        self.bytes += bytes;
        self.unrecorded += blocks - 1;
    }

    /// As figures of an owner that has freed nothing.
    pub fn figures(&self) -> Figures {
        Figures { allocations: self.blocks, unrecorded: self.unrecorded, ..Figures::of_live_bytes(self.bytes) }
    }
}

/// A sum as plain words: a vector of zeros that is not touched takes no memory.
type SumWords = [u64; 4];

fn sum_of([blocks, low, high, unrecorded]: SumWords) -> Sum {
    Sum { blocks, bytes: bytes_of(low, high), unrecorded }
}

/// Bytes from the two halves of their units.
fn bytes_of(low: u64, high: u64) -> ByteSum {
    ByteSum::from_units(u128::from(low) | u128::from(high) << 64)
}

/// The owner of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOwner {
    /// Its stack node.
    pub node: u32,
    /// Its thread's number in the table.
    pub thread: u32,
    /// It is a mapping.
    pub is_mapping: bool,
}

/// The sums of all owners. Each block is counted in `whole`, in one node and in one thread.
#[derive(Debug)]
pub struct Sums {
    /// The sum of all blocks.
    pub whole: Sum,
    /// The sum of mappings.
    pub mappings: Sum,
    /// The number of records added.
    pub records: u64,
    /// The number of sizes that were reduced because the sum would not fit.
    pub clamped: u64,
    nodes: Vec<SumWords>,
    threads: Vec<SumWords>,
    /// Nodes that own something, in the order in which they were first seen.
    nodes_met: Vec<u32>,
    threads_met: Vec<u32>,
    /// The sums of mappings by node: there are few.
    mapped_nodes: FxHashMap<u32, Sum>,
}

impl Sums {
    /// Empty sums for a table of this extent.
    pub fn new(extent: &TableExtent) -> Self {
        Self {
            whole: Sum::default(),
            mappings: Sum::default(),
            records: 0,
            clamped: 0,
            nodes: vec![[0; 4]; extent.nodes.max(1) as usize],
            threads: vec![[0; 4]; extent.threads.max(1) as usize],
            nodes_met: Vec::new(),
            threads_met: Vec::new(),
            mapped_nodes: FxHashMap::default(),
        }
    }

    #[inline(always)]
    fn add(&mut self, owner: BlockOwner, size: u64) -> u64 {
        self.records += 1;
        let bytes = ByteSum::whole(size);
        if bytes > self.room() {
            return self.add_clamped(owner);
        }
        self.add_to(owner, 1, bytes);
        size
    }

    #[cold]
    fn add_clamped(&mut self, owner: BlockOwner) -> u64 {
        // Whole bytes: a fraction of a byte is dropped.
        let room = (self.room().units() >> 32) as u64;
        self.clamped += 1;
        self.add_to(owner, 1, ByteSum::whole(room));
        room
    }

    /// The bytes that can still be added before the sum exceeds 64 bits.
    fn room(&self) -> ByteSum {
        ByteSum::MAX.saturating_sub(self.whole.bytes)
    }

    /// Adds a block. Returns the size and weight with which it was added: its own, unless the sums would become too large.
    #[inline(always)]
    pub fn add_weighed(&mut self, owner: BlockOwner, id: AllocId, size: u64, weight: Weight) -> (u64, Weight) {
        if weight.is_one() { (self.add(owner, size), weight) } else { self.add_sample(owner, id, size, weight) }
    }

    #[cold]
    fn add_sample(&mut self, owner: BlockOwner, id: AllocId, size: u64, weight: Weight) -> (u64, Weight) {
        let bytes = weight.amount(size);
        let fits = bytes <= self.room() && self.whole.blocks.saturating_add(weight.most_blocks()) <= MOST_BLOCKS;
        if !fits {
            return (self.add(owner, size), Weight::ONE);
        }
        self.records += 1;
        self.add_to(owner, weight.blocks(id), bytes);
        (size, weight)
    }

    #[inline(always)]
    fn add_to(&mut self, owner: BlockOwner, blocks: u64, bytes: ByteSum) {
        self.whole.add(blocks, bytes);
        if owner.is_mapping {
            self.mappings.add(blocks, bytes);
            self.mapped_nodes.entry(owner.node).or_default().add(blocks, bytes);
        }
        add_at(&mut self.nodes, &mut self.nodes_met, owner.node, blocks, bytes);
        add_at(&mut self.threads, &mut self.threads_met, owner.thread, blocks, bytes);
    }

    /// The nodes that own something.
    pub fn by_node(&self) -> impl Iterator<Item = (u32, Sum)> + '_ {
        self.nodes_met.iter().map(|&node| (node, sum_of(self.nodes[node as usize])))
    }

    /// The mappings of a node.
    pub fn mappings_of(&self, node: u32) -> Sum {
        self.mapped_nodes.get(&node).copied().unwrap_or_default()
    }

    /// The threads that own something; number 0 stands for all unknown ones.
    pub fn by_thread(&self) -> impl Iterator<Item = (u32, Sum)> + '_ {
        self.threads_met.iter().map(|&thread| (thread, sum_of(self.threads[thread as usize])))
    }
}

/// Adds to the sum of a number. Numbers beyond the end count as number 0.
#[inline(always)]
fn add_at(sums: &mut [SumWords], met: &mut Vec<u32>, number: u32, blocks: u64, bytes: ByteSum) {
    let number = if (number as usize) < sums.len() { number } else { 0 };
    let [all_blocks, low, high, unrecorded] = &mut sums[number as usize];
    if *all_blocks == 0 {
        met.push(number);
    }
    *all_blocks += blocks;
    let units = (bytes_of(*low, *high) + bytes).units();
    (*low, *high) = (units as u64, (units >> 64) as u64);
    *unrecorded += blocks - 1;
}
