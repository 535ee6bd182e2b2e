//! Any bytes as the unwind tables of a module.
#![no_main]

use highwater_agent::unwind::cfi::{UnwindTables, row_at};
use highwater_agent::unwind::rules::Rule;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let start = bytes.as_ptr() as u64;
    let tables = UnwindTables { start, end: start + bytes.len() as u64, header: start };
    for offset in [0, 1, 16, 64, 1000, 1 << 20] {
        // SAFETY: the bounds are those of the bytes.
        if let Some(row) = unsafe { row_at(&tables, start + offset) } {
            std::hint::black_box(Rule::of(&row));
        }
    }
});
