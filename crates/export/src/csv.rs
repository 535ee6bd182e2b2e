//! One row for each site, for spreadsheets and data frames.
//!
//! The first row has the names of the columns. Columns do not change their meaning, and new ones are added after the last. Fields are quoted as in
//! RFC 4180. A stack is written from the outermost call to the innermost, separated by semicolons, as in folded stacks.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::folded;
use highwater_model::groups::{GroupBy, GroupKey, rows};
use highwater_model::{Figures, FrameText, Naming, Snapshot, StackId};
use std::borrow::Cow;
use std::io;

/// Comma-separated values.
pub struct CsvExport;

impl ExportFormat for CsvExport {
    fn key(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "One row for each call site, with all its figures, for spreadsheets and data frames"
    }

    fn ending(&self) -> &'static str {
        ".csv"
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

type Column = (&'static str, fn(&Figures) -> u64);

/// The figures in each row. Figures that samples cannot estimate are empty.
const COLUMNS: [Column; 11] = [
    ("live_bytes", Figures::live_bytes),
    ("live_blocks", Figures::live_blocks),
    ("peak_bytes", |figures| figures.peak_bytes),
    ("allocated_bytes", |figures| figures.allocated_bytes),
    ("allocations", |figures| figures.allocations),
    ("freed_bytes", |figures| figures.freed_bytes),
    ("frees", |figures| figures.frees),
    ("reallocations", |figures| figures.reallocations),
    ("reallocated_away", |figures| figures.reallocated_away),
    ("temporary_allocations", |figures| figures.temporary_allocations),
    ("cross_thread_frees", |figures| figures.cross_thread_frees),
];

fn is_known(snapshot: &Snapshot, column: &str) -> bool {
    match column {
        "live_bytes" => true,
        "live_blocks" => snapshot.source.knows_live_blocks(),
        "peak_bytes" => snapshot.source.knows_own_peaks(),
        "allocations" | "frees" => snapshot.source.knows_allocated() && snapshot.source.knows_live_blocks(),
        "cross_thread_frees" => snapshot.source.known.is_none(),
        "reallocations" | "reallocated_away" => snapshot.knows_reallocations(),
        "temporary_allocations" => snapshot.knows_every_block(),
        _ => snapshot.source.knows_allocated(),
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let mut head: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    head.extend(["function", "file", "line", "module", "stack"]);
    write!(out, "{}\r\n", head.join(","))?;
    let naming = options.naming.cloned().unwrap_or_default();
    for row in rows(snapshot, GroupBy::Site, options.metric, options.keep) {
        let GroupKey::Site(stack) = row.key else { continue };
        for (name, figure) in COLUMNS {
            if is_known(snapshot, name) {
                write!(out, "{}", figure(&row.figures))?;
            }
            out.write_all(b",")?;
        }
        write_site(snapshot, stack, &naming, out)?;
    }
    Ok(())
}

fn write_site(snapshot: &Snapshot, stack: StackId, naming: &Naming, out: &mut dyn io::Write) -> io::Result<()> {
    let frames: Vec<FrameText<'_>> = snapshot.catalog.frame_texts(stack).collect();
    let own = frames.get(naming.passing_frames(&frames)).or(frames.first()).copied().unwrap_or_default();
    let line = if own.line == 0 { String::new() } else { own.line.to_string() };
    let names: Vec<String> = frames.iter().rev().map(folded::frame_name).collect();
    let name = folded::frame_name(&own);
    let fields = [name.as_str(), own.file, &line, own.module, &names.join(";")];
    write!(out, "{}\r\n", fields.map(quoted).join(","))
}

/// A field, quoted if necessary.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}
