//! OCaml's memtrace format: every event of a recording.

use crate::format::{ExportError, ExportFormat, ExportOptions, Omission, Write, left_out};
use highwater_formats::memtrace::{self, TraceWriter, Version};
use highwater_store::{Recording, WalkItem};
use std::io;
use std::ops::ControlFlow;

/// A memtrace trace.
pub struct MemtraceExport;

impl ExportFormat for MemtraceExport {
    fn key(&self) -> &'static str {
        "memtrace"
    }

    fn about(&self) -> &'static str {
        "The whole history as a trace of OCaml's memtrace format; what is exact becomes a trace with every word sampled"
    }

    fn ending(&self) -> &'static str {
        ".ctf"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self) -> Write {
        Write::History(write)
    }
}

fn write(
    recording: &Recording,
    options: &ExportOptions<'_>,
    out: &mut dyn io::Write,
) -> Result<Vec<Omission>, ExportError> {
    let version = if options.memtrace_version == 2 { Version::V2 } else { Version::V3 };
    let catalog = recording.catalog();
    let mut writer = TraceWriter::new(out, recording.source(), version)?;
    let mut written = Ok(());
    let walked = recording.walk(|seen| {
        written = match seen {
            WalkItem::Block(..) => Ok(()),
            WalkItem::Step(ledger, step) => writer.write_step(step, ledger.accounts().next_id(), catalog),
            // The recording joined the stream late, or events were left out.
            WalkItem::Stored(ledger) => writer.catch_up(ledger.accounts(), |_| true, catalog),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    walked.map_err(ExportError::Read)?;
    written?;
    let memtrace::MemtraceOmissions { remarks, unmatched, cut_stacks } = writer.finish(catalog)?.0;
    Ok(left_out(&[
        (remarks, "marks and gauges, which the format does not know, are left out"),
        (unmatched, "frees of blocks that are not known are left out"),
        (cut_stacks, "stacks are too deep for the format, and lack their innermost frames"),
    ]))
}
