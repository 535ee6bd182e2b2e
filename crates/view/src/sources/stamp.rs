//! Whether a file is still the one that was read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// That of the file which is there now.
    pub fn of(path: &Path) -> io::Result<Self> {
        let about = std::fs::metadata(path)?;
        let modified = (about.mtime(), about.mtime_nsec());
        Ok(Self { device: about.dev(), inode: about.ino(), length: about.len(), modified })
    }
}
