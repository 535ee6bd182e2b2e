//! Who went, and when: for each block of events, the allocations that were given back, resized or promoted in it, as they were then.
//!
//! A recording says of a free only whose it is; what that block was must be looked up in the ledger of all that is live, for which a state has to
//! be read and everything after it replayed. This is done once for a recording, and what was found is written down, in the order in which it
//! happened. From then on every question about single blocks is a pass through columns: a departure knows the block's whole life, and a step
//! together with its departure says all that a step changes. Invariant: the n-th step of a block of events that lets something go
//! (`Free`, `Evict`, `Reallocate`, `Promote`) belongs to the n-th departure of that block.

mod packed;
mod tape;

use crate::changes::{Owned, find};
use crate::problem::Problem;
use crate::sieve::{Life, Sieve};
use highwater_model::{AllocId, Block, Nanos, NumberLedger, Op, Spacing, StackId, Step, TagId, ThreadId, Weight};
use packed::{Packed, Packing, pack};
use std::io;
use std::sync::{Mutex, PoisonError};
use tape::Tape;

/// Recordings with fewer events keep their departures in memory.
const SHORT: u64 = 1 << 20;

/// How a block went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was given back.
    Freed,
    /// It was given back before its thread allocated anything else.
    FreedAtOnce,
    /// It was gone when another came to lie there.
    Evicted,
    /// It was resized: it lives on, perhaps elsewhere.
    Resized,
    /// It came to lie in another heap.
    Promoted,
    /// Nobody knows a block of that number.
    Unknown,
}

impl How {
    const ALL: [Self; 6] =
        [Self::Freed, Self::FreedAtOnce, Self::Evicted, Self::Resized, Self::Promoted, Self::Unknown];

    /// True for the end of a life.
    pub fn is_death(self) -> bool {
        matches!(self, Self::Freed | Self::FreedAtOnce | Self::Evicted)
    }
}

/// A block that went.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    /// As it was until then.
    pub owned: Owned,
    /// When.
    pub at: Nanos,
    /// How.
    pub how: How,
    /// What it is tagged with from then on, if it was promoted.
    pub new_tag: TagId,
}

impl Gone {
    /// Who goes with a step; `None` for a step that lets nothing go.
    pub fn with(ledger: &NumberLedger, step: &Step) -> Option<Self> {
        let (id, mut how, new_tag) = match step.op {
            Op::Free { id } => (id, How::Freed, TagId::NONE),
            Op::Evict { id } => (id, How::Evicted, TagId::NONE),
            Op::Reallocate { id, .. } => (id, How::Resized, TagId::NONE),
            Op::Promote { id, tag } => (id, How::Promoted, tag),
            _ => return None,
        };
        let found = find(ledger, id);
        let threads = ledger.accounts().threads();
        let is_latest = |owned: &Owned| {
            threads.get(owned.block.thread as usize).is_some_and(|thread| thread.last_allocation == owned.block.id)
        };
        match &found {
            None => how = How::Unknown,
            Some(owned) if how == How::Freed && is_latest(owned) => how = How::FreedAtOnce,
            Some(_) => {}
        }
        Some(Self { owned: found.unwrap_or(Owned::NOBODY), at: step.time, how, new_tag })
    }
}

impl Gone {
    /// True for a block of which anything is known.
    pub fn is_known(&self) -> bool {
        self.how != How::Unknown
    }

    /// The same block with another tag.
    pub fn promoted(&self, tag: TagId) -> Owned {
        Owned { block: Block { tag, ..self.owned.block }, ..self.owned }
    }

    /// Whether it is wanted that it went. A promotion is a departure only from what is wanted to what is not.
    pub fn passes(&self, sieve: &Sieve) -> bool {
        let lives_on = || self.how == How::Promoted && self.promoted(self.new_tag).passes(sieve);
        self.is_known() && self.owned.passes(sieve) && !lives_on()
    }

    /// Its life, if it is over.
    pub fn life(&self) -> Option<Life> {
        self.how.is_death().then_some(Life { birth: self.owned.block.time, death: Some(self.at) })
    }
}

/// How much of departures is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything but addresses and surpluses.
    Figures,
    /// Everything.
    Whole,
}

/// The columns; those behind `FIGURES` are seldom asked for.
mod column {
    pub const AT: usize = 0;
    pub const LIFETIME: usize = 1;
    pub const HOW: usize = 2;
    pub const SIZE: usize = 3;
    pub const STACK: usize = 4;
    pub const THREAD: usize = 5;
    pub const TAG: usize = 6;
    pub const NEW_TAG: usize = 7;
    pub const ID: usize = 8;
    pub const WEIGHT: usize = 9;
    pub const SAMPLES: usize = 10;
    pub const SPACING: usize = 11;
    pub const FIGURES: usize = 12;
    pub const ADDRESS: usize = 12;
    pub const SURPLUS: usize = 13;
    pub const COUNT: usize = 14;
}

fn field(gone: &Gone, column: usize) -> u64 {
    let Gone { owned: Owned { block, thread }, at, how, new_tag } = gone;
    match column {
        column::AT => at.0,
        column::LIFETIME => at.0.saturating_sub(block.time.0),
        column::HOW => *how as u64,
        column::SIZE => block.size,
        column::STACK => block.stack.0.into(),
        column::THREAD => thread.0,
        column::TAG => block.tag.0.into(),
        column::NEW_TAG => new_tag.0.into(),
        column::ID => block.id.0,
        column::WEIGHT => block.weight.bits().into(),
        column::SAMPLES => block.weight.counted().unwrap_or_default().0.into(),
        column::SPACING => block.weight.counted().unwrap_or_default().1.bits().into(),
        column::ADDRESS => block.address,
        // The sign does not matter where numbers are only kept.
        _ => u64::from(block.surplus.cast_unsigned()),
    }
}

/// Where the departures of one block of events are.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    count: usize,
    figures_length: usize,
    length: usize,
    columns: [Packing; column::COUNT],
    /// Some of them live on.
    has_living: bool,
}

/// See the module's text.
#[derive(Debug)]
pub struct Departures {
    tape: Tape,
    /// By the place of the block of events; nothing for one that could not be read.
    places: Vec<Option<Place>>,
}

/// Departures that are being written, by several threads.
pub struct Writing {
    tape: Tape,
    places: Mutex<Vec<Option<Place>>>,
}

impl Writing {
    /// Begins, for a recording of so many events in so many blocks.
    pub fn new(events: u64, blocks: usize) -> Result<Self, Problem> {
        Ok(Self { tape: Tape::new(events < SHORT)?, places: Mutex::new(vec![None; blocks]) })
    }

    /// Writes down who went in a block of events.
    pub fn write(&self, block: usize, gone: &[Gone], buffer: &mut Vec<u8>) -> Result<(), Problem> {
        buffer.clear();
        let mut columns = [Packing::default(); column::COUNT];
        let mut figures_length = 0;
        for (at, packing) in columns.iter_mut().enumerate() {
            if at == column::FIGURES {
                figures_length = buffer.len();
            }
            *packing = pack(gone.iter().map(|gone| field(gone, at)), buffer);
        }
        let at = self.tape.append(buffer)?;
        let has_living = gone.iter().any(|gone| matches!(gone.how, How::Resized | How::Promoted));
        let place = Place { at, count: gone.len(), figures_length, length: buffer.len(), columns, has_living };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = places.get_mut(block) {
            *free = Some(place);
        }
        Ok(())
    }

    /// Ends.
    pub fn finish(self) -> Departures {
        Departures { tape: self.tape, places: self.places.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Departures {
    /// Whether any of a block of events live on; `None` where it could not be read.
    pub fn has_living(&self, block: usize) -> Option<bool> {
        self.places.get(block).copied().flatten().map(|place| place.has_living)
    }

    /// Those of a block of events; `None` where it could not be read.
    pub fn of_block<'a>(&self, block: usize, depth: Depth, buffer: &'a mut Vec<u8>) -> io::Result<Option<Rows<'a>>> {
        let Some(place) = self.places.get(block).copied().flatten() else { return Ok(None) };
        let length = if depth == Depth::Figures { place.figures_length } else { place.length };
        self.tape.read(place.at, length, buffer)?;
        let buffer = &*buffer;
        let columns = place.columns.map(|packing| Packed::new(packing, buffer));
        Ok(Some(Rows { count: place.count, columns }))
    }
}

/// The departures of one block of events.
pub struct Rows<'a> {
    /// How many there are.
    pub count: usize,
    columns: [Packed<'a>; column::COUNT],
}

impl Rows<'_> {
    #[inline]
    fn number(&self, column: usize, row: usize) -> u64 {
        self.columns[column].get(row)
    }

    /// When.
    #[inline]
    pub fn at(&self, row: usize) -> Nanos {
        Nanos(self.number(column::AT, row))
    }

    /// How.
    #[inline]
    pub fn how(&self, row: usize) -> How {
        How::ALL.get(self.number(column::HOW, row) as usize).copied().unwrap_or(How::Unknown)
    }

    /// Whose.
    #[inline]
    pub fn id(&self, row: usize) -> AllocId {
        AllocId(self.number(column::ID, row))
    }

    /// All of it, as far as it was read.
    #[inline]
    pub fn get(&self, row: usize) -> Gone {
        let number = |column: usize| self.number(column, row);
        let at = number(column::AT);
        let weight = Weight::from_bits(number(column::WEIGHT)).unwrap_or(Weight::ONE);
        let weight = match number(column::SAMPLES) {
            0 => weight,
            samples => weight.of_samples(samples as u32, Spacing::from_bits(number(column::SPACING) as u32)),
        };
        let block = Block {
            id: self.id(row),
            address: number(column::ADDRESS),
            size: number(column::SIZE),
            time: Nanos(at - number(column::LIFETIME).min(at)),
            thread: 0,
            stack: StackId(number(column::STACK) as u32),
            tag: TagId(number(column::TAG) as u32),
            surplus: (number(column::SURPLUS) as u32).cast_signed(),
            weight,
        };
        let owned = Owned { block, thread: ThreadId(number(column::THREAD)) };
        Gone { owned, at: Nanos(at), how: self.how(row), new_tag: TagId(number(column::NEW_TAG) as u32) }
    }
}
