//! Numbers and texts in a sequence of bytes.

use std::io::{self, BufRead};

/// Limit for the length of a text, in bytes.
const LONGEST_TEXT: usize = 1 << 20;

/// Why a record cannot be read. Offsets are those of the decompressed bytes.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// The operating system reports an error.
    #[error("{0}")]
    Io(io::Error),
    /// The file ends before the record that marks its end.
    #[error("the capture ends too early")]
    Ended,
    /// A decompressor reports damage.
    #[error("the compressed data is damaged after {0} decompressed bytes: {1}")]
    Compressed(u64, io::Error),
    /// The file has another version.
    #[error("memray format {0} is not supported, only format 13 (memray 1.20); 'memray run' of that version writes it")]
    Version(u32),
    /// The file has sums only.
    #[error("an aggregated capture has no history; 'memray run' without --aggregate writes one")]
    Aggregated,
    /// A record makes no sense.
    #[error("at byte {0} of the decompressed records: {1}")]
    Malformed(u64, &'static str),
}

/// Reads numbers and texts.
pub(super) struct ByteReader<R> {
    input: R,
    offset: u64,
}

impl<R: BufRead> ByteReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// The error for a record that makes no sense, which ends here.
    pub fn malformed(&self, what: &'static str) -> RecordError {
        RecordError::Malformed(self.offset, what)
    }

    fn fail(&self, error: io::Error) -> RecordError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => RecordError::Ended,
            _ if error.raw_os_error().is_none() && error.get_ref().is_some_and(is_of_decompressor) => {
                RecordError::Compressed(self.offset, error)
            }
            _ => RecordError::Io(error),
        }
    }

    /// Fills the buffer, and returns it; empty at the end.
    fn filled(&mut self) -> Result<&[u8], RecordError> {
        // The buffer cannot be returned from the first call: the borrow checker would extend it to the error.
        if let Err(error) = self.input.fill_buf() {
            return Err(self.fail(error));
        }
        self.input.fill_buf().map_err(RecordError::Io)
    }

    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        self.offset += count as u64;
    }

    /// The next byte; `None` at the end.
    pub fn next(&mut self) -> Result<Option<u8>, RecordError> {
        let byte = self.filled()?.first().copied();
        if byte.is_some() {
            self.consume(1);
        }
        Ok(byte)
    }

    pub fn byte(&mut self) -> Result<u8, RecordError> {
        self.next()?.ok_or(RecordError::Ended)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let mut array = [0; N];
        for byte in &mut array {
            *byte = self.byte()?;
        }
        Ok(array)
    }

    pub fn word(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn half_word(&mut self) -> Result<u32, RecordError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of variable length.
    pub fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.malformed("a number has too many bytes"))
    }

    /// A number whose sign is its lowest bit.
    pub fn signed(&mut self) -> Result<i64, RecordError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A number that is stored as the difference to the latest one.
    pub fn delta(&mut self, latest: &mut u64) -> Result<u64, RecordError> {
        *latest = latest.wrapping_add_signed(self.signed()?);
        Ok(*latest)
    }

    /// A text that ends with a zero.
    pub fn text(&mut self) -> Result<String, RecordError> {
        let mut text = Vec::new();
        loop {
            let part = self.filled()?;
            if part.is_empty() {
                return Err(RecordError::Ended);
            }
            let end = part.iter().position(|byte| *byte == 0);
            let length = end.unwrap_or(part.len());
            text.extend_from_slice(&part[..length]);
            self.consume(length + usize::from(end.is_some()));
            if text.len() > LONGEST_TEXT {
                return Err(self.malformed("a text is too long"));
            }
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
        }
    }

    /// Bytes of a known length. A length that is beyond the end takes no more memory than there are bytes.
    pub fn bytes(&mut self, length: u64) -> Result<Vec<u8>, RecordError> {
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let part = self.filled()?;
            if part.is_empty() {
                return Err(RecordError::Ended);
            }
            let count = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            bytes.extend_from_slice(&part[..count]);
            self.consume(count);
            left -= count as u64;
        }
        Ok(bytes)
    }

    /// True if only zeros follow. They are consumed.
    pub fn only_zeros_follow(&mut self) -> Result<bool, RecordError> {
        loop {
            let part = self.filled()?;
            let (length, is_zero) = (part.len(), part.iter().all(|byte| *byte == 0));
            if length == 0 || !is_zero {
                return Ok(is_zero);
            }
            self.consume(length);
        }
    }
}

fn is_of_decompressor(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<lz4_flex::frame::Error>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let mut bytes = ByteReader::new(&[0x00, 0x7f, 0x80, 0x01, 0x03, 0x04, 0x05][..]);
        assert_eq!([0; 3].map(|_| bytes.number().unwrap()), [0, 127, 128]);
        let mut latest = 10;
        assert_eq!([0; 3].map(|_| bytes.delta(&mut latest).unwrap()), [8, 10, 7]);
        assert!(matches!(bytes.byte(), Err(RecordError::Ended)));
        let mut endless = ByteReader::new(&[0xff; 20][..]);
        assert_eq!(
            endless.number().unwrap_err().to_string(),
            "at byte 10 of the decompressed records: a number has too many bytes"
        );
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error_and_takes_no_memory() {
        let mut bytes = ByteReader::new(&b"ab\0cd"[..]);
        assert_eq!(bytes.text().unwrap(), "ab");
        assert!(matches!(bytes.bytes(u64::MAX), Err(RecordError::Ended)));
        assert!(matches!(ByteReader::new(&b"no end"[..]).text(), Err(RecordError::Ended)));
    }
}
