//! Traces of OCaml programs: docs/memtrace.md.

use crate::error::InputError;
use crate::format::{Format, History, Read};
use crate::problems::Problems;
use crate::stream::Input;
use highwater_formats::memtrace::{ReadError, Reader, looks_like_memtrace};
use highwater_model::{Catalog, EventSink};

/// A memtrace trace.
pub struct Memtrace;

impl Format for Memtrace {
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

fn read(input: &mut Input<'_>, sink: &mut dyn EventSink) -> Result<History, InputError> {
    input.doing = "reading the trace";
    let path = input.path;
    let mut catalog = Catalog::default();
    let mut reader = Reader::new(&mut *input);
    let more = loop {
        match reader.step(&mut catalog, sink) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(ReadError::Io(error)) => break Err(InputError::unreadable(path, error)),
            Err(ReadError::NotATrace(why)) => break Err(InputError::unusable(path, why)),
        }
    };
    more?;
    let decoder = reader.decoder();
    for (anomaly, count) in decoder.oddities() {
        sink.note(anomaly, count, &catalog);
    }
    Ok(History {
        source: decoder.source().unwrap_or_default(),
        version: decoder.version(),
        parts: decoder.packets(),
        problems: Problems { damage: decoder.damage(), ..Problems::default() },
        catalog,
    })
}
