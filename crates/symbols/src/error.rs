//! Why nothing is known about a module.

use std::fmt;
use std::path::PathBuf;

/// Why a module's symbols cannot be had; its text is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolError {
    /// The "module" never was a file, such as `[vdso]`.
    NotAFile {
        /// What was recorded as its path.
        path: PathBuf,
    },
    /// There is no such file any more, and no debug directory has a copy.
    Missing {
        /// The recorded path.
        path: PathBuf,
    },
    /// The file is not the one that was recorded, and no debug directory has a copy of that one.
    OtherBuild {
        /// The recorded path.
        path: PathBuf,
        /// The recorded build id.
        expected: String,
        /// The build id of the file that is there now; empty if it has none.
        found: String,
    },
    /// The file cannot be read, or is no ELF file of a kind we know.
    Unreadable {
        /// The recorded path.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The file has no segment at the recorded file offset, so its addresses cannot be related to the recorded ones.
    Unplaced {
        /// The recorded path.
        path: PathBuf,
        /// The recorded file offset.
        file_offset: u64,
    },
}

impl fmt::Display for SymbolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFile { path } => {
                write!(out, "{} is not a file, but memory that the kernel provides", path.display())
            }
            Self::Missing { path } => write!(out, "{}: the file does not exist any more", path.display()),
            Self::OtherBuild { path, expected, found } if found.is_empty() => {
                write!(out, "{}: not the recorded file: expected build id {expected}, found none", path.display())
            }
            Self::OtherBuild { path, expected, found } => {
                write!(out, "{}: another build: expected build id {expected}, found {found}", path.display())
            }
            Self::Unreadable { path, reason } => write!(out, "{}: {reason}", path.display()),
            Self::Unplaced { path, file_offset } => {
                write!(out, "{}: no segment of the file is mapped from offset {file_offset:#x}", path.display())
            }
        }
    }
}

impl std::error::Error for SymbolError {}
