//! x86-64: [`clock`] the time-stamp counter, [`here`] where a hook was called, [`registers`] unwinding with all registers, `sys` system calls,
//! `tls` the thread's own words (`tls_table` in an injected agent).

pub(crate) mod clock;
pub mod here;
pub mod registers;
pub(crate) mod sys;
mod thread_pointer;
#[cfg_attr(feature = "injected", path = "tls_table.rs")]
pub(crate) mod tls;
