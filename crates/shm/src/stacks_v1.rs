//! Call stacks as a trie of calls: a stack is its innermost node. Append-only, so the reader needs no lock: a node whose
//! number it has read is complete.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// A node whose `pc` has this bit is no call. Its parent is a whole stack, and the rest of `pc` is the number of the task that allocated there, whose
/// name is in the [log](crate::modules_v1). No address of user space has the bit.
pub const TASK_BIT: u64 = 1 << 63;

/// One call, reached through `parent`.
#[repr(C)]
pub struct TrieNode {
    /// The caller's node, always a smaller number; 0 is the root.
    pub parent: AtomicU32,
    /// The generation of modules that `pc` refers to: see [`modules_v1`](crate::modules_v1).
    pub generation: AtomicU32,
    /// The return address; the call lies one byte before it. Or a [task](TASK_BIT).
    pub pc: AtomicU64,
}
