//! The parts of a breakdown, for tests and fuzzing: no process is needed to make one.

pub use crate::cgroup::memory_groups;
pub use crate::image::{FENCE, Heap, KnownChunk, ProcessImage, StackRange};
pub use crate::mappings::{Mapping, PAGE, parse_maps};
pub use crate::page_reader::{PageReader, PageSource};
pub use crate::regions::{FILE, HUGE, PRESENT, PageRegion, Regions, SWAPPED, ZERO};
pub use crate::status::{parse_rollup, parse_smaps, parse_stat, parse_status};
