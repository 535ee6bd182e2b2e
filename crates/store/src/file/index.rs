//! The index: offsets and summaries of the blocks (docs/format.md §8).
//!
//! It only saves time: a scan of the file gives the same entries.

use super::events::EventsSummary;
use super::frame::{BLOCK_HEADER, BlockKind};
use super::keyframe::KeyframeSummary;
use super::varint::{self, VarintReader};

/// One block of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where its header begins.
    pub offset: u64,
    /// Length of its payload.
    pub length: u32,
    /// Its sequence number among the blocks.
    pub sequence: u32,
    /// What it holds.
    pub content: Content,
}

impl Entry {
    /// Where the next block begins.
    pub fn end(&self) -> u64 {
        self.offset + (BLOCK_HEADER as u64) + u64::from(self.length)
    }
}

/// What an indexed block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A source.
    Source,
    /// Catalog entries.
    Catalog,
    /// Steps.
    Events(EventsSummary),
    /// Figures of a keyframe.
    Keyframe(KeyframeSummary),
    /// Live blocks of the keyframe before.
    LiveBlocks,
}

impl Content {
    /// The kind of the block that holds it.
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::Source => BlockKind::Source,
            Self::Catalog => BlockKind::Catalog,
            Self::Events(_) => BlockKind::Events,
            Self::Keyframe(_) => BlockKind::Keyframe,
            Self::LiveBlocks => BlockKind::LiveBlocks,
        }
    }
}

/// Appends the index's payload.
pub fn encode(entries: &[Entry], out: &mut Vec<u8>) {
    varint::put(out, entries.len() as u64);
    let mut end = 0;
    for entry in entries {
        let number = entry.content.kind() as u64;
        for value in [number, entry.offset - end, entry.length.into(), entry.sequence.into()] {
            varint::put(out, value);
        }
        match entry.content {
            Content::Events(summary) => summary.put(out),
            Content::Keyframe(summary) => summary.put(out),
            _ => {}
        }
        end = entry.end();
    }
}

/// Reads an index whose blocks all lie below `file_length`; `None` if it is malformed.
pub fn decode(payload: &[u8], file_length: u64) -> Option<Vec<Entry>> {
    let mut input = VarintReader::new(payload);
    let count = input.number()?;
    let mut entries = Vec::new();
    let mut end = 0u64;
    for _ in 0..count {
        let number = input.number()?;
        let offset = end.checked_add(input.number()?)?;
        let (length, sequence) = (input.number32()?, input.number32()?);
        let content = match number {
            1 => Content::Source,
            2 => Content::Catalog,
            3 => Content::Events(EventsSummary::read(&mut input)?),
            4 => Content::Keyframe(KeyframeSummary::read(&mut input)?),
            5 => Content::LiveBlocks,
            _ => return None,
        };
        let entry = Entry { offset, length, sequence, content };
        end = entry.offset.checked_add(BLOCK_HEADER as u64)?.checked_add(length.into())?;
        if end > file_length {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}
