//! Live processes. The program that starts the viewer asks their collector.

use highwater_model::{RssBreakdown, Snapshot};
use highwater_query::QueryError;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A process that the collector knows.
#[derive(Clone, Debug, Default)]
pub struct LiveProcess {
    /// Its process id.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// When it began, in nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// When it was found to have ended; 0 if it runs.
    pub exited_unix_ns: u64,
    /// Bytes live now, or when it ended.
    pub live_bytes: u64,
    /// Blocks live now, or when it ended.
    pub live_blocks: u64,
    /// True if both are estimates.
    pub is_estimate: bool,
    /// How blocks are recorded: `exact`, `1 in 512 KiB`.
    pub mode: String,
    /// Why it cannot be read, in one line; empty if it can.
    pub problem: String,
}

impl LiveProcess {
    /// Its identity.
    pub fn key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, since_unix_ns: self.since_unix_ns }
    }
}

/// The identity of a process: its pid, and when it began, since pids are used again. In requests it is `PID-NANOSECONDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessKey {
    /// Its process id.
    pub pid: u32,
    /// When it began.
    pub since_unix_ns: u64,
}

impl fmt::Display for ProcessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.since_unix_ns)
    }
}

impl FromStr for ProcessKey {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let numbers = text.split_once('-').and_then(|(pid, since)| Some((pid.parse().ok()?, since.parse().ok()?)));
        let (pid, since_unix_ns) =
            numbers.ok_or_else(|| QueryError::Bad(format!("process={text}: the key of a process is wanted")))?;
        Ok(Self { pid, since_unix_ns })
    }
}

/// A snapshot of a live process.
#[derive(Clone, Debug)]
pub struct LiveSnapshot {
    /// Its live blocks, with names.
    pub snapshot: Snapshot,
    /// Where its resident memory is, if that was read. The stacks are those of the snapshot's catalog.
    pub breakdown: Option<RssBreakdown>,
    /// The name that the program gave it; empty if it has none.
    pub name: String,
}

/// A look at a process: figures by site.
#[derive(Clone, Debug)]
pub struct TakenLook {
    /// The snapshot as a file, from which it can be opened again.
    pub file: Arc<[u8]>,
    /// The same with names.
    pub snapshot: LiveSnapshot,
    /// Whether the figures equal the process's own counts at that instant.
    pub is_verified: bool,
    /// Whether the process has ended: the look shows its last state.
    pub has_exited: bool,
    /// Mean bytes per sample; 0 for every block.
    pub sample_bytes: u64,
}

/// The timeline of a process, as the collector keeps it.
#[derive(Clone, Debug)]
pub struct LiveTimeline {
    /// The process.
    pub process: ProcessKey,
    /// Lists of figures, one for each bin: docs/api.md.
    pub bins: Value,
}

/// A snapshot that a program took of itself.
#[derive(Clone, Debug)]
pub struct OwnSnapshot {
    /// Its number.
    pub id: u64,
    /// The name that the program gave it.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub program: String,
    /// When it was taken.
    pub taken_unix_ns: u64,
    /// Bytes that were live.
    pub live_bytes: u64,
    /// Blocks that were live.
    pub live_blocks: u64,
    /// True if live bytes and blocks are estimates.
    pub is_estimate: bool,
}

/// Lists live processes and takes snapshots of them. Each failure is a line for the user.
pub trait LiveProcesses: Send + Sync {
    /// The path at which it listens.
    fn place(&self) -> String;
    /// All processes, also those that have ended.
    fn processes(&self) -> Result<Vec<LiveProcess>, String>;
    /// The process that has a pid, or had it last.
    fn latest(&self, pid: u32) -> Result<Option<ProcessKey>, String>;
    /// A snapshot of a process.
    fn snapshot(&self, pid: u32) -> Result<LiveSnapshot, String>;
    /// The timelines of all processes, or of one: at most `bins` bins each, of the last `last_ns` nanoseconds or of all time.
    fn timelines(&self, pid: Option<u32>, bins: u64, last_ns: Option<u64>) -> Result<Vec<LiveTimeline>, String>;
    /// A look at the process that has the pid, or had it last.
    fn look(&self, process: ProcessKey) -> Result<TakenLook, String>;
    /// The snapshot in the file of a look.
    fn open_look(&self, process: ProcessKey, file: &[u8]) -> Result<LiveSnapshot, String>;
    /// The snapshots that programs took of themselves, oldest first.
    fn own_snapshots(&self) -> Result<Vec<OwnSnapshot>, String>;
    /// One of these.
    fn own_snapshot(&self, id: u64) -> Result<LiveSnapshot, String>;
}
