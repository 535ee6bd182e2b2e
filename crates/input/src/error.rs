//! Why a file could not be read.

use highwater_image::canister::FolderError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read, as a sentence for users.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The operating system reports an error.
    #[error("{}: cannot read: {}", path.display(), reason(error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The content of the file cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The files of an image cannot be used.
    #[error(transparent)]
    Parts(#[from] FolderError),
    /// A temporary file could not be written.
    #[error("cannot write a temporary file: {0}; TMPDIR names another place")]
    Temporary(String),
    /// The recording could not be written.
    #[error("{}", reason(.0))]
    Write(io::Error),
}

impl InputError {
    /// The operating system reports an error for a file.
    pub fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), error }
    }

    /// The content of a file cannot be used.
    pub fn unusable(path: &Path, why: impl ToString) -> Self {
        Self::Unusable { path: path.to_owned(), why: why.to_string() }
    }
}

/// The message of the operating system, without the error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
