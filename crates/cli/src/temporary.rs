//! Temporary files, which have no name: recordings of what is none, and copies of what cannot be read twice.

use crate::failure::{Failure, reason};
use highwater_store::{OpenError, Recording, unnamed_file};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// A new one.
pub fn file() -> Result<File, Failure> {
    unnamed_file().map_err(|error| cannot_write(&error))
}

/// The recording that was written into one, of what is at `path`.
pub fn recording(file: File, path: &Path) -> Result<Recording, Failure> {
    Recording::from_file(file).map_err(|error| match error {
        OpenError::Io(error) => cannot_write(&error),
        other => Failure::in_file(path, other),
    })
}

/// What is said where one could not be written or read.
pub fn cannot_write(error: &io::Error) -> Failure {
    cannot_write_because(reason(error))
}

/// The same, where the reason is in words.
pub fn cannot_write_because(why: impl fmt::Display) -> Failure {
    Failure::fault(format_args!("cannot write a temporary file: {why}; TMPDIR names another place"))
}
