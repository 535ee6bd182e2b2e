//! The event lines of a whole recording, as `highwater export --to events-jsonl` writes them. See docs/events.md.

use crate::error::InputError;
use crate::format::{Format, Read, ReadSteps};
use crate::problems::Problems;
use crate::stream::InputStream;
use highwater_formats::events::EventLinesError;
use highwater_formats::events::recorded::{RecordedItem, RecordedLinesReader, looks_like_recorded_events};
use highwater_model::{Catalog, NumberLedger};
use highwater_store::{NumberedWriter, is_usable_state};
use std::fs::File;
use std::io::BufReader;

/// A file of lines of a recording.
pub struct RecordedEventsFormat;

impl Format for RecordedEventsFormat {
    fn key(&self) -> &'static str {
        "recorded-events"
    }

    fn json_key(&self) -> &'static str {
        "recorded_event_lines"
    }

    fn title(&self) -> &'static str {
        "event lines of a recording"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes the recording of them that they were written from"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        looks_like_recorded_events(start)
    }

    fn read(&self) -> Read {
        Read::Steps(read)
    }
}

fn read(input: &mut InputStream<'_>, target: File) -> Result<ReadSteps, InputError> {
    input.doing = "reading events";
    let path = input.path;
    let (mut catalog, mut problems) = (Catalog::default(), Problems::default());
    let (mut target, mut writer) = (Some(target), None::<NumberedWriter<File>>);
    let empty = NumberLedger::default();
    let mut reader = RecordedLinesReader::new(BufReader::with_capacity(1 << 16, &mut *input));
    loop {
        let ledger = writer.as_ref().map_or(&empty, NumberedWriter::ledger);
        let item = match reader.next(&mut catalog, ledger) {
            None => break,
            Some(Ok(RecordedItem::Description)) => continue,
            Some(Ok(item)) => item,
            Some(Err(EventLinesError::Io(error))) => return Err(InputError::unreadable(path, error)),
            Some(Err(EventLinesError::Bad(line))) => {
                problems.add_bad_line(line.line, line.why);
                continue;
            }
        };
        if let Some(target) = target.take() {
            writer = Some(NumberedWriter::new(target, reader.source()).map_err(InputError::Write)?);
        }
        let Some(writer) = &mut writer else { continue };
        let written = match item {
            RecordedItem::Step(step) => writer.step(&step, &catalog),
            RecordedItem::State(state) if is_usable_state(&state) => writer.continue_from(*state, &catalog),
            RecordedItem::State(_) => {
                problems.add_bad_line(reader.line_number(), "the figures of the state do not belong together");
                Ok(())
            }
            RecordedItem::Description => Ok(()),
        };
        written.map_err(InputError::Write)?;
    }
    let Some(writer) = writer else {
        let first = problems.first_bad_lines.first().map_or_else(String::new, |line| format!(" ({line})"));
        let why = format!("no event in it{first}; docs/events.md describes event lines");
        return Err(InputError::unusable(path, why));
    };
    let (written, file) = writer.finish(&catalog, reader.source()).map_err(InputError::Write)?;
    Ok(ReadSteps { written, file, problems })
}
