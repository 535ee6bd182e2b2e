//! Traffic: for each block of events the allocations that arrived in it and those that departed, as they were at that time.
//!
//! An arrival is a birth, or the new state of a resized or promoted block. A departure is a death, or the old state of a resized or promoted block. Both are moves.
//!
//! The record of a free has only the number of its block. The rest must be looked up in the ledger of all live blocks, for which a state has to be read and
//! every event after it replayed. This is done once for a recording, and the results are stored in the order of the events. From then on every query
//! about single blocks is a pass over a few columns: a departure knows the block's whole life.
//!
//! Invariants: a block that is resized or promoted departs in its old state and arrives in its new one, directly one after the other. A block that departs
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

/// The moves that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Births, and new states of resized or promoted blocks.
    Arrivals,
    /// Deaths, and old states of resized or promoted blocks.
    Departures,
    /// Both, in order.
    Both,
}

/// The location of the traffic of one block of events.
#[derive(Clone, Copy, Debug)]
struct Place {
    arrivals: Table,
    departures: Table,
    /// For each move whether it is an arrival: offset, length, and packing of the column.
    order: (u64, usize, Packing),
}

/// The arrivals and departures of a recording. Several threads write it; written blocks can be read meanwhile.
#[derive(Debug)]
pub struct Traffic {
    tape: Tape,
    /// By the index of the block of events; `None` for a block of events that was not scanned yet, or could not be read.
    places: RwLock<Vec<Option<Place>>>,
}

/// The moves of a block of events, while they are collected.
#[derive(Default)]
pub struct Gathered {
    arrivals: Vec<Move>,
    departures: Vec<Move>,
    order: Vec<bool>,
    buffer: Vec<u8>,
}

impl Gathered {
    /// Adds a departure.
    pub fn depart(&mut self, gone: Move) {
        self.departures.push(gone);
        self.order.push(false);
    }

    /// Adds an arrival.
    pub fn arrive(&mut self, come: Move) {
        self.arrivals.push(come);
        self.order.push(true);
    }
}

/// Reusable buffers for reading traffic.
#[derive(Default)]
pub struct Buffers([Vec<u8>; 3]);

impl Traffic {
    /// Empty, for a recording with this number of events and of blocks of events.
    pub fn new(events: u64, blocks: usize) -> Result<Self, Problem> {
        Ok(Self { tape: Tape::new(events < SHORT)?, places: RwLock::new(vec![None; blocks]) })
    }

    /// An instance to which every write fails.
    #[cfg(test)]
    pub fn on_a_full_disk(blocks: usize) -> Self {
        let file = std::fs::File::open("/dev/null").expect("there always is one");
        let tape = Tape::File { file, end: std::sync::atomic::AtomicU64::new(0) };
        Self { tape, places: RwLock::new(vec![None; blocks]) }
    }

    /// Writes the collected moves of a block of events, and empties `gathered`.
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

    /// The location of the traffic of a block of events.
    fn place(&self, block: usize) -> Option<Place> {
        self.places.read().unwrap_or_else(PoisonError::into_inner).get(block).copied().flatten()
    }

    /// Whether the traffic of a block of events is known.
    pub fn has(&self, block: usize) -> bool {
        self.place(block).is_some()
    }

    /// Passes the moves of a block of events to `see`, in order; `None` if the block has no traffic.
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
