//! Numbers outside columns: little-endian base-128 integers with seven bits per byte; the highest bit says that more bytes follow.

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads numbers and byte strings from a slice, never past its end.
#[derive(Clone, Copy, Debug)]
pub struct VarintReader<'a> {
    rest: &'a [u8],
}

impl<'a> VarintReader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub fn length(&self) -> u64 {
        self.rest.len() as u64
    }

    /// True if everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next number; `None` at the end of the input or if it does not fit in 64 bits.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let (&first, rest) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = rest;
            return Some(u64::from(first));
        }
        self.long_number()
    }

    #[cold]
    fn long_number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index as u32;
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }

    /// The next number, if it fits in 32 bits.
    #[inline]
    pub fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// A length, followed by that number of bytes.
    pub fn byte_string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.bytes(length)
    }
}

/// Appends a length, then the bytes.
pub fn put_byte_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_is_read(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 64)), 0..50)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put(&mut bytes, value));
            let mut input = VarintReader::new(&bytes);
            for value in values {
                prop_assert_eq!(input.number(), Some(value));
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let mut input = VarintReader::new(&bytes);
            while input.number().is_some() {}
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(VarintReader::new(&[0xff; 10]).number(), None);
        assert_eq!(
            VarintReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).number(),
            Some(u64::MAX)
        );
    }
}
