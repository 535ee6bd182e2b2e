//! The file of a recording. It is created before the program starts, so that a problem with it is known by then.

use crate::failure::Failure;
use crate::output::say;
use crate::target::{Overwrite, cannot_be_written, exists};
use highwater_recorder::{children_folder, children_of, remove_children_of};
use highwater_store::{behind_links, create_in_place_of, create_new_file, numbered, open_special};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of names to try.
const MOST_NAMES: usize = 10_000;

/// A file that is still empty.
#[derive(Debug)]
pub struct RecordingFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The open file; taken by the writer.
    pub file: Option<File>,
    /// Device and inode of the file if we created it; `None` for a device or a pipe.
    made: Option<(u64, u64)>,
}

impl RecordingFile {
    /// Creates the file that the user named. An existing file of this name is replaced only if `overwrite` allows it. The same holds for the
    /// recordings of its children, which would be mistaken for those of the new one.
    pub fn named(path: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        overwrite.check(path)?;
        let cannot_write = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => cannot_be_written(path, &error),
        };
        if let Some(file) = open_special(path).map_err(cannot_write)? {
            return Ok(Self { path: path.to_owned(), file: Some(file), made: None });
        }
        if overwrite.force {
            // A link stays a link: its target is replaced.
            let target = behind_links(path).map_err(cannot_write)?;
            let file = create_in_place_of(&target).map_err(cannot_write)?;
            remove_children_of(&target);
            return Self::made(target, file).map_err(cannot_write);
        }
        if !children_of(path).is_empty() {
            let folder = children_folder(path);
            return Err(Failure::in_file(
                &folder,
                "has recordings of another program's children; --force replaces them",
            ));
        }
        let file = create_new_file(path).map_err(cannot_write)?;
        Self::made(path.to_owned(), file).map_err(cannot_write)
    }

    /// Creates the file that a program named, in place of any other.
    pub fn replacing(path: &Path) -> io::Result<Self> {
        if let Some(file) = open_special(path)? {
            return Ok(Self { path: path.to_owned(), file: Some(file), made: None });
        }
        let target = behind_links(path)?;
        let file = create_in_place_of(&target)?;
        Self::made(target, file)
    }

    /// Creates a file with the usual name, `app.hw`, or `app-2.hw` if that is taken.
    pub fn usual(path: &Path, overwrite: Overwrite) -> Result<Self, Failure> {
        if overwrite.force {
            return Self::named(path, overwrite);
        }
        for number in 1..=MOST_NAMES {
            let free = numbered(path, number);
            if !children_of(&free).is_empty() {
                continue;
            }
            match create_new_file(&free).and_then(|file| Self::made(free.clone(), file)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_be_written(&free, &error)),
                Ok(made) => {
                    if number > 1 {
                        say(&format!("{} exists; this recording is {}", path.display(), free.display()));
                    }
                    return Ok(made);
                }
            }
        }
        Err(exists(path))
    }

    fn made(path: PathBuf, file: File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self { path, made: Some((about.dev(), about.ino())), file: Some(file) })
    }

    /// Removes the file if nothing was written to it, but not a file that another process has put in its place.
    pub fn remove_if_empty(&self) {
        let is_ours = |there: fs::Metadata| self.made == Some((there.dev(), there.ino())) && there.len() == 0;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
