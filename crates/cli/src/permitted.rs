//! Files that other files name, or that are looked for: below `highwater mcp` they must lie below its folders.

use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Error};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that `highwater mcp` sets for the commands that answer: its folders without links, each followed by a line feed.
pub const ONLY_BELOW: &str = "HIGHWATER_ONLY_BELOW";

/// Folders as the value of [`ONLY_BELOW`].
pub fn only_below<'a>(folders: impl Iterator<Item = &'a Path>) -> OsString {
    OsString::from_vec(folders.flat_map(|folder| [folder.as_os_str().as_bytes(), b"\n"].concat()).collect())
}

/// True if only files below some folders may be opened.
pub fn is_limited() -> bool {
    std::env::var_os(ONLY_BELOW).is_some()
}

/// The folders, if there are such.
fn folders() -> Option<Vec<PathBuf>> {
    let value = std::env::var_os(ONLY_BELOW)?;
    let folders = value.as_bytes().split(|byte| *byte == b'\n').filter(|folder| !folder.is_empty());
    Some(folders.map(|folder| PathBuf::from(OsString::from_vec(folder.to_vec()))).collect())
}

/// True if a path, which has no links in it, may be looked at.
pub fn is_permitted(path: &Path) -> bool {
    folders().is_none_or(|folders| folders.iter().any(|folder| path.starts_with(folder)))
}

/// Opens a file. With [`ONLY_BELOW`], it must be a regular one below the folders, wherever links lead.
pub fn open(path: &Path) -> io::Result<File> {
    if is_limited() { open_regular(path) } else { File::open(path) }
}

/// Opens a regular file. With [`ONLY_BELOW`], it must be below the folders, wherever links lead.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Without waiting: a pipe would be opened only when a writer comes.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    if !is_limited() {
        return Ok(file);
    }
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if is_permitted(&real) { Ok(file) } else { Err(Error::other("it is outside of the permitted folders")) }
}
