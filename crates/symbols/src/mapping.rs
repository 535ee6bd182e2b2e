//! A file's bytes, mapped into memory.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

/// A mapped file: of a debug file of 500 MB only the pages that are looked at are read.
pub(crate) struct Mapping(Mmap);

impl Mapping {
    /// Maps a regular file. Others (a pipe, a terminal) could keep us waiting and are refused.
    #[allow(unsafe_code)]
    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: the bytes must not change while they are borrowed. The mapping is private and read-only, and compilers,
        // linkers and package managers replace such files rather than write into them. Should one be overwritten
        // all the same, the parsers meet other bytes, each of which they check when they use it; should it be
        // shortened, the process gets a SIGBUS. Both are said in the crate's documentation.
        Ok(Mapping(unsafe { Mmap::map(&file)? }))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
