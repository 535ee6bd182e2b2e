//! One way out: every file that Highwater writes for other tools.
//!
//! An [`Export`] is one format: its key on the command line, how its files are called, and how it is written. [`EXPORTS`] has them all; `highwater export --to` and
//! `highwater snapshot -o` know formats only through it. A new one is one file in this crate and one line in [`EXPORTS`].
//!
//! What is written depends on its input alone: the same snapshot gives the same bytes.
#![forbid(unsafe_code)]

mod csv;
mod flamegraph;
mod folded;
mod format;
mod json;
mod memtrace;
mod pprof;

pub use format::{
    EXPORTS, Export, ExportError, LeftOut, Options, Write, WriteHistory, WriteSnapshot, by_file_name, by_key,
};
