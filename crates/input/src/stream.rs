//! Files and pipes that are read from front to back.

use crate::error::InputError;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The size of a regular file; `None` for pipes and the like.
pub fn regular_size(path: &Path) -> Option<u64> {
    if is_standard_input(path) {
        return None;
    }
    std::fs::metadata(path).ok().filter(Metadata::is_file).map(|about| about.len())
}

/// The size of a regular file, or of all files of a folder; none of a pipe.
pub fn stored_size(path: &Path) -> Option<u64> {
    if is_standard_input(path) || !path.is_dir() {
        return regular_size(path);
    }
    let files = std::fs::read_dir(path).ok()?.flatten();
    Some(files.filter_map(|file| file.metadata().ok().filter(Metadata::is_file)).map(|about| about.len()).sum())
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file for reading; `-` is standard input.
pub fn input(path: &Path) -> Result<Box<dyn Read>, InputError> {
    if is_standard_input(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| InputError::unreadable(path, error))?;
    match file.metadata() {
        Ok(about) if about.is_dir() => Err(InputError::unusable(path, "is a folder; give a file")),
        _ => Ok(Box::new(file)),
    }
}

/// Progress callback: gets the current activity and the progress. Returns `false` to cancel, because the client has disconnected.
pub type ProgressCallback<'a> = dyn FnMut(&str, f64) -> bool + 'a;

/// A file that is read from front to back.
pub struct InputStream<'a> {
    /// Its content.
    content: &'a mut dyn Read,
    /// The path as given by the user; `-` is standard input.
    pub path: &'a Path,
    /// The current activity, for a progress bar.
    pub doing: &'static str,
    size: Option<u64>,
    read: u64,
    progress: &'a mut ProgressCallback<'a>,
}

impl<'a> InputStream<'a> {
    /// Reads `content`, which is the whole file at `path`.
    pub fn new(content: &'a mut dyn Read, path: &'a Path, progress: &'a mut ProgressCallback<'_>) -> Self {
        Self { content, path, doing: "reading", size: regular_size(path), read: 0, progress }
    }

    /// The bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The file's name without its folder; empty for standard input.
    pub fn name(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name == "-" { String::new() } else { name }
    }

    /// The error for this file.
    pub fn unreadable(&self, error: io::Error) -> InputError {
        InputError::unreadable(self.path, error)
    }
}

impl Read for InputStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = self.size.map_or(0.0, |size| self.read as f64 / size.max(1) as f64);
        if !(self.progress)(self.doing, part) {
            return Err(io::Error::other("no client waits for it any more"));
        }
        let count = self.content.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}
