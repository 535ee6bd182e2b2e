//! Blocks that the index does not list. They lie in the gaps between those that it lists.

use super::frame::{BLOCK_HEADER, BlockHeader, BlockKind, FILE_HEADER};
use super::index::Entry;
use super::recording::Recording;
use std::io;

/// A block that is not among the entries, with a sound header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// Where its header begins.
    pub offset: u64,
    /// The header.
    pub header: BlockHeader,
}

impl Unlisted {
    /// Where the next block begins.
    pub fn end(&self) -> u64 {
        self.offset + BLOCK_HEADER as u64 + u64::from(self.header.payload_length)
    }
}

/// Where the next block of a file begins, and the number that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextBlock {
    /// The end of the last block.
    pub offset: u64,
    /// Its sequence number.
    pub sequence: u32,
}

impl Recording {
    /// The blocks that are not among the entries, in order. Only the gaps between entries are read, and of those only headers unless one is damaged.
    pub(super) fn unlisted(&self) -> io::Result<Vec<Unlisted>> {
        let mut found = Vec::new();
        let mut end = FILE_HEADER as u64;
        for entry in self.entries() {
            self.unlisted_between(end, entry.offset, &mut found)?;
            end = entry.end();
        }
        self.unlisted_between(end, self.stats().file_bytes, &mut found)?;
        Ok(found)
    }

    fn unlisted_between(&self, start: u64, end: u64, found: &mut Vec<Unlisted>) -> io::Result<()> {
        let mut next = self.header_between(start, end)?;
        while let Some(block) = next.filter(|block| block.end() <= end) {
            found.push(block);
            next = self.header_between(block.end(), end)?;
        }
        Ok(())
    }

    /// The first sound header between two offsets. It is at `start` unless something is damaged; the work is in proportion to the distance.
    fn header_between(&self, start: u64, end: u64) -> io::Result<Option<Unlisted>> {
        const LONGEST_WINDOW: u64 = 1 << 20;
        let (mut base, mut length, mut window) = (start, BLOCK_HEADER as u64, Vec::new());
        while base + BLOCK_HEADER as u64 <= end {
            length = length.min(end - base);
            if !self.bytes().read(base, length as usize, &mut window)? {
                return Ok(None);
            }
            let sound = window.windows(BLOCK_HEADER).enumerate().find_map(|(at, bytes)| {
                let header = BlockHeader::parse(bytes)?;
                Some(Unlisted { offset: base + at as u64, header })
            });
            if sound.is_some() {
                return Ok(sound);
            }
            base += length - BLOCK_HEADER as u64 + 1;
            length = (length * 2).min(LONGEST_WINDOW);
        }
        Ok(None)
    }

    /// Where a writer that continues the file goes on: after the last block that readers use.
    pub(super) fn after_last_block(&self) -> io::Result<NextBlock> {
        let of_entry = |entry: &Entry| NextBlock { offset: entry.end(), sequence: entry.sequence.wrapping_add(1) };
        let of_unlisted =
            |block: &Unlisted| NextBlock { offset: block.end(), sequence: block.header.sequence.wrapping_add(1) };
        let is_kept = |block: &&Unlisted| block.header.kind == Some(BlockKind::Rss);
        let last_unlisted = self.unlisted()?.iter().rfind(is_kept).map(of_unlisted);
        let last = self.entries().last().map(of_entry).into_iter().chain(last_unlisted).max_by_key(|next| next.offset);
        Ok(last.unwrap_or(NextBlock { offset: FILE_HEADER as u64, sequence: 0 }))
    }

    /// Reads the payload of a block; false, and damage is recorded, if its checksum is wrong.
    pub(super) fn read_unlisted(&self, block: &Unlisted, payload: &mut Vec<u8>) -> io::Result<bool> {
        let length = block.header.payload_length as usize;
        let is_sound = self.bytes().read(block.offset + BLOCK_HEADER as u64, length, payload)?
            && crc32fast::hash(payload) == block.header.payload_crc;
        if !is_sound {
            self.note_damage_of(block, "a block's checksum is wrong");
        }
        Ok(is_sound)
    }

    pub(super) fn note_damage_of(&self, block: &Unlisted, what: &'static str) {
        self.note_damage_between(block.offset, block.end(), what);
    }
}
