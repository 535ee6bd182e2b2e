//! Splits a stream into packets, and finds the next packet after damage.

use super::damage::DamageList;
use super::header::{FIXED, HeaderFault, LONGEST_HEADER, LONGEST_PACKET, MAGIC, PacketHeader, length_of};
use std::ops::Range;

/// Processed bytes are discarded once there are this many.
const WORTH_FORGETTING: usize = 1 << 18;

/// Whether more bytes can arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// More bytes can arrive, and it may be worth waiting for them.
    More,
    /// More bytes can arrive, but complete packets are wanted now.
    Now,
    /// This is the end.
    End,
}

/// A packet found in the stream.
#[derive(Clone, Debug)]
pub struct FramedPacket {
    /// The packet's header.
    pub header: PacketHeader,
    /// The offset of its first byte in the stream.
    pub offset: u64,
    /// The range of its content in the held bytes.
    pub content: Range<usize>,
    /// True if the stream ended within it.
    pub is_cut: bool,
    /// True if bytes or a packet before it could not be used.
    pub is_after_gap: bool,
}

/// Bytes that are being skipped.
#[derive(Clone, Debug)]
struct Skipped {
    offset: u64,
    what: String,
    only_zeros: bool,
}

/// Holds bytes that have arrived and are not processed yet: little more than one packet.
#[derive(Clone, Debug, Default)]
pub struct Framer {
    held: Vec<u8>,
    at: usize,
    /// The offset in the stream of the first held byte.
    base: u64,
    skipped: Option<Skipped>,
    /// The process id and version of the trace, as soon as they are known.
    known: Option<(i64, u16)>,
    is_after_gap: bool,
}

impl Framer {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at >= WORTH_FORGETTING {
            self.held.drain(..self.at);
            self.base += self.at as u64;
            self.at = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The number of bytes that have arrived.
    pub fn arrived(&self) -> u64 {
        self.base + self.held.len() as u64
    }

    /// The bytes of a frame's content.
    pub fn content(&self, frame: &FramedPacket) -> &[u8] {
        &self.held[frame.content.clone()]
    }

    /// Sets the process id and version that packets of the trace must have.
    pub fn expect(&mut self, pid: i64, version: u16) {
        self.known = Some((pid, version));
    }

    /// True for a packet of the trace.
    pub fn is_expected(&self, header: &PacketHeader) -> bool {
        self.known == Some((header.pid, header.version))
    }

    /// True for a packet of the traced process.
    pub fn is_expected_process(&self, header: &PacketHeader) -> bool {
        self.known.is_some_and(|(pid, _)| pid == header.pid)
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    fn rest(&self) -> &[u8] {
        &self.held[self.at..]
    }

    /// The first packet's header, once enough bytes have arrived.
    pub fn first_header(&self) -> Result<PacketHeader, HeaderFault> {
        PacketHeader::parse(self.rest())
    }

    /// The next packet; `None` if more bytes are needed, or at the end.
    pub fn next(&mut self, state: InputState, damage: &mut DamageList) -> Option<FramedPacket> {
        loop {
            if self.skipped.is_some() && !self.end_skipping(state, damage) {
                return None;
            }
            if self.rest().is_empty() {
                return None;
            }
            match PacketHeader::parse(self.rest()) {
                Ok(header) => return self.frame(header, state, damage),
                Err(HeaderFault::Short) if state != InputState::End => return None,
                Err(fault) => match self.repaired(fault, state, damage) {
                    Repair::Frame(frame) => return Some(frame),
                    Repair::Wait => return None,
                    Repair::Impossible => self.skip(fault),
                },
            }
        }
    }

    fn skip(&mut self, fault: HeaderFault) {
        let short = self.rest().len() < FIXED;
        let fault = if short { HeaderFault::Short } else { fault };
        self.skipped = Some(Skipped { offset: self.offset(), what: fault.what(), only_zeros: true });
    }

    /// Searches for the next packet; false if none was found yet.
    fn end_skipping(&mut self, state: InputState, damage: &mut DamageList) -> bool {
        let Some(skipped) = &mut self.skipped else { return true };
        let rest = &self.held[self.at..];
        // There is no packet at the offset where skipping began.
        let first = usize::from(self.base + self.at as u64 == skipped.offset);
        let found = find_header(rest, first, self.known);
        // An incomplete header at the end may still become a complete one.
        let passed = match (found, state) {
            (Some(at), _) => at,
            (None, InputState::End) => rest.len(),
            (None, _) => rest.len().saturating_sub(LONGEST_HEADER - 1),
        };
        skipped.only_zeros &= rest[..passed].iter().all(|&byte| byte == 0);
        self.at += passed;
        if found.is_none() && state != InputState::End {
            return false;
        }
        let length = self.base + self.at as u64 - skipped.offset;
        let what = match skipped.only_zeros {
            true => "zeros stand where a packet should be".to_owned(),
            false => std::mem::take(&mut skipped.what),
        };
        damage.add(skipped.offset, length, what);
        self.skipped = None;
        self.is_after_gap = true;
        true
    }

    /// Repairs a header in which only the magic number, version or size is wrong. The packet must end where another one begins.
    fn repaired(&mut self, fault: HeaderFault, state: InputState, damage: &mut DamageList) -> Repair {
        let Some((pid, version)) = self.known else { return Repair::Impossible };
        let rest = self.rest();
        if rest.len() < LONGEST_PACKET + LONGEST_HEADER && state == InputState::More {
            return Repair::Wait;
        }
        let size_of = |header: PacketHeader| {
            let follows = rest.get(header.size..header.size + 4).is_some_and(|next| next == MAGIC.to_le_bytes());
            (follows || header.size == rest.len()).then_some(header)
        };
        let found = match fault {
            HeaderFault::Magic | HeaderFault::Version(_) => {
                PacketHeader::parse_as(rest, version).ok().and_then(size_of)
            }
            HeaderFault::Size(_) => {
                let next = find_header(rest, length_of(version), self.known).or_else(|| end_before_zeros(rest));
                next.and_then(|size| PacketHeader::with_size(rest, version, size).ok())
            }
            _ => None,
        };
        match found.filter(|header| header.pid == pid && header.size <= LONGEST_PACKET) {
            Some(header) => {
                damage.add(self.offset(), 0, format!("{}; the packet is used all the same", fault.what()));
                Repair::Frame(self.take(header, header.size))
            }
            None => Repair::Impossible,
        }
    }

    /// The packet with a sound header, or the part of it that has arrived.
    fn frame(&mut self, header: PacketHeader, state: InputState, damage: &mut DamageList) -> Option<FramedPacket> {
        let rest = self.rest();
        let next = rest.get(header.size..header.size + 4);
        if rest.len() < header.size && state != InputState::End {
            return None;
        }
        if next.is_none() && state == InputState::More && rest.len() < LONGEST_PACKET + LONGEST_HEADER {
            return None;
        }
        // If no packet follows, this one may be shorter than it says.
        let follows = next.is_some_and(|next| next == MAGIC.to_le_bytes());
        let within = rest.get(header.length()..header.size.min(rest.len())).unwrap_or_default();
        if !follows && let Some(at) = find_header(within, 0, self.known) {
            let size = header.length() + at;
            let what = format!("a packet claims {} bytes, but the next begins after {size}", header.size);
            damage.add(self.offset(), 0, what);
            return Some(self.take(header, size));
        }
        let size = header.size.min(rest.len());
        if size < header.size {
            let what = "the trace is cut within a packet; its whole events are used";
            damage.add(self.offset() + size as u64, 0, what);
        }
        Some(self.take(header, size))
    }

    fn take(&mut self, header: PacketHeader, size: usize) -> FramedPacket {
        let frame = FramedPacket {
            header,
            offset: self.offset(),
            content: self.at + header.length()..self.at + size,
            is_cut: size < header.size,
            is_after_gap: std::mem::take(&mut self.is_after_gap),
        };
        self.at += size;
        frame
    }

    /// Drops all bytes that have arrived: they belong to another trace.
    pub fn discard(&mut self) {
        self.at = self.held.len();
    }
}

enum Repair {
    Frame(FramedPacket),
    Wait,
    Impossible,
}

/// The first offset from `first` on where a header of this trace may begin.
fn find_header(bytes: &[u8], first: usize, known: Option<(i64, u16)>) -> Option<usize> {
    let magic = MAGIC.to_le_bytes();
    let mut at = first;
    while let Some(found) = bytes.get(at..)?.windows(4).position(|window| window == magic) {
        at += found;
        let header = PacketHeader::parse(&bytes[at..]);
        if header.is_ok_and(|header| known.is_none_or(|known| known == (header.pid, header.version))) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The end of a possible last packet that is followed by zeros.
fn end_before_zeros(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().rposition(|&byte| byte != 0)? + 1;
    (end <= LONGEST_PACKET).then_some(end)
}
