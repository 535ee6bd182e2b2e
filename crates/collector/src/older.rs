//! Blocks that a process had before it was attached to: the attacher has found them in its heap. No table has them.
//!
//! The agent logs the address of each block that is freed, or resized, and that its table does not have. What is on the list and in no log is live.

use highwater_model::Figures;
use highwater_shm::attach_v1::{LoggedFree, UnknownFreeLog};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// More are not followed: the list would take more than this process may.
pub const MOST_OLDER: u64 = 8 << 20;
const ENTRY_BYTES: usize = 16;
const HIGHEST: u64 = 1 << 47;
/// Set in the size of a block that was freed.
const FREED: u64 = 1 << 63;

/// Why older blocks are not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderLost {
    /// The log was too small.
    TooManyFrees,
    /// Only samples are looked up.
    Sampling,
}

impl OlderLost {
    /// In words: a part of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::TooManyFrees => "they were freed faster than that could be followed",
            Self::Sampling => "a sample does not show when they are freed",
        }
    }
}

/// How many blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    pub blocks: u64,
    pub bytes: u64,
}

/// Older blocks at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlderNow {
    /// All that were there when the process was attached to.
    pub all: BlockCount,
    /// Those that are live.
    pub live: BlockCount,
    /// Addresses and usable sizes of the live ones, if they were wanted.
    pub list: Vec<(u64, u64)>,
}

impl OlderNow {
    /// As figures of an owner.
    pub fn figures(&self) -> Figures {
        let (freed, freed_bytes) = (self.all.blocks - self.live.blocks, self.all.bytes - self.live.bytes);
        Figures {
            allocations: self.all.blocks,
            frees: freed,
            allocated_bytes: self.all.bytes,
            freed_bytes,
            peak_bytes: self.live.bytes,
            ..Figures::default()
        }
    }
}

/// The list.
#[derive(Debug)]
pub struct OlderList {
    /// Addresses and sizes, in the order of addresses.
    blocks: Vec<(u64, u64)>,
    all: BlockCount,
    live: BlockCount,
    /// The number of frees of the log that were read.
    position: u64,
}

impl OlderList {
    /// The list of a client: addresses and sizes as pairs of words, in the order of addresses. `position` is that of the log at the instant of the list. `None` if the
    /// list makes no sense.
    pub fn read(file: &File, position: u64) -> Option<Self> {
        let bytes = file.metadata().ok()?.len();
        let count = bytes / ENTRY_BYTES as u64;
        if !bytes.is_multiple_of(ENTRY_BYTES as u64) || count > MOST_OLDER {
            return None;
        }
        let (mut blocks, mut all, mut last_end) = (Vec::with_capacity(count as usize), BlockCount::default(), 4096);
        let mut part = vec![0; 1 << 16];
        let mut at = 0;
        while at < bytes {
            let length = part.len().min((bytes - at) as usize);
            // The file may have become shorter.
            file.read_exact_at(&mut part[..length], at).ok()?;
            for entry in part[..length].chunks_exact(ENTRY_BYTES) {
                let word = |half: &[u8]| half.try_into().map(u64::from_le_bytes).unwrap_or(0);
                let (address, size) = (word(&entry[..8]), word(&entry[8..]));
                let end = address.checked_add(size).filter(|&end| end < HIGHEST && address >= last_end)?;
                last_end = end.max(address + 1);
                all = BlockCount { blocks: all.blocks + 1, bytes: all.bytes + size };
                blocks.push((address, size));
            }
            at += length as u64;
        }
        Some(Self { blocks, all, live: all, position })
    }

    /// Takes those from the list that the log has since the last time.
    pub fn follow(&mut self, log: &UnknownFreeLog) -> Result<(), OlderLost> {
        loop {
            match log.at(self.position) {
                LoggedFree::Address(address) => {
                    self.remove(address);
                    self.position += 1;
                }
                LoggedFree::NotYet => return Ok(()),
                LoggedFree::Overwritten => return Err(OlderLost::TooManyFrees),
            }
        }
    }

    /// A block is not live, or not older.
    pub fn remove(&mut self, address: u64) {
        if let Ok(index) = self.blocks.binary_search_by_key(&address, |&(address, _)| address)
            && self.blocks[index].1 & FREED == 0
        {
            let (_, size) = &mut self.blocks[index];
            self.live.blocks -= 1;
            self.live.bytes -= *size;
            *size |= FREED;
        }
    }

    /// The list as it is.
    pub fn now(&self, with_list: bool) -> OlderNow {
        let live = self.blocks.iter().filter(|&&(_, size)| with_list && size & FREED == 0);
        OlderNow { all: self.all, live: self.live, list: live.copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockCount, OlderList, OlderLost};
    use highwater_shm::attach_v1::{LOGGED_FREES, UnknownFreeLog};
    use std::fs::File;
    use std::io::Write as _;

    fn file(words: &[u64]) -> File {
        let mut file = crate::results::new_result().unwrap();
        words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
        file
    }

    fn log() -> Box<UnknownFreeLog> {
        // SAFETY: a log is atomics, for which zeros are valid.
        unsafe { Box::<UnknownFreeLog>::new_zeroed().assume_init() }
    }

    #[test]
    fn what_the_log_has_is_not_live() {
        let log = log();
        log.append(0x10_0000);
        let mut list = OlderList::read(&file(&[0x10_0000, 24, 0x10_0020, 100, 0x20_0000, 5000]), 1).unwrap();
        assert_eq!(list.follow(&log), Ok(()));
        assert_eq!(list.now(false).live, BlockCount { blocks: 3, bytes: 5124 });
        [0x10_0020, 0x10_0020, 0x7777].into_iter().for_each(|address| log.append(address));
        assert_eq!(list.follow(&log), Ok(()));
        let now = list.now(true);
        assert_eq!(
            (now.live, now.list),
            (BlockCount { blocks: 2, bytes: 5024 }, vec![(0x10_0000, 24), (0x20_0000, 5000)])
        );
        let figures = list.now(false).figures();
        assert_eq!((figures.live_blocks(), figures.live_bytes(), figures.allocations), (2, 5024, 3));
    }

    #[test]
    fn a_log_that_was_overwritten_says_so() {
        let log = log();
        let mut list = OlderList::read(&file(&[0x10_0000, 24]), 0).unwrap();
        (0..LOGGED_FREES).for_each(|_| log.append(0x7777));
        assert_eq!(list.follow(&log), Ok(()));
        (0..LOGGED_FREES).for_each(|_| log.append(0x7777));
        assert_eq!(list.follow(&log), Ok(()));
        (0..=LOGGED_FREES).for_each(|_| log.append(0x7777));
        assert_eq!(list.follow(&log), Err(OlderLost::TooManyFrees));
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        for words in [
            &[0x10_0000][..],
            &[0x10_0000, 64, 0x10_0020, 8],
            &[0x20_0000, 8, 0x10_0000, 8],
            &[8, 8],
            &[0x10_0000, u64::MAX],
        ] {
            assert!(OlderList::read(&file(words), 0).is_none(), "{words:x?}");
        }
        assert!(OlderList::read(&file(&[]), 0).is_some());
    }
}
