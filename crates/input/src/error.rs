//! Why a file could not be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read, in a sentence for people.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system does not let us read it.
    #[error("{}: cannot read: {}", path.display(), reason(error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What is in it cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A temporary file could not be written.
    #[error("cannot write a temporary file: {0}; TMPDIR names another place")]
    Temporary(String),
    /// The recording that was to be written could not be.
    #[error("{}", reason(.0))]
    Write(io::Error),
}

impl InputError {
    /// The system does not let us read a file.
    pub fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), error }
    }

    /// What is in a file cannot be used.
    pub fn unusable(path: &Path, why: impl ToString) -> Self {
        Self::Unusable { path: path.to_owned(), why: why.to_string() }
    }
}

/// What the system says, without the number of its error.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
