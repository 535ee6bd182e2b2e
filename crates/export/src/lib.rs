//! All output formats: every file that Highwater writes for other tools.
//!
//! An [`ExportFormat`] is one format: its key on the command line, the extension of its files, and how it is written. [`EXPORTS`] lists them all;
//! `highwater export --to` and `highwater snapshot -o` access formats only through it. A new format is one file in this crate and one line in
//! [`EXPORTS`].
//!
//! The output depends on the input alone: the same snapshot gives the same bytes.
#![forbid(unsafe_code)]

mod call_tree;
mod csv;
mod dhat;
mod events;
mod firefox;
mod flamegraph;
mod folded;
mod format;
mod json;
mod json_stream;
mod memtrace;
mod otlp;
mod parquet;
mod pprof;
mod snapshot;
mod speedscope;
pub mod trim;

pub use format::{
    EXPORTS, ExportError, ExportFormat, ExportOptions, Omission, Write, WriteHistory, WriteSnapshot, by_file_name,
    by_key,
};
