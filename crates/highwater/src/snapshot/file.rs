//! Snapshots as `.hw` files.

use super::types::{MemorySnapshot, SnapshotOrigin};
use highwater_model::{AddressLedger, Catalog, Damage, Source, When};
use highwater_store::{
    Cursor, OpenError, Recording, RecordingError, SharedCatalog, Written, create_unfinished_file, open_special,
    write_snapshot,
};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// Why a snapshot could not be saved or opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotFileError {
    /// Reading or writing this file failed.
    File(PathBuf, io::Error),
    /// This file is no `.hw` file, or one that cannot be read.
    Open(PathBuf, OpenError),
    /// This file is a recording: it has many instants.
    Recording(PathBuf),
    /// A part of this file cannot be used.
    Damaged(PathBuf, Damage),
    /// The blocks of this file contradict each other.
    Contradictory(PathBuf, String),
}

impl fmt::Display for SnapshotFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Open(path, OpenError::NotARecording) => write!(
                f,
                "{}: not a Highwater snapshot; 'highwater import' converts files of other tools",
                path.display()
            ),
            Self::Open(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Recording(path) => write!(
                f,
                "{}: a recording, not a snapshot; open it with EventStore::open, or write one of its instants with 'highwater export --at WHEN -o snapshot.hw'",
                path.display()
            ),
            Self::Damaged(path, damage) => {
                write!(f, "{}: damaged: {damage}; 'highwater report' shows what is left", path.display())
            }
            Self::Contradictory(path, what) => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for SnapshotFileError {}

impl MemorySnapshot {
    /// Writes the snapshot as a `.hw` file, for its owner only, and replaces an existing file. Every command of `highwater` shows it.
    ///
    /// The state is saved as it was built: changes that the program made to the fields of the snapshot are not.
    ///
    /// ```
    /// use highwater::event_store::{EventStore, MemoryEvent};
    /// use highwater::snapshot::{MemorySnapshot, SnapshotEngine};
    /// use std::sync::Arc;
    ///
    /// # let folder = std::env::temp_dir().join(format!("highwater-save-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("loaded.hw");
    /// let store = Arc::new(EventStore::new());
    /// store.record(MemoryEvent::allocate(0xa000, 1000, 1).with_type_name("Index"));
    /// let loaded = SnapshotEngine::new(store).build_snapshot();
    /// loaded.save(&path)?; // then: highwater report loaded.hw --by type
    /// assert_eq!(MemorySnapshot::open(&path)?, loaded);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Written, SnapshotFileError> {
        let path = path.as_ref();
        self.save_at(path).map_err(|error| SnapshotFileError::File(path.to_owned(), error))
    }

    fn save_at(&self, path: &Path) -> io::Result<Written> {
        if let Some(special) = open_special(path)? {
            return self.write_into(special);
        }
        // The file gets its name when it is complete.
        let (unfinished, file) = create_unfinished_file(path)?;
        let saved = self.write_into(file).and_then(|written| std::fs::rename(&unfinished, path).map(|()| written));
        if saved.is_err() {
            let _ = std::fs::remove_file(unfinished);
        }
        saved
    }

    fn write_into(&self, file: File) -> io::Result<Written> {
        let SnapshotOrigin { source, catalog, store, .. } = &self.origin;
        let has_past = !source.lacks_past();
        let source = Source { snapshot: true, has_past, store: *store, ..Source::clone(source) };
        let catalog: Catalog = catalog.read(Catalog::clone);
        let (_, written) = write_snapshot(file, &source, &catalog, &self.ledger.accounts().to_state())?;
        Ok(written)
    }

    /// Opens a snapshot: one that [`save`](Self::save) wrote, `highwater snapshot -o`, or `highwater export --at WHEN -o`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotFileError> {
        let path = path.as_ref();
        let recording = Recording::open(path).map_err(|error| match error {
            OpenError::Io(error) => SnapshotFileError::File(path.to_owned(), error),
            other => SnapshotFileError::Open(path.to_owned(), other),
        })?;
        if !recording.is_snapshot() {
            return Err(SnapshotFileError::Recording(path.to_owned()));
        }
        let read = recording.snapshot(&When::End);
        if let Some(damage) = recording.damage().into_iter().next() {
            return Err(SnapshotFileError::Damaged(path.to_owned(), damage));
        }
        let snapshot = read.map_err(|error| match error {
            RecordingError::Io(error) => SnapshotFileError::File(path.to_owned(), error),
            other => SnapshotFileError::Contradictory(path.to_owned(), other.to_string()),
        })?;
        let blocks = snapshot.accounts.blocks().count();
        let store = snapshot.source.store;
        let catalog = SharedCatalog::from(Catalog::clone(&snapshot.catalog));
        let origin = SnapshotOrigin { source: Arc::new(snapshot.source), catalog, store, has_own_handles: false };
        let opened = Self::of_ledger(AddressLedger::from_accounts(snapshot.accounts), Cursor::default(), origin);
        if opened.active_allocations.len() != blocks {
            let what = "two of its live blocks have the same address".to_owned();
            return Err(SnapshotFileError::Contradictory(path.to_owned(), what));
        }
        Ok(opened)
    }
}
