//! Everything about an instant, as one JSON document.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::json;
use highwater_model::Snapshot;
use std::io;

/// The document of `highwater report --json`, with every live block.
pub struct JsonExport;

impl ExportFormat for JsonExport {
    fn key(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "Everything: what 'highwater report --json' has, and every live block that is known"
    }

    fn ending(&self) -> &'static str {
        ".json"
    }

    fn write(&self) -> Write {
        Write::Blocks(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    Ok(json::write_full("export", snapshot, options.keep, out)?)
}
