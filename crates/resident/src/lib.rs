//! Where the resident memory of a process is: the pages that the kernel has in RAM, read from outside, against the addresses of live blocks.
//!
//! [`PageScan::read`] reads a process; [`PageScan::breakdown`] compares the result with its [`LiveMemory`]. Nothing runs in the process, and nothing in it changes.

mod account;
mod cgroup;
mod corrections;
mod glibc;
mod image;
mod live_memory;
mod mappings;
mod memory;
mod page_reader;
#[doc(hidden)]
pub mod parts;
mod regions;
mod scan;
mod stacks;
mod status;

pub use live_memory::{LiveBlock, LiveMapping, LiveMemory};
pub use scan::{PageScan, ScanError, ScanOptions, process_memory};
