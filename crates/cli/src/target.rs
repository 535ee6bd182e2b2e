//! Writing a file so that it is either whole or not there.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Lets `write` fill a file beside `path` that takes its name only when it is complete. What is no regular file (a
/// device, a pipe) is written directly.
pub fn replace_file<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let named = path;
    // A link stays a link: what it points to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return write(path);
    }
    let unfinished = unfinished_name(path);
    let finished = write(&unfinished).and_then(|result| {
        fs::rename(&unfinished, path).map_err(|error| Failure::writing_file(named, &error))?;
        Ok(result)
    });
    if finished.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    finished
}

/// Writes a file through [`replace_file`].
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    replace_file(path, |unfinished| {
        let mut out = BufWriter::new(File::create(unfinished).map_err(|error| Failure::writing_file(path, &error))?);
        write(&mut out)?;
        out.flush().map_err(|error| Failure::writing_file(path, &error))
    })
}

/// A name beside `path` that no other run uses.
fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    PathBuf::from(name)
}
