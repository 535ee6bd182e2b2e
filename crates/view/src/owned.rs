//! Blocks with their owners.

use crate::sieve::Candidate;
use highwater_model::{AllocId, Block, ByteSum, Nanos, NumberLedger, StackId, TagId, ThreadId};

/// A block and its thread. The block's own index of its thread is valid only together with the accounts that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// The block.
    pub block: Block,
    /// The thread.
    pub thread: ThreadId,
}

impl Owned {
    /// A live block by its allocation number.
    pub fn find(ledger: &NumberLedger, id: AllocId) -> Option<Self> {
        let block = ledger.find(id)?;
        let thread = ledger.accounts().threads().get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        Some(Self { block, thread })
    }

    /// The same with another tag.
    pub fn tagged(self, tag: TagId) -> Self {
        Self { block: Block { tag, ..self.block }, ..self }
    }
}

impl Candidate for Owned {
    fn stack(&self) -> StackId {
        self.block.stack
    }

    fn tag(&self) -> TagId {
        self.block.tag
    }

    fn thread(&self) -> ThreadId {
        self.thread
    }

    fn birth(&self) -> Nanos {
        self.block.time
    }

    fn size(&self) -> u64 {
        self.block.size
    }

    fn amount(&self) -> (ByteSum, u64) {
        (self.block.live_amount(), self.block.live_blocks())
    }

    fn owned(&self) -> Owned {
        *self
    }
}
