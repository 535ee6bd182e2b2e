//! Writes the packets of one domain.

use super::bytes::put_vint;
use super::header::{LONGEST_PACKET, PacketHeader, TIME_BITS, length_of};
use super::names::NameTables;
use super::packet::{TIME_MASK, code};
use super::put_backtrace::{BacktraceWriter, Depths};
use super::put_codes::CodeNumbers;
use super::put_locations;
use highwater_model::{Catalog, FrameId, StackId};
use rustc_hash::FxHashSet;
use std::io::{self, Write};

/// Room reserved for one more event.
const ROOM_FOR_EVENT: usize = 4196;
/// Limit for the number of locations that are queued for description.
const MOST_WAITING: usize = 128;
/// Room reserved for one more location.
const ROOM_FOR_LOCATION: usize = 4200;
/// Limit for the duration of a packet, in microseconds.
const LONGEST_SPAN: i64 = 30_000_000;
/// Domains get object numbers in lots of this size.
pub const LOT: i64 = 10_000;
/// The bucket that the second packet verifies, and the distance to the bucket of the next packet.
const FIRST_VERIFIED: u16 = 4242;
const NEXT_VERIFIED: u16 = 5413;

/// An allocated object.
#[derive(Clone, Copy, Debug)]
pub struct SampledObject {
    /// Its length in words, without the header.
    pub words: u64,
    /// The number of samples that hit it.
    pub samples: u32,
    /// The heap: 0 minor, 1 major, 2 external.
    pub heap: u8,
}

/// Values that all packets of a trace have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// The version of the format.
    pub version: u16,
    /// The id of the traced process.
    pub pid: i64,
}

/// Collects the events of one domain into packets and writes them.
pub struct DomainWriter {
    number: u16,
    /// Events of the current packet.
    events: Vec<u8>,
    scratch: Vec<u8>,
    backtraces: BacktraceWriter,
    names: NameTables,
    described: FxHashSet<u64>,
    waiting: Vec<(u64, FrameId)>,
    time_begin: i64,
    time_end: i64,
    first_id: i64,
    /// The number of the next object.
    pub next_id: i64,
    lot_end: i64,
    /// The number of packets written.
    pub packets: u64,
    verified: Option<u16>,
    header: Option<PacketHeader>,
}

impl DomainWriter {
    /// A domain without events.
    pub fn new(number: u16, time: i64) -> Self {
        Self {
            number,
            events: Vec::new(),
            scratch: Vec::new(),
            backtraces: BacktraceWriter::default(),
            names: NameTables::default(),
            described: FxHashSet::default(),
            waiting: Vec::new(),
            time_begin: time,
            time_end: time,
            first_id: 0,
            next_id: 0,
            lot_end: 0,
            packets: 0,
            verified: None,
            header: None,
        }
    }

    /// The number of truncated stacks.
    pub fn cut(&self) -> u64 {
        self.backtraces.cut
    }

    /// True if events are queued.
    pub fn is_waiting(&self) -> bool {
        !self.events.is_empty()
    }

    /// Makes room for an event at `time`. Writes the current packet if necessary.
    pub fn make_room<W: Write>(
        &mut self,
        time: i64,
        needs_id: bool,
        next_lot: &mut i64,
        common: Common,
        catalog: &Catalog,
        out: &mut W,
    ) -> io::Result<()> {
        let header = length_of(common.version);
        let is_full = header + self.events.len() + ROOM_FOR_EVENT > LONGEST_PACKET
            || self.waiting.len() > MOST_WAITING
            || time - self.time_begin > LONGEST_SPAN;
        let is_lot_used = needs_id && self.next_id == self.lot_end;
        if self.is_waiting() && (is_full || is_lot_used) {
            self.flush(common, catalog, out)?;
        }
        if is_lot_used {
            // Versions without domains have one continuous sequence of numbers.
            let lot = if common.version >= 3 { LOT } else { i64::MAX >> 1 };
            (self.next_id, self.lot_end) = (*next_lot, next_lot.saturating_add(lot));
            *next_lot = self.lot_end;
            self.first_id = self.next_id;
        }
        if !self.is_waiting() {
            self.begin(time);
        }
        Ok(())
    }

    fn begin(&mut self, time: i64) {
        (self.time_begin, self.time_end, self.first_id) = (time, time, self.next_id);
        let verified = self.verified.map(|index| self.backtraces.verifier(index));
        self.header = Some(PacketHeader {
            size: 0,
            time_begin: time,
            time_end: time,
            version: 0,
            pid: 0,
            domain: self.number,
            verifier: verified,
            alloc_begin: self.next_id,
            alloc_end: self.next_id,
        });
    }

    fn put_head(&mut self, code: u32, time: i64) {
        self.time_end = self.time_end.max(time);
        self.events.extend_from_slice(&(code << TIME_BITS | time as u32 & TIME_MASK).to_le_bytes());
    }

    /// Appends an allocation. It gets the next number.
    pub fn allocate(
        &mut self,
        time: i64,
        object: SampledObject,
        stack: StackId,
        catalog: &Catalog,
        codes: &mut CodeNumbers,
        depths: &mut Depths,
    ) -> i64 {
        self.scratch.clear();
        let (described, waiting) = (&mut self.described, &mut self.waiting);
        let stacks = &catalog.stacks;
        let frame_of = |node: StackId| stacks.nodes()[node.0 as usize].frame;
        let missed = |node: StackId, code: u64| {
            if described.insert(code) {
                waiting.push((code, frame_of(node)));
            }
        };
        let code_of = |node: StackId| codes.of(frame_of(node), catalog);
        let coded = self.backtraces.put(stack, stacks, depths, code_of, missed, &mut self.scratch);
        let SampledObject { words, samples, heap } = object;
        let is_short = (1..=16).contains(&words) && samples == 1 && heap == 0 && coded.codewords < 256;
        if is_short {
            self.put_head(code::SHORT_ALLOC + words as u32, time);
            put_vint(&mut self.events, coded.common as i64);
            self.events.push(coded.codewords as u8);
        } else {
            self.put_head(code::ALLOC, time);
            put_vint(&mut self.events, i64::try_from(words).unwrap_or(i64::MAX >> 1).min(i64::MAX >> 1));
            put_vint(&mut self.events, samples.into());
            self.events.push(heap);
            put_vint(&mut self.events, coded.common as i64);
            self.events.extend_from_slice(&(coded.codewords as u16).to_le_bytes());
        }
        self.events.extend_from_slice(&self.scratch);
        self.next_id += 1;
        self.next_id - 1
    }

    /// Appends an event about an existing object: [`code::PROMOTE`] or [`code::COLLECT`].
    pub fn refer(&mut self, code: u32, time: i64, id: i64) {
        self.put_head(code, time);
        put_vint(&mut self.events, self.next_id - 1 - id);
    }

    /// Writes the queued records: new locations, then events.
    pub fn flush<W: Write>(&mut self, common: Common, catalog: &Catalog, out: &mut W) -> io::Result<()> {
        let Some(header) = self.header.take() else { return Ok(()) };
        self.put_locations(common, catalog, out)?;
        let size = length_of(common.version) + self.events.len();
        let (time_end, alloc_end) = (self.time_end, self.next_id);
        let header = PacketHeader { size, time_end, alloc_end, version: common.version, pid: common.pid, ..header };
        write_packet(&header, &self.events, out)?;
        self.events.clear();
        self.packets += 1;
        self.verified = Some(match self.verified {
            None => FIRST_VERIFIED,
            Some(index) => (index + NEXT_VERIFIED) % super::codec::BUCKETS as u16,
        });
        Ok(())
    }

    /// Writes the queued records, or an empty packet that shows the current time.
    pub fn still_here<W: Write>(
        &mut self,
        time: i64,
        common: Common,
        catalog: &Catalog,
        out: &mut W,
    ) -> io::Result<()> {
        if self.header.is_none() {
            self.begin(time);
        }
        self.flush(common, catalog, out)
    }

    fn put_locations<W: Write>(&mut self, common: Common, catalog: &Catalog, out: &mut W) -> io::Result<()> {
        let mut content = Vec::new();
        let header = PacketHeader {
            size: 0,
            time_begin: self.time_begin,
            time_end: self.time_begin,
            version: common.version,
            pid: common.pid,
            domain: self.number,
            verifier: None,
            alloc_begin: self.first_id,
            alloc_end: self.first_id,
        };
        let word = (code::LOCATION << TIME_BITS | self.time_begin as u32 & TIME_MASK).to_le_bytes();
        for (code, frame) in std::mem::take(&mut self.waiting) {
            if header.length() + content.len() + ROOM_FOR_LOCATION > LONGEST_PACKET {
                let size = header.length() + content.len();
                write_packet(&PacketHeader { size, ..header }, &content, out)?;
                content.clear();
            }
            content.extend_from_slice(&word);
            put_locations::put(code, frame, catalog, &mut self.names, &mut content);
        }
        if content.is_empty() {
            return Ok(());
        }
        write_packet(&PacketHeader { size: header.length() + content.len(), ..header }, &content, out)
    }
}

/// Writes a packet in one piece.
pub fn write_packet<W: Write>(header: &PacketHeader, content: &[u8], out: &mut W) -> io::Result<()> {
    let mut packet = Vec::with_capacity(header.size);
    header.put(&mut packet);
    packet.extend_from_slice(content);
    out.write_all(&packet)
}
