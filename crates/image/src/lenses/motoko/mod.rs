//! Heaps of Motoko programs: canisters of the Internet Computer, compiled to WASM.
//!
//! ```text
//! 64 bits   0 ── stack ── 4 MiB ── runtime's data ── 4.5 MiB ── metadata ── 5 MiB ── partitions of 64 MiB, filled with objects
//! 32 bits   0 ── stack ── 2 MiB ── runtime's data, static objects ── heap base ── objects ── nothing but zeros
//! ```
//!
//! An object is a tag, with most collectors the object's own address, and words. A word whose lowest bit is set is a reference, one less
//! than the address; `true` and `null` look alike and are none.

mod abilities;
mod edit;
mod field;
mod heap;
mod kind;
mod lens;
mod literal;
mod locate;
mod names;
mod narrow;
mod number;
mod regions;
mod room;
mod show;
mod types;
mod value;
mod walk;
mod waste;
mod wide;

pub use abilities::{Motoko32, Motoko64};
pub use heap::Motoko;
pub use kind::MotokoKind;
pub use locate::ValueLocation;
pub use names::{MotokoNames, label_hash};
pub use show::ShowLimits;
pub use value::{FixedType, MotokoValue};
pub use wide::{collector_phase, is_wide_heap};
