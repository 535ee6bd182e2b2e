//! x86-64: [`clock`] the time-stamp counter, [`here`] where a hook was called, [`registers`] unwinding with all registers, `sys` system calls,
//! `tls` the thread's own words.

pub(crate) mod clock;
pub mod here;
pub mod registers;
pub(crate) mod sys;
pub(crate) mod tls;
