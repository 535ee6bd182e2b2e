//! What can be asked about a block.

use highwater_model::{AllocId, Block, ByteSum, Nanos, NumberLedger, StackId, TagId, ThreadId};

/// The owners of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owners {
    /// The stack.
    pub stack: StackId,
    /// The tag.
    pub tag: TagId,
    /// The thread.
    pub thread: ThreadId,
}

/// The properties of a block. Each is read only when it is asked for: block events are stored in columns.
pub trait BlockFacts {
    /// Its stack.
    fn stack(&self) -> StackId;
    /// Its tag.
    fn tag(&self) -> TagId;
    /// Its thread.
    fn thread(&self) -> ThreadId;
    /// When it was born.
    fn birth(&self) -> Nanos;
    /// Its size.
    fn size(&self) -> u64;
    /// The bytes and blocks that it counts as.
    fn amount(&self) -> (ByteSum, u64);
    /// How many samples hit it.
    fn samples(&self) -> u64;
    /// The whole block.
    fn owned(&self) -> OwnedBlock;
    /// Its owners.
    #[inline]
    fn owners(&self) -> Owners {
        Owners { stack: self.stack(), tag: self.tag(), thread: self.thread() }
    }
}

/// The times of a block's birth and death.
#[derive(Clone, Copy, Debug)]
pub struct BlockLife {
    /// When it was born.
    pub birth: Nanos,
    /// When it died; `None` for never.
    pub death: Option<Nanos>,
}

/// A block and its thread. The block's own index of its thread is valid only together with the accounts that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBlock {
    /// The block.
    pub block: Block,
    /// The thread.
    pub thread: ThreadId,
}

impl OwnedBlock {
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

impl BlockFacts for OwnedBlock {
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

    fn samples(&self) -> u64 {
        self.block.weight.samples()
    }

    fn owned(&self) -> OwnedBlock {
        *self
    }
}
