//! Parts of a file, read into memory at their own offsets.
//!
//! Debug files can be huge, and most of their contents are not needed: only the needed sections of a file are read. They are not mapped: if another
//! program shortens a mapped file, its reader is ended by a signal, and `objcopy` and `cp` do write into existing files.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;

use memmap2::{Mmap, MmapMut};

/// As long as the file. Parts that were not read are zeros, and take no memory.
pub(crate) struct FileParts(Mmap);

/// Parts that are being read.
pub(crate) struct UnfinishedParts(MmapMut);

impl UnfinishedParts {
    /// An empty set of parts, of a file of this length.
    pub(crate) fn new(length: u64) -> io::Result<Self> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        // An empty mapping cannot be made.
        MmapMut::map_anon(length.max(1)).map(Self)
    }

    /// Reads a part; bytes after the end of the file are left out.
    pub(crate) fn read(&mut self, file: &File, part: Range<u64>) -> io::Result<()> {
        let end = part.end.min(self.0.len() as u64);
        if part.start >= end {
            return Ok(());
        }
        file.read_exact_at(&mut self.0[part.start as usize..end as usize], part.start).map_err(|error| {
            match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::other("the file became shorter while it was read"),
                _ => error,
            }
        })
    }

    pub(crate) fn finish(self) -> io::Result<FileParts> {
        self.0.make_read_only().map(FileParts)
    }
}

impl FileParts {
    /// A file that was never on disk, such as one that was compressed inside another.
    pub(crate) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        let mut parts = UnfinishedParts::new(bytes.len() as u64)?;
        parts.0[..bytes.len()].copy_from_slice(bytes);
        parts.finish()
    }
}

impl Deref for UnfinishedParts {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for FileParts {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
