//! A source that was read.

use super::file::{FileKind, OpenedFile};
use super::live::LiveSnapshot;
use super::special::{Plain, Special};
use highwater_store::Damage;
use highwater_store::history::{History, HistoryError};
use std::sync::Arc;

/// A source that was read: its history, and the answers that only its kind of source has.
pub struct Loaded {
    /// The kind of the source.
    pub kind: FileKind,
    /// Its recording or snapshot.
    pub history: Arc<History>,
    /// Parts that could not be used before it became a recording.
    own_damage: Vec<Damage>,
    /// Answers that only this kind of source has.
    pub special: Box<dyn Special>,
    /// The name that a program gave a snapshot of itself; empty for all others.
    pub snapshot_name: String,
}

impl Loaded {
    /// A recording or snapshot file.
    pub fn of_file(file: OpenedFile) -> Result<Self, HistoryError> {
        let OpenedFile { kind, recording, mut damage, special } = file;
        let is_snapshot = recording.is_snapshot();
        let found = recording.damage();
        let history = History::of_recording(recording)?;
        if is_snapshot {
            damage.extend(found);
        }
        Ok(Self { kind, history: Arc::new(history), own_damage: damage, special, snapshot_name: String::new() })
    }

    /// A snapshot of a live process.
    pub fn of_live(taken: LiveSnapshot) -> Self {
        let history = History::of_snapshot(taken.snapshot).with_breakdowns(taken.breakdown.into_iter().collect());
        Self {
            kind: FileKind::Live,
            history: Arc::new(history),
            own_damage: Vec::new(),
            special: Box::new(Plain),
            snapshot_name: taken.name,
        }
    }

    /// Parts that could not be used, as far as the file has been read.
    pub fn damage(&self) -> Vec<Damage> {
        self.own_damage.iter().cloned().chain(self.history.damage()).collect()
    }
}
