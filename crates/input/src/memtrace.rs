//! Traces of OCaml programs: docs/memtrace.md.

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::problems::Problems;
use crate::stream::InputStream;
use highwater_formats::memtrace::{MemtraceError, MemtraceReader, looks_like_memtrace};
use highwater_model::{Catalog, EventSink};

/// A memtrace trace.
pub struct MemtraceFormat;

impl Format for MemtraceFormat {
    fn key(&self) -> &'static str {
        "memtrace"
    }

    fn title(&self) -> &'static str {
        "memtrace trace"
    }

    fn source_title(&self) -> &'static str {
        "an OCaml memtrace"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a recording of it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        looks_like_memtrace(start)
    }

    fn read(&self) -> Read {
        Read::History(read)
    }
}

fn read(input: &mut InputStream<'_>, sink: &mut dyn EventSink) -> Result<ReadHistory, InputError> {
    input.doing = "reading the trace";
    let path = input.path;
    let mut catalog = Catalog::default();
    let mut reader = MemtraceReader::new(&mut *input);
    let more = loop {
        match reader.step(&mut catalog, sink) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(MemtraceError::Io(error)) => break Err(InputError::unreadable(path, error)),
            Err(MemtraceError::NotATrace(why)) => break Err(InputError::unusable(path, why)),
        }
    };
    more?;
    let decoder = reader.decoder();
    for (anomaly, count) in decoder.oddities() {
        sink.note(anomaly, count, &catalog);
    }
    Ok(ReadHistory {
        source: decoder.source().unwrap_or_default(),
        version: decoder.version(),
        parts: decoder.packets(),
        problems: Problems { damage: decoder.damage(), ..Problems::default() },
        catalog,
    })
}
