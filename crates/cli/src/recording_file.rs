//! The file of a recording: made before the program is started, so that what stands in the way is known by then.

use crate::failure::Failure;
use crate::output::say;
use crate::target::{Overwrite, cannot_be_written, exists};
use highwater_recorder::{children_folder, children_of, remove_children_of};
use highwater_store::{behind_links, create_in_place_of, create_new_file, numbered, open_special};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More names than this are not tried.
const MOST_NAMES: usize = 10_000;

/// A file that is still empty.
#[derive(Debug)]
pub struct RecordingFile {
    /// What it is called.
    pub path: PathBuf,
    /// Where the recording is written to; given away to the writer.
    pub file: Option<File>,
    /// Device and number of a file that we made; none of a device or a pipe.
    made: Option<(u64, u64)>,
}

impl RecordingFile {
    /// The file that the user named. Another one of this name is replaced only if it may be, and so are the recordings of its program's
    /// children, which would be taken for the new one's.
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
            // A link stays a link: what it leads to is replaced.
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

    /// A file of the usual name, `app.hw`; where that is taken, `app-2.hw`.
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

    /// Takes the file away if nothing was written into it. Not one that another process has put in its place.
    pub fn remove_if_empty(&self) {
        let is_ours = |there: fs::Metadata| self.made == Some((there.dev(), there.ino())) && there.len() == 0;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
