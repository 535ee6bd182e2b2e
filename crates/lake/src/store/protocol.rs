//! What `highwater` and the program of an object store say to each other: one JSON value a line, on the program's standard input and output.
//!
//! The program begins with [`StoreAnswer::Ready`] or [`StoreAnswer::Failed`]. Then it gets one request at a time, and ends each with [`StoreAnswer::Done`] or
//! [`StoreAnswer::Failed`]. Contents do not pass through the pipe: requests name files of this machine.

use super::{StoreError, StoredFile};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// A request to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreRequest {
    /// Stores a file under a new key.
    Put {
        /// The key in the lake.
        key: String,
        /// The file.
        file: PathBuf,
    },
    /// Writes contents to files of this machine. Each appears complete, by a rename.
    Get {
        /// The files, and where they go.
        files: Vec<WantedFile>,
    },
    /// Sends [`StoreAnswer::Files`], page by page.
    List {
        /// The keys' beginning.
        prefix: String,
    },
    /// Sends [`StoreAnswer::Files`] with one file.
    Head {
        /// The key.
        key: String,
    },
    /// Deletes files. Those that are not there are no error.
    Delete {
        /// The keys.
        keys: Vec<String>,
    },
}

/// A file that is wanted on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// The file, as it was listed. Another version of it is not taken.
    pub file: StoredFile,
    /// Where its content goes.
    pub to: PathBuf,
    /// Only this number of bytes at its end are wanted, if there are more. They are written at their place, after a hole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
}

/// A line of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreAnswer {
    /// The program has credentials and waits for requests. It has not contacted the store yet.
    Ready {
        /// The program's version.
        version: String,
        /// The store with its server: equal names of different servers differ in it.
        identity: String,
    },
    /// The request continues: the number of bytes moved since the last message.
    Moved(u64),
    /// Some of the files of a listing.
    Files(Vec<StoredFile>),
    /// The request is done.
    Done,
    /// The request is not done.
    Failed(StoreFailure),
}

/// A [`StoreError`] on its way through the pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in StoreError")]
pub enum StoreFailure {
    NotFound(String),
    Exists(String),
    Away(String),
    Refused(String),
    System { path: String, text: String },
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::NotFound(key) => Self::NotFound(key),
            StoreFailure::Exists(key) => Self::Exists(key),
            StoreFailure::Away(text) => Self::Away(text),
            StoreFailure::Refused(text) => Self::Refused(text),
            StoreFailure::System { path, text } => Self::System { path, error: io::Error::other(text) },
        }
    }
}
