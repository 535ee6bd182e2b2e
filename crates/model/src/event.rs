//! What a source reports: raw events, keyed by address, as they happened.

use crate::ids::{Nanos, StackId, StringId, TagId, ThreadId};
use crate::weight::Weight;

/// One thing that happened to a memory. Small and `Copy`: building one never touches the heap; names and stacks are
/// handles into the [`Catalog`](crate::Catalog) that travels with the events.
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
    /// A block was handed out.
    Allocate(Placement),
    /// A block was resized, and perhaps moved: one event, so that no instant shows both places or neither.
    Reallocate {
        /// Where the block was.
        old_address: u64,
        /// How large the source says it was, where it says so.
        claimed_old_size: Option<u64>,
        /// Where and what it is now. An unknown stack or tag keeps the block's old one.
        new: Placement,
    },
    /// A block was given back.
    Deallocate {
        /// Where it was.
        address: u64,
        /// How large the source says it was, where it says so.
        claimed_size: Option<u64>,
    },
    /// A block came to lie in another heap, as when a garbage collector keeps it: neither a new block nor a reallocation.
    Promote {
        /// The address under which it is recorded, before and after.
        address: u64,
        /// What it is for, and the heap it lies in now.
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
    /// True for what counts as an event; false for a note that some are missing.
    pub fn is_event(&self) -> bool {
        !matches!(self, Self::Dropped { .. })
    }
}

/// Where a block is, how large, and who asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its address; that of a mapping as [`mapped_address`](crate::mapped_address) says, also where events name an old address.
    pub address: u64,
    /// The size asked for, in bytes.
    pub size: u64,
    /// The call stack that asked.
    pub stack: StackId,
    /// The variable and type it is for, and the heap it lies in.
    pub tag: TagId,
    /// Bytes that can be used beyond those that [`usable_of_size`](crate::usable_of_size) expects; 0 as well where not known.
    pub surplus: i32,
    /// What it stands for, where not all blocks are recorded.
    pub weight: Weight,
}
