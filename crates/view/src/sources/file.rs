//! Files: whoever starts the viewer knows how to open them.

use super::special::Special;
use crate::work::Work;
use highwater_store::{Damage, Recording};
use std::path::Path;

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A recording, or events that became one.
    Recording,
    /// The state of one instant.
    Snapshot,
    /// An OCaml program's trace.
    Trace,
    /// An object log.
    Objects,
    /// A memory image.
    Image,
    /// A live process's snapshot.
    Live,
}

impl FileKind {
    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Snapshot => "snapshot",
            Self::Trace => "trace",
            Self::Objects => "objects",
            Self::Image => "image",
            Self::Live => "live",
        }
    }
}

/// An opened file.
pub struct OpenedFile {
    /// What it is.
    pub kind: FileKind,
    /// What it holds.
    pub recording: Recording,
    /// What could not be used of it before it became a recording.
    pub damage: Vec<Damage>,
    /// What only its kind knows.
    pub special: Box<dyn Special>,
}

/// Opens files, whatever they are.
pub trait Opener: Send + Sync {
    /// Opens one; a line that says why not. Whatever takes long looks at the work now and then, and gives up where nobody waits.
    fn open(&self, path: &Path, work: &Work<'_>) -> Result<OpenedFile, String>;
}
