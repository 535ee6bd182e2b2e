//! Decodes a record of a ring. The layout is [`ring_v1`](highwater_shm::ring_v1)'s.

use highwater_shm::ring_v1::{kind, mapping};

/// A decoded record of any kind but allocation and free, which are never decoded into this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingRecord {
    /// A block was resized, in one record.
    Reallocate {
        /// Its old address.
        old: u64,
        /// The block after it.
        new: RecordedBlock,
    },
    /// A block is about to be resized.
    ReallocBegin {
        /// Its address.
        old: u64,
    },
    /// The resize has ended; a new address of 0 means that it failed.
    ReallocEnd {
        /// Its old address.
        old: u64,
        /// The block after it.
        new: RecordedBlock,
    },
    /// Something was mapped. Its kind is in the upper half of the last word, where blocks have their surplus.
    Map {
        /// The range, and the stack that mapped it.
        range: RecordedBlock,
        /// Its kind.
        what: MappingKind,
    },
    /// The protection of mapped memory was changed.
    Protect {
        /// The range, and the stack that changed it.
        range: RecordedBlock,
        /// Its kind now, unless it is a file.
        what: MappingKind,
    },
    /// The program gave memory back, or asked for it again, and keeps the mapping.
    Return {
        /// Start of the range.
        address: u64,
        /// Its length.
        length: u64,
        /// Whether it was given back.
        is_returned: bool,
    },
    /// Memory was unmapped.
    Unmap {
        /// Start of the range.
        address: u64,
        /// Its length.
        length: u64,
        /// The stack's node; 0 if it was not recorded.
        node: u32,
    },
    /// A mapping is about to be moved or resized.
    RemapBegin {
        /// Its address.
        old: u64,
        /// Its length.
        old_length: u64,
    },
    /// A mapping was moved or resized; a new address of 0 means that it failed.
    Remap {
        /// Its old address.
        old: u64,
        /// Its old length.
        old_length: u64,
        /// The mapping after it.
        new: RecordedBlock,
    },
    /// The ring belongs to this thread from now on.
    Thread {
        /// Its kernel thread id.
        id: u32,
    },
    /// The program named this instant.
    Mark(String),
    /// A thread's name; that of the ring's thread if there is no id.
    Name {
        /// Its kernel thread id.
        id: Option<u32>,
        /// Its name.
        name: String,
    },
}

/// The kind of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// Memory that the program can touch: a block.
    Memory,
    /// Address space that it cannot touch.
    Reservation,
    /// A file.
    File,
}

impl MappingKind {
    /// From the last word of a record; `None` for an unknown kind.
    fn from_word(word: u64) -> Option<Self> {
        match (word >> 32) as u32 {
            mapping::MEMORY => Some(Self::Memory),
            mapping::RESERVATION => Some(Self::Reservation),
            mapping::FILE => Some(Self::File),
            _ => None,
        }
    }
}

/// A block: its address and size, and the stack that allocated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedBlock {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// The stack's node.
    pub node: u32,
    /// Usable bytes beyond what is expected of the size.
    pub surplus: i32,
}

impl RecordedBlock {
    /// From the words of a record.
    #[inline]
    pub fn new(address: u64, size: u64, node_and_surplus: u64) -> Self {
        Self { address, size, node: node_and_surplus as u32, surplus: (node_and_surplus >> 32) as i32 }
    }
}

impl RingRecord {
    /// Decodes the words of one record; `None` if they are not a valid one.
    pub fn read(words: &[u64]) -> Option<Self> {
        let head = *words.first()?;
        let word = |index: usize| words.get(index).copied();
        Some(match head as u8 {
            kind::REALLOCATE => {
                Self::Reallocate { old: word(1)?, new: RecordedBlock::new(word(2)?, word(3)?, word(4)?) }
            }
            kind::REALLOC_BEGIN => Self::ReallocBegin { old: word(1)? },
            kind::REALLOC_END => {
                Self::ReallocEnd { old: word(1)?, new: RecordedBlock::new(word(2)?, word(3)?, word(4)?) }
            }
            kind::MAP => Self::Map {
                range: RecordedBlock::new(word(1)?, word(2)?, word(3)?),
                what: MappingKind::from_word(word(3)?)?,
            },
            kind::PROTECT => Self::Protect {
                range: RecordedBlock::new(word(1)?, word(2)?, word(3)?),
                what: MappingKind::from_word(word(3)?)?,
            },
            kind::RETURN => Self::Return { address: word(1)?, length: word(2)?, is_returned: word(3)? != 0 },
            kind::UNMAP => Self::Unmap { address: word(1)?, length: word(2)?, node: 0 },
            kind::UNMAP_BY => Self::Unmap { address: word(1)?, length: word(2)?, node: word(3)? as u32 },
            kind::REMAP_BEGIN => Self::RemapBegin { old: word(1)?, old_length: word(2)? },
            kind::REMAP => Self::Remap {
                old: word(1)?,
                old_length: word(2)?,
                new: RecordedBlock::new(word(3)?, word(4)?, word(5)?),
            },
            kind::THREAD => Self::Thread { id: word(1)? as u32 },
            kind::MARK => Self::Mark(text(words.get(1..)?)?),
            kind::NAME => Self::Name { id: None, name: text(words.get(1..)?)? },
            kind::RENAME => Self::Name { id: Some(word(1)? as u32), name: text(words.get(2..)?)? },
            _ => return None,
        })
    }
}

/// A text: its length in bytes, then the bytes.
pub fn text(words: &[u64]) -> Option<String> {
    let (&length, words) = words.split_first()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(bytes.get(..usize::try_from(length).ok()?)?).into_owned())
}
