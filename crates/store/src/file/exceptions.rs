//! Columns of exceptions: of values that are nearly always zero, the others (docs/format.md §4.4).
//!
//! ```text
//!  for each value that is not zero: how many zeros stand before it, the value
//! ```

use super::packed::{Buffer, Numbers};

/// A column of exceptions being filled.
pub struct ExceptionsBuffer {
    pairs: Buffer,
    next: u64,
}

impl ExceptionsBuffer {
    /// A column with room for exceptions among `values`.
    pub fn with_room_for(values: usize) -> Self {
        Self { pairs: Buffer::with_room_for(values * 2), next: 0 }
    }

    /// Says what value number `at` is, which lies behind all said before.
    pub fn put(&mut self, at: u64, value: u64) {
        if value != 0 {
            self.pairs.put(at - self.next);
            self.pairs.put(value);
            self.next = at + 1;
        }
    }

    /// The column as it is stored.
    pub fn bytes(&self) -> &[u8] {
        self.pairs.bytes()
    }

    /// Starts anew.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.next = 0;
    }
}

/// Reads a column of exceptions, value by value.
#[derive(Clone, Copy, Debug)]
pub struct Exceptions<'a> {
    pairs: Numbers<'a>,
    zeros: u64,
}

impl<'a> Exceptions<'a> {
    /// The values of a column.
    pub fn new(mut pairs: Numbers<'a>) -> Self {
        let zeros = pairs.next().unwrap_or(u64::MAX);
        Self { pairs, zeros }
    }

    /// The next value; `None` if it is malformed.
    #[inline]
    pub fn next(&mut self) -> Option<u64> {
        if self.zeros > 0 {
            self.zeros -= 1;
            return Some(0);
        }
        self.exception()
    }

    #[cold]
    fn exception(&mut self) -> Option<u64> {
        let value = self.pairs.next()?;
        self.zeros = self.pairs.next().unwrap_or(u64::MAX);
        Some(value)
    }
}

/// A number with a sign, small if it is near zero.
pub fn zigzag(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}

/// The number that `zigzag` made `value` of.
pub fn from_zigzag(value: u64) -> Option<i32> {
    let value = u32::try_from(value).ok()?;
    Some((value >> 1) as i32 ^ -((value & 1) as i32))
}

#[cfg(test)]
mod tests {
    use super::super::packed::LONGEST;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_is_read_as_it_was_put(values in prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u64>()], 0..60)) {
            let mut column = ExceptionsBuffer::with_room_for(60);
            for (at, &value) in values.iter().enumerate() {
                column.put(at as u64, value);
            }
            let mut padded = column.bytes().to_vec();
            let end = padded.len();
            padded.resize(end + LONGEST, 0xff);
            let mut read = Exceptions::new(Numbers::new(&padded, end));
            for value in values {
                prop_assert_eq!(read.next(), Some(value));
            }
            prop_assert_eq!(read.next(), Some(0));
        }

        #[test]
        fn a_sign_costs_one_bit(value in any::<i32>()) {
            prop_assert_eq!(from_zigzag(zigzag(value)), Some(value));
        }
    }

    #[test]
    fn small_numbers_stay_small() {
        assert_eq!([0, -1, 1, -2, i32::MAX, i32::MIN].map(zigzag), [0, 1, 2, 3, (1 << 32) - 2, (1 << 32) - 1]);
        assert_eq!(from_zigzag(1 << 32), None);
    }
}
