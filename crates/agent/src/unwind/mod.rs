//! Walks the stack by the compiler's tables, without locks and without the heap. Only code that has no tables is walked by frame pointers.
//!
//! [`cfi`] reads the tables; [`rules`] caches their answer for each return address in 31 bits; [`walk`] walks the
//! stack by these rules, but first finds out how much of it is unchanged since the last time. `frame_pointer` is for code without
//! tables, and `code_ranges` knows where such code is outside of modules. `call_stack` walks without a session, for programs that measure themselves.

mod bytes;
#[cfg(not(feature = "injected"))]
pub mod call_stack;
pub mod cfi;
pub(crate) mod code_ranges;
pub(crate) mod expression;
pub(crate) mod frame_pointer;
pub mod memory;
pub mod objects;
pub mod rules;
mod segments;
pub mod walk;
