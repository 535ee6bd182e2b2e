//! Heap dumps: files in which a runtime lists its objects and their references. A dump has no bytes of memory; an image does.
//!
//! A new kind of dump is a folder here, and two lines in this file: its `mod`, and its entry in [`DUMPS`]. Its reader makes a heap that implements
//! [`Lens`](crate::Lens) over the dump's objects, and [`HeapAbilities`](crate::HeapAbilities); then it is an [`ImageHeap`], and every command and view can
//! use it. An object's address in such a lens is its number in the dump, from 0 on, with a [`UNIT`](crate::Lens::UNIT) of 1 and a
//! [`SIZE_UNIT`](crate::Lens::SIZE_UNIT) that divides all sizes. [`object_name`](crate::Lens::object_name) and [`identity`](crate::Lens::identity) say how
//! the dump itself names it.

mod error;
pub mod hprof;
mod source;
pub mod v8;

pub use error::DumpError;
pub use source::DumpSource;

use crate::heap::ImageHeap;

/// A heap that was read from a dump. The viewer keeps it for several threads.
pub type DumpHeap = Box<dyn ImageHeap + Send + Sync>;

/// All kinds of dumps.
pub static DUMPS: &[&dyn DumpKind] = &[&hprof::Hprof, &v8::V8Snapshot];

/// A kind of heap dump.
pub trait DumpKind: Sync {
    /// Its name for programs: `v8-heapsnapshot`. Also the key of its [`HeapAbilities`](crate::HeapAbilities) and of its source.
    fn key(&self) -> &'static str;

    /// The name of such a file: `V8 heap snapshot`.
    fn title(&self) -> &'static str;

    /// True if a file with this beginning is such a dump. The beginning is decompressed.
    fn recognizes(&self, start: &[u8]) -> bool;

    /// Reads all objects.
    fn open(&self, source: &DumpSource) -> Result<DumpHeap, DumpError>;
}

impl std::fmt::Debug for dyn DumpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key())
    }
}

/// The kind of dump of a file with this beginning, which may be compressed.
pub fn recognize_dump(start: &[u8]) -> Option<&'static dyn DumpKind> {
    let start = source::unpacked_start(start);
    DUMPS.iter().copied().find(|kind| kind.recognizes(&start))
}
