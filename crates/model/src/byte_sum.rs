//! Sums of estimated bytes. They are rounded only for display.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

const FRACTION_BITS: u32 = 32;
const HALF: u128 = 1 << (FRACTION_BITS - 1);

/// Bytes in units of 2⁻³².
///
/// A sample seldom stands for a whole number of bytes: at a rate of 0.3 it is 26⅔. If each record were rounded, sums would drift. Sums therefore use
/// this type, and are [rounded](Self::rounded) when they are shown. A sum of a billion samples is off by a ninth of a byte at most. Sums saturate at
/// the largest number of bytes that fits in 64 bits.
///
/// ```
/// use highwater_model::{ByteSum, SampleSpacing};
///
/// let one = SampleSpacing::new(8.0 / 0.3).times(1);
/// let sum: ByteSum = std::iter::repeat_n(one, 1000).sum();
/// assert_eq!((one.rounded(), sum.rounded()), (27, 26_667));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSum(u128);

impl ByteSum {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest number of bytes that fits in 64 bits.
    pub const MAX: Self = Self((u64::MAX as u128) << FRACTION_BITS);

    /// A whole number of bytes.
    #[inline]
    pub const fn whole(bytes: u64) -> Self {
        Self((bytes as u128) << FRACTION_BITS)
    }

    /// From a number of units.
    #[inline]
    pub fn from_units(units: u128) -> Self {
        Self(units).min(Self::MAX)
    }

    /// In units of 2⁻³² bytes.
    #[inline]
    pub fn units(self) -> u128 {
        self.0
    }

    /// The nearest whole number of bytes; half a byte is rounded up.
    #[inline]
    pub fn rounded(self) -> u64 {
        u64::try_from((self.0 + HALF) >> FRACTION_BITS).unwrap_or(u64::MAX)
    }

    /// The difference; zero if `other` is larger.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The signed difference to another sum, rounded.
    pub fn rounded_difference(self, other: Self) -> i128 {
        (self.0 as i128 - other.0 as i128 + HALF as i128) >> FRACTION_BITS
    }
}

impl Add for ByteSum {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self::from_units(self.0 + other.0)
    }
}

impl AddAssign for ByteSum {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for ByteSum {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Self::add)
    }
}

/// Converts a rounded number and its rest to units.
#[inline]
pub(crate) fn units_of(bytes: u64, rest: i32) -> i128 {
    (i128::from(bytes) << FRACTION_BITS) + i128::from(rest)
}

/// Splits units into the rounded number of bytes, modulo 2⁶⁴, and the rest: the lower half of the units, as a signed number.
#[inline]
pub(crate) fn split_units(units: i128) -> (u64, i32) {
    (((units + HALF as i128) >> FRACTION_BITS) as u64, units as u32 as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_split_into_what_is_shown_and_what_is_left() {
        for units in [0, 1, HALF - 1, HALF, HALF + 1, (7 << 32) + 5, (7 << 32) - 5] {
            let sum = ByteSum::from_units(units);
            let (bytes, rest) = split_units(units as i128);
            assert_eq!((bytes, units_of(bytes, rest)), (sum.rounded(), units as i128));
        }
        assert_eq!(ByteSum::from_units(HALF).rounded(), 1);
        assert_eq!(ByteSum::from_units(HALF - 1).rounded(), 0);
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!((ByteSum::MAX + ByteSum::MAX).rounded(), u64::MAX);
        assert_eq!(ByteSum::whole(3).saturating_sub(ByteSum::whole(5)), ByteSum::ZERO);
        assert_eq!(ByteSum::whole(3).rounded_difference(ByteSum::whole(5)), -2);
    }
}
