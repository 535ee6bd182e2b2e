//! Finding the blocks of a file without its index: after a crash, truncation or damage.

use super::bytes::Bytes;
use super::events::EventsSummary;
use super::frame::{BLOCK_HEADER, BLOCK_MAGIC, BlockHeader, BlockKind, FILE_HEADER};
use super::index::{Content, Entry};
use super::keyframe::KeyframeSummary;
use super::varint::VarintReader;
use highwater_model::Damage;
use std::io;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// The undamaged blocks, in order.
    pub entries: Vec<Entry>,
    /// The damaged parts.
    pub damage: Vec<Damage>,
    /// The offset of the last block if the file ends inside it.
    pub cut_at: Option<u64>,
    /// True if the last block marks the file as complete.
    pub complete: bool,
    /// The expected sequence number of the next block.
    next_sequence: u32,
    /// The number of damaged parts when the previous block was read. A gap after further damage is already reported.
    damage_before: usize,
}

/// Reads the whole file block by block, and verifies every checksum. After damage, continues at the next block header.
pub fn scan(bytes: &Bytes) -> io::Result<Scan> {
    let mut found = Scan::default();
    let mut offset = FILE_HEADER as u64;
    let (mut header, mut payload) = (Vec::new(), Vec::new());
    while offset < bytes.length() {
        let parsed = if bytes.read(offset, BLOCK_HEADER, &mut header)? { BlockHeader::parse(&header) } else { None };
        let Some(parsed) = parsed else {
            let next = next_header(bytes, offset + 1)?;
            let end = next.unwrap_or(bytes.length());
            let cut = next.is_none() && end - offset < BLOCK_HEADER as u64;
            let what = if cut { "the file is cut in a block's header" } else { "a block's header is damaged" };
            found.damage.push(Damage { offset, length: end - offset, what: what.into() });
            found.cut_at = cut.then_some(offset);
            offset = end;
            continue;
        };
        let length = parsed.payload_length;
        if !bytes.read(offset + BLOCK_HEADER as u64, length as usize, &mut payload)? {
            let what = "the file is cut in a block";
            found.damage.push(Damage { offset, length: bytes.length() - offset, what: what.into() });
            found.cut_at = Some(offset);
            break;
        }
        let end = offset + BLOCK_HEADER as u64 + u64::from(length);
        found.take(offset, &parsed, &payload);
        offset = end;
    }
    Ok(found)
}

impl Scan {
    /// Reports missing blocks that left no trace except a gap in the sequence numbers.
    fn note_gap(&mut self, offset: u64, sequence: u32) {
        if sequence != self.next_sequence && self.damage.len() == self.damage_before {
            self.damage.push(Damage { offset, length: 0, what: "blocks are missing before this one".into() });
        }
        self.next_sequence = sequence.wrapping_add(1);
        self.damage_before = self.damage.len();
    }

    fn take(&mut self, offset: u64, header: &BlockHeader, payload: &[u8]) {
        let length = header.payload_length;
        let size = BLOCK_HEADER as u64 + u64::from(length);
        if crc32fast::hash(payload) != header.payload_crc {
            return self.damage.push(Damage { offset, length: size, what: "a block's checksum is wrong".into() });
        }
        self.note_gap(offset, header.sequence);
        let mut input = VarintReader::new(payload);
        let content = match header.kind {
            Some(BlockKind::Source) => Some(Content::Source),
            Some(BlockKind::Catalog) => Some(Content::Catalog),
            Some(BlockKind::Events) => EventsSummary::read(&mut input).map(Content::Events),
            Some(BlockKind::Keyframe) => KeyframeSummary::read(&mut input).map(Content::Keyframe),
            Some(BlockKind::LiveBlocks) => Some(Content::LiveBlocks),
            Some(BlockKind::Index | BlockKind::Stream | BlockKind::Rss) | None => return,
            Some(BlockKind::End) => {
                self.complete = true;
                return;
            }
        };
        match content {
            Some(content) => self.entries.push(Entry { offset, length, sequence: header.sequence, content }),
            None => self.damage.push(Damage { offset, length: size, what: "a block is malformed".into() }),
        }
    }
}

/// The offset of the next sound block header, from `start` on.
fn next_header(bytes: &Bytes, start: u64) -> io::Result<Option<u64>> {
    const STEP: usize = 1 << 20;
    let mut window = Vec::new();
    let mut base = start;
    while base + BLOCK_HEADER as u64 <= bytes.length() {
        // Windows overlap by a header, so that none is missed at a boundary.
        let length = (STEP + BLOCK_HEADER).min((bytes.length() - base) as usize);
        if !bytes.read(base, length, &mut window)? {
            return Ok(None);
        }
        let sound =
            |at: &usize| window[*at..].starts_with(&BLOCK_MAGIC) && BlockHeader::parse(&window[*at..]).is_some();
        if let Some(at) = (0..=length - BLOCK_HEADER).find(sound) {
            return Ok(Some(base + at as u64));
        }
        base += STEP as u64;
    }
    Ok(None)
}
