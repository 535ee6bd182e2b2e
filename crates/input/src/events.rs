//! Event lines: JSON lines with which any program in any language can feed Highwater. See docs/events.md.

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::problems::Problems;
use crate::stream::InputStream;
use highwater_formats::events::{EventLine, EventLinesError, EventLinesReader, looks_like_events};
use highwater_store::EventLog;
use std::io::BufReader;

/// A file of event lines.
pub struct EventLinesFormat;

impl Format for EventLinesFormat {
    fn key(&self) -> &'static str {
        "events"
    }

    fn json_key(&self) -> &'static str {
        "event_lines"
    }

    fn title(&self) -> &'static str {
        "event lines"
    }

    fn source_title(&self) -> &'static str {
        "events from the library or from JSON lines"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a recording of them"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        looks_like_events(start)
    }

    fn read(&self) -> Read {
        Read::Unordered(read)
    }
}

fn read(input: &mut InputStream<'_>, log: &EventLog) -> Result<ReadHistory, InputError> {
    input.doing = "reading events";
    let path = input.path;
    let mut problems = Problems::default();
    let mut reader = EventLinesReader::new(BufReader::with_capacity(1 << 16, &mut *input));
    // The catalog is locked only while a line is read: recording an event may need it.
    while let Some(line) = log.change_catalog(|catalog| reader.next(catalog)) {
        match line {
            Ok(EventLine::Event(event)) => log.record(event),
            Ok(_) => {}
            Err(EventLinesError::Io(error)) => return Err(InputError::unreadable(path, error)),
            Err(EventLinesError::Bad(line)) => problems.add_bad_line(line.line, line.why),
        }
    }
    if let Some(why) = log.failure() {
        return Err(InputError::Temporary(why));
    }
    if log.is_empty() {
        let first = problems.first_bad_lines.first().map_or_else(String::new, |line| format!(" ({line})"));
        let why = format!("no event in it{first}; docs/events.md describes event lines");
        return Err(InputError::unusable(path, why));
    }
    Ok(ReadHistory { source: reader.source().clone(), problems, ..ReadHistory::default() })
}
