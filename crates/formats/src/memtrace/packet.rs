//! A queued packet, and the layout of its events.

use super::backtrace;
use super::bytes::PacketCursor;
use super::header::{PacketHeader, TIME_BITS};
use super::locations;
use super::names::NameTables;

/// Codes of events.
pub mod code {
    /// The description of a location code.
    pub const LOCATION: u32 = super::locations::CODE;
    /// An allocation in the long form.
    pub const ALLOC: u32 = 2;
    /// An object of the minor heap was moved to the major heap.
    pub const PROMOTE: u32 = 3;
    /// An object was found dead.
    pub const COLLECT: u32 = 4;
    /// An allocation in the minor heap, hit by one sample. Its length in words is added to this code.
    pub const SHORT_ALLOC: u32 = 100;
    /// The largest code of a short allocation.
    pub const LAST_SHORT_ALLOC: u32 = 116;
}

/// The bits of a time that an event holds.
pub const TIME_MASK: u32 = (1 << TIME_BITS) - 1;

/// A packet, and the state of reading it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The packet's header.
    pub header: PacketHeader,
    /// The offset of its content in the trace.
    pub offset: u64,
    /// Its number among all packets.
    pub sequence: u64,
    /// Its events.
    pub content: Vec<u8>,
    /// True if the trace ended within it.
    pub is_cut: bool,
    /// True if something before it was lost.
    pub is_after_gap: bool,
    /// True if reading it has begun.
    pub is_begun: bool,
    /// The offset of the next event.
    pub at: usize,
    /// The number of the next allocation.
    pub next_id: i64,
    /// The time of the last event, as the clock of the domain showed it.
    pub time: i64,
    /// True if its times run backwards but the rest is sound.
    pub has_odd_clock: bool,
}

impl Packet {
    /// A packet that is not read yet. `content` may be a reused buffer.
    pub fn new(header: PacketHeader, offset: u64, sequence: u64, content: Vec<u8>) -> Self {
        Self {
            header,
            offset: offset + header.length() as u64,
            sequence,
            content,
            is_cut: false,
            is_after_gap: false,
            is_begun: false,
            at: 0,
            next_id: header.alloc_begin,
            time: header.time_begin,
            has_odd_clock: false,
        }
    }

    /// Computes the time of an event from the bits that the event holds.
    #[inline]
    pub fn time_of(&self, low: u32) -> i64 {
        let begin = self.header.time_begin;
        let time = begin & !i64::from(TIME_MASK) | i64::from(low);
        if i64::from(low) >= begin & i64::from(TIME_MASK) {
            return time;
        }
        let wrapped = time + (1 << TIME_BITS);
        // After a step back, the lowest bits look as if the clock had wrapped around almost completely.
        if wrapped <= self.header.time_end { wrapped } else { time }
    }

    /// True if everything from an event on is sound apart from its times: every event is complete, and the number of allocations is the one in the
    /// header.
    pub fn is_sound_from(&self, at: usize) -> bool {
        let expected = u64::try_from(self.header.alloc_end - self.next_id).ok();
        self.allocations_from(at).is_some_and(|found| Some(found) == expected)
    }

    /// The number of allocations from an event on; `None` if an event is incomplete.
    pub fn allocations_from(&self, at: usize) -> Option<u64> {
        let mut input = PacketCursor::new(&self.content, at);
        let mut found = 0;
        while !input.is_at_end() {
            found += u64::from(skip_event(&mut input)?);
        }
        Some(found)
    }
}

/// Skips an event; true if it is an allocation, `None` if it is malformed.
fn skip_event(input: &mut PacketCursor<'_>) -> Option<bool> {
    let code = input.u32()? >> TIME_BITS;
    match code {
        code::LOCATION => {
            // Only the name tables know which names are written out. Empty tables are sufficient for this.
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
