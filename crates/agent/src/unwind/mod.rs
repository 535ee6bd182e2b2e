//! Walks the stack by the compiler's tables, without frame pointers, without locks and without the heap.
//!
//! [`cfi`] reads the tables; [`rules`] caches their answer for each return address in 31 bits; [`walk`] walks the
//! stack by these rules, but first finds out how much of it is unchanged since the last time.

mod bytes;
pub mod cfi;
pub(crate) mod expression;
pub mod memory;
pub mod objects;
pub mod rules;
mod segments;
pub mod walk;
