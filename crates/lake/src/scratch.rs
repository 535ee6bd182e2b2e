//! Temporary files, in the system's folder for them.

use crate::error::LakeError;
use crate::store::{LakeStore, StoreError};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary file, removed when it is dropped.
pub struct ScratchFile {
    path: PathBuf,
    file: File,
}

static MADE: AtomicU64 = AtomicU64::new(0);

impl ScratchFile {
    pub fn new() -> Result<Self, LakeError> {
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("highwater-scratch-{}-{number}", std::process::id()));
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                // Left by a process that had this pid before.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LakeError::Scratch { path: path.display().to_string(), error }),
            }
        }
    }

    pub fn with(content: &[u8]) -> Result<Self, LakeError> {
        let scratch = Self::new()?;
        scratch.as_file().write_all(content).map_err(|error| scratch.failed(error))?;
        Ok(scratch)
    }

    pub const fn as_file(&self) -> &File {
        &self.file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn failed(&self, error: std::io::Error) -> LakeError {
        LakeError::Scratch { path: self.path.display().to_string(), error }
    }

    /// The file without a name: it vanishes when the last handle is closed, also after a crash.
    pub fn into_unnamed(self) -> Result<File, LakeError> {
        self.file.try_clone().map_err(|error| self.failed(error))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Puts content into a store. `false` if the key exists already.
pub fn put_new(store: &dyn LakeStore, key: &str, content: &[u8]) -> Result<bool, LakeError> {
    put_file(store, key, &ScratchFile::with(content)?)
}

/// Puts a file into a store. `false` if the key exists already.
pub fn put_file(store: &dyn LakeStore, key: &str, scratch: &ScratchFile) -> Result<bool, LakeError> {
    match store.put(key, scratch.path()) {
        Ok(()) => Ok(true),
        Err(StoreError::Exists(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
