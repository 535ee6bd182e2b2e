//! The table of regions that Motoko's runtime keeps at the beginning of stable memory: which block belongs to which region.
//!
//! ```text
//!  0x00  "MOREGION"     0x08  version, 4 bytes: 2        0x0c  pages of a block, 4 bytes: 128
//!  0x10  the page at which blocks begin, 4 bytes: 16     0x16  number of blocks, 4 bytes     0x1a  number of regions, 8 bytes
//!  0x22  for each block 11 bytes: its region's id plus one (8), its place in the region (2), the pages of it that are in use (1)
//! ```
//!
//! Measured with modules of the compiler in the npm package `motoko` 4.10.0, of both layouts. The first 16 regions are reserved; region 0 is the stable memory of programs that
//! use no regions.

use super::WASM_PAGE;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"MOREGION";
const VERSION: u32 = 2;
const TABLE: usize = 0x22;
const ENTRY: usize = 11;
/// The most blocks: a stable memory has at most 500 GiB, and a block 8 MiB.
const MOST_BLOCKS: u32 = 1 << 16;
/// The longest table, with what is before it.
const LONGEST: u64 = TABLE as u64 + MOST_BLOCKS as u64 * ENTRY as u64;

/// A region of stable memory, as the table of blocks has it. A region without any page has no blocks, and is not in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionBlocks {
    /// The number of its blocks.
    pub blocks: u64,
    /// The pages of them that are in use.
    pub pages: u64,
}

/// The table of regions in a stable memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionTable {
    /// The bytes of a block.
    pub block_bytes: u64,
    /// The regions that have blocks, by their ids.
    pub regions: BTreeMap<u64, RegionBlocks>,
}

impl RegionTable {
    /// Reads the table of a stable memory; none if there is no sound one.
    pub fn read(stable: &File) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        stable.take(LONGEST).read_to_end(&mut beginning)?;
        Ok(Self::parse(&beginning))
    }

    /// The table at the beginning of a stable memory.
    pub fn parse(beginning: &[u8]) -> Option<Self> {
        let (head, entries) = beginning.split_first_chunk::<TABLE>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (version, pages, blocks) = (number(0x08), number(0x0c), number(0x16));
        if &head[..8] != MAGIC || version != VERSION || pages == 0 || blocks > MOST_BLOCKS {
            return None;
        }
        let entries = entries.get(..blocks as usize * ENTRY)?;
        let mut regions: BTreeMap<u64, RegionBlocks> = BTreeMap::new();
        for entry in entries.chunks_exact(ENTRY) {
            let id = entry[..8].try_into().map_or(0, u64::from_le_bytes);
            // A block without a region is free.
            let Some(id) = id.checked_sub(1) else { continue };
            let region = regions.entry(id).or_default();
            region.blocks += 1;
            region.pages += u64::from(entry[10]);
        }
        Some(Self { block_bytes: u64::from(pages) * WASM_PAGE, regions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(blocks: u32, entries: &[(u64, u16, u8)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in [VERSION, 128, 16] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([0, 0]);
        bytes.extend(blocks.to_le_bytes());
        bytes.extend(22u64.to_le_bytes());
        for (id, rank, pages) in entries {
            bytes.extend(id.to_le_bytes());
            bytes.extend(rank.to_le_bytes());
            bytes.push(*pages);
        }
        bytes
    }

    #[test]
    fn blocks_are_added_up_by_region() {
        let found =
            RegionTable::parse(&table(4, &[(17, 0, 3), (19, 0, 128), (19, 1, 72), (0, 0, 0)])).expect("a table");
        let region = |blocks, pages| RegionBlocks { blocks, pages };
        assert_eq!(found.regions, BTreeMap::from([(16, region(1, 3)), (18, region(2, 200))]));
        assert_eq!(found.block_bytes, 8 << 20);
    }

    #[test]
    fn another_stable_memory_and_a_table_that_is_cut_off_have_no_regions() {
        assert_eq!(RegionTable::parse(&table(9, &[(17, 0, 3)])), None);
        assert_eq!(RegionTable::parse(&table(u32::MAX, &[])), None);
        assert_eq!(RegionTable::parse(b"MGR\x01 a memory manager of a Rust canister, longer than that"), None);
        assert_eq!(RegionTable::parse(b"MOREGION"), None);
    }
}
