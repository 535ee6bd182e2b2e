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
    /// A file cannot be used: it is damaged, or not of this table. Made by [`LakeError::file`].
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
    /// What is wrong with a file of the lake. A system call that failed says nothing about the file: a network file system may be away for a moment. So it is an
    /// error of the store, and no caller leaves the file out.
    pub fn file(file: &str, problem: FileProblem) -> Self {
        let file = file.to_owned();
        match problem {
            FileProblem::System(error) => Self::Store(StoreError::System { path: file, error }),
            problem => Self::File { file, problem },
        }
    }

    /// What is wrong with a temporary file. Never a [`LakeError::File`]: compaction leaves such files out and goes on.
    pub(crate) fn scratch(path: &str, problem: FileProblem) -> Self {
        let error = match problem {
            FileProblem::System(error) => error,
            problem => io::Error::other(problem.to_string()),
        };
        Self::Scratch { path: path.to_owned(), error }
    }
}
