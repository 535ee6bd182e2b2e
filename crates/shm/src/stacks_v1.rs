//! Call stacks as a trie of calls: a stack is its innermost node. Append-only, so the reader needs no lock: a node whose
//! number it has read is complete.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// One call, reached through `parent`.
#[repr(C)]
pub struct TrieNode {
    /// The caller's node, always a smaller number; 0 is the root.
    pub parent: AtomicU32,
    /// The generation of modules that `pc` refers to: see [`modules_v1`](crate::modules_v1).
    pub generation: AtomicU32,
    /// The return address; the call lies one byte before it.
    pub pc: AtomicU64,
}
