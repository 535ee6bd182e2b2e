//! The heap of dlmalloc in the linear memory of a WASM module: the allocator of nearly every Rust and C program.
//!
//! ```text
//! data, stack │ chunk │ chunk │ free │ chunk │ top … │ foot │ end of memory
//!               size and flags, then what the program wrote; each one ends where the next begins
//! ```
//!
//! Which chunks are in use is certain: the allocator itself relies on it. References are guessed.

mod abilities;
mod chunk;
mod figures;
mod heap;
mod lens;

pub use abilities::DlmallocLens;
pub use heap::{Dlmalloc, DlmallocKind};
