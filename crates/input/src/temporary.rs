//! Temporary files without a name: recordings of files in other formats, and copies of input that cannot be read twice.

use crate::error::InputError;
use highwater_store::{OpenError, Recording, unnamed_file};
use std::fs::File;
use std::io;
use std::path::Path;

/// A new temporary file without a name.
pub fn temporary_file() -> Result<File, InputError> {
    unnamed_file().map_err(cannot_write_temporary)
}

/// Opens the recording in a temporary file. `path` is the original file.
pub(crate) fn recording_in(file: File, path: &Path) -> Result<Recording, InputError> {
    Recording::from_file(file).map_err(|error| match error {
        OpenError::Io(error) => cannot_write_temporary(error),
        other => InputError::unusable(path, other),
    })
}

/// The error of a temporary file that could not be written or read.
pub fn cannot_write_temporary(error: io::Error) -> InputError {
    InputError::Temporary(InputError::Write(error).to_string())
}
