//! Reading a trace from a file, a pipe or a socket.

use super::decoder::{Decoder, NotATrace};
use highwater_model::{Catalog, EventSink};
use std::fmt;
use std::io::{self, Read};

/// Bytes read at a time.
const PIECE: usize = 1 << 16;

/// Why a trace could not be read.
#[derive(Debug)]
pub enum MemtraceError {
    /// Reading failed.
    Io(io::Error),
    /// The input is not a trace.
    NotATrace(NotATrace),
}

impl fmt::Display for MemtraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotATrace(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for MemtraceError {}

impl From<io::Error> for MemtraceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotATrace> for MemtraceError {
    fn from(why: NotATrace) -> Self {
        Self::NotATrace(why)
    }
}

/// Reads a trace from front to back, never seeking.
///
/// ```no_run
/// use highwater_formats::memtrace::MemtraceReader;
/// use highwater_model::{AddressLedger, Catalog, Event};
///
/// let mut reader = MemtraceReader::new(std::fs::File::open("trace.ctf").unwrap());
/// let (mut catalog, mut ledger) = (Catalog::default(), AddressLedger::default());
/// let mut receive = |event: Event, _: &Catalog| ledger.record(&event, &mut ());
/// while reader.step(&mut catalog, &mut receive).unwrap() {}
/// ```
#[derive(Debug)]
pub struct MemtraceReader<R> {
    input: R,
    decoder: Decoder,
    piece: Vec<u8>,
}

impl<R: Read> MemtraceReader<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Self {
        Self::with_decoder(input, Decoder::default())
    }

    /// The same with a given decoder.
    pub fn with_decoder(input: R, decoder: Decoder) -> Self {
        Self { input, decoder, piece: vec![0; PIECE] }
    }

    /// Reads a piece and gives out the events that are known by then. False at the end, after all events were given out.
    pub fn step<E: EventSink + ?Sized>(
        &mut self,
        catalog: &mut Catalog,
        receiver: &mut E,
    ) -> Result<bool, MemtraceError> {
        let count = loop {
            match self.input.read(&mut self.piece) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        if count == 0 {
            self.decoder.finish(catalog, receiver)?;
            return Ok(false);
        }
        self.decoder.push(&self.piece[..count], catalog, receiver)?;
        Ok(true)
    }

    /// The decoder, with everything known of the trace so far.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}
