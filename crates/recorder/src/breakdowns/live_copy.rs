//! A copy of the live blocks of a recording at one instant.
//!
//! The thread that reads the rings makes it, and programs may wait meanwhile, so it does little: a pass over the blocks. Finding the owners, and everything
//! else, is left to the thread that reads pages.

use highwater_model::{AddressLedger, BreakdownReason, Catalog, Heap, Nanos, StackId, TagId};
use highwater_resident::{LiveBlock, LiveMapping, LiveMemory};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// No user-space address has this bit: it marks blocks that are being moved.
const MOVING: u64 = 1 << 63;
/// In [`LiveBlock::owner`] before owners are numbered: the rest is an index into the tagged owners, otherwise the number of a stack.
const TAGGED: u32 = 1 << 31;

/// The live blocks of a process at one instant.
pub struct LiveCopy {
    /// When.
    pub at: Nanos,
    /// What for.
    pub reason: BreakdownReason,
    memory: LiveMemory,
    /// Owners with a tag.
    tagged: Vec<(StackId, TagId)>,
}

/// What a process is known to have besides its blocks.
pub struct AboutMemory {
    /// The agent's private memory.
    pub agent: Vec<Range<u64>>,
    /// Whether every live block is known.
    pub knows_every_block: bool,
}

impl LiveCopy {
    /// Copies the blocks of a ledger.
    pub fn of(
        ledger: &AddressLedger,
        catalog: &Catalog,
        at: Nanos,
        reason: BreakdownReason,
        about: AboutMemory,
    ) -> Self {
        let accounts = ledger.accounts();
        let AboutMemory { agent, knows_every_block } = about;
        let mut memory = LiveMemory { agent, knows_every_block, ..LiveMemory::default() };
        memory.blocks.reserve_exact(accounts.state().blocks.len());
        let (mut tagged, mut numbers) = (Vec::new(), FxHashMap::default());
        for block in accounts.blocks().filter(|block| block.address & MOVING == 0) {
            let owner = if block.tag == TagId::NONE {
                block.stack.0
            } else {
                *numbers.entry((block.stack, block.tag)).or_insert_with(|| {
                    tagged.push((block.stack, block.tag));
                    TAGGED | (tagged.len() as u32 - 1)
                })
            };
            let heap = if block.tag == TagId::NONE { Heap::Malloc } else { catalog.tag(block.tag).heap };
            let address = heap.true_address(block.address);
            if heap == Heap::Mapped {
                memory.mappings.push(LiveMapping { start: address, end: address.saturating_add(block.size), owner });
            } else {
                let usable = block.usable_size().max(block.size);
                memory.blocks.push(LiveBlock { address, size: block.size, usable, owner });
            }
        }
        Self { at, reason, memory, tagged }
    }

    /// The memory, with its owners.
    pub fn into_memory(self) -> LiveMemory {
        let Self { mut memory, tagged, .. } = self;
        let mut owners = Owners::default();
        let blocks = memory.blocks.iter_mut().map(|block| &mut block.owner);
        for owner in blocks.chain(memory.mappings.iter_mut().map(|mapping| &mut mapping.owner)) {
            *owner = owners.number(*owner, &tagged);
        }
        memory.owners = owners.all;
        memory
    }
}

/// Numbers owners in the order in which they appear.
#[derive(Default)]
struct Owners {
    all: Vec<(StackId, TagId)>,
    /// One more than the number of each stack, and of each tagged owner; 0 for those that have none yet.
    stacks: Vec<u32>,
    tagged: Vec<u32>,
}

impl Owners {
    fn number(&mut self, owner: u32, tagged: &[(StackId, TagId)]) -> u32 {
        let index = (owner & !TAGGED) as usize;
        let (numbers, identity) = match owner & TAGGED {
            0 => (&mut self.stacks, (StackId(owner), TagId::NONE)),
            _ => (&mut self.tagged, tagged[index]),
        };
        if index >= numbers.len() {
            numbers.resize(index + 1, 0);
        }
        if numbers[index] == 0 {
            self.all.push(identity);
            numbers[index] = self.all.len() as u32;
        }
        numbers[index] - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{Event, EventKind, Placement, Tag, ThreadId, mapped_address};

    #[test]
    fn blocks_and_mappings_keep_their_owners() {
        let mut catalog = Catalog::default();
        let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let mut ledger = AddressLedger::default();
        let mut happens = |address, size, stack, tag| {
            let place = Placement { address, size, stack: StackId(stack), tag, ..Placement::default() };
            let kind = EventKind::Allocate(place);
            ledger.record(&Event { time: Nanos(1), thread: ThreadId(1), kind }, &mut ());
        };
        happens(0x1010, 100, 7, TagId::NONE);
        happens(0x2010, 10, 3, TagId::NONE);
        happens(0x3010, 20, 7, TagId::NONE);
        happens(mapped_address(0x10000), 8192, 7, mapped);
        happens(MOVING | 2, 30, 7, TagId::NONE);
        let about = AboutMemory { agent: std::iter::once(0..10).collect(), knows_every_block: true };
        let copy = LiveCopy::of(&ledger, &catalog, Nanos(5), BreakdownReason::Mark, about);
        let memory = copy.into_memory();
        let blocks: Vec<_> = memory
            .blocks
            .iter()
            .map(|block| (block.address, block.size, memory.owners[block.owner as usize]))
            .collect();
        let at = |stack| (StackId(stack), TagId::NONE);
        assert_eq!(blocks, [(0x1010, 100, at(7)), (0x2010, 10, at(3)), (0x3010, 20, at(7))]);
        assert_eq!(memory.blocks[0].usable, 104);
        let [mapping] = memory.mappings[..] else { panic!("{:?}", memory.mappings) };
        assert_eq!((mapping.start, mapping.end), (0x10000, 0x12000));
        assert_eq!(memory.owners[mapping.owner as usize], (StackId(7), mapped));
        assert_eq!((memory.owners.len(), memory.agent.len(), memory.knows_every_block), (3, 1, true));
    }
}
