//! Block events in columns. Each query reads only the columns that it needs.

use super::event::{BlockEvent, Cause};
use super::packed::{Packed, Packing, pack};
use super::tape::Tape;
use crate::history::block_facts::{BlockFacts, BlockLife, OwnedBlock};
use crate::history::history::HistoryError;
use highwater_model::{AllocId, Block, ByteSum, Nanos, SampleSpacing, StackId, TagId, ThreadId, Weight};
use std::io;

/// The columns of block events that are stored, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnSet {
    /// Everything but addresses and surpluses.
    Figures,
    /// Everything.
    All,
}

/// The columns; those from `FIGURES` on are seldom needed.
mod column {
    pub const AT: usize = 0;
    pub const AGE: usize = 1;
    pub const CAUSE: usize = 2;
    pub const SIZE: usize = 3;
    pub const STACK: usize = 4;
    pub const THREAD: usize = 5;
    pub const TAG: usize = 6;
    pub const OTHER_TAG: usize = 7;
    pub const ID: usize = 8;
    pub const WEIGHT: usize = 9;
    pub const SAMPLES: usize = 10;
    pub const SPACING: usize = 11;
    pub const FIGURES: usize = 12;
    pub const ADDRESS: usize = 12;
    pub const SURPLUS: usize = 13;
    pub const COUNT: usize = 14;
}

fn field(event: &BlockEvent, column: usize) -> u64 {
    let BlockEvent { owned: OwnedBlock { block, thread }, at, cause, other_tag } = event;
    match column {
        column::AT => at.0,
        column::AGE => at.0.saturating_sub(block.time.0),
        column::CAUSE => *cause as u64,
        column::SIZE => block.size,
        column::STACK => block.stack.0.into(),
        column::THREAD => thread.0,
        column::TAG => block.tag.0.into(),
        column::OTHER_TAG => other_tag.0.into(),
        column::ID => block.id.0,
        column::WEIGHT => block.weight.raw().into(),
        column::SAMPLES => block.weight.counted().unwrap_or_default().0.into(),
        column::SPACING => block.weight.counted().unwrap_or_default().1.bits(),
        column::ADDRESS => block.address,
        // The sign does not matter here: the number is only stored.
        _ => u64::from(block.surplus.cast_unsigned()),
    }
}

/// The location of the columns of some block events.
#[derive(Clone, Copy, Debug)]
pub struct BlockEventTable {
    at: u64,
    count: usize,
    figures_length: usize,
    length: usize,
    columns: [Packing; column::COUNT],
}

impl BlockEventTable {
    /// Writes events. With [`ColumnSet::Figures`], as for births, allocation numbers and weights are stored only if some weight is not one: they then
    /// decide how many bytes and blocks an event counts as.
    pub fn write(
        events: &[BlockEvent],
        depth: ColumnSet,
        buffer: &mut Vec<u8>,
        tape: &Tape,
    ) -> Result<Self, HistoryError> {
        buffer.clear();
        let is_exact = events.iter().all(|event| event.owned.block.weight.is_one());
        let mut columns = [Packing::default(); column::COUNT];
        let mut figures_length = 0;
        for (at, packing) in columns.iter_mut().enumerate() {
            if at == column::FIGURES {
                figures_length = buffer.len();
            }
            let is_kept = depth == ColumnSet::All || at < column::ID || (at < column::FIGURES && !is_exact);
            if is_kept {
                *packing = pack(events.iter().map(|event| field(event, at)), buffer);
            }
        }
        let at = tape.append(buffer)?;
        Ok(Self { at, count: events.len(), figures_length, length: buffer.len(), columns })
    }

    /// Reads the columns.
    pub fn read<'a>(&self, depth: ColumnSet, tape: &Tape, buffer: &'a mut Vec<u8>) -> io::Result<BlockEventRows<'a>> {
        let length = if depth == ColumnSet::Figures { self.figures_length } else { self.length };
        let bytes = tape.read(self.at, length, buffer)?;
        let columns = self.columns.map(|packing| Packed::new(packing, bytes));
        let is_exact = columns[column::WEIGHT].is_always(0) && columns[column::SAMPLES].is_always(0);
        Ok(BlockEventRows { count: self.count, is_exact, columns })
    }
}

/// The events of a table.
pub struct BlockEventRows<'a> {
    count: usize,
    /// All weights are one.
    is_exact: bool,
    columns: [Packed<'a>; column::COUNT],
}

impl BlockEventRows<'_> {
    /// The number of events.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// A block event. Only the columns that are asked for are read.
#[derive(Clone, Copy)]
pub struct BlockEventRow<'a> {
    rows: &'a BlockEventRows<'a>,
    row: usize,
    /// True for a birth or a new state, false for a death or an old state.
    pub is_birth: bool,
}

impl<'a> BlockEventRow<'a> {
    /// The event at an index of the rows.
    pub fn new(rows: &'a BlockEventRows<'a>, row: usize, is_birth: bool) -> Self {
        Self { rows, row, is_birth }
    }

    #[inline]
    fn number(&self, column: usize) -> u64 {
        self.rows.columns[column].get(self.row)
    }

    /// The time of the event.
    #[inline]
    pub fn at(&self) -> Nanos {
        Nanos(self.number(column::AT))
    }

    /// The cause of the event.
    #[inline]
    pub fn cause(&self) -> Cause {
        Cause::ALL[(self.number(column::CAUSE) as usize).min(Cause::ALL.len() - 1)]
    }

    /// The allocation number of the block; 0 for a birth whose number was not stored.
    #[inline]
    pub fn id(&self) -> AllocId {
        AllocId(self.number(column::ID))
    }

    /// The address of the block, as it was recorded; 0 for a birth, and if that column was not read.
    #[inline]
    pub fn address(&self) -> u64 {
        self.number(column::ADDRESS)
    }

    /// The block's life, if the event is its death.
    #[inline]
    pub fn life(&self) -> Option<BlockLife> {
        self.cause().is_death().then(|| BlockLife { birth: self.birth(), death: Some(self.at()) })
    }

    /// For a promotion, the tag in the other state; [`TagId::NONE`] for everything else.
    #[inline]
    pub fn other_tag(&self) -> TagId {
        TagId(self.number(column::OTHER_TAG) as u32)
    }

    fn weight(&self) -> Weight {
        if self.rows.is_exact {
            return Weight::ONE;
        }
        let weight = Weight::from_raw(self.number(column::WEIGHT) as u32);
        let spacing = SampleSpacing::from_bits(self.number(column::SPACING));
        weight.of_samples(self.number(column::SAMPLES) as u32, spacing)
    }
}

impl BlockFacts for BlockEventRow<'_> {
    #[inline]
    fn stack(&self) -> StackId {
        StackId(self.number(column::STACK) as u32)
    }

    #[inline]
    fn tag(&self) -> TagId {
        TagId(self.number(column::TAG) as u32)
    }

    #[inline]
    fn thread(&self) -> ThreadId {
        ThreadId(self.number(column::THREAD))
    }

    #[inline]
    fn birth(&self) -> Nanos {
        let at = self.number(column::AT);
        Nanos(at - self.number(column::AGE).min(at))
    }

    #[inline]
    fn size(&self) -> u64 {
        self.number(column::SIZE)
    }

    #[inline]
    fn amount(&self) -> (ByteSum, u64) {
        if self.rows.is_exact {
            return (ByteSum::whole(self.size()), 1);
        }
        let weight = self.weight();
        (weight.amount(self.size()), weight.blocks(self.id()))
    }

    #[inline]
    fn samples(&self) -> u64 {
        if self.rows.is_exact { 1 } else { self.weight().samples() }
    }

    /// The block; columns that were not read are missing.
    fn owned(&self) -> OwnedBlock {
        let block = Block {
            id: self.id(),
            address: self.number(column::ADDRESS),
            size: self.size(),
            time: self.birth(),
            thread: 0,
            stack: self.stack(),
            tag: self.tag(),
            surplus: (self.number(column::SURPLUS) as u32).cast_signed(),
            weight: self.weight(),
        };
        OwnedBlock { block, thread: self.thread() }
    }
}
