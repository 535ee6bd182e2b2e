//! A packet that waits for its turn, and how its events are laid out.

use super::backtrace;
use super::bytes::Input;
use super::header::{PacketHeader, TIME_BITS};
use super::locations;
use super::names::NameTables;

/// Codes of events.
pub mod code {
    /// What a location code stands for.
    pub const LOCATION: u32 = super::locations::CODE;
    /// An allocation with everything told.
    pub const ALLOC: u32 = 2;
    /// An object of the minor heap was moved to the major heap.
    pub const PROMOTE: u32 = 3;
    /// An object was found dead.
    pub const COLLECT: u32 = 4;
    /// An allocation of so many words more than this, in the minor heap, hit by one sample.
    pub const SHORT_ALLOC: u32 = 100;
    /// The largest code of such.
    pub const LAST_SHORT_ALLOC: u32 = 116;
}

/// The part of a time that an event holds.
pub const TIME_MASK: u32 = (1 << TIME_BITS) - 1;

/// A packet, and how far it was read.
#[derive(Clone, Debug)]
pub struct Packet {
    /// What it says of itself.
    pub header: PacketHeader,
    /// Where its content begins in the trace.
    pub offset: u64,
    /// Its place among all packets.
    pub sequence: u64,
    /// Its events.
    pub content: Vec<u8>,
    /// True when the trace ended within it.
    pub is_cut: bool,
    /// True when something before it was lost.
    pub is_behind_gap: bool,
    /// True once it was begun with.
    pub is_begun: bool,
    /// How far it was read.
    pub at: usize,
    /// The number of the next allocation.
    pub next_id: i64,
    /// The time of the last event, as the clock showed it.
    pub time: i64,
    /// True when its times were found to run backwards, while all else is in order.
    pub has_odd_clock: bool,
}

impl Packet {
    /// A packet that is yet to be read, in the room of another.
    pub fn new(header: PacketHeader, offset: u64, sequence: u64, content: Vec<u8>) -> Self {
        Self {
            header,
            offset: offset + header.length() as u64,
            sequence,
            content,
            is_cut: false,
            is_behind_gap: false,
            is_begun: false,
            at: 0,
            next_id: header.alloc_begin,
            time: header.time_begin,
            has_odd_clock: false,
        }
    }

    /// The time of an event from the part of it that the event holds.
    #[inline]
    pub fn time_of(&self, low: u32) -> i64 {
        let begin = self.header.time_begin;
        let time = begin & !i64::from(TIME_MASK) | i64::from(low);
        if i64::from(low) >= begin & i64::from(TIME_MASK) {
            return time;
        }
        let wrapped = time + (1 << TIME_BITS);
        // A clock that was set back looks as if it had gone almost all the way round.
        if wrapped <= self.header.time_end { wrapped } else { time }
    }

    /// True if everything from an event on is in order but for its times: every event is whole, and there are as many allocations as
    /// the packet says.
    pub fn is_sound_from(&self, at: usize) -> bool {
        let expected = u64::try_from(self.header.alloc_end - self.next_id).ok();
        self.allocations_from(at).is_some_and(|found| Some(found) == expected)
    }

    /// How many allocations there are from an event on; `None` if one is not whole.
    pub fn allocations_from(&self, at: usize) -> Option<u64> {
        let mut input = Input::new(&self.content, at);
        let mut found = 0;
        while !input.is_at_end() {
            found += u64::from(skip_event(&mut input)?);
        }
        Some(found)
    }
}

/// Passes over an event; true if it is an allocation, `None` if it is malformed.
fn skip_event(input: &mut Input<'_>) -> Option<bool> {
    let code = input.u32()? >> TIME_BITS;
    match code {
        code::LOCATION => {
            // Which names are written out, only the tables know; any will do.
            let mut tables = NameTables::default();
            tables.forget();
            locations::read(input, &mut tables)?;
        }
        code::ALLOC => {
            input.count()?;
            input.count()?;
            (input.u8()? <= 2).then_some(())?;
            input.count()?;
            let codewords = input.u16()?;
            backtrace::skip(input, codewords.into())?;
        }
        code::PROMOTE | code::COLLECT => drop(input.vint()?),
        101..=code::LAST_SHORT_ALLOC => {
            input.count()?;
            let codewords = input.u8()?;
            backtrace::skip(input, codewords.into())?;
        }
        _ => return None,
    }
    Some(code == code::ALLOC || code > code::SHORT_ALLOC)
}
