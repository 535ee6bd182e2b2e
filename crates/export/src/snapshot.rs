//! A snapshot of Highwater's own: the instant alone, in a file that every command opens.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_model::{KnownFigures, Nanos, RssBreakdown, Snapshot};
use highwater_store::{FileSink, Recording, RecordingError, write_snapshot_with_breakdown};
use std::io;

/// `highwater export --to hw`.
pub struct SnapshotExport;

impl ExportFormat for SnapshotExport {
    fn key(&self) -> &'static str {
        "hw"
    }

    fn about(&self) -> &'static str {
        "a Highwater snapshot: every live block of this instant, for all commands"
    }

    fn ending(&self) -> &'static str {
        ".hw"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self) -> Write {
        Write::Snapshot(write)
    }
}

/// A file that is written front to back.
struct Stream<'a>(&'a mut dyn io::Write);

impl io::Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileSink for Stream<'_> {
    // A file that could not be written completely is removed as a whole.
    fn cut_back(&mut self, _: u64) {}
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let mut source = snapshot.source.clone();
    if !source.snapshot {
        // What was counted until this instant is known. A profile has counters of its end only.
        source.has_past = true;
        if snapshot.at < source.duration {
            source.known = source.known.map(|known| KnownFigures { allocated: false, own_peaks: false, ..known });
        }
        source.duration = snapshot.at;
    }
    let breakdown = options.recording.map(|recording| breakdown_at(recording, snapshot.at)).transpose()?.flatten();
    let state = snapshot.accounts.to_state();
    write_snapshot_with_breakdown(Stream(out), &source, &snapshot.catalog, &state, breakdown.as_ref())?;
    Ok(())
}

/// The breakdown of resident memory at this very instant.
fn breakdown_at(recording: &Recording, at: Nanos) -> Result<Option<RssBreakdown>, ExportError> {
    let breakdowns = recording.breakdowns().map_err(|error| match error {
        RecordingError::Io(error) => ExportError::Read(error),
        other => ExportError::Read(io::Error::other(other.to_string())),
    })?;
    Ok(breakdowns.into_iter().find(|breakdown| breakdown.at == at))
}
