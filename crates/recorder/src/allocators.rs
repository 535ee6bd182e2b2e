//! Programs with an allocator linked into them, found when they begin: their blocks are not seen.

use highwater_symbols::allocator_in;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What was found so far, by the file's device and number.
#[derive(Default)]
pub struct Allocators {
    known: HashMap<(u64, u64), Option<&'static str>>,
}

impl Allocators {
    /// The allocator that is linked into the program that a process runs. Nothing if that is gone.
    pub fn of_process(&mut self, pid: u32) -> Option<&'static str> {
        let path = format!("/proc/{pid}/exe");
        let path = Path::new(&path);
        let about = std::fs::metadata(path).ok()?;
        *self.known.entry((about.dev(), about.ino())).or_insert_with(|| allocator_in(path))
    }
}
