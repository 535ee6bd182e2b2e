//! Files. The program that starts the viewer opens them.

use super::special::Special;
use highwater_store::history::Work;
use highwater_store::{Damage, Recording};
use std::path::Path;
use std::sync::Arc;

/// The kind of a file.
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
    /// A lake with the memory of a fleet, or a part of one.
    Fleet,
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
            Self::Fleet => "fleet",
        }
    }
}

/// An opened file.
pub struct OpenedFile {
    /// Its kind.
    pub kind: FileKind,
    /// Its content.
    pub recording: Arc<Recording>,
    /// Parts that could not be used before it became a recording.
    pub damage: Vec<Damage>,
    /// Answers that only this kind of file has.
    pub special: Box<dyn Special>,
}

/// Opens files of all kinds.
pub trait Opener: Send + Sync {
    /// Opens a file, or returns a line with the reason why not. Long operations check `work` now and then, and give up when the client has disconnected.
    fn open(&self, path: &Path, work: &Work<'_>) -> Result<OpenedFile, String>;
}
