//! Moves in columns. Each query reads only the columns that it needs.

use super::moves::{How, Move};
use super::packed::{Packed, Packing, pack};
use super::tape::Tape;
use crate::owned::Owned;
use crate::problem::Problem;
use crate::sieve::{Candidate, Life, Sieve};
use highwater_model::{AllocId, Block, ByteSum, Nanos, Spacing, StackId, TagId, ThreadId, Weight};
use std::io;

/// The part of each move that is stored, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything but addresses and surpluses.
    Figures,
    /// Everything.
    Whole,
}

/// The columns; those from `FIGURES` on are seldom needed.
mod column {
    pub const AT: usize = 0;
    pub const AGE: usize = 1;
    pub const HOW: usize = 2;
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

fn field(moved: &Move, column: usize) -> u64 {
    let Move { owned: Owned { block, thread }, at, how, other_tag } = moved;
    match column {
        column::AT => at.0,
        column::AGE => at.0.saturating_sub(block.time.0),
        column::HOW => *how as u64,
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

/// The location of the columns of some moves.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    at: u64,
    count: usize,
    figures_length: usize,
    length: usize,
    columns: [Packing; column::COUNT],
}

impl Table {
    /// Writes moves. With [`Depth::Figures`], as for arrivals, allocation numbers and weights are stored only if some weight is not one: they then
    /// decide how many bytes and blocks a move counts as.
    pub fn write(moves: &[Move], depth: Depth, buffer: &mut Vec<u8>, tape: &Tape) -> Result<Self, Problem> {
        buffer.clear();
        let is_exact = moves.iter().all(|moved| moved.owned.block.weight.is_one());
        let mut columns = [Packing::default(); column::COUNT];
        let mut figures_length = 0;
        for (at, packing) in columns.iter_mut().enumerate() {
            if at == column::FIGURES {
                figures_length = buffer.len();
            }
            let is_kept = depth == Depth::Whole || at < column::ID || (at < column::FIGURES && !is_exact);
            if is_kept {
                *packing = pack(moves.iter().map(|moved| field(moved, at)), buffer);
            }
        }
        let at = tape.append(buffer)?;
        Ok(Self { at, count: moves.len(), figures_length, length: buffer.len(), columns })
    }

    /// Reads the columns.
    pub fn read<'a>(&self, depth: Depth, tape: &Tape, buffer: &'a mut Vec<u8>) -> io::Result<Rows<'a>> {
        let length = if depth == Depth::Figures { self.figures_length } else { self.length };
        let bytes = tape.read(self.at, length, buffer)?;
        let columns = self.columns.map(|packing| Packed::new(packing, bytes));
        let is_exact = columns[column::WEIGHT].is_always(0) && columns[column::SAMPLES].is_always(0);
        Ok(Rows { count: self.count, is_exact, columns })
    }
}

/// The moves of a table.
pub struct Rows<'a> {
    count: usize,
    /// All weights are one.
    is_exact: bool,
    columns: [Packed<'a>; column::COUNT],
}

impl Rows<'_> {
    /// The number of moves.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// A move. Only the columns that are asked for are read.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    rows: &'a Rows<'a>,
    row: usize,
    /// True for an arrival, false for a departure.
    pub is_arrival: bool,
}

impl<'a> Row<'a> {
    /// The move at an index of the rows.
    pub fn new(rows: &'a Rows<'a>, row: usize, is_arrival: bool) -> Self {
        Self { rows, row, is_arrival }
    }

    #[inline]
    fn number(&self, column: usize) -> u64 {
        self.rows.columns[column].get(self.row)
    }

    /// The time of the move.
    #[inline]
    pub fn at(&self) -> Nanos {
        Nanos(self.number(column::AT))
    }

    /// The cause of the move.
    #[inline]
    pub fn how(&self) -> How {
        How::ALL[(self.number(column::HOW) as usize).min(How::ALL.len() - 1)]
    }

    /// The allocation number of the block; 0 for an arrival whose number was not stored.
    #[inline]
    pub fn id(&self) -> AllocId {
        AllocId(self.number(column::ID))
    }

    /// The block's life, if the move is its death.
    #[inline]
    pub fn life(&self) -> Option<Life> {
        self.how().is_death().then(|| Life { birth: self.birth(), death: Some(self.at()) })
    }

    /// Whether the filters count this move. A promotion counts only if the state on its other side does not pass.
    #[inline]
    pub fn passes(&self, sieve: &Sieve) -> bool {
        let stays = || self.how() == How::Promoted && sieve.passes_tag(TagId(self.number(column::OTHER_TAG) as u32));
        sieve.passes(self) && !stays()
    }

    fn weight(&self) -> Weight {
        if self.rows.is_exact {
            return Weight::ONE;
        }
        let weight = Weight::from_raw(self.number(column::WEIGHT) as u32);
        let spacing = Spacing::from_bits(self.number(column::SPACING));
        weight.of_samples(self.number(column::SAMPLES) as u32, spacing)
    }
}

impl Candidate for Row<'_> {
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

    /// The block; columns that were not read are missing.
    fn owned(&self) -> Owned {
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
        Owned { block, thread: self.thread() }
    }
}
