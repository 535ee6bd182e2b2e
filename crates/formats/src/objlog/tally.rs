//! Figures of a kind of objects.

use std::ops::AddAssign;

/// Figures of a type, a place, or everything. An object counts once, however often a log repeats itself. The live figures follow from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectTally {
    /// The number of objects whose birth was seen.
    pub allocated: u64,
    /// Their bytes at birth.
    pub allocated_bytes: u64,
    /// The number of these objects whose drop was seen.
    pub dropped: u64,
    /// Their bytes at the drop, or at birth if the log contradicts itself.
    pub dropped_bytes: u64,
    /// The number of changes of size.
    pub resizes: u64,
    /// Bytes that objects grew by.
    pub grown_bytes: u64,
    /// Bytes that objects shrank by.
    pub shrunk_bytes: u64,
}

impl ObjectTally {
    /// The number of objects that were never dropped.
    pub fn live(&self) -> u64 {
        self.allocated.saturating_sub(self.dropped)
    }

    /// Their bytes.
    pub fn live_bytes(&self) -> u64 {
        (self.allocated_bytes + self.grown_bytes).saturating_sub(self.shrunk_bytes + self.dropped_bytes)
    }

    /// True if objects were born, and all were dropped.
    pub fn is_perfect(&self) -> bool {
        self.allocated > 0 && self.live() == 0
    }

    pub(super) fn resize(&mut self, from: u64, to: u64) {
        self.grown_bytes += to.saturating_sub(from);
        self.shrunk_bytes += from.saturating_sub(to);
    }
}

impl AddAssign for ObjectTally {
    fn add_assign(&mut self, other: Self) {
        self.allocated += other.allocated;
        self.allocated_bytes += other.allocated_bytes;
        self.dropped += other.dropped;
        self.dropped_bytes += other.dropped_bytes;
        self.resizes += other.resizes;
        self.grown_bytes += other.grown_bytes;
        self.shrunk_bytes += other.shrunk_bytes;
    }
}
