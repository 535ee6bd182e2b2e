//! Where the resident memory of a process is: the pages that the kernel has in RAM, read from outside, against the addresses of live blocks.
//!
//! [`PageScan::read`] reads a process; [`PageScan::breakdown`] compares the result with its [`LiveMemory`]. Nothing runs in the process, and nothing in it changes.

mod live_memory;
mod scan;

pub use live_memory::{LiveBlock, LiveMapping, LiveMemory};
pub use scan::{PageScan, ScanError, ScanOptions};
