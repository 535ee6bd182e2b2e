//! Building snapshots.

use super::types::MemorySnapshot;
use crate::event_store::{MemoryEvent, SharedEventStore, StoreError};
use highwater_model::{AddressLedger, Anomaly, Event, EventKind, Nanos, ThreadId};
use highwater_store::Cursor;

/// Builds snapshots of a store. It only reads, and any number of threads can share it.
///
/// A snapshot shows one instant of all threads: every event recorded before it began and none recorded after, ordered by time.
#[derive(Clone, Debug)]
pub struct SnapshotEngine {
    store: SharedEventStore,
}

impl SnapshotEngine {
    /// An engine for a store.
    pub fn new(store: SharedEventStore) -> Self {
        Self { store }
    }

    /// The store.
    pub fn event_store(&self) -> &SharedEventStore {
        &self.store
    }

    /// A snapshot of the current state.
    pub fn build_snapshot(&self) -> MemorySnapshot {
        let (ledger, cursor) = self.store.log.ledger();
        let store = cursor.store();
        MemorySnapshot::of(ledger, cursor, store, &self.store)
    }

    /// Updates a snapshot that this engine built. The cost grows with the number of new events. If some of them are older than the snapshot, or the
    /// store was cleared, the snapshot is built again from the start.
    pub fn update(&self, snapshot: &mut MemorySnapshot) {
        let mut touched = Vec::new();
        let updated = self.store.log.update(&mut snapshot.ledger, &mut snapshot.cursor, |event| match event.kind {
            EventKind::Allocate(placement) => touched.push(placement.address),
            EventKind::Deallocate { address, .. } => touched.push(address),
            EventKind::Reallocate { old_address, new, .. } => touched.extend([old_address, new.address]),
            _ => {}
        });
        if !updated {
            *snapshot = self.build_snapshot();
            return;
        }
        touched.sort_unstable();
        touched.dedup();
        snapshot.refresh_blocks(&touched);
        snapshot.refresh_figures();
    }

    /// A snapshot of the given events, which need not be the store's. Events with a time are sorted by it; an event without a time stays after the
    /// one before it.
    pub fn build_snapshot_from_events(&self, events: impl IntoIterator<Item = MemoryEvent>) -> MemorySnapshot {
        let mut latest = 0;
        let mut late = 0;
        let mut raw = Vec::new();
        for event in events {
            let time = event.timestamp.unwrap_or(latest);
            late += u64::from(time < latest);
            latest = latest.max(time);
            let (time, thread) = (Nanos(time), ThreadId(event.thread_id));
            raw.push(Event { time, thread, kind: self.store.kind_of(&event) });
        }
        if late > 0 {
            raw.sort_by_key(|event| event.time);
        }
        let mut ledger = AddressLedger::default();
        raw.iter().for_each(|event| ledger.record(event, &mut ()));
        if late > 0 {
            ledger.note(Anomaly::OutOfOrder, late, &mut ());
        }
        MemorySnapshot::of(ledger, Cursor::default(), None, &self.store)
    }

    /// A snapshot after everything that happened up to and including `time`, in nanoseconds since the store was made.
    ///
    /// # Panics
    ///
    /// Never; where the store has [spilled](crate::event_store::EventStore::with_limit) and its file cannot be read, the snapshot is empty:
    /// [`try_snapshot_at`](Self::try_snapshot_at) says why.
    pub fn snapshot_at(&self, time: u64) -> MemorySnapshot {
        self.try_snapshot_at(time).unwrap_or_default()
    }

    /// As [`snapshot_at`](Self::snapshot_at), or why not.
    pub fn try_snapshot_at(&self, time: u64) -> Result<MemorySnapshot, StoreError> {
        let (ledger, store) = self.store.log.ledger_at(Nanos(time))?;
        Ok(MemorySnapshot::of(ledger, Cursor::default(), Some(store), &self.store))
    }

    /// A snapshot of the instant at which the most bytes were live.
    pub fn snapshot_at_peak(&self) -> MemorySnapshot {
        let (ledger, _) = self.store.log.ledger();
        self.snapshot_after(ledger.accounts().totals().peak_event).unwrap_or_default()
    }

    /// A snapshot of the first [mark](MemoryEvent::mark) of this name; `None` if there is none.
    pub fn snapshot_at_mark(&self, name: &str) -> Option<MemorySnapshot> {
        let name = self.store.log.read_catalog(|catalog| catalog.strings.find(name))?;
        let mut events = 0u64;
        let mut found = None;
        let seen = self.store.log.for_each(|event| {
            events += u64::from(event.kind.is_event());
            if found.is_none() && event.kind == (EventKind::Mark { name }) {
                found = Some(events);
            }
        });
        seen.ok()?;
        self.snapshot_after(found?).ok()
    }

    fn snapshot_after(&self, events: u64) -> Result<MemorySnapshot, StoreError> {
        let (ledger, store) = self.store.log.ledger_after(events)?;
        Ok(MemorySnapshot::of(ledger, Cursor::default(), Some(store), &self.store))
    }
}
