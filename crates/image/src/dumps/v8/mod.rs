//! Heap snapshots of V8, the engine of Node.js and Chrome: `.heapsnapshot` files.
//!
//! The file is one JSON document: a description of the fields, then the nodes and the edges as arrays of numbers, then the strings. It is read from front to
//! back into an array for each field, and never held as text: documents of several gigabytes are longer than the longest string of the tools that parse them.

mod graph;
mod highlights;
mod lens;
mod meta;
mod read;
mod retain;
mod scanner;
mod show;
mod strings;

use super::{DumpError, DumpHeap, DumpKind, DumpSource};
use crate::examine::Examination;
use crate::heap::HeapAbilities;
use crate::highlights::Highlight;
pub use graph::V8Heap;

/// The most characters of a name that are shown.
const LONGEST_NAME: usize = 120;
/// The most characters of a constructor's name. Templates of C++ have long names, which differ at their ends.
const LONGEST_CLASS: usize = 4096;

/// Heap snapshots of V8.
pub struct V8Snapshot;

impl V8Snapshot {
    /// Reads a snapshot.
    pub fn read(source: &DumpSource) -> Result<V8Heap, DumpError> {
        read::read(source)
    }
}

impl DumpKind for V8Snapshot {
    fn key(&self) -> &'static str {
        "v8-heapsnapshot"
    }

    fn title(&self) -> &'static str {
        "V8 heap snapshot"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let mut rest = start;
        [&b"{"[..], b"\"snapshot\"", b":", b"{", b"\"meta\"", b":"].iter().all(|token| {
            rest = rest.trim_ascii_start();
            rest.strip_prefix(*token).map(|after| rest = after).is_some()
        })
    }

    fn open(&self, source: &DumpSource) -> Result<DumpHeap, DumpError> {
        Ok(Box::new(read::read(source)?))
    }
}

impl HeapAbilities for V8Heap {
    fn key(&self) -> &'static str {
        V8Snapshot.key()
    }

    fn name(&self) -> &'static str {
        "V8"
    }

    fn base(&self) -> u64 {
        0
    }

    fn object_noun(&self) -> &'static str {
        "node"
    }

    fn shape_noun(&self) -> &'static str {
        "constructor"
    }

    fn unreferred(&self) -> &'static str {
        "which only weak references lead to"
    }

    fn highlights(&self, examination: &Examination, top: usize) -> Vec<Highlight> {
        highlights::highlights(self, examination, top)
    }
}
