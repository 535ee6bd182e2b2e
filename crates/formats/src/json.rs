//! The documents of `--json`: the contract between Highwater and the programs that read its output.
//!
//! Every document has `"schema": 2`, `command`, `source` and `at_ns`; a name means the same wherever it occurs:
//!
//! | name | holds |
//! |---|---|
//! | `source` | `kind, program, pid, parent_pid, command, host, start, start_unix_ns, duration_ns, sample_rate` (`null` = exact), `snapshot` (one instant only, without peaks), `aggregated` (no single blocks); of an OCaml trace also `context, runtime_parameters, samples_per_word, word_bytes, bytes_per_sample` |
//! | `totals` | figures, `peak_blocks, peak_at_ns, peak_bytes_inside_reallocation, usable_bytes`; `estimate: true` when sampled |
//! | `anomalies` | one counter for each [`Anomaly`](highwater_model::Anomaly), zeros included |
//! | `threads[]` | `id, name` and figures |
//! | `sites[]` | `stack`, the number of a stack, and figures |
//! | `stacks[]` | each call once: `[caller, frame]`, the number of the caller's stack (`null` for the outermost call) and the place of the frame in `frames` |
//! | `frames[]` | `{function, file, line, module, inlined}`, and `address`, `column` and `end_column` where they are known |
//! | `functions[]`, `files[]`, `modules[]` | `name`, figures where it is innermost, `inclusive` figures |
//! | `types[]` | `type, allocations, allocated_bytes, drops, dropped_bytes, live_objects, live_bytes` |
//! | `heaps[]` | `name` and figures |
//!
//! A document about a window of time has `window` with `from_ns` and `to_ns`; its `totals` and rows count the events in it, and `live_blocks` and
//! `live_bytes` are those at its end.
//!
//! *Figures* are `allocations, frees, reallocations, reallocated_away, allocated_bytes, freed_bytes, live_blocks, live_bytes, peak_bytes,
//! cross_thread_frees, temporary_allocations` (`totals` has no `reallocated_away`). Unknown figures are `null`: for samples `temporary_allocations`,
//! and, if bytes are sampled, `reallocations` and `reallocated_away`. `promotions` is present if there are any; promotions into a heap are also
//! counted among its `reallocations`. If figures are estimates, `samples, live_samples, records, freed_records, live_records` give the numbers that
//! they are based on (several samples may have hit a record), and `interval_95` gives the bounds `[low, high]` of their 95 % intervals. Addresses are
//! texts in hex, since many languages cannot represent 64 bits in a number.

mod comparison;
mod document;
mod figures;
mod frame;
mod full;
mod lifetimes;
mod rows;
mod source;
mod stacks;
mod streamed;
mod timeline;
mod untimed;
mod window;

pub use comparison::{comparison, delta, stacks_among};
pub use document::{SCHEMA, document, head};
pub use figures::{anomalies, estimates, figures, totals};
pub use frame::{FrameAnswer, frame};
pub use full::{block, write_full, write_full_with};
pub use lifetimes::lifetimes;
pub use rows::{row, rows, sites_among, threads, types};
pub use source::source;
pub use stacks::{DocumentStacks, StackTableAnswer, StacksTooLarge};
pub use streamed::DocumentWriter;
pub use timeline::write_timeline;
pub use window::WindowDocument;

use serde_json::Value;

/// A text, `null` if it is empty: an empty text in the catalog means "not known".
fn known_text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

fn hex(address: u64) -> Value {
    format!("{address:#x}").into()
}

/// The members of an object made by `json!`.
fn members(object: Value) -> serde_json::Map<String, Value> {
    match object {
        Value::Object(members) => members,
        other => serde_json::Map::from_iter([("value".to_owned(), other)]),
    }
}
