//! Every event of a recording: as text for people, and as JSON lines that `highwater import` takes back.

use crate::format::{ExportError, ExportFormat, ExportOptions, Omission, Write, left_out};
use highwater_formats::events::EventTextWriter;
use highwater_formats::events::recorded::RecordedLinesWriter;
use highwater_store::{Recording, WalkItem};
use std::io::{self, BufWriter};
use std::ops::ControlFlow;

/// Text, one line for each event.
pub struct EventTextExport;

impl ExportFormat for EventTextExport {
    fn key(&self) -> &'static str {
        "events"
    }

    fn about(&self) -> &'static str {
        "Every event as text, one line each; into a file named *.jsonl, as events-jsonl"
    }

    fn ending(&self) -> &'static str {
        ".events.txt"
    }

    fn write(&self) -> Write {
        Write::History(write_text)
    }
}

/// Event lines of a recording.
pub struct EventLinesExport;

impl ExportFormat for EventLinesExport {
    fn key(&self) -> &'static str {
        "events-jsonl"
    }

    fn about(&self) -> &'static str {
        "Every event as JSON lines; 'highwater import' makes the same recording of them"
    }

    fn ending(&self) -> &'static str {
        ".jsonl"
    }

    fn write(&self) -> Write {
        Write::History(write_lines)
    }
}

/// Visits every step, and every state that a recording continues from, until writing fails.
fn walk(recording: &Recording, mut write: impl FnMut(WalkItem<'_>) -> io::Result<()>) -> Result<(), ExportError> {
    let mut written = Ok(());
    let walked = recording.walk(|seen| {
        written = write(seen);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    walked.map_err(ExportError::Read)?;
    Ok(written?)
}

fn write_text(
    recording: &Recording,
    _: &ExportOptions<'_>,
    out: &mut dyn io::Write,
) -> Result<Vec<Omission>, ExportError> {
    let catalog = recording.catalog();
    let mut writer = EventTextWriter::new(BufWriter::new(out), recording.source())?;
    walk(recording, |seen| match seen {
        WalkItem::Block(..) => Ok(()),
        WalkItem::Step(ledger, step) => writer.step(ledger, step, catalog),
        WalkItem::Stored(ledger) => writer.state(ledger, catalog),
    })?;
    writer.finish()?;
    Ok(Vec::new())
}

fn write_lines(
    recording: &Recording,
    _: &ExportOptions<'_>,
    out: &mut dyn io::Write,
) -> Result<Vec<Omission>, ExportError> {
    let catalog = recording.catalog();
    let mut writer = RecordedLinesWriter::new(BufWriter::new(out), recording.source(), catalog)?;
    walk(recording, |seen| match seen {
        WalkItem::Block(..) => Ok(()),
        WalkItem::Step(ledger, step) => writer.step(ledger, step, catalog),
        WalkItem::Stored(ledger) => writer.state(ledger.accounts(), catalog),
    })?;
    let (too_long, _) = writer.finish()?;
    Ok(left_out(&[(too_long, "lines are longer than 1 MiB; 'import' reports and skips them")]))
}
