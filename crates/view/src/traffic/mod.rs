//! Who came and who went: for each block of events the allocations that arrived in it, and those that departed, as they were then.
//!
//! A recording says of a free only whose it is; what that block was must be looked up in the ledger of all that is live, for which a state has to
//! be read and everything after it replayed. This is done once for a recording, and what was found is written down, in the order in which it
//! happened. From then on every question about single blocks is a pass through a few columns: a departure knows the block's whole life.
//!
//! Invariants: what is resized or promoted departs as it was and arrives as it becomes, the one right behind the other. A block that departs
//! arrived before, or was live when the recording began.

mod moves;
mod packed;
mod table;
mod tape;

pub use moves::{How, Move};
pub use table::{Depth, Row};

use crate::problem::Problem;
use packed::{Packed, Packing, pack};
use std::io;
use std::sync::{PoisonError, RwLock};
use table::{Rows, Table};
use tape::Tape;

/// Recordings with fewer events keep their traffic in memory.
const SHORT: u64 = 1 << 20;

/// Which moves are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those that came.
    Arrivals,
    /// Those that went.
    Departures,
    /// Both, in order.
    Both,
}

/// Where the traffic of one block of events is.
#[derive(Clone, Copy, Debug)]
struct Place {
    arrivals: Table,
    departures: Table,
    /// Whether each move is an arrival.
    order: (u64, usize, Packing),
}

/// See the module's text. Written by several threads; what was written can be read.
#[derive(Debug)]
pub struct Traffic {
    tape: Tape,
    /// By the place of the block of events; nothing for one that was not written yet, or could not be read.
    places: RwLock<Vec<Option<Place>>>,
}

/// The moves of a block of events, while they are gathered.
#[derive(Default)]
pub struct Gathered {
    arrivals: Vec<Move>,
    departures: Vec<Move>,
    order: Vec<bool>,
    buffer: Vec<u8>,
}

impl Gathered {
    /// Adds one that went.
    pub fn depart(&mut self, gone: Move) {
        self.departures.push(gone);
        self.order.push(false);
    }

    /// Adds one that came.
    pub fn arrive(&mut self, come: Move) {
        self.arrivals.push(come);
        self.order.push(true);
    }
}

/// What traffic is read into, again and again.
#[derive(Default)]
pub struct Buffers([Vec<u8>; 3]);

impl Traffic {
    /// Nothing yet, for a recording of so many events in so many blocks.
    pub fn new(events: u64, blocks: usize) -> Result<Self, Problem> {
        Ok(Self { tape: Tape::new(events < SHORT)?, places: RwLock::new(vec![None; blocks]) })
    }

    /// One that nothing can be written into.
    #[cfg(test)]
    pub fn on_a_full_disk(blocks: usize) -> Self {
        let file = std::fs::File::open("/dev/null").expect("there always is one");
        let tape = Tape::File { file, end: std::sync::atomic::AtomicU64::new(0) };
        Self { tape, places: RwLock::new(vec![None; blocks]) }
    }

    /// Writes down what was gathered of a block of events, and empties it.
    pub fn write(&self, block: usize, gathered: &mut Gathered) -> Result<(), Problem> {
        let Gathered { arrivals, departures, order, buffer } = gathered;
        let arrived = Table::write(arrivals, Depth::Figures, buffer, &self.tape)?;
        let departed = Table::write(departures, Depth::Whole, buffer, &self.tape)?;
        buffer.clear();
        let packing = pack(order.iter().map(|is_arrival| u64::from(*is_arrival)), buffer);
        let order_at = self.tape.append(buffer)?;
        let place = Place { arrivals: arrived, departures: departed, order: (order_at, buffer.len(), packing) };
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = places.get_mut(block) {
            *free = Some(place);
        }
        arrivals.clear();
        departures.clear();
        order.clear();
        Ok(())
    }

    /// Where that of a block of events is.
    fn place(&self, block: usize) -> Option<Place> {
        self.places.read().unwrap_or_else(PoisonError::into_inner).get(block).copied().flatten()
    }

    /// Whether that of a block of events is known.
    pub fn has(&self, block: usize) -> bool {
        self.place(block).is_some()
    }

    /// Shows the moves of a block of events, in order; `None` where it could not be read.
    pub fn of_block(
        &self,
        block: usize,
        (side, depth): (Side, Depth),
        buffers: &mut Buffers,
        mut see: impl FnMut(Row<'_>),
    ) -> io::Result<Option<()>> {
        let Some(place) = self.place(block) else { return Ok(None) };
        let [first, second, third] = &mut buffers.0;
        match side {
            Side::Arrivals => place.arrivals.read(depth, &self.tape, first)?.each(true).for_each(see),
            Side::Departures => place.departures.read(depth, &self.tape, first)?.each(false).for_each(see),
            Side::Both => {
                let came = place.arrivals.read(depth, &self.tape, first)?;
                let went = place.departures.read(depth, &self.tape, second)?;
                let (at, length, packing) = place.order;
                let order = Packed::new(packing, self.tape.read(at, length, third)?);
                let (mut next_came, mut next_went) = (came.each(true), went.each(false));
                for move_ in 0..came.count() + went.count() {
                    let next = if order.get(move_) == 1 { next_came.next() } else { next_went.next() };
                    next.into_iter().for_each(&mut see);
                }
            }
        }
        Ok(Some(()))
    }
}

impl<'a> Rows<'a> {
    fn each(&'a self, is_arrival: bool) -> impl Iterator<Item = Row<'a>> {
        (0..self.count()).map(move |row| Row::new(self, row, is_arrival))
    }
}
