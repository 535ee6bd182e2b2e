//! Live processes: whoever starts the viewer knows how to ask their collector.

use highwater_model::Snapshot;

/// A process that can be looked at.
#[derive(Clone, Debug, Default)]
pub struct LiveProcess {
    /// Its number.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// When it began, in nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// Blocks live now.
    pub live_blocks: u64,
    /// How blocks are followed: `exact`, `1 in 512 KiB`.
    pub mode: String,
}

/// Who knows live processes.
pub trait Collector: Send + Sync {
    /// Where it listens.
    fn place(&self) -> String;
    /// The processes that live; a line that says why they are not known.
    fn processes(&self) -> Result<Vec<LiveProcess>, String>;
    /// What a process holds now, with names; a line that says why that is not known.
    fn snapshot(&self, pid: u32) -> Result<Snapshot, String>;
}
