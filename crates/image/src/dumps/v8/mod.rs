//! Heap snapshots of V8, the engine of Node.js and Chrome: `.heapsnapshot` files.

use super::{DumpError, DumpHeap, DumpKind, DumpSource};

/// Heap snapshots of V8.
pub struct V8Snapshot;

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

    fn open(&self, _: &DumpSource) -> Result<DumpHeap, DumpError> {
        Err(DumpError::damaged(0, "snapshots of V8 are not read yet"))
    }
}
