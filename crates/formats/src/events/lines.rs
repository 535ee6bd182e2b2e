//! Lines of bounded length.

use std::io::{self, BufRead, Read};

/// Limit for the length of a line. A longer line is skipped without being held in memory.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Splits the input into lines of bounded length.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    failed: bool,
}

/// A line of the input.
pub(super) enum BoundedLine<'a> {
    /// Its bytes, without the line end.
    Bytes(&'a [u8]),
    TooLong,
}

impl<R: BufRead> BoundedLines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0, failed: false }
    }

    /// The number of the last line returned, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end of the input, or after an error.
    pub(super) fn next(&mut self) -> Option<io::Result<BoundedLine<'_>>> {
        if self.failed {
            return None;
        }
        match self.fill() {
            Ok(false) => None,
            Ok(true) => {
                self.number += 1;
                let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
                let is_too_long = line.len() > MAX_LINE_BYTES;
                Some(Ok(if is_too_long { BoundedLine::TooLong } else { BoundedLine::Bytes(line) }))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }

    /// Reads a line, or the part of it that shows that it is too long. False at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer)?;
        if read as u64 == limit && !self.buffer.ends_with(b"\n") {
            self.input.skip_until(b'\n')?;
        }
        Ok(read > 0)
    }
}
