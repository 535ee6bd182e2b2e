//! Numbers in columns: the two lowest bits of the first byte say how many bytes there are (docs/format.md §3.1).
//!
//! ```text
//!  ......00                     6 bits
//!  ......01 ........            14 bits
//!  ......10 ........ ........   22 bits
//!  00000011, then 8 bytes       64 bits
//! ```
//!
//! Whether a number is short or long cannot be predicted, and a mispredicted branch costs more than the work it saves. So the first byte gives the
//! length, and the three short forms are written and read without branches.

const LONG: u32 = 3;
/// The length of the longest number. A column's buffer must extend this far after its end.
pub const LONGEST: usize = 9;

/// A column being filled.
pub struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    /// A column with room for `numbers`.
    pub fn with_room_for(numbers: usize) -> Self {
        Self { bytes: vec![0; (numbers + 1) * LONGEST], used: 0 }
    }

    /// Appends a number.
    #[inline(always)]
    pub fn put(&mut self, value: u64) {
        self.put_if(true, value);
    }

    /// Appends a number if `wanted`.
    #[inline(always)]
    pub fn put_if(&mut self, wanted: bool, value: u64) {
        if value >= 1 << 22 {
            if wanted {
                self.put_long(value);
            }
            return;
        }
        let value = value as u32;
        let more = u32::from(value > 0x3f) + u32::from(value > 0x3fff);
        if let Some(place) = self.bytes[self.used..].first_chunk_mut() {
            *place = (value << 2 | more).to_le_bytes();
        }
        self.used += if wanted { 1 + more as usize } else { 0 };
    }

    #[cold]
    fn put_long(&mut self, value: u64) {
        self.put_byte(LONG as u8);
        self.bytes[self.used..self.used + 8].copy_from_slice(&value.to_le_bytes());
        self.used += 8;
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn put_byte(&mut self, byte: u8) {
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    /// The bytes appended so far.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Empties the column.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

/// Reads a column from a buffer that extends at least [`LONGEST`] bytes after its end.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    padded: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Numbers<'a> {
    /// The column in the first `end` bytes of `padded`.
    pub fn new(padded: &'a [u8], end: usize) -> Self {
        Self { padded, at: 0, end }
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// The next number; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Option<u64> {
        let word = u32::from_le_bytes(*self.padded.get(self.at..)?.first_chunk()?);
        let more = word & 3;
        if more == LONG {
            return self.next_long();
        }
        self.at += 1 + more as usize;
        (self.at <= self.end).then_some(u64::from((word & (u32::MAX >> (24 - 8 * more))) >> 2))
    }

    #[cold]
    fn next_long(&mut self) -> Option<u64> {
        let value = u64::from_le_bytes(*self.padded.get(self.at + 1..)?.first_chunk()?);
        self.at += LONGEST;
        (self.at <= self.end).then_some(value)
    }

    /// The next number, if it fits in 32 bits.
    #[inline]
    pub fn next32(&mut self) -> Option<u32> {
        u32::try_from(self.next()?).ok()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.padded[..self.end].get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_is_read(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 64)), 0..50)) {
            let mut column = Buffer::with_room_for(50);
            for &value in &values {
                column.put(value);
                column.put_if(false, value);
            }
            let mut padded = column.bytes().to_vec();
            let end = padded.len();
            padded.resize(end + LONGEST, 0xff);
            let mut numbers = Numbers::new(&padded, end);
            for value in values {
                prop_assert_eq!(numbers.next(), Some(value));
            }
            prop_assert_eq!(numbers.next(), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), end in 0usize..60) {
            let mut numbers = Numbers::new(&bytes, end.min(bytes.len()));
            while numbers.next().is_some() {}
        }
    }
}
