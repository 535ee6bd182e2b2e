//! Where the streams that arrive are written to.

use super::file_name::file_name;
use crate::failure::{Failure, reason};
use highwater_model::Source;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that the user named, for the first stream, and others beside it; or a directory, where each has the name of its sender.
#[derive(Debug)]
pub struct Target {
    directory: PathBuf,
    file: Option<PathBuf>,
    is_first: AtomicBool,
}

impl Target {
    /// What the user named; this directory if nothing. Fails where nothing can be written.
    pub fn new(output: Option<&Path>) -> Result<Self, Failure> {
        let (directory, file) = match output {
            None => (PathBuf::new(), None),
            Some(path) if path.is_dir() => (path.to_owned(), None),
            Some(path) => (path.parent().unwrap_or(Path::new("")).to_owned(), Some(path.to_owned())),
        };
        let target = Self { directory, file, is_first: AtomicBool::new(true) };
        if let Some(file) = &target.file {
            OpenOptions::new().append(true).create(true).open(file).map_err(|error| cannot_write(file, &error))?;
        }
        Ok(target)
    }

    /// A new file for a stream from this source.
    pub fn create(&self, source: &Source, ending: &str) -> Result<(PathBuf, File), Failure> {
        if let Some(file) = &self.file
            && self.is_first.swap(false, Ordering::AcqRel)
        {
            return File::create(file).map(|opened| (file.clone(), opened)).map_err(|error| cannot_write(file, &error));
        }
        let base = match &self.file {
            Some(file) => file.clone(),
            None => self.directory.join(file_name(&source.host, &source.program, source.start_unix_ns, ending)),
        };
        let first = usize::from(self.file.is_some()) + 1;
        for number in first.. {
            let path = numbered(&base, number);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_write(&path, &error)),
            }
        }
        Err(Failure::in_file(&base, "there are too many files of this name"))
    }

    /// Takes away the file that the user named if nothing came for it.
    pub fn tidy_up(&self) {
        if let Some(file) = &self.file
            && self.is_first.load(Ordering::Acquire)
            && std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() == 0)
        {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::in_file(path, format_args!("cannot be written: {}", reason(error)))
}

/// `app.hw`, `app-2.hw`, `app-3.hw` …
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}
