//! The formats that can be written.

use crate::{csv, flamegraph, folded, json, memtrace, pprof};
use highwater_formats::flamegraph::FlameGraphError;
use highwater_model::Snapshot;
use highwater_model::groups::{Keep, Metric};
use highwater_store::Recording;
use std::{fmt, io};

/// All formats, in the order in which help lists them.
pub static EXPORTS: &[&dyn Export] =
    &[&pprof::Pprof, &folded::Folded, &flamegraph::FlameGraph, &json::Json, &csv::Csv, &memtrace::Memtrace];

/// A format that is written.
pub trait Export: Sync {
    /// Its name on the command line.
    fn key(&self) -> &'static str;

    /// What it is for, in a line.
    fn about(&self) -> &'static str;

    /// How names of its files end, with the dot.
    fn ending(&self) -> &'static str;

    /// True for what would garble a terminal.
    fn is_binary(&self) -> bool {
        false
    }

    /// How it is written.
    fn write(&self) -> Write;
}

impl fmt::Debug for dyn Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// How a format is written, and of what.
#[derive(Clone, Copy)]
pub enum Write {
    /// Of one instant: figures of sites, threads and types are enough.
    Figures(WriteSnapshot),
    /// Of one instant, with every live block.
    Blocks(WriteSnapshot),
    /// Of all events of a recording.
    History(WriteHistory),
}

/// Writes an instant.
pub type WriteSnapshot = fn(&Snapshot, &Options<'_>, &mut dyn io::Write) -> Result<(), ExportError>;

/// Writes all events of a recording; what the format cannot hold is returned.
pub type WriteHistory = fn(&Recording, &Options<'_>, &mut dyn io::Write) -> Result<Vec<LeftOut>, ExportError>;

/// What can be chosen.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The figure that counts, or that is shown first.
    pub metric: Metric,
    /// Only stacks with a frame that this wants.
    pub keep: Keep<'a>,
    /// The version of the memtrace format.
    pub memtrace_version: u8,
}

/// What a format cannot hold and was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How often.
    pub count: u64,
    /// What.
    pub what: &'static str,
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording could not be read.
    #[error("{0}")]
    Read(io::Error),
    /// The file could not be written.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// There is nothing to draw, or too much.
    #[error("{0}")]
    Drawing(FlameGraphError),
}

impl From<FlameGraphError> for ExportError {
    fn from(error: FlameGraphError) -> Self {
        match error {
            FlameGraphError::Io(error) => Self::Write(error),
            other => Self::Drawing(other),
        }
    }
}

/// The format with this key.
pub fn by_key(key: &str) -> Option<&'static dyn Export> {
    EXPORTS.iter().copied().find(|format| format.key() == key)
}

/// The format of a file of this name.
pub fn by_file_name(name: &str) -> Option<&'static dyn Export> {
    EXPORTS.iter().copied().find(|format| name.ends_with(format.ending()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_endings_are_unique() {
        for (index, format) in EXPORTS.iter().enumerate() {
            let (key, ending) = (format.key(), format.ending());
            assert!(EXPORTS[..index].iter().all(|other| other.key() != key && other.ending() != ending), "{key}");
            assert!(ending.starts_with('.') && !format.about().is_empty(), "{key}");
            assert_eq!(by_key(key).map(Export::key), Some(key));
            assert_eq!(by_file_name(&format!("a{ending}")).map(Export::key), Some(key));
        }
        assert!(by_key("png").is_none() && by_file_name("a.png").is_none());
    }
}
