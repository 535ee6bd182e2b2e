//! Handles and units: one newtype per meaning, so that a stack cannot be passed in place of a string.

use std::fmt;

/// The number of an allocation: the identity of a block from its birth to its death, through reallocations.
/// Addresses are reused, numbers never are (law 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocId(pub u64);

impl Default for AllocId {
    /// No allocation.
    fn default() -> Self {
        Self(u64::MAX)
    }
}

/// The identity of a store of events, among all stores of all processes. It is another one after the store was cleared, since numbers of allocations
/// start again then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(pub u128);

/// A thread as its source numbers it (the kernel's thread id for native programs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

impl ThreadId {
    /// All threads of a source that does not tell them apart: its events are one sequence. What the thread of a block did next is then not known, so a
    /// block is temporary only if the very next event of the sequence that allocates or frees is its own free. heaptrack counts so.
    ///
    /// The number is the largest that every reader of JSON keeps exactly. No kernel gives it to a thread.
    pub const UNKNOWN: Self = Self((1 << 53) - 1);
}

/// A call stack in a [`Catalog`](crate::Catalog); [`StackId::UNKNOWN`] where the source gave none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// The root of the stack trie: no frame is known.
    pub const UNKNOWN: Self = Self(0);
}

/// A frame in a [`Catalog`](crate::Catalog).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The frame of a stack node whose frame was lost to damage. A stack ends there.
    pub const LOST: Self = Self(u32::MAX);
}

/// A string in a [`Catalog`](crate::Catalog); number 0 is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub u32);

impl StringId {
    /// The empty string, which means "not known".
    pub const EMPTY: Self = Self(0);
}

/// A [`Tag`](crate::Tag) in a [`Catalog`](crate::Catalog): variable name, type name, heap and task. Number 0 means that none of the names is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagId(pub u32);

impl TagId {
    /// Neither variable nor type is known.
    pub const NONE: Self = Self(0);
}

/// Nanoseconds since the start of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl fmt::Display for Nanos {
    /// Seconds with as many digits as are useful: `12.5s`, `3.2ms`, `87ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{}ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1}µs", ns / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1}ms", ns / 1e6),
            _ => write!(f, "{:.2}s", ns / 1e9),
        }
    }
}
