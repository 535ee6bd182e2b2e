//! Profiles for `go tool pprof` and everything else that takes a gzipped `profile.proto`.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::pprof;
use highwater_model::Snapshot;
use std::io;

/// pprof.
pub struct PprofExport;

impl ExportFormat for PprofExport {
    fn key(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "Gzipped profile.proto for 'go tool pprof' and many others"
    }

    fn ending(&self) -> &'static str {
        ".pb.gz"
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
    Ok(pprof::write(snapshot, options.metric, options.keep, out)?)
}
