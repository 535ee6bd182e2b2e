//! Where incoming streams are written to.

use super::file_name::file_name;
use crate::failure::Failure;
use crate::target::{Overwrite, cannot_be_written};
use highwater_model::Source;
use highwater_store::{behind_links, create_new_file, create_numbered_file, create_unfinished_file, open_special};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file that the user named, for the first stream, with the others beside it; or a directory, where each stream's file is named after its sender.
#[derive(Debug)]
pub struct Target {
    directory: PathBuf,
    file: Option<PathBuf>,
    first: Mutex<Option<First>>,
}

/// The file for the first stream, created before the stream arrives.
#[derive(Debug)]
struct First {
    file: File,
    /// Its path until the stream arrives.
    path: PathBuf,
    is_ours: bool,
}

impl Target {
    /// The path that the user named, or else the current directory. Fails if nothing can be written there, or if something would be overwritten.
    pub fn new(output: Option<&Path>, overwrite: Overwrite) -> Result<Self, Failure> {
        let (directory, file) = match output {
            None => (PathBuf::new(), None),
            Some(path) if path.is_dir() => (path.to_owned(), None),
            Some(path) => (path.parent().unwrap_or(Path::new("")).to_owned(), Some(path.to_owned())),
        };
        let first = file.as_deref().map(|path| First::new(path, overwrite)).transpose()?;
        Ok(Self { directory, file, first: Mutex::new(first) })
    }

    /// A new file for a stream from this source.
    pub fn create(&self, source: &Source, ending: &str) -> Result<(PathBuf, File), Failure> {
        let first = self.first().take();
        if let (Some(path), Some(first)) = (&self.file, first) {
            return first.begin(path).map(|file| (path.clone(), file));
        }
        let (base, number) = match &self.file {
            Some(file) => (file.clone(), 2),
            None => (self.directory.join(file_name(&source.host, &source.program, source.start_unix_ns, ending)), 1),
        };
        create_numbered_file(&base, number).map_err(|error| cannot_be_written(&base, &error))
    }

    /// Removes the file that the user named if no stream arrived for it.
    pub fn tidy_up(&self) {
        if let Some(first) = self.first().take()
            && first.is_ours
        {
            let _ = std::fs::remove_file(&first.path);
        }
    }

    fn first(&self) -> MutexGuard<'_, Option<First>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl First {
    /// Creates a file; with `--force` it replaces an older one only when a stream arrives.
    fn new(path: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        overwrite.check(path)?;
        let cannot_write = |error: std::io::Error| cannot_be_written(path, &error);
        if let Some(file) = open_special(path).map_err(cannot_write)? {
            return Ok(Self { file, path: path.to_owned(), is_ours: false });
        }
        let (path, file) = match overwrite.force {
            true => behind_links(path).and_then(|target| create_unfinished_file(&target)).map_err(cannot_write)?,
            false => (path.to_owned(), create_new_file(path).map_err(cannot_write)?),
        };
        Ok(Self { file, path, is_ours: true })
    }

    /// Takes the file for a stream that has arrived.
    fn begin(self, named: &Path) -> Result<File, Failure> {
        if self.is_ours && self.path != named {
            behind_links(named)
                .and_then(|target| std::fs::rename(&self.path, target))
                .map_err(|error| cannot_be_written(named, &error))?;
        }
        Ok(self.file)
    }
}
