//! Lines of bounded length from an input stream.
//!
//! One buffer holds the bytes that were read; complete lines are passed on in place. A line that does not end within [`MAX_LINE_BYTES`] is skipped
//! without being held: only its first byte is kept.

use memchr::memchr;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Limit for the length of a line.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The number of bytes read at a time: small enough for the processor's second-level cache.
const PIECE: usize = 1 << 18;

/// A line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitLine<'a> {
    /// Its bytes without the line end.
    Whole(&'a [u8]),
    /// The last line, without a line end.
    Unended(&'a [u8]),
    /// A line longer than the limit; this is its first byte.
    TooLong(u8),
}

/// Splits a stream into lines.
#[derive(Debug)]
pub(super) struct LineSplitter {
    buffer: Vec<u8>,
    /// The start of the incomplete line, and the number of bytes in the buffer.
    start: usize,
    filled: usize,
    /// The first byte of the line that is being skipped.
    passing: Option<u8>,
    number: u64,
    bytes: u64,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self { buffer: vec![0; PIECE], start: 0, filled: 0, passing: None, number: 0, bytes: 0 }
    }
}

impl LineSplitter {
    /// The number of bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads once, and passes all lines that are then complete to `each`, with their numbers. Returns the number of bytes read: 0 at the end.
    ///
    /// After `each` returned `Break`, do not call this again.
    pub fn read(
        &mut self,
        input: &mut impl Read,
        mut each: impl FnMut(u64, SplitLine<'_>) -> ControlFlow<()>,
    ) -> io::Result<usize> {
        self.make_room();
        let count = loop {
            match input.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        let mut search = self.filled;
        self.filled += count;
        self.bytes += count as u64;
        while let Some(length) = memchr(b'\n', &self.buffer[search..self.filled]) {
            let end = search + length;
            self.number += 1;
            let line = match self.passing.take() {
                Some(first) => SplitLine::TooLong(first),
                None => SplitLine::Whole(&self.buffer[self.start..end]),
            };
            self.start = end + 1;
            search = self.start;
            if each(self.number, line).is_break() {
                break;
            }
        }
        Ok(count)
    }

    /// Passes on the remaining bytes as the last line. Call this at the end of the input.
    pub fn finish(&mut self, mut each: impl FnMut(u64, SplitLine<'_>) -> ControlFlow<()>) {
        let line = match self.passing.take() {
            Some(first) => SplitLine::TooLong(first),
            None if self.start == self.filled => return,
            None => SplitLine::Unended(&self.buffer[self.start..self.filled]),
        };
        self.number += 1;
        let _ = each(self.number, line);
        self.start = self.filled;
    }

    /// Makes room in the buffer for the next read.
    fn make_room(&mut self) {
        if self.passing.is_some() {
            (self.start, self.filled) = (0, 0);
            return;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled > MAX_LINE_BYTES {
            self.passing = self.buffer.first().copied();
            self.filled = 0;
            self.buffer.truncate(PIECE);
            self.buffer.shrink_to_fit();
        } else if self.filled == self.buffer.len() {
            let longer = (self.buffer.len() * 2).min(MAX_LINE_BYTES + 1);
            self.buffer.resize(longer, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns only a few bytes from each read.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn lines_of(input: &[u8], at_a_time: usize) -> Vec<String> {
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        let mut each = |number: u64, line: SplitLine<'_>| {
            let text = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(20)]).into_owned();
            found.push(match line {
                SplitLine::Whole(line) => format!("{number} {}", text(line)),
                SplitLine::Unended(line) => format!("{number} {}…", text(line)),
                SplitLine::TooLong(first) => format!("{number} too long: {}", first as char),
            });
            ControlFlow::Continue(())
        };
        let mut input = Drops(input, at_a_time);
        while lines.read(&mut input, &mut each).expect("memory can be read") > 0 {}
        lines.finish(each);
        assert!(lines.buffer.len() <= MAX_LINE_BYTES + 1);
        found
    }

    #[test]
    fn lines_are_found_however_they_arrive() {
        for at_a_time in [1, 2, 3, 1000] {
            assert_eq!(lines_of(b"one\n\nthree\nfour", at_a_time), ["1 one", "2 ", "3 three", "4 four…"]);
            assert_eq!(lines_of(b"one\n", at_a_time), ["1 one"]);
            assert!(lines_of(b"", at_a_time).is_empty());
        }
    }

    #[test]
    fn a_gigantic_line_is_passed_over_and_the_next_one_read() {
        for length in [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 5 * MAX_LINE_BYTES] {
            let mut input = b"before\n@".to_vec();
            input.resize(7 + length, b'x');
            input.extend_from_slice(b"\nafter\n");
            let found = lines_of(&input, 100_000);
            let second = if length > MAX_LINE_BYTES { "2 too long: @" } else { "2 @xxxxxxxxxxxxxxxxxxx" };
            assert_eq!(found, ["1 before", second, "3 after"], "{length}");
        }
        assert_eq!(lines_of(&vec![b'y'; 3 * MAX_LINE_BYTES], 1 << 20), ["1 too long: y"]);
    }
}
