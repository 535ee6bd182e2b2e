//! A snapshot sent by a collector, with function names added.

use crate::failure::{Failure, reason};
use highwater_model::{FrameId, RssBreakdown, Snapshot, Source, When};
use highwater_query::{Filter, filtered_snapshot};
use highwater_recorder::{add_type_facts, resolve_frames, resolve_jit_frames};
use highwater_session::PerfMapFile;
use highwater_store::history::{History, Moment, Work};
use highwater_store::{OpenError, Recording, RecordingError};
use highwater_symbols::perf_map::PerfMap;
use highwater_symbols::{Symbolizer, foreign_root};
use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

/// A snapshot that a collector took.
pub struct TakenSnapshot {
    /// The recording as it was sent.
    pub recording: Recording,
    /// Its snapshot, with names.
    pub snapshot: Snapshot,
    /// Where the resident memory was, if that is known.
    pub breakdown: Option<RssBreakdown>,
}

impl TakenSnapshot {
    /// Reads a snapshot that a collector sent, restricted to the blocks that filters select, and resolves the names of live frames.
    pub fn open(file: File, filters: &[Filter], symbolizer: &mut Symbolizer) -> Result<Self, Failure> {
        let recording = Recording::from_file(file).map_err(|error| match error {
            OpenError::Io(error) => nonsense(reason(&error)),
            other => nonsense(other),
        })?;
        Self::read(recording, filters, symbolizer)
    }

    /// The same of a recording.
    pub fn read(recording: Recording, filters: &[Filter], symbolizer: &mut Symbolizer) -> Result<Self, Failure> {
        let snapshot = recording.snapshot(&When::End).map_err(unreadable)?;
        let history = Arc::new(History::of_snapshot(snapshot));
        let filtered = filtered_snapshot(&history, Moment::End, filters, &Work::quiet()).map_err(Failure::fault)?;
        let mut snapshot = Snapshot::clone(&filtered);
        if let Some(damage) = recording.damage().first() {
            return Err(nonsense(damage));
        }
        let wanted = frames_in_use(&snapshot);
        let map = perf_map_of(&snapshot.source);
        symbolizer.set_root(u32::try_from(snapshot.source.pid).ok().and_then(foreign_root));
        let catalog = Arc::make_mut(&mut snapshot.catalog);
        // Modules without names show in the rows.
        resolve_frames(catalog, symbolizer, |frame| wanted.contains(&frame));
        if let Some(map) = map {
            resolve_jit_frames(catalog, &map, |frame| wanted.contains(&frame));
        }
        add_type_facts(catalog, symbolizer, &snapshot.accounts);
        let breakdown = recording.breakdowns().map_err(unreadable)?.pop();
        Ok(Self { recording, snapshot, breakdown })
    }
}

/// The names that the runtime of a process has written so far, if the process still runs.
pub(super) fn perf_map_of(source: &Source) -> Option<PerfMap> {
    let mut file = PerfMapFile::of(u32::try_from(source.pid).ok()?)?;
    let mut map = PerfMap::default();
    file.began_before(source.start_unix_ns).then(|| file.read_on(&mut map).ok())??;
    map.finish();
    Some(map)
}

/// The frames of the stacks that have figures: the catalog has more stacks than those.
fn frames_in_use(snapshot: &Snapshot) -> HashSet<FrameId> {
    let sites = snapshot.accounts.sites().iter().filter(|(_, figures)| !figures.is_empty());
    sites.flat_map(|(stack, _)| snapshot.catalog.stacks.recorded_frames_of(stack)).collect()
}

fn unreadable(error: RecordingError) -> Failure {
    match error {
        RecordingError::Io(error) => nonsense(reason(&error)),
        other => nonsense(other),
    }
}

fn nonsense(problem: impl std::fmt::Display) -> Failure {
    Failure::fault(format_args!("the collector's snapshot cannot be read: {problem}"))
}
