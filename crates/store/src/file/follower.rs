//! Following a recording while its bytes arrive: its progress, and where it may be cut.

use super::events::EventsSummary;
use super::frame::{BLOCK_HEADER, BlockHeader, BlockKind, FILE_HEADER};
use super::keyframe::{self, KeyframeSummary};
use super::source;
use super::varint::VarintReader;
use highwater_model::{Anomaly, Nanos, Source};
use std::fmt;

/// The longest payload that a block may claim. The longest blocks are keyframes, whose columns have at most 2²⁷ bytes each before compression.
const LONGEST_BLOCK: u32 = 256 << 20;
/// A keyframe is of no use without its live blocks. It is held back until they arrive, unless they are larger than this.
const LONGEST_KEYFRAME: usize = 256 << 20;

/// A block that claims to be longer than 256 MiB. It is refused as soon as its header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTooLong {
    /// Where the block begins in the stream.
    pub offset: u64,
    /// The payload's length according to its header.
    pub claimed: u32,
}

impl fmt::Display for BlockTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, claimed } = self;
        write!(f, "the block at offset {offset} claims {claimed} bytes; the longest that is taken has {LONGEST_BLOCK}")
    }
}

impl std::error::Error for BlockTooLong {}

/// The known facts about a recording that is arriving.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The source; `None` until its block has arrived.
    pub source: Option<Source>,
    /// Events that arrived.
    pub events: u64,
    /// Bytes live after the last of them.
    pub live_bytes: u64,
    /// Blocks live after the last of them.
    pub live_blocks: u64,
    /// The most bytes that were live.
    pub peak_bytes: u64,
    /// The time of the last event.
    pub time: Nanos,
    /// Events that the sender had to leave out.
    pub dropped: u64,
    /// True if the recording was finished properly.
    pub complete: bool,
    /// True if the sender reads answers, and waits for one at the end.
    pub expects_answers: bool,
    /// True if the bytes are no longer made of blocks. They are then passed on as they arrive.
    pub is_damaged: bool,
}

/// Takes the bytes of a recording in pieces of any size, and returns them in whole blocks.
#[derive(Debug, Default)]
pub struct Follower {
    /// Bytes that are not a whole block yet.
    pending: Vec<u8>,
    /// How many of the pending bytes were parsed.
    seen: usize,
    /// How many bytes came before the pending ones.
    passed: u64,
    /// How many blocks a keyframe among the pending bytes still lacks.
    parts_missing: u64,
    /// True if the file's header has arrived.
    is_begun: bool,
    followed: Followed,
}

impl Follower {
    /// The facts known so far.
    pub fn followed(&self) -> &Followed {
        &self.followed
    }

    /// The number of bytes that wait for the rest of their block.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes bytes, and moves those of whole blocks to the end of `whole`; a keyframe together with its live blocks. After an error no more bytes can
    /// be taken.
    pub fn take(&mut self, bytes: &[u8], whole: &mut Vec<u8>) -> Result<(), BlockTooLong> {
        self.pending.extend_from_slice(bytes);
        if !self.is_begun && self.pending.len() >= FILE_HEADER {
            self.is_begun = true;
            self.seen = FILE_HEADER;
        }
        let mut too_long = None;
        while self.is_begun && too_long.is_none() {
            match self.see_block() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => too_long = Some(error),
            }
        }
        if self.followed.is_damaged {
            self.seen = self.pending.len();
        } else if self.parts_missing > 0 && self.seen < LONGEST_KEYFRAME && too_long.is_none() {
            return Ok(());
        }
        whole.extend(self.pending.drain(..self.seen));
        self.passed += self.seen as u64;
        self.seen = 0;
        too_long.map_or(Ok(()), Err)
    }

    /// Parses the next block; false if it has not arrived completely.
    fn see_block(&mut self) -> Result<bool, BlockTooLong> {
        let rest = &self.pending[self.seen..];
        if rest.len() < BLOCK_HEADER || self.followed.is_damaged {
            return Ok(false);
        }
        let Some(header) = BlockHeader::parse(rest) else {
            self.followed.is_damaged = true;
            return Ok(false);
        };
        if header.payload_length > LONGEST_BLOCK {
            return Err(BlockTooLong { offset: self.passed + self.seen as u64, claimed: header.payload_length });
        }
        let length = BLOCK_HEADER + header.payload_length as usize;
        let Some(block) = rest.get(..length) else { return Ok(false) };
        self.followed.see(header.kind, &block[BLOCK_HEADER..]);
        self.parts_missing = match header.kind {
            Some(BlockKind::Keyframe) => {
                KeyframeSummary::read(&mut VarintReader::new(&block[BLOCK_HEADER..])).map_or(0, |summary| summary.parts)
            }
            Some(BlockKind::LiveBlocks) => self.parts_missing.saturating_sub(1),
            _ => 0,
        };
        self.seen += length;
        Ok(true)
    }
}

impl Followed {
    fn see(&mut self, kind: Option<BlockKind>, payload: &[u8]) {
        let mut input = VarintReader::new(payload);
        match kind {
            Some(BlockKind::Source) => {
                if let Some(source) = source::decode(payload) {
                    self.time = self.time.max(source.duration);
                    self.source = Some(source);
                }
            }
            Some(BlockKind::Events) => {
                if let Some(summary) = EventsSummary::read(&mut input) {
                    self.events = self.events.saturating_add(summary.events);
                    (self.live_bytes, self.live_blocks) = (summary.live_bytes, summary.live_blocks);
                    self.peak_bytes = self.peak_bytes.max(summary.highest_bytes).max(summary.live_bytes);
                    self.time = self.time.max(summary.last_time);
                }
            }
            Some(BlockKind::Keyframe) => {
                if let Some((summary, state)) = keyframe::decode_totals(payload) {
                    let figures = &state.totals.figures;
                    (self.live_bytes, self.live_blocks) = (figures.live_bytes(), figures.live_blocks());
                    self.peak_bytes = self.peak_bytes.max(figures.peak_bytes);
                    self.time = self.time.max(summary.time);
                    self.dropped = state.anomalies.get(Anomaly::DroppedEvent);
                }
            }
            Some(BlockKind::End) => self.complete = true,
            Some(BlockKind::Stream) => self.expects_answers = true,
            _ => {}
        }
    }
}
