//! Columns of exceptions: the nonzero ones among values that are nearly always zero (docs/format.md §4.4).
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

    /// Appends value number `at`, which must come after all earlier ones.
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

    /// Empties the column.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.next = 0;
    }
}

/// Reads a column of exceptions, value by value.
#[derive(Clone, Copy, Debug)]
struct Exceptions<'a> {
    pairs: Numbers<'a>,
    zeros: u64,
}

impl<'a> Exceptions<'a> {
    /// The values of a column.
    fn new(mut pairs: Numbers<'a>) -> Self {
        let zeros = pairs.next().unwrap_or(u64::MAX);
        Self { pairs, zeros }
    }

    /// The next value; `None` if it is malformed.
    fn next(&mut self) -> Option<u64> {
        if self.zeros > 0 {
            self.zeros -= 1;
            return Some(0);
        }
        let value = self.pairs.next()?;
        self.zeros = self.pairs.next().unwrap_or(u64::MAX);
        Some(value)
    }
}

/// Reads two columns of exceptions in parallel. If both values are zero, which is nearly always so, this takes one test.
#[derive(Clone, Copy, Debug)]
pub struct ExceptionPairs<'a> {
    columns: [Exceptions<'a>; 2],
    /// How many values of both columns are zero from here on. They are already subtracted from the counts of the columns.
    zeros: u64,
}

impl<'a> ExceptionPairs<'a> {
    /// The values of two columns.
    pub fn new(columns: [Numbers<'a>; 2]) -> Self {
        let mut pairs = Self { columns: columns.map(Exceptions::new), zeros: 0 };
        pairs.look_ahead();
        pairs
    }

    fn look_ahead(&mut self) {
        let [a, b] = &mut self.columns;
        self.zeros = a.zeros.min(b.zeros);
        a.zeros -= self.zeros;
        b.zeros -= self.zeros;
    }

    /// The next values, `None` if both are zero; an error if one is malformed.
    #[inline]
    pub fn next(&mut self) -> Result<Option<[u64; 2]>, Malformed> {
        if self.zeros > 0 {
            self.zeros -= 1;
            return Ok(None);
        }
        self.exception().map(Some).ok_or(Malformed)
    }

    #[cold]
    fn exception(&mut self) -> Option<[u64; 2]> {
        let [a, b] = &mut self.columns;
        let values = [a.next()?, b.next()?];
        self.look_ahead();
        Some(values)
    }
}

/// A value is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// Maps a signed number to an unsigned one that is small if the number is near zero.
pub fn zigzag(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}

/// The inverse of [`zigzag`].
pub fn from_zigzag(value: u64) -> Option<i32> {
    let value = u32::try_from(value).ok()?;
    Some((value >> 1) as i32 ^ -((value & 1) as i32))
}

#[cfg(test)]
mod tests {
    use super::super::packed::LONGEST;
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = u64> {
        prop_oneof![3 => Just(0), 1 => any::<u64>()]
    }

    proptest! {
        #[test]
        fn every_value_is_read_as_it_was_put(values in prop::collection::vec((any_value(), any_value()), 0..60)) {
            let padded = [0, 1].map(|which| {
                let mut column = ExceptionsBuffer::with_room_for(60);
                for (at, value) in values.iter().enumerate() {
                    column.put(at as u64, if which == 0 { value.0 } else { value.1 });
                }
                [column.bytes(), &[0xff; LONGEST]].concat()
            });
            let numbers = [0, 1].map(|which| Numbers::new(&padded[which], padded[which].len() - LONGEST));
            let mut read = ExceptionPairs::new(numbers);
            for (a, b) in values {
                prop_assert_eq!(read.next().map(Option::unwrap_or_default), Ok([a, b]));
            }
            prop_assert_eq!(read.next(), Ok(None));
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
