//! Snapshots of a store.

mod diff;
mod engine;
mod file;
#[cfg(feature = "serde")]
mod json;
mod owners;
mod types;

pub use diff::{DiffBasis, SnapshotDiff, Usage, UsageChange};
pub use engine::SnapshotEngine;
pub use file::SnapshotFileError;
pub use owners::SharedOwners;
pub use types::{ActiveAllocation, MemoryAnomalies, MemorySnapshot, SnapshotStats, StackFrame, ThreadMemoryStats};
