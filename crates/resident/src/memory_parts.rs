//! The kernel's figures of a process's memory, by what it is made of.

use crate::cgroup::limit_of;
use crate::scan::{ScanError, status_of};
use highwater_model::MemoryLimit;

/// The resident memory of a process by kind, and its limit. Any user may read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    /// The resident set: the sum of the next three.
    pub resident: u64,
    /// Anonymous memory: heaps, stacks.
    pub anonymous: u64,
    /// Mapped files.
    pub file: u64,
    /// Shared memory.
    pub shared: u64,
    /// Swapped out, which is not part of the resident set.
    pub swap: u64,
    /// The memory limit that the process meets first, if there is one.
    pub limit: Option<MemoryLimit>,
}

impl MemoryParts {
    /// Reads a process.
    pub fn of(pid: u32) -> Result<Self, ScanError> {
        let status = status_of(pid)?;
        let (resident, anonymous, shared) = (status.memory.rss, status.memory.anonymous, status.shared_memory);
        Ok(Self {
            resident,
            anonymous,
            // The kernel reads its counters one after the other.
            file: resident.saturating_sub(anonymous).saturating_sub(shared),
            shared,
            swap: status.memory.swap,
            limit: limit_of(pid),
        })
    }
}
