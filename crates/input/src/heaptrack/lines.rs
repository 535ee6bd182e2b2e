//! The text of a heaptrack file: decompressed, and split into lines and numbers.

use super::reader::{HeaptrackFault, HeaptrackReader};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufRead, BufReader};

/// Limit for the length of a line, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// The text of a file, decompressed if necessary.
pub(super) fn decompressed<'a>(input: impl io::Read + 'a) -> io::Result<Box<dyn io::Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    match input.fill_buf()? {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Box::new(zstd::Decoder::with_buffer(input)?)),
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(input))),
        _ => Ok(Box::new(input)),
    }
}

/// Hexadecimal numbers separated by spaces.
pub(super) struct HexWords<'a>(pub &'a [u8]);

impl HexWords<'_> {
    pub fn number(&mut self) -> Option<u64> {
        let end = self.0.iter().position(|byte| *byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        if word.is_empty() || word.len() > 16 {
            return None;
        }
        word.iter().try_fold(0, |number, byte| Some(number << 4 | u64::from((*byte as char).to_digit(16)?)))
    }

    pub fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }
}

/// Splits the text into lines, and passes each to the reader.
pub(super) struct HeaptrackLines<R> {
    text: R,
    line: Vec<u8>,
    /// The number of the latest line, from 1.
    pub number: u64,
}

impl<R: BufRead> HeaptrackLines<R> {
    pub fn new(text: R) -> Self {
        Self { text, line: Vec::new(), number: 0 }
    }

    /// Reads a line; `None` at the end.
    pub fn next(&mut self, reader: &mut HeaptrackReader<'_>) -> io::Result<Option<Result<(), HeaptrackFault>>> {
        self.line.clear();
        if !self.append()? {
            return Ok(None);
        }
        self.number += 1;
        if reader.version >= 3 && self.line.starts_with(b"s ") {
            // A string may have several lines.
            while reader.missing_of_string(&self.line) && self.line.len() < LONGEST_LINE {
                self.line.push(b'\n');
                if !self.append()? {
                    break;
                }
                self.number += 1;
            }
        }
        let line = if self.line.len() >= LONGEST_LINE { Err("it is too long") } else { Ok(self.line.as_slice()) };
        Ok(Some(reader.take(line, self.number == 1)))
    }

    /// Appends a line without its end, up to the limit of its length; false at the end of the text.
    fn append(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        loop {
            let part = self.text.fill_buf()?;
            if part.is_empty() {
                return Ok(is_any);
            }
            is_any = true;
            let end = part.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(part.len());
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..length.min(room)]);
            self.text.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}
