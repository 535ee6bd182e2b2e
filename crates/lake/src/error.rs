//! Why something could not be done with a lake.

use crate::parquet::FileProblem;
use crate::store::StoreError;
use std::io;

/// Why something could not be done with a lake. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// Its path in the lake.
        file: String,
        /// Why.
        problem: FileProblem,
    },
    /// There is no lake.
    #[error("{0}: no lake (it has no lake.json)")]
    NoLake(String),
    /// A newer version of Highwater has made the lake.
    #[error("{name}: the lake has schema {schema}; this version of Highwater reads up to {supported}", supported = crate::SCHEMA)]
    Newer {
        /// The lake.
        name: String,
        /// Its schema.
        schema: u64,
    },
    /// A file that is not Parquet, such as lake.json, makes no sense.
    #[error("{file}: {why}")]
    Senseless {
        /// Its path in the lake.
        file: String,
        /// Why.
        why: String,
    },
    /// Rows to be added have values that cannot be.
    #[error("rows cannot be added to the lake: {0}")]
    Rows(FileProblem),
    /// A temporary file cannot be used.
    #[error("{path}: {error}")]
    Scratch {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// Other compactions changed the lake all the time.
    #[error("{0}: the lake changes all the time; try again")]
    Unsteady(String),
}

impl LakeError {
    pub(crate) fn file(file: &str, problem: FileProblem) -> Self {
        Self::File { file: file.to_owned(), problem }
    }
}
