//! Capture files of memray, the memory profiler of Python: `memray run`.
//!
//! A capture is a header and a sequence of records, usually compressed as an LZ4 frame. The layout has no specification; this follows what
//! memray 1.20 writes. Numbers are little-endian, or variable-length (7 bits to a byte, the lowest first); *signed* ones have the sign in
//! the lowest bit, and *deltas* are signed differences to the latest number of their kind.
//!
//! ```text
//! header      "memray\0", version (4 bytes), version of Python (4), native traces? (1), format (1), statistics (32), command\0, pid (4), main thread (8),
//!             frames of memray itself in the main thread (8), Python's allocator (1), Python's allocators traced? (1), objects tracked? (1),
//!             library\0, two lists of paths\0 that end with an empty one
//! 01          the end
//! 02          resident bytes, milliseconds since the start
//! 05          a native call: delta of its return address, delta of its caller's number; numbered from 1 on
//! 06          all modules are listed anew
//! 07          a module: path\0, number of its parts, base (8 bytes), and for each part: 08, address (8 bytes), size
//! 0a          the name\0 of the thread
//! 0c          the thread (8 bytes) of what follows
//! 0e          a Python function: its number, name\0, file\0, delta of its first line, length of its line table, line table
//! 0001nnnn    n + 1 Python calls returned
//! 001ppppc    a Python object was created or destroyed; ignored
//! 01uuuuue    a Python call: number of the function, signed offset of its instruction; e: the interpreter was entered anew
//! 1ppppaaa    an allocation or a free by allocator a (0: its number follows). The address is the p-th latest one, or for p = 15 a delta of its
//!             eighth. Then, except for frees: delta of the native call's number (with native traces only), size
//! ```
//!
//! A reallocation is a free and an allocation. Mappings are kept as memray keeps them ([`mappings`]). Captures of format 1 (`--aggregate`) have sums
//! instead of a history.

mod bytes;
mod header;
mod line_table;
mod mappings;
mod native;
mod python;
mod reader;

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::stream::InputStream;
use bytes::{ByteReader, RecordError};
use header::CaptureHeader;
use highwater_model::{Damage, EventSink};
use lz4_flex::frame::FrameDecoder;
use reader::MemrayReader;
use std::io::{self, BufRead, BufReader};

/// The first bytes of a capture.
const MAGIC: &[u8] = b"memray\0";
/// The first bytes of an LZ4 frame.
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The bytes of a compressed file in which the magic stands as it is: it is the first text of the first block.
const COMPRESSED_START: usize = 40;

/// A capture of memray.
pub struct MemrayFormat;

impl Format for MemrayFormat {
    fn key(&self) -> &'static str {
        "memray"
    }

    fn title(&self) -> &'static str {
        "memray capture"
    }

    fn source_title(&self) -> &'static str {
        "memray"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a recording of it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let is_compressed = start.starts_with(&LZ4_MAGIC)
            && start[..start.len().min(COMPRESSED_START)].windows(MAGIC.len()).any(|bytes| bytes == MAGIC);
        is_compressed || start.starts_with(MAGIC)
    }

    fn read(&self) -> Read {
        Read::History(read)
    }
}

fn read(input: &mut InputStream<'_>, sink: &mut dyn EventSink) -> Result<ReadHistory, InputError> {
    input.doing = "reading the memray capture";
    let path = input.path;
    let fail = |error: RecordError| match error {
        RecordError::Io(error) => InputError::unreadable(path, error),
        other => InputError::unusable(path, other),
    };
    let content = decompressed(&mut *input).map_err(|error| InputError::unreadable(path, error))?;
    let mut bytes = ByteReader::new(BufReader::with_capacity(1 << 16, content));
    let header = CaptureHeader::read(&mut bytes).map_err(fail)?;
    let mut reader = MemrayReader::new(header, sink);
    let end = reader.read_all(&mut bytes);
    drop(bytes);
    let mut history = reader.finish();
    match end {
        Ok(()) => {}
        Err(RecordError::Io(error)) => return Err(InputError::unreadable(path, error)),
        Err(RecordError::Ended) => history.source.notes.insert(0, "The capture was never completed.".to_owned()),
        Err(fault) => {
            let what = fault.to_string().into();
            history.problems.damage.push(Damage { offset: input.bytes_read(), length: 0, what });
        }
    }
    Ok(history)
}

/// The records of a file, decompressed if necessary.
fn decompressed<'a>(input: impl io::Read + 'a) -> io::Result<Box<dyn io::Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    if input.fill_buf()?.starts_with(&LZ4_MAGIC) {
        return Ok(Box::new(FrameDecoder::new(input)));
    }
    Ok(Box::new(input))
}
