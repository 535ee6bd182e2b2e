//! Following the stack by the compiler's tables, without frame pointers, without locks and without the heap.
//!
//! [`cfi`] reads the tables; [`rules`] remembers, for each return address, what they said in 31 bits; [`walk`] follows the
//! stack by these rules and, better, finds out how much of it is still as it was the last time.

mod bytes;
pub mod cfi;
pub(crate) mod expression;
pub mod memory;
pub mod objects;
pub mod rules;
mod segments;
pub mod walk;
