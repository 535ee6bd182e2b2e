//! The raw events that a source reports, keyed by address.

use crate::blocks::Block;
use crate::ids::{AllocId, Nanos, StackId, StringId, TagId, ThreadId};
use crate::weight::Weight;

/// One event of a memory. Small and `Copy`: building one never allocates. Names and stacks are handles into the [`Catalog`](crate::Catalog) that
/// accompanies the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub time: Nanos,
    /// The thread that did it.
    pub thread: ThreadId,
    /// What was done.
    pub kind: EventKind,
}

/// The kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A block was allocated.
    Allocate(Placement),
    /// A block was resized, and perhaps moved: one event, so that no instant shows both places or neither.
    Reallocate {
        /// Where the block was.
        old_address: u64,
        /// The old size, if the source reports it.
        claimed_old_size: Option<u64>,
        /// The new placement. An unknown stack or tag keeps the old one of the block.
        new: Placement,
    },
    /// A block was freed.
    Deallocate {
        /// Where it was.
        address: u64,
        /// The size of the block, if the source reports it.
        claimed_size: Option<u64>,
        /// The call stack that freed it, if the source reports it.
        stack: StackId,
    },
    /// A block was moved to another heap, as when a garbage collector promotes it: neither a new block nor a reallocation.
    Promote {
        /// The address under which it is recorded, before and after.
        address: u64,
        /// Its variable and type, and its new heap.
        tag: TagId,
    },
    /// The program named this instant.
    Mark {
        /// Its name.
        name: StringId,
    },
    /// A measured value, such as the resident set or a linear memory's size.
    Gauge {
        /// What was measured.
        name: StringId,
        /// Its value, in bytes unless the name says otherwise.
        value: u64,
    },
    /// The source had to drop this many events here.
    Dropped {
        /// How many.
        count: u64,
    },
}

impl EventKind {
    /// A free by a stack that is not known.
    pub const fn free(address: u64, claimed_size: Option<u64>) -> Self {
        Self::Deallocate { address, claimed_size, stack: StackId::UNKNOWN }
    }

    /// True for events; false for `Dropped`, which only reports missing events.
    pub fn is_event(&self) -> bool {
        !matches!(self, Self::Dropped { .. })
    }
}

/// The address, size, site and tag of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its address. Mappings use [`mapped_address`](crate::mapped_address), also where events name an old address.
    pub address: u64,
    /// The size asked for, in bytes.
    pub size: u64,
    /// The call stack that asked.
    pub stack: StackId,
    /// The variable and type it is for, and the heap it lies in.
    pub tag: TagId,
    /// Usable bytes beyond those that [`usable_of_size`](crate::usable_of_size) expects; also 0 if not known.
    pub surplus: i32,
    /// The blocks and bytes that it stands for, if not all blocks are recorded.
    pub weight: Weight,
}

impl Placement {
    /// The block that is allocated there. Its thread is the first one of its accounts.
    pub fn born(self, id: AllocId, time: Nanos) -> Block {
        let Self { address, size, stack, tag, surplus, weight } = self;
        Block { id, address, size, time, thread: 0, stack, tag, surplus, weight }
    }
}
