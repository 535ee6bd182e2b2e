//! A snapshot sent by a collector, with function names added.

use crate::failure::{Failure, reason};
use highwater_model::{FrameId, Snapshot, When};
use highwater_query::{Filter, filtered_snapshot};
use highwater_recorder::{add_type_facts, resolve_frames};
use highwater_store::history::{History, Moment, Work};
use highwater_store::{OpenError, Recording, RecordingError};
use highwater_symbols::Symbolizer;
use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

/// A snapshot that a collector took.
pub struct TakenSnapshot {
    /// The recording as it was sent.
    pub recording: Recording,
    /// Its snapshot, with names.
    pub snapshot: Snapshot,
}

impl TakenSnapshot {
    /// Reads a snapshot that a collector sent, restricted to the blocks that filters select, and resolves the names of live frames.
    pub fn open(file: File, filters: &[Filter], symbolizer: &mut Symbolizer) -> Result<Self, Failure> {
        let recording = Recording::from_file(file).map_err(|error| match error {
            OpenError::Io(error) => nonsense(reason(&error)),
            other => nonsense(other),
        })?;
        let snapshot = recording.snapshot(&When::End).map_err(unreadable)?;
        let history = Arc::new(History::of_snapshot(snapshot));
        let filtered = filtered_snapshot(&history, Moment::End, filters, &Work::quiet()).map_err(Failure::fault)?;
        let mut snapshot = Snapshot::clone(&filtered);
        if let Some(damage) = recording.damage().first() {
            return Err(nonsense(damage));
        }
        let wanted = frames_in_use(&snapshot);
        // Modules without names show in the rows.
        let catalog = Arc::make_mut(&mut snapshot.catalog);
        resolve_frames(catalog, symbolizer, |frame| wanted.contains(&frame));
        add_type_facts(catalog, symbolizer, &snapshot.accounts);
        Ok(Self { recording, snapshot })
    }
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
