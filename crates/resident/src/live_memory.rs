//! What is known of a process's memory from inside: its live blocks and mappings, and the agent's own memory.

use highwater_model::{StackId, TagId};
use std::ops::Range;

/// A live block of the malloc family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its address.
    pub address: u64,
    /// The bytes that were requested.
    pub size: u64,
    /// The bytes that can be used. Not less than `size`.
    pub usable: u64,
    /// An index into [`LiveMemory::owners`].
    pub owner: u32,
}

/// Memory that the program mapped by itself and can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveMapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// An index into [`LiveMemory::owners`].
    pub owner: u32,
}

/// The live memory of a process, in any order. Hostile processes may claim anything: ranges may overlap or lie outside of every mapping, owners may not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveMemory {
    /// Live blocks.
    pub blocks: Vec<LiveBlock>,
    /// Mappings.
    pub mappings: Vec<LiveMapping>,
    /// The owners of blocks and mappings. An owner has either blocks or mappings.
    pub owners: Vec<(StackId, TagId)>,
    /// The agent's private memory. Its shared memory and its library are recognized by their names.
    pub agent: Vec<Range<u64>>,
    /// Whether every live block is in `blocks`.
    pub knows_every_block: bool,
}

impl LiveMemory {
    /// Whether nothing is known, as of a process without an agent.
    pub fn is_unknown(&self) -> bool {
        self.blocks.is_empty() && self.mappings.is_empty() && self.agent.is_empty() && !self.knows_every_block
    }
}
