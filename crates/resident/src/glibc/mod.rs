//! glibc's malloc, recognized from outside: where its arenas are, and what the caches of its threads hold.
//!
//! No symbol is needed: Debian and others strip `main_arena`. It is found by its shape. Nothing that is read is believed: each value is compared with the mappings, and
//! a layout that does not fit gives no arena. Then its heaps are treated like those of an unknown allocator.

mod arenas;
mod caches;
mod version;

pub use arenas::find_arenas;
pub use caches::read_caches;
pub use version::version_of;

use crate::mappings::Mapping;

/// Chunks begin at multiples of this.
const ALIGNMENT: u64 = 16;

/// Whether a mapping is a part of the C library's file.
fn is_c_library(mapping: &Mapping) -> bool {
    let name = mapping.file_name();
    name.starts_with("libc.so") || name.starts_with("libc-2")
}
