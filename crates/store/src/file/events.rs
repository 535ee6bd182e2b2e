//! A block of steps, stored in columns (docs/format.md §4).
//!
//! Every step is one byte of the operations column, which says what it is and which other columns have a value for it:
//!
//! ```text
//!  bits 0–2  operation: 0 allocate, 1 free, 2 reallocate, 3 unmatched free or promote, 4 mark, 5 gauge, 6 evict, 7 note
//!  bit  3    another thread than the step before: the thread column has its index in the block's list
//!  bit  4    the address is the one expected (allocate: reused; reallocate: unmoved): none in the address column;
//!            operation 3 is a promotion
//!  bit  5    the tag column has a value
//!  bit  6    allocate: the address is the next of the thread's fresh memory: none in the address column
//!  bit  7    the size is the one expected of the site: none in the size column
//! ```
//!
//! Values that are nearly always the usual ones (the surplus, weight and samples of a placement) have no bit. The exceptions are listed, each with the
//! number of placements between it and the one before.
//!
//! The column of the stacks that freed blocks is stored only if one of them is known. It then has a value for every free: 0 where the stack is not known,
//! else a number that counts these stacks as they appear, from 1; a new one is followed by its stack.
//!
//! A block can be read without any other: it has its own start time, numbers and list of threads. Only the ledger knows the blocks of memory that were
//! allocated in an earlier block of the file.
//!
//! This module defines the layout; [`super::events_encoder`] writes blocks, [`super::events_decoder`] reads them.

use super::keyframe::MOST_COUNTED;
use super::varint::{self, VarintReader};
use highwater_model::Nanos;

/// The limit of steps in one block.
pub const MOST_STEPS: usize = 1 << 18;
/// The limit of steps per byte of payload. It bounds the memory that a small file can make a reader use.
pub const MOST_STEPS_PER_BYTE: u64 = 4;

/// The columns.
pub(super) mod column {
    pub const OPERATIONS: u8 = 0;
    pub const TIMES: u8 = 1;
    pub const THREADS: u8 = 2;
    pub const SIZES: u8 = 3;
    pub const STACKS: u8 = 4;
    pub const TAGS: u8 = 5;
    pub const ADDRESSES: u8 = 6;
    pub const DISTANCES: u8 = 7;
    pub const REST: u8 = 8;
    pub const SURPLUSES: u8 = 9;
    pub const ROUNDED_WEIGHTS: u8 = 10;
    pub const SAMPLES: u8 = 11;
    pub const ROUNDED_SPACINGS: u8 = 12;
    pub const WEIGHTS: u8 = 13;
    pub const SPACINGS: u8 = 14;
    pub const FREE_STACKS: u8 = 15;
    pub const COUNT: u8 = 16;
}

/// Bits 0–2 of a step.
pub(super) mod op {
    pub const ALLOCATE: u8 = 0;
    pub const FREE: u8 = 1;
    pub const REALLOCATE: u8 = 2;
    pub const UNMATCHED_FREE: u8 = 3;
    pub const MARK: u8 = 4;
    pub const GAUGE: u8 = 5;
    pub const EVICT: u8 = 6;
    pub const NOTE: u8 = 7;
    pub const MASK: u8 = 7;
}

pub(super) const OTHER_THREAD: u8 = 1 << 3;
pub(super) const ADDRESS_EXPECTED: u8 = 1 << 4;
/// Together with the operation of an unmatched free: a promotion.
pub(super) const PROMOTION: u8 = 1 << 4;
pub(super) const HAS_TAG: u8 = 1 << 5;
pub(super) const ADDRESS_FRESH: u8 = 1 << 6;
pub(super) const SIZE_EXPECTED: u8 = 1 << 7;

/// The summary of a block, stored before its columns and repeated in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsSummary {
    /// Events before this block.
    pub first_event: u64,
    /// Events in this block.
    pub events: u64,
    /// Steps in this block: its events and notes.
    pub steps: u64,
    /// The number of the first allocation in or after this block.
    pub first_alloc: u64,
    /// No event of this block is earlier.
    pub first_time: Nanos,
    /// The time of its last event.
    pub last_time: Nanos,
    /// Bytes live after it.
    pub live_bytes: u64,
    /// Blocks live after it.
    pub live_blocks: u64,
    /// The most bytes live within it.
    pub highest_bytes: u64,
    /// Marks in it.
    pub marks: u64,
    /// Gauges in it.
    pub gauges: u64,
}

impl EventsSummary {
    /// Appends the fields in order.
    pub fn put(&self, out: &mut Vec<u8>) {
        let Self { first_event, events, steps, first_alloc, first_time, last_time, .. } = *self;
        let Self { live_bytes, live_blocks, highest_bytes, marks, gauges, .. } = *self;
        let time_span = last_time.0.saturating_sub(first_time.0);
        for value in [first_event, events, steps, first_alloc, first_time.0, time_span] {
            varint::put(out, value);
        }
        for value in [live_bytes, live_blocks, highest_bytes, marks, gauges] {
            varint::put(out, value);
        }
    }

    /// Reads the fields.
    pub fn read(input: &mut VarintReader<'_>) -> Option<Self> {
        let mut next = || input.number();
        let (first_event, events, steps, first_alloc, first_time) = (next()?, next()?, next()?, next()?, next()?);
        let summary = Self {
            first_event,
            events,
            steps,
            first_alloc,
            first_time: Nanos(first_time),
            last_time: Nanos(first_time.checked_add(next()?)?),
            live_bytes: next()?,
            live_blocks: next()?,
            highest_bytes: next()?,
            marks: next()?,
            gauges: next()?,
        };
        let sound = summary.steps <= MOST_STEPS as u64
            && summary.events <= summary.steps
            && summary.first_event <= MOST_COUNTED
            && summary.first_alloc <= MOST_COUNTED;
        sound.then_some(summary)
    }
}
