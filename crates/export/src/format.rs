//! The output formats.

use crate::{
    csv, dhat, events, firefox, flamegraph, folded, json, memtrace, otlp, parquet, pprof, snapshot, speedscope,
};
use highwater_formats::flamegraph::FlameGraphError;
use highwater_model::groups::{Keep, Metric};
use highwater_model::{Naming, Snapshot};
use highwater_store::Recording;
use std::{fmt, io};

/// All formats, in the order of the help text.
pub static EXPORTS: &[&dyn ExportFormat] = &[
    &pprof::PprofExport,
    &otlp::OtlpExport,
    &folded::FoldedExport,
    &flamegraph::FlameGraphExport,
    &speedscope::SpeedscopeExport,
    &firefox::FirefoxExport,
    &dhat::DhatExport,
    &json::JsonExport,
    &csv::CsvExport,
    &parquet::ParquetExport,
    &memtrace::MemtraceExport,
    &snapshot::SnapshotExport,
    &events::EventTextExport,
    &events::EventLinesExport,
];

/// An output format.
pub trait ExportFormat: Sync {
    /// Its name on the command line.
    fn key(&self) -> &'static str;

    /// Its purpose, in one line.
    fn about(&self) -> &'static str;

    /// The extension of its files, with the dot.
    fn ending(&self) -> &'static str;

    /// Another extension of its files, which stands for a variant of the format; none if empty.
    fn other_ending(&self) -> &'static str {
        ""
    }

    /// True if the output would garble a terminal.
    fn is_binary(&self) -> bool {
        false
    }

    /// How it is written.
    fn write(&self) -> Write;
}

impl fmt::Debug for dyn ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The function that writes a format, and the data that it needs.
#[derive(Clone, Copy)]
pub enum Write {
    /// Writes one instant. Needs only the figures of sites, threads and types.
    Figures(WriteSnapshot),
    /// Writes one instant, with every live block.
    Blocks(WriteSnapshot),
    /// Writes one instant, with every live block, and what led to it: [`ExportOptions::recording`].
    WithHistory(WriteSnapshot),
    /// Writes one instant, with every live block, as a snapshot of its own: blocks that the filters leave out are not in it.
    Snapshot(WriteSnapshot),
    /// Writes all events of a recording.
    History(WriteHistory),
}

/// Writes a snapshot.
pub type WriteSnapshot = fn(&Snapshot, &ExportOptions<'_>, &mut dyn io::Write) -> Result<(), ExportError>;

/// Writes all events of a recording. Returns the kinds of data that the format cannot represent.
pub type WriteHistory = fn(&Recording, &ExportOptions<'_>, &mut dyn io::Write) -> Result<Vec<Omission>, ExportError>;

/// Options of an export.
#[derive(Clone, Copy, Default)]
pub struct ExportOptions<'a> {
    /// The figure to export, or to show first.
    pub metric: Metric,
    /// Only stacks with a frame that this filter accepts.
    pub keep: Keep<'a>,
    /// How a format that names rows names them; by the rules alone if this is missing.
    pub naming: Option<&'a Naming>,
    /// The version of the memtrace format.
    pub memtrace_version: u8,
    /// For [`Write::WithHistory`]: the events that led to the instant. `None` if only the instant is known, or if it was filtered block by block.
    pub recording: Option<&'a Recording>,
    /// In pprof: one sample for each live block.
    pub per_block: bool,
    /// pprof is not gzipped.
    pub uncompressed: bool,
}

/// A kind of data that a format cannot represent, and that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omission {
    /// The number of items.
    pub count: u64,
    /// A description for the user.
    pub what: &'static str,
}

/// The omissions that occurred.
pub(crate) fn left_out(all: &[(u64, &'static str)]) -> Vec<Omission> {
    all.iter().filter(|(count, _)| *count > 0).map(|&(count, what)| Omission { count, what }).collect()
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
    /// The source lacks figures that the format must have.
    #[error("{0}")]
    Lacking(&'static str),
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
pub fn by_key(key: &str) -> Option<&'static dyn ExportFormat> {
    EXPORTS.iter().copied().find(|format| format.key() == key)
}

/// The format of a file with this name: the one with the longest ending, since `.speedscope.json` ends in `.json` as well.
pub fn by_file_name(name: &str) -> Option<&'static dyn ExportFormat> {
    let is_other =
        |format: &dyn ExportFormat| !format.other_ending().is_empty() && name.ends_with(format.other_ending());
    let matching = EXPORTS.iter().copied().filter(|format| name.ends_with(format.ending()) || is_other(*format));
    matching.max_by_key(|format| format.ending().len())
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
            assert_eq!(by_key(key).map(ExportFormat::key), Some(key));
            assert_eq!(by_file_name(&format!("a{ending}")).map(ExportFormat::key), Some(key));
        }
        assert!(by_key("png").is_none() && by_file_name("a.png").is_none());
    }
}
