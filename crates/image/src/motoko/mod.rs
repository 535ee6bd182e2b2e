//! Heaps of Motoko programs: canisters of the Internet Computer, compiled to WASM.
//!
//! ```text
//! 64 bits   0 ── stack ── 4 MiB ── runtime's data ── 4.5 MiB ── metadata ── 5 MiB ── partitions of 64 MiB, filled with objects
//! 32 bits   0 ── stack ── 2 MiB ── runtime's data, static objects ── heap base ── objects ── nothing but zeros
//! ```
//!
//! An object is a tag, with most collectors the object's own address, and words. A word whose lowest bit is set is a reference, one less
//! than the address; `true` and `null` look alike and are none.

mod edit;
mod heap;
mod kind;
mod lens;
mod names;
mod narrow;
mod number;
mod place;
mod show;
mod value;
mod walk;
mod wide;

pub use edit::Patch;
pub use heap::Motoko;
pub use kind::Kind;
pub use names::{Names, label_hash};
pub use place::Place;
pub use show::Limits;
pub use value::{FixedType, Value};
pub use wide::{collector_phase, is_wide_heap};
