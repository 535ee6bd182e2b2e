//! Collapsed stacks, the input of every flame-graph tool.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::folded;
use highwater_model::Snapshot;
use std::io;

/// Folded stacks.
pub struct FoldedExport;

impl ExportFormat for FoldedExport {
    fn key(&self) -> &'static str {
        "folded"
    }

    fn about(&self) -> &'static str {
        "Collapsed stacks, one a line, for flame graph tools"
    }

    fn ending(&self) -> &'static str {
        ".folded"
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    Ok(folded::write(snapshot, options.metric, options.keep, out)?)
}
