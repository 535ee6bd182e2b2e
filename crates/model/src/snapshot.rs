//! A snapshot: the state of one memory at one instant.

use crate::accounts::Accounts;
use crate::catalog::Catalog;
use crate::ids::Nanos;
use std::sync::Arc;

/// Where a recording or snapshot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// What kind of source.
    pub kind: SourceKind,
    /// The program's name or command line.
    pub program: String,
    /// Its process id, 0 where there is none.
    pub pid: u64,
    /// The machine it ran on.
    pub host: String,
    /// When it began, in nanoseconds since the Unix epoch; 0 where not known.
    pub start_unix_ns: u64,
    /// How long it lasted.
    pub duration: Nanos,
    /// Mean bytes per sample; `None` when every allocation was recorded and the figures are exact.
    pub sample_rate: Option<u64>,
}

/// The kinds of source, in stored order. Append only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SourceKind {
    /// A native process.
    Native,
    /// An OCaml program's memtrace.
    Memtrace,
    /// An object log.
    Objlog,
    /// Events fed through the library or as JSON lines.
    #[default]
    Events,
    /// A memory image.
    Image,
}

impl SourceKind {
    const ALL: [Self; 5] = [Self::Native, Self::Memtrace, Self::Objlog, Self::Events, Self::Image];

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Memtrace => "memtrace",
            Self::Objlog => "objlog",
            Self::Events => "events",
            Self::Image => "image",
        }
    }

    /// The kind with this name.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == key)
    }

    /// The kind stored as `number`.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// What was live at one instant, who owned it, and what had happened until then.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whose memory.
    pub source: Source,
    /// The instant.
    pub at: Nanos,
    /// Blocks and figures.
    pub accounts: Accounts,
    /// What the handles in `accounts` stand for.
    pub catalog: Arc<Catalog>,
}
