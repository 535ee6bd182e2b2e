//! Block events: for each event block of a recording the blocks that were born in it and those that died, as they were at that time.
//!
//! The new state of a resized or promoted block counts as a birth, its old state as a death.
//!
//! The record of a free has only the number of its block. The rest must be looked up in the ledger of all live blocks, for which a state has to be read and
//! every event after it replayed. This is done once for a recording, and the results are stored in the order of the events. From then on every query
//! about single blocks is a pass over a few columns: a death knows the block's whole life.
//!
//! Invariants: a block that is resized or promoted dies in its old state and is born in its new one, directly one after the other. A block that dies
//! was born before, or was live when the recording began.

mod columns;
mod event;
mod packed;
mod tape;

pub use columns::{BlockEventRow, ColumnSet};
pub use event::{BlockEvent, Cause};
pub use packed::{Packed, Packing, pack};
pub use tape::Tape;

use super::history::HistoryError;
use columns::{BlockEventRows, BlockEventTable};
use std::io;
use std::sync::{PoisonError, RwLock};

/// Recordings with fewer events keep their block events in memory.
const SHORT: u64 = 1 << 20;

/// The block events that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Births, and new states of resized or promoted blocks.
    Births,
    /// Deaths, and old states of resized or promoted blocks.
    Deaths,
    /// Both, in order.
    Both,
}

/// The location of the block events of one event block.
#[derive(Clone, Copy, Debug)]
struct StoredEvents {
    births: BlockEventTable,
    deaths: BlockEventTable,
    /// For each event whether it is a birth: offset, length, and packing of the column.
    order: (u64, usize, Packing),
}

/// The block events of a recording. Several threads write it; written blocks can be read meanwhile.
#[derive(Debug)]
pub struct BlockEvents {
    /// Where they are written; other parts of the index share it.
    pub(super) tape: Tape,
    /// By the index of the event block; `None` for one that was not scanned yet, or could not be read.
    blocks_stored: RwLock<Vec<Option<StoredEvents>>>,
}

/// The block events of an event block, while they are collected.
#[derive(Default)]
pub struct BlockEventBatch {
    births: Vec<BlockEvent>,
    deaths: Vec<BlockEvent>,
    order: Vec<bool>,
    buffer: Vec<u8>,
}

impl BlockEventBatch {
    /// Adds a death.
    pub fn add_death(&mut self, gone: BlockEvent) {
        self.deaths.push(gone);
        self.order.push(false);
    }

    /// Adds a birth.
    pub fn add_birth(&mut self, come: BlockEvent) {
        self.births.push(come);
        self.order.push(true);
    }
}

/// Reusable buffers for reading block events.
#[derive(Default)]
pub struct Buffers([Vec<u8>; 3]);

impl BlockEvents {
    /// Empty, for a recording with this number of events and of blocks of events.
    pub fn new(events: u64, blocks: usize) -> Result<Self, HistoryError> {
        Ok(Self { tape: Tape::new(events < SHORT)?, blocks_stored: RwLock::new(vec![None; blocks]) })
    }

    /// An instance to which every write fails.
    #[cfg(test)]
    pub fn on_a_full_disk(blocks: usize) -> Self {
        let file = std::fs::File::open("/dev/null").expect("there always is one");
        let tape = Tape::File { file, end: std::sync::atomic::AtomicU64::new(0) };
        Self { tape, blocks_stored: RwLock::new(vec![None; blocks]) }
    }

    /// Writes the collected events of an event block, and empties `batch`.
    pub fn write(&self, block: usize, batch: &mut BlockEventBatch) -> Result<(), HistoryError> {
        let BlockEventBatch { births, deaths, order, buffer } = batch;
        let born = BlockEventTable::write(births, ColumnSet::Figures, buffer, &self.tape)?;
        let died = BlockEventTable::write(deaths, ColumnSet::All, buffer, &self.tape)?;
        buffer.clear();
        let packing = pack(order.iter().map(|is_birth| u64::from(*is_birth)), buffer);
        let order_at = self.tape.append(buffer)?;
        let stored = StoredEvents { births: born, deaths: died, order: (order_at, buffer.len(), packing) };
        let mut blocks_stored = self.blocks_stored.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = blocks_stored.get_mut(block) {
            *free = Some(stored);
        }
        births.clear();
        deaths.clear();
        order.clear();
        Ok(())
    }

    /// The location of the events of an event block.
    fn stored(&self, block: usize) -> Option<StoredEvents> {
        self.blocks_stored.read().unwrap_or_else(PoisonError::into_inner).get(block).copied().flatten()
    }

    /// Whether the events of an event block are known.
    pub fn has(&self, block: usize) -> bool {
        self.stored(block).is_some()
    }

    /// Passes the events of an event block to `see`, in order; `None` if they are not known.
    pub fn of_block(
        &self,
        block: usize,
        (side, depth): (Side, ColumnSet),
        buffers: &mut Buffers,
        mut see: impl FnMut(BlockEventRow<'_>),
    ) -> io::Result<Option<()>> {
        let Some(stored) = self.stored(block) else { return Ok(None) };
        let [first, second, third] = &mut buffers.0;
        match side {
            Side::Births => stored.births.read(depth, &self.tape, first)?.each(true).for_each(see),
            Side::Deaths => stored.deaths.read(depth, &self.tape, first)?.each(false).for_each(see),
            Side::Both => {
                let came = stored.births.read(depth, &self.tape, first)?;
                let went = stored.deaths.read(depth, &self.tape, second)?;
                let (at, length, packing) = stored.order;
                let order = Packed::new(packing, self.tape.read(at, length, third)?);
                let (mut next_came, mut next_went) = (came.each(true), went.each(false));
                for event in 0..came.count() + went.count() {
                    let next = if order.get(event) == 1 { next_came.next() } else { next_went.next() };
                    next.into_iter().for_each(&mut see);
                }
            }
        }
        Ok(Some(()))
    }
}

impl<'a> BlockEventRows<'a> {
    fn each(&'a self, is_birth: bool) -> impl Iterator<Item = BlockEventRow<'a>> {
        (0..self.count()).map(move |row| BlockEventRow::new(self, row, is_birth))
    }
}
