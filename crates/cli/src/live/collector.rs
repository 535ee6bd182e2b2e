//! The collector as the viewer uses it.

use super::taken::TakenSnapshot;
use crate::commands::ps::mode;
use crate::failure::Failure;
use highwater_collector::protocol::{Detail, ProcessState};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorClient, PageDetail};
use highwater_symbols::Symbolizer;
use highwater_view::{LiveProcess, LiveProcesses, LiveSnapshot};
use std::path::PathBuf;

/// Connects to the collector anew for each question: it may come and go.
pub struct LiveCollector {
    socket: PathBuf,
}

impl LiveCollector {
    /// The collector that listens on this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    fn client(&self) -> Result<CollectorClient, String> {
        CollectorClient::connect(&self.socket).map_err(|error| error.to_string())
    }
}

impl LiveProcesses for LiveCollector {
    fn place(&self) -> String {
        self.socket.display().to_string()
    }

    fn processes(&self) -> Result<Vec<LiveProcess>, String> {
        let all = self.client()?.processes().map_err(|error| error.to_string())?;
        let live = all.into_iter().filter(|process| process.state == ProcessState::Live);
        Ok(live
            .map(|process| LiveProcess {
                pid: process.pid,
                mode: mode(process.sample_bytes),
                name: process.name,
                since_unix_ns: process.since_unix_ns,
                live_bytes: process.live_bytes,
                live_blocks: process.live_blocks,
            })
            .collect())
    }

    fn snapshot(&self, pid: u32) -> Result<LiveSnapshot, String> {
        let wanted = SnapshotRequest { detail: Detail::Blocks, contents: None, pages: Some(PageDetail::Rows) };
        let taken = self.client()?.snapshot_with(pid, wanted).map_err(|error| error.to_string())?;
        let line = |failure: Failure| failure.line().unwrap_or("it cannot be read").to_owned();
        let taken = TakenSnapshot::open(taken.file, &[], &mut Symbolizer::with_users_cache()).map_err(line)?;
        Ok(LiveSnapshot { snapshot: taken.snapshot, breakdown: taken.breakdown })
    }
}
