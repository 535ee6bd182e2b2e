//! Flame graphs.

use crate::format::{Export, ExportError, Options, Write};
use highwater_formats::flamegraph;
use highwater_model::Snapshot;
use std::io;

/// An interactive SVG.
pub struct FlameGraph;

impl Export for FlameGraph {
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

fn write(snapshot: &Snapshot, options: &Options<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    Ok(flamegraph::write(snapshot, options.metric, options.keep, out)?)
}
