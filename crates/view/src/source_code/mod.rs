//! Source files on this machine.
//!
//! A recording is hostile input: it may name `/etc/shadow` or `~/.ssh/id_rsa` as a source file, and a saved page with sources would carry it away. So a file is
//! read only if
//!
//! * a frame of the source names it, by exactly this text,
//! * both that text and the file that is reached in the end have the [extension of a programming language](is_source_name),
//! * it is a regular file of at most [`MOST_BYTES`] without NUL bytes.
//!
//! Symbolic links are followed, because the source trees of some build systems consist of them. The checks apply to the file that they lead to: it is opened
//! as a mere reference first (`O_PATH`), which has no effect on a device or a FIFO, is checked, and is then read through that reference. So no other file
//! can take its place in between.

mod editor;
mod extensions;
mod lookup;
mod read;

pub use editor::{Editor, NoEditor};
pub use extensions::is_source_name;
pub use lookup::{NoSourceDir, SourceDir};
pub use read::{MOST_BYTES, SourceText};

use lookup::candidates;
use std::path::PathBuf;

/// Why the text of a source file is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceFileError {
    /// It does not exist here.
    #[error("the file is not on this machine; 'highwater view --source-dir DIR' names the folder that it was moved to")]
    NotHere,
    /// It has `..` that lead out of the folder in which it is looked for.
    #[error("the recorded path leads out of its folder with '..', and is not looked for")]
    Outside,
    /// Its name, or the name of the file that a link leads to, is not that of a source file.
    #[error("only files with the extension of a programming language are read, and this is none")]
    NotSource,
    /// A folder, a device, a pipe or a socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// It is longer than [`MOST_BYTES`].
    #[error("the file is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// It has NUL bytes.
    #[error("the file is not a text")]
    Binary,
    /// The system refuses it.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
}

impl SourceFileError {
    /// Its name in the API.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NotHere => "not_here",
            Self::Outside => "outside",
            Self::NotSource => "not_source",
            Self::NotRegular => "not_regular",
            Self::TooLarge => "too_large",
            Self::Binary => "binary",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// Where source files are looked for, and what opens them.
#[derive(Clone, Debug, Default)]
pub struct SourceCode {
    /// The folders that the user names.
    pub dirs: Vec<SourceDir>,
    /// The editor, if the user names one.
    pub editor: Option<Editor>,
}

impl SourceCode {
    /// Reads a file that a frame names. The caller has checked that one does.
    pub fn read(&self, recorded: &str) -> Result<SourceText, SourceFileError> {
        read::text(&self.find(recorded)?)
    }

    /// The file that a frame names, ready for an editor: where it is, without links.
    pub fn path(&self, recorded: &str) -> Result<PathBuf, SourceFileError> {
        read::checked(&self.find(recorded)?).map(|checked| checked.path)
    }

    /// Where the file of a frame is.
    fn find(&self, recorded: &str) -> Result<PathBuf, SourceFileError> {
        if !is_source_name(recorded) {
            return Err(SourceFileError::NotSource);
        }
        let mut problem = SourceFileError::NotHere;
        for candidate in candidates(recorded, &self.dirs)? {
            match std::fs::metadata(&candidate) {
                Ok(about) if about.is_file() => return Ok(candidate),
                Ok(_) => problem = SourceFileError::NotRegular,
                Err(_) => {}
            }
        }
        Err(problem)
    }
}
