//! Opens a source file, checks it, and reads it.

use super::{SourceFileError, is_source_name};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The longest file that is read. Generated parsers have a few MiB.
pub const MOST_BYTES: u64 = 8 << 20;

/// The text of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// Where it is, without links.
    pub path: PathBuf,
    /// Its text. Bytes that are no UTF-8 became `�`.
    pub text: String,
}

/// A file that passes all checks that need no content.
pub struct Checked {
    /// Where it is, without links.
    pub path: PathBuf,
    /// A reference to it, which cannot be read.
    reference: File,
}

fn unreadable(error: &io::Error) -> SourceFileError {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::NotFound => SourceFileError::NotHere,
        _ => SourceFileError::Unreadable(text.split(" (os error").next().unwrap_or(&text).to_owned()),
    }
}

/// Opens a reference to a file, and checks what it refers to.
pub fn checked(path: &Path) -> Result<Checked, SourceFileError> {
    let flags = OFlags::PATH.bits() as i32;
    let reference = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| unreadable(&error))?;
    let about = reference.metadata().map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err(SourceFileError::NotRegular);
    }
    if about.len() > MOST_BYTES {
        return Err(SourceFileError::TooLarge);
    }
    let real = std::fs::read_link(link_of(&reference)).map_err(|error| unreadable(&error))?;
    if !real.to_str().is_some_and(is_source_name) {
        return Err(SourceFileError::NotSource);
    }
    Ok(Checked { path: real, reference })
}

/// The name under which the kernel opens a reference again.
fn link_of(reference: &File) -> String {
    format!("/proc/self/fd/{}", reference.as_raw_fd())
}

/// The text of a file.
pub fn text(path: &Path) -> Result<SourceText, SourceFileError> {
    let Checked { path, reference } = checked(path)?;
    let flags = OFlags::NONBLOCK.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(link_of(&reference));
    let mut bytes = Vec::new();
    opened.and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes)).map_err(|error| unreadable(&error))?;
    // It may have grown since it was checked.
    if bytes.len() as u64 > MOST_BYTES {
        return Err(SourceFileError::TooLarge);
    }
    if bytes.contains(&0) {
        return Err(SourceFileError::Binary);
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(SourceText { path, text })
}
