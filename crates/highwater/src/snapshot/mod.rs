//! Snapshots of a store.

mod diff;
mod engine;
mod types;

pub use diff::{SnapshotDiff, Usage, UsageChange};
pub use engine::SnapshotEngine;
pub use types::{ActiveAllocation, MemoryAnomalies, MemorySnapshot, SnapshotStats, ThreadMemoryStats};
