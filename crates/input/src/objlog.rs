//! Lines about objects on a console: docs/objlog.md.

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::problems::Problems;
use crate::stream::InputStream;
use highwater_formats::objlog::{LogProgress, ObjectLogReader, Translator, looks_like_object_log};
use highwater_model::{Anomaly, Catalog, Clock, Event, EventSink, Nanos, Source};

/// An object log.
pub struct ObjectLogFormat;

impl Format for ObjectLogFormat {
    fn key(&self) -> &'static str {
        "objlog"
    }

    fn json_key(&self) -> &'static str {
        "object_log"
    }

    fn title(&self) -> &'static str {
        "object log"
    }

    fn source_title(&self) -> &'static str {
        "an object log"
    }

    fn advice(&self) -> &'static str {
        "'highwater objects' looks through it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        looks_like_object_log(start)
    }

    fn read(&self) -> Read {
        Read::History(read)
    }
}

/// Passes events on, and records the time of the last one.
struct Timed<'a> {
    sink: &'a mut dyn EventSink,
    latest: Nanos,
}

impl EventSink for Timed<'_> {
    fn event(&mut self, event: Event, catalog: &Catalog) {
        self.latest = self.latest.max(event.time);
        self.sink.event(event, catalog);
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) {
        self.sink.note(anomaly, count, catalog);
    }
}

fn read(input: &mut InputStream<'_>, sink: &mut dyn EventSink) -> Result<ReadHistory, InputError> {
    input.doing = "reading the log";
    let source = Translator::<Timed<'_>>::source(&input.name());
    sink.begin(&source);
    let (mut reader, mut translator) = (ObjectLogReader::default(), Translator::new(Timed { sink, latest: Nanos(0) }));
    loop {
        match reader.read(input, &mut translator) {
            Ok(LogProgress::More) => {}
            Ok(_) => break,
            Err(error) => return Err(input.unreadable(error)),
        }
    }
    reader.finish(&mut translator);
    let clock = if translator.is_untimed() { Clock::Lines } else { Clock::Time };
    let (Timed { latest, .. }, catalog) = translator.finish(&reader);
    let counts = reader.counts();
    let mut problems = Problems::default();
    counts.bad().iter().for_each(|line| problems.add_bad_line(line.number, line.fault));
    problems.bad_lines = counts.malformed;
    Ok(ReadHistory {
        source: Source { duration: latest, clock, ..source },
        catalog,
        problems,
        ..ReadHistory::default()
    })
}
