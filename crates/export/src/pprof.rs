//! Profiles for `go tool pprof` and everything else that takes a `profile.proto`.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::pprof::{self, PprofOptions};
use highwater_model::Snapshot;
use std::io;

/// pprof.
pub struct PprofExport;

impl ExportFormat for PprofExport {
    fn key(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "Gzipped profile.proto for 'go tool pprof' and many others; not gzipped in a file named *.pb"
    }

    fn ending(&self) -> &'static str {
        ".pb.gz"
    }

    fn other_ending(&self) -> &'static str {
        ".pb"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self) -> Write {
        // Its labels contain the sizes of blocks.
        Write::Blocks(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let &ExportOptions { metric, keep, per_block, uncompressed, .. } = options;
    Ok(pprof::write(snapshot, &PprofOptions { metric, keep, per_block, uncompressed }, out)?)
}
