//! Detects whether a file has changed since it was read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that was not written to for this number of seconds is assumed not to grow any more.
const SETTLED: i64 = 5;

/// The identity and version of a file. Of a lake in an object store, all zeros: the view of a fleet asks it anew, and reading all of it whenever a host has sent
/// something would never end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// The stamp of the file that is at this path now.
    pub fn of(path: &Path) -> io::Result<Self> {
        if is_in_object_store(path) {
            return Ok(Self::default());
        }
        let about = std::fs::metadata(path)?;
        let modified = (about.mtime(), about.mtime_nsec());
        Ok(Self { device: about.dev(), inode: about.ino(), length: about.len(), modified })
    }

    /// True for a file that no process seems to be writing.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        now.saturating_sub(self.modified.0) >= SETTLED
    }
}

/// Whether a path is `s3://…`, or has another scheme, which the opener of lakes then refuses.
pub fn is_in_object_store(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://")) && !path.exists()
}
