//! Reading a process.

use crate::live_memory::LiveMemory;
use highwater_model::RssBreakdown;

/// What to read besides pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// Also the proportional set size (`smaps_rollup`): it makes the kernel walk all pages once more, and the process's `mmap` waits meanwhile.
    pub proportional: bool,
}

/// Why a process was not read.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The process ended.
    #[error("the process ended while it was read")]
    Ended,
    /// The process executed other programs, at each attempt.
    #[error("the process executed another program while it was read")]
    Replaced,
    /// The process belongs to another user.
    #[error("its pages may be read by its own user and by root only")]
    NotPermitted,
    /// The system does not answer.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// The pages, mappings, threads and arenas of a process, read at about one time.
#[derive(Debug)]
pub struct PageScan {}

impl PageScan {
    /// Reads a process, without stopping it.
    pub fn read(_pid: u32, _options: ScanOptions) -> Result<Self, ScanError> {
        Ok(Self {})
    }

    /// Compares its pages with what is known of its memory. The time and the reason of the result are for the caller to set.
    pub fn breakdown(self, _live: LiveMemory) -> RssBreakdown {
        RssBreakdown::default()
    }
}
