//! Flame graphs.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::flamegraph;
use highwater_model::Snapshot;
use std::io;

/// An interactive SVG.
pub struct FlameGraphExport;

impl ExportFormat for FlameGraphExport {
    fn key(&self) -> &'static str {
        "flamegraph"
    }

    fn about(&self) -> &'static str {
        "An interactive SVG"
    }

    fn ending(&self) -> &'static str {
        ".svg"
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    Ok(flamegraph::write(snapshot, options.metric, options.keep, out)?)
}
