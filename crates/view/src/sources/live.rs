//! Live processes. The program that starts the viewer asks their collector.

use highwater_model::{RssBreakdown, Snapshot};

/// A live process that the collector knows.
#[derive(Clone, Debug, Default)]
pub struct LiveProcess {
    /// Its process id.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// When it began, in nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// Blocks live now.
    pub live_blocks: u64,
    /// Cause blocks are recorded: `exact`, `1 in 512 KiB`.
    pub mode: String,
}

/// A snapshot of a live process.
#[derive(Clone, Debug)]
pub struct LiveSnapshot {
    /// Its live blocks, with names.
    pub snapshot: Snapshot,
    /// Where its resident memory is, if that was read. The stacks are those of the snapshot's catalog.
    pub breakdown: Option<RssBreakdown>,
}

/// Lists live processes and takes snapshots of them.
pub trait LiveProcesses: Send + Sync {
    /// The path at which it listens.
    fn place(&self) -> String;
    /// The live processes, or a line with the reason why they are not known.
    fn processes(&self) -> Result<Vec<LiveProcess>, String>;
    /// A snapshot of a process, or a line with the reason why there is none.
    fn snapshot(&self, pid: u32) -> Result<LiveSnapshot, String>;
}
