//! The snapshots that a host keeps, numbered. A number is never reused, so a client that asks by number can never mix two snapshots.

use crate::ic::ChunkStore;
use crate::image::CapturedImage;
use crate::program::HostedProgram;
use crate::protocol::{Description, SnapshotInfo, StableInfo, WhichMemory};
use highwater_image::Sidecar;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Snapshots that are stored; the oldest is dropped first.
const MOST: usize = 100;

/// A memory at one instant.
#[derive(Debug)]
pub struct HostSnapshot {
    /// Its bytes.
    pub image: CapturedImage,
    /// The stable memory of a canister.
    pub stable: CapturedImage,
    /// The facts about it that are not in its bytes.
    pub sidecar: Sidecar,
    /// The module, as it was installed.
    pub module: Arc<[u8]>,
    /// The parts of modules that were not installed yet, by their hashes.
    pub(crate) chunks: ChunkStore,
    id: u64,
    time_unix_ns: u64,
    hashes: OnceLock<(String, String)>,
}

impl HostSnapshot {
    /// Takes a snapshot of a program in its present state.
    pub fn take(program: &HostedProgram, id: u64, before: Option<&CapturedImage>) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let image = program.capture(before)?;
        let stable = program.capture_stable();
        let sidecar = program.sidecar(id, now);
        let module = Arc::clone(&program.module().installed);
        Ok(Self {
            image,
            stable,
            sidecar,
            module,
            chunks: ChunkStore::new(),
            id,
            time_unix_ns: now,
            hashes: OnceLock::new(),
        })
    }

    /// A snapshot that a client has sent, with its number.
    pub(crate) fn sent(
        image: CapturedImage,
        stable: CapturedImage,
        sidecar: Sidecar,
        module: Arc<[u8]>,
        chunks: ChunkStore,
        id: u64,
    ) -> Self {
        let time_unix_ns = sidecar.time_unix_ns.unwrap_or(0);
        Self { image, stable, sidecar, module, chunks, id, time_unix_ns, hashes: OnceLock::new() }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Number, time and sizes.
    pub fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            id: self.id,
            time_unix_ns: self.time_unix_ns,
            bytes: self.image.bytes(),
            occupied_bytes: self.image.occupied_bytes(),
        }
    }

    /// One of its memories.
    pub fn memory(&self, which: WhichMemory) -> &CapturedImage {
        match which {
            WhichMemory::Main => &self.image,
            WhichMemory::Stable => &self.stable,
        }
    }

    /// The description that a client needs to pull it. The hashes are computed at the first request.
    pub fn describe(&self) -> Description {
        let (sha256, stable) = self.hashes.get_or_init(|| (self.image.sha256(), self.stable.sha256())).clone();
        let stable = StableInfo { bytes: self.stable.bytes(), sha256: stable };
        Description { info: self.info(), sha256, stable: Some(stable), sidecar: self.sidecar.clone() }
    }
}

/// The snapshots that a host keeps, at most 100, each with a number that is never reused.
#[derive(Debug, Default)]
pub struct HostSnapshots {
    last_id: u64,
    stored: VecDeque<Arc<HostSnapshot>>,
}

impl HostSnapshots {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.stored.len()
    }

    /// The latest snapshot.
    pub fn last(&self) -> Option<&Arc<HostSnapshot>> {
        self.stored.back()
    }

    /// The snapshot with a number, or the latest; the error is a line that says why there is none.
    pub fn find(&self, id: Option<u64>) -> Result<Arc<HostSnapshot>, String> {
        let Some(last) = self.last() else {
            return Err("there is no snapshot yet; 'highwater image create' makes one".into());
        };
        let Some(id) = id else { return Ok(Arc::clone(last)) };
        let found = self.stored.iter().find(|snapshot| snapshot.id == id);
        let last = last.id;
        found.cloned().ok_or_else(|| format!("there is no snapshot {id} any more; the last one is {last}"))
    }

    /// All of them, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<HostSnapshot>> {
        self.stored.iter()
    }

    /// A number for a snapshot to come.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Stores a snapshot that has its number already.
    pub(crate) fn insert(&mut self, snapshot: Arc<HostSnapshot>) {
        while self.stored.len() >= MOST {
            self.stored.pop_front();
        }
        let at = self.stored.partition_point(|other| other.id < snapshot.id);
        self.stored.insert(at, snapshot);
    }

    /// Adds the parts of modules to the latest snapshot, just after it was taken.
    pub(crate) fn attach(&mut self, chunks: ChunkStore) {
        if let Some(last) = self.stored.back_mut().and_then(Arc::get_mut) {
            last.chunks = chunks;
        }
    }

    /// Removes the snapshot with a number; false if there is none.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.stored.len();
        self.stored.retain(|snapshot| snapshot.id != id);
        self.stored.len() < before
    }

    /// Takes a snapshot; it replaces the latest if `replaces` is set.
    pub fn add(&mut self, program: &HostedProgram, replaces: bool) -> io::Result<SnapshotInfo> {
        let before = self.last().map(Arc::clone);
        let snapshot = HostSnapshot::take(program, self.last_id + 1, before.as_deref().map(|before| &before.image))?;
        self.last_id += 1;
        if replaces {
            self.stored.pop_back();
        }
        while self.stored.len() >= MOST {
            self.stored.pop_front();
        }
        let info = snapshot.info();
        self.stored.push_back(Arc::new(snapshot));
        Ok(info)
    }
}
