//! Why nothing is known about a module.

use std::fmt;
use std::path::PathBuf;

/// Why a module's symbols are not available; its text is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolError {
    /// The "module" was never a file, such as `[vdso]`.
    NotAFile {
        /// The path as recorded.
        path: PathBuf,
    },
    /// The file no longer exists, and no debug directory has a copy.
    Missing {
        /// The recorded path.
        path: PathBuf,
    },
    /// The file is not the recorded one, and no debug directory has a copy of the recorded one.
    OtherBuild {
        /// The recorded path.
        path: PathBuf,
        /// The recorded build id.
        expected: String,
        /// The build id of the file that is there now; empty if it has none.
        found: String,
    },
    /// The file cannot be read, or is not an ELF file of a supported kind.
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
