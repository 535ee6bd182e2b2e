//! Reads a dump from front to back through one buffer.

use super::bytes::DumpBytes;
use std::io;

/// The size of the buffer: larger than almost all records, and small enough for the second-level cache.
const BUFFER: usize = 256 << 10;

/// Why bytes could not be taken.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The file ends before them.
    End,
    Read(io::Error),
}

/// A position in a dump, with the bytes after it.
pub(super) struct Stream<'a> {
    bytes: &'a DumpBytes,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// The offset in the file of the end of the buffer's content.
    filled_to: u64,
}

impl<'a> Stream<'a> {
    pub fn new(bytes: &'a DumpBytes, offset: u64) -> Self {
        Self::with_buffer(bytes, offset, BUFFER)
    }

    /// A stream with a small buffer, for a few records.
    pub fn short(bytes: &'a DumpBytes, offset: u64) -> Self {
        Self::with_buffer(bytes, offset, 16 << 10)
    }

    fn with_buffer(bytes: &'a DumpBytes, offset: u64, size: usize) -> Self {
        Self { bytes, buffer: vec![0; size], start: 0, end: 0, filled_to: offset }
    }

    /// The offset of the next byte.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.filled_to - (self.end - self.start) as u64
    }

    /// The number of bytes up to the end of the file.
    pub fn remaining(&self) -> u64 {
        self.bytes.len().saturating_sub(self.offset())
    }

    /// The next bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&[u8], StreamError> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        let start = self.start;
        self.start += count;
        Ok(&self.buffer[start..self.start])
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StreamError> {
        // `take` returns as many bytes as were asked for.
        Ok(self.take(N)?.first_chunk().copied().unwrap_or([0; N]))
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, StreamError> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, StreamError> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, StreamError> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next bytes, which are not consumed; fewer at the end of the file.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], StreamError> {
        let count = count.min(self.remaining() as usize);
        if self.end - self.start < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.start..self.start + count])
    }

    /// Moves on without reading.
    #[inline]
    pub fn skip(&mut self, count: u64) -> Result<(), StreamError> {
        let buffered = (self.end - self.start) as u64;
        if count <= buffered {
            self.start += count as usize;
            return Ok(());
        }
        if count > self.remaining() {
            return Err(StreamError::End);
        }
        self.filled_to += count - buffered;
        (self.start, self.end) = (0, 0);
        Ok(())
    }

    /// Makes `count` bytes available in one piece. The buffer grows only for bytes that the file has.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<(), StreamError> {
        if count as u64 > self.remaining() {
            return Err(StreamError::End);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        let read = self.bytes.read_at(&mut self.buffer[self.end..], self.filled_to).map_err(StreamError::Read)?;
        self.end += read;
        self.filled_to += read as u64;
        if self.end < count { Err(StreamError::End) } else { Ok(()) }
    }
}
