//! The outer layout of a `.hw` file: a file header, then framed blocks (docs/format.md §1 and §2).
//!
//! ```text
//!  file header, 16 bytes          block header, 24 bytes
//!   0  89 'H' 'W' 0D 0A 1A         0  'H' 'W' 'B' '1'
//!   6  u16 version                 4  u8  kind
//!   8  u32 CRC-32 of bytes 0..8    5  3 bytes, zero
//!  12  4 bytes, zero               8  u32 payload length
//!                                 12  u32 sequence number of the block
//!                                 16  u32 CRC-32 of the payload
//!                                 20  u32 CRC-32 of bytes 0..20
//! ```
//!
//! The header has its own checksum, so that a length can be trusted before it is used. The magic number at the start of each block lets a reader find
//! the next block after damage.

/// The newest version this code reads.
pub const VERSION: u16 = 4;
/// The version of files that have nothing that readers of version 1 would misread.
pub const PLAIN: u16 = 1;
/// The version of files that may have promotions and counted samples.
pub const WITH_SAMPLES: u16 = 2;
/// The version of files that may have estimates, whose sums are rounded last, and anomalies that were added later.
pub const WITH_ESTIMATES: u16 = 3;
/// The version of files that know only some figures, or whose times are neither nanoseconds nor lines: earlier readers would show the others.
pub const WITH_PROFILES: u16 = 4;
/// Length of the file header.
pub const FILE_HEADER: usize = 16;
/// Length of a block header.
pub const BLOCK_HEADER: usize = 24;
/// First bytes of the file.
const FILE_MAGIC: [u8; 6] = [0x89, b'H', b'W', 0x0d, 0x0a, 0x1a];
/// First bytes of a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"HWB1";

/// The content of a block. Readers skip kinds they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// The source.
    Source = 1,
    /// New entries of the catalog.
    Catalog = 2,
    /// Steps.
    Events = 3,
    /// Figures of a keyframe.
    Keyframe = 4,
    /// Live blocks of the keyframe before it.
    LiveBlocks = 5,
    /// The offsets of the blocks.
    Index = 6,
    /// The offset of the index; the last block of a complete file.
    End = 7,
    /// In streams only, and empty: the sender reads answers, and waits for one at the end.
    Stream = 8,
    /// The breakdown of resident memory at one instant. Not in the index.
    Rss = 9,
}

impl BlockKind {
    fn from_number(number: u8) -> Option<Self> {
        const ALL: [BlockKind; 9] = [
            BlockKind::Source,
            BlockKind::Catalog,
            BlockKind::Events,
            BlockKind::Keyframe,
            BlockKind::LiveBlocks,
            BlockKind::Index,
            BlockKind::End,
            BlockKind::Stream,
            BlockKind::Rss,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}

/// A block header that passed its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The kind of its content; `None` for a kind of a later version.
    pub kind: Option<BlockKind>,
    /// How many bytes follow.
    pub payload_length: u32,
    /// Its sequence number among the blocks of the file, from 0.
    pub sequence: u32,
    /// The payload's checksum.
    pub payload_crc: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl BlockHeader {
    /// Reads a header; `None` if the bytes are not one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let sound = bytes.get(..4)? == BLOCK_MAGIC && crc32fast::hash(bytes.get(..20)?) == u32_at(bytes, 20)?;
        sound.then_some(())?;
        Some(Self {
            kind: BlockKind::from_number(bytes[4]),
            payload_length: u32_at(bytes, 8)?,
            sequence: u32_at(bytes, 12)?,
            payload_crc: u32_at(bytes, 16)?,
        })
    }
}

/// Makes `block` an empty block: the payload is appended after the space for its header.
pub fn begin(block: &mut Vec<u8>) {
    block.clear();
    block.resize(BLOCK_HEADER, 0);
}

/// Fills in the header of a block, which can then be written.
pub fn seal(block: &mut [u8], kind: BlockKind, sequence: u32) {
    let (header, payload) = block.split_at_mut(BLOCK_HEADER);
    header[..4].copy_from_slice(&BLOCK_MAGIC);
    header[4..8].copy_from_slice(&[kind as u8, 0, 0, 0]);
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..20].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let crc = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
}

/// The header of a file of this version.
pub fn file_header(version: u16) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..6].copy_from_slice(&FILE_MAGIC);
    bytes[6..8].copy_from_slice(&version.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..8]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The result of reading the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileHeader {
    /// A recording of this version.
    Sound(u16),
    /// A recording whose header is damaged.
    Damaged,
    /// A file of another format.
    Foreign,
}

/// Classifies the first bytes of a file. A damaged header is distinguished from a foreign file by the first block after it, or because most of the
/// magic number is right.
pub fn judge_file_header(bytes: &[u8]) -> FileHeader {
    let matching = bytes.iter().zip(FILE_MAGIC).filter(|(a, b)| **a == *b).count();
    let crc_holds = bytes.len() >= 12 && u32_at(bytes, 8) == Some(crc32fast::hash(&bytes[..8]));
    if matching == 6 && crc_holds && bytes[12..].iter().take(4).all(|&byte| byte == 0) && bytes.len() >= FILE_HEADER {
        return FileHeader::Sound(u16::from_le_bytes([bytes[6], bytes[7]]));
    }
    let block_follows = bytes.get(FILE_HEADER..FILE_HEADER + 4) == Some(&BLOCK_MAGIC);
    if matching >= 5 || block_follows || (!bytes.is_empty() && matching == bytes.len()) {
        return FileHeader::Damaged;
    }
    FileHeader::Foreign
}
