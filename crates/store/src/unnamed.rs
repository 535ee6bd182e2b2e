//! Temporary files without a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary file that vanishes with its last handle, and that no other process can open.
///
/// It may become large, so it is created in `TMPDIR`, or else in `/var/tmp`: on many machines `/tmp` is in memory.
pub fn unnamed_file() -> io::Result<File> {
    if let Some(chosen) = std::env::var_os("TMPDIR").filter(|chosen| !chosen.is_empty()) {
        return unnamed_file_in(&PathBuf::from(chosen));
    }
    unnamed_file_in(Path::new("/var/tmp")).or_else(|_| unnamed_file_in(&std::env::temp_dir()))
}

fn unnamed_file_in(place: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("highwater-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = place.join(name);
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
