//! The collector as the viewer uses it.

use super::taken::TakenSnapshot;
use crate::commands::ps::mode;
use crate::failure::Failure;
use highwater_collector::protocol::{Detail, KeptInfo, ProcessInfo, ProcessState, Which};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorClient, PageDetail};
use highwater_store::Recording;
use highwater_symbols::Symbolizer;
use highwater_view::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OwnSnapshot, ProcessKey, TakenLook};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The processes whose symbolizers are kept from look to look.
const MOST_SYMBOLIZERS: usize = 2;

/// Connects to the collector anew for each question: it may come and go.
pub struct LiveCollector {
    socket: PathBuf,
    /// The process that was looked at last comes last. Debug information is read once, not at every look.
    symbolizers: Mutex<Vec<(ProcessKey, Arc<Mutex<Symbolizer>>)>>,
}

impl LiveCollector {
    /// The collector that listens on this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, symbolizers: Mutex::default() }
    }

    fn client(&self) -> Result<CollectorClient, String> {
        CollectorClient::connect(&self.socket).map_err(|error| error.to_string())
    }

    fn symbolizer(&self, process: ProcessKey) -> Arc<Mutex<Symbolizer>> {
        let mut all = self.symbolizers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|(known, _)| *known == process).map(|at| all.remove(at).1);
        let symbolizer = known.unwrap_or_else(|| Arc::new(Mutex::new(Symbolizer::with_users_cache())));
        all.push((process, Arc::clone(&symbolizer)));
        if all.len() > MOST_SYMBOLIZERS {
            all.remove(0);
        }
        symbolizer
    }

    /// Opens the file of a look.
    fn open(&self, process: ProcessKey, file: Vec<u8>) -> Result<LiveSnapshot, String> {
        let recording = Recording::from_bytes(file);
        let recording = recording.map_err(|error| format!("the collector's snapshot cannot be read: {error}"))?;
        let symbolizer = self.symbolizer(process);
        let mut symbolizer = symbolizer.lock().unwrap_or_else(PoisonError::into_inner);
        TakenSnapshot::read(recording, &[], &mut symbolizer).map(|taken| with_name(taken, "")).map_err(line_of)
    }
}

fn opened(file: File, name: &str, symbolizer: &mut Symbolizer) -> Result<LiveSnapshot, String> {
    TakenSnapshot::open(file, &[], symbolizer).map(|taken| with_name(taken, name)).map_err(line_of)
}

fn with_name(taken: TakenSnapshot, name: &str) -> LiveSnapshot {
    LiveSnapshot { snapshot: taken.snapshot, breakdown: taken.breakdown, name: name.to_owned() }
}

fn line_of(failure: Failure) -> String {
    failure.line().unwrap_or("it cannot be read").to_owned()
}

impl LiveProcesses for LiveCollector {
    fn place(&self) -> String {
        self.socket.display().to_string()
    }

    fn processes(&self) -> Result<Vec<LiveProcess>, String> {
        let all = self.client()?.processes().map_err(|error| error.to_string())?;
        let process = |process: ProcessInfo| LiveProcess {
            pid: process.pid,
            mode: mode(process.sample_bytes),
            name: process.name,
            since_unix_ns: process.since_unix_ns,
            exited_unix_ns: process.exited_unix_ns,
            live_bytes: process.live_bytes,
            live_blocks: process.live_blocks,
            is_estimate: process.is_estimate,
            problem: process.problem,
        };
        Ok(all.into_iter().map(process).collect())
    }

    fn latest(&self, pid: u32) -> Result<Option<ProcessKey>, String> {
        let all = self.client()?.processes_among(&Which::Pid(pid)).map_err(|error| error.to_string())?;
        // A running one, or the one that ended last. A collector of an older version sends all processes.
        let had_it = all.iter().filter(|process| process.pid == pid && process.state != ProcessState::Refused);
        let latest = had_it.max_by_key(|process| (process.state == ProcessState::Live, process.exited_unix_ns));
        Ok(latest.map(|process| ProcessKey { pid, since_unix_ns: process.since_unix_ns }))
    }

    fn snapshot(&self, pid: u32) -> Result<LiveSnapshot, String> {
        let wanted = SnapshotRequest { detail: Detail::Blocks, contents: None, pages: Some(PageDetail::Rows) };
        let taken = self.client()?.snapshot_with(pid, wanted).map_err(|error| error.to_string())?;
        opened(taken.file, "", &mut Symbolizer::with_users_cache())
    }

    fn timelines(&self, pid: Option<u32>, bins: u64, last_ns: Option<u64>) -> Result<Vec<LiveTimeline>, String> {
        let which = pid.map_or(Which::All, Which::Pid);
        let all = self.client()?.timelines(&which, bins, last_ns).map_err(|error| error.to_string())?;
        let timeline = |timeline: &highwater_collector::TimelineInfo| LiveTimeline {
            process: ProcessKey { pid: timeline.pid, since_unix_ns: timeline.since_unix_ns },
            bins: timeline.to_json(),
        };
        Ok(all.iter().map(timeline).collect())
    }

    fn look(&self, process: ProcessKey) -> Result<TakenLook, String> {
        let taken = self.client()?.snapshot(process.pid, Detail::Sites, None).map_err(|error| error.to_string())?;
        let mut file = taken.file;
        let mut bytes = Vec::new();
        let cannot = |error: std::io::Error| format!("the collector's snapshot cannot be read: {error}");
        file.read_to_end(&mut bytes).map_err(cannot)?;
        let snapshot = self.open(process, bytes.clone())?;
        Ok(TakenLook {
            file: bytes.into(),
            sample_bytes: snapshot.snapshot.source.sample_rate.unwrap_or(0),
            snapshot,
            is_verified: taken.cut.verified,
            has_exited: taken.cut.exited,
        })
    }

    fn open_look(&self, process: ProcessKey, file: &[u8]) -> Result<LiveSnapshot, String> {
        self.open(process, file.to_vec())
    }

    fn own_snapshots(&self) -> Result<Vec<OwnSnapshot>, String> {
        let (all, _) = self.client()?.kept().map_err(|error| error.to_string())?;
        let own = |kept: KeptInfo| OwnSnapshot {
            id: kept.id,
            name: kept.name,
            pid: kept.pid,
            program: kept.program,
            taken_unix_ns: kept.taken_unix_ns,
            live_bytes: kept.live_bytes,
            live_blocks: kept.live_blocks,
            is_estimate: kept.is_estimate,
        };
        Ok(all.into_iter().map(own).collect())
    }

    fn own_snapshot(&self, id: u64) -> Result<LiveSnapshot, String> {
        let (kept, file) = self.client()?.get(id).map_err(|error| error.to_string())?;
        opened(file, &kept.name, &mut Symbolizer::with_users_cache())
    }
}
