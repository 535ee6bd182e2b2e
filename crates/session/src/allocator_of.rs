//! Finds programs with an allocator linked into them, when they begin: their blocks are not seen.

use highwater_symbols::allocator_in;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The allocator's name for each file that was checked, by its device and inode number.
type KnownAllocators = HashMap<(u64, u64), Option<&'static str>>;

static KNOWN: LazyLock<Mutex<KnownAllocators>> = LazyLock::new(Mutex::default);

/// The allocator that is linked into the program of a process. `None` also if the process is gone.
pub fn allocator_of(pid: u32) -> Option<&'static str> {
    let path = format!("/proc/{pid}/exe");
    let path = Path::new(&path);
    let about = std::fs::metadata(path).ok()?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry((about.dev(), about.ino())).or_insert_with(|| allocator_in(path))
}
