//! Where a lake's files are: a folder, or an object store.

mod file_cache;
mod folder;
mod program;
mod program_file;
pub mod protocol;
mod running_program;

pub use folder::FolderStore;
pub use program::{ProgramStore, StoreProgram};

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file of a lake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its path in the lake, with slashes: `sites/day=2026-11-18/service=api/09-3f2a.parquet`.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Changes when the file's content does: an ETag, or time and length.
    pub tag: String,
}

/// Why a store did not do what it was asked. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("{0}: no such file in the lake")]
    NotFound(String),
    /// A file of this name exists already.
    #[error("{0}: exists already")]
    Exists(String),
    /// The store cannot be reached now: worth another try.
    #[error("{0}")]
    Away(String),
    /// The store refuses, and will refuse again.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{path}: {error}")]
    System {
        /// The file or folder.
        path: String,
        /// The error.
        error: io::Error,
    },
}

/// The store that a user names: `s3://BUCKET/PREFIX`, or a folder.
pub fn open_store(uri: &str) -> Result<Arc<dyn LakeStore>, StoreError> {
    match uri.split_once("://") {
        None => Ok(Arc::new(FolderStore::new(Path::new(uri)))),
        Some(("s3", _)) => Ok(Arc::new(ProgramStore::open(uri, StoreProgram::find()?)?)),
        Some((scheme, _)) => Err(StoreError::Refused(format!("{uri}: no store is known for {scheme}://"))),
    }
}

/// The files of a lake.
pub trait LakeStore: Send + Sync {
    /// Puts a whole file into the store under a new key. It is visible complete or not at all; an existing file is not replaced.
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError>;
    /// The content of a file, as a file on this machine. `tag` is that of its listing; a copy may be kept under it.
    fn open(&self, file: &StoredFile) -> Result<File, StoreError>;
    /// The path of a file's content on this machine, for engines that open files by name. It stays valid while the store does.
    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError>;
    /// The paths of several files, which an object store brings to this machine at the same time.
    fn local_paths(&self, files: &[StoredFile]) -> Result<Vec<PathBuf>, StoreError> {
        files.iter().map(|file| self.local_path(file)).collect()
    }
    /// Files of the right lengths that have at least the last bytes of some files; before those they may have zeros. An object store sends no more of them.
    fn ends(&self, files: &[StoredFile], _bytes: u64) -> Result<Vec<File>, StoreError> {
        files.iter().map(|file| self.open(file)).collect()
    }
    /// Brings files that will be opened soon to this machine, several at a time. As many as the cache holds.
    fn bring(&self, _files: &[StoredFile]) -> Result<(), StoreError> {
        Ok(())
    }
    /// All files whose keys begin with a prefix, in the order of their keys. Files that are being written are not among them.
    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError>;
    /// Deletes a file. One that is not there is no error.
    fn delete(&self, key: &str) -> Result<(), StoreError>;
    /// Deletes files, many at once where the store can.
    fn delete_all(&self, keys: &[String]) -> Result<(), StoreError> {
        keys.iter().try_for_each(|key| self.delete(key))
    }
    /// Removes what writers that were killed have left, if it is older than this. Returns how many files these were.
    fn sweep(&self, _older_than: Duration) -> Result<u64, StoreError> {
        Ok(0)
    }
    /// The lake as the user named it, for messages.
    fn name(&self) -> &str;
}

/// Whether a key is a relative path without surprises: it names a file below any folder that it is joined to.
fn is_plain_key(key: &str) -> bool {
    key.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'))
}

fn system(path: &Path, error: io::Error) -> StoreError {
    StoreError::System { path: path.display().to_string(), error }
}
