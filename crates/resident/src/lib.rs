//! Where the resident memory of a process is: the pages that the kernel has in RAM, read from outside, against the addresses of live blocks.
//!
//! [`PageScan::read`] reads a process; [`PageScan::breakdown`] compares the result with its [`LiveMemory`]. Nothing runs in the process, and nothing in it changes.
//!
//! # What the rows mean
//! Every page that RSS counts is in the rows once, byte by byte, so they add up to RSS by construction. What can be wrong is a name, never the sum. Anonymous memory that
//! nothing explains is a row of its own (`Other`); the tests hold it below 1 % or 1 MiB.
//!
//! # Sources
//! | for | read | why |
//! |---|---|---|
//! | pages | `PAGEMAP_SCAN`, `pagemap` before Linux 6.7 | regions instead of pages; in slices, so that the process's `mmap` waits some milliseconds at most |
//! | mappings | `maps` | names and rights |
//! | stacks | the robust list of each thread | it is in the thread's structure, at the end of its stack; no thread is stopped |
//! | free memory inside glibc | arenas, thread caches, live blocks | what is between live chunks is free: no walk over the heap, which takes 0.4 to 1.1 s for a gibibyte |
//! | PSS, `MADV_FREE` | `smaps_rollup`, on request | the kernel walks all pages again, and cannot be interrupted |
//! | limits | control groups | the tightest of the group and its parents |
//!
//! # Races
//! * The process runs on. RSS is read before and after; the difference is the result's uncertainty. If it exceeds 1 %, the process is read again, three times at most.
//! * A process may execute another program between two readings. `maps` and `pagemap` are opened first, and stay with their program; where its code and its stack
//!   begin is compared before and after.
//! * Live blocks and pages are of slightly different instants. That is sound for rows, as a block's page stays when it is freed, and bytes are counted once.
//!
//! # Pitfalls
//! * Reading a page that is not in RAM changes the process. Only pages that the scan found are read.
//! * The page of zeros, `[vvar]`, hugetlbfs and device memory are present and not in RSS.
//! * `PAGEMAP_SCAN` reports a wrong end after 512 regions; the end is taken from the regions.
//! * A memfd that is mapped twice counts twice, in RSS too.
//! * Page tables are not part of RSS, and the limit of a control group counts other things than RSS: page cache, the kernel's memory.
//!
//! # Limits
//! A stack that glibc placed in memory of the program counts as that memory. Without root, kernels before 6.7 do not show which pages are the page of zeros: their number is
//! right, their site may not be. The inside of other allocators is one row, as are heaps of managed languages: mappings of a site.

mod account;
mod cgroup;
mod corrections;
mod glibc;
mod image;
mod live_memory;
mod mappings;
mod memory;
mod memory_parts;
mod page_reader;
#[doc(hidden)]
pub mod parts;
mod regions;
mod scan;
mod stacks;
mod status;

pub use live_memory::{LiveBlock, LiveMapping, LiveMemory};
pub use memory_parts::MemoryParts;
pub use scan::{PageScan, ScanError, ScanOptions, process_memory};
