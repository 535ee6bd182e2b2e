//! Files in memory that hold results for clients.

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsRawFd, OwnedFd};

/// A new file in memory.
pub fn new_result() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(rustix::fs::memfd_create("highwater-result", flags)?))
}

/// Seals a file, so that it can no longer be changed. The descriptor reads it from its beginning.
pub fn sealed(mut file: File) -> io::Result<OwnedFd> {
    file.rewind()?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // Opened again as read-only. If that fails, the seals have the same effect.
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap_or_else(|_| file.into()))
}
