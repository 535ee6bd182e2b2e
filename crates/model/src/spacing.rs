//! The mean distance between samples.

use crate::byte_sum::ByteSum;

/// The mean number of bytes from one sample to the next: a float of 64 bits, as a file stores it.
///
/// Samples are multiplied by it in units of 2⁻³² bytes, to which it is rounded once. Sums are whole numbers of these units, so that every reader in
/// any language gets the same result.
///
/// ```
/// use highwater_model::SampleSpacing;
///
/// assert_eq!(SampleSpacing::new(80_000.0).times(3).rounded(), 240_000);
/// assert_eq!(SampleSpacing::new(8.0 / 0.3).times(3).rounded(), 80);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SampleSpacing(u64);

/// The largest spacing: no memory is larger.
const MOST: f64 = (1u64 << 63) as f64;
const UNITS: f64 = (1u64 << 32) as f64;

/// Files up to version 2 store f · 2ᵉ / 2¹⁶ bytes as `e << 27 | f`.
const OLD_FACTOR_BITS: u32 = 27;
const OLD_UNITS: f64 = (1u32 << 16) as f64;

impl SampleSpacing {
    /// Not known.
    pub const NONE: Self = Self(0);

    /// The spacing of a number of bytes; [`NONE`](Self::NONE) for zero, a negative number or NaN.
    pub fn new(bytes: f64) -> Self {
        if bytes.is_nan() || bytes <= 0.0 { Self::NONE } else { Self(bytes.min(MOST).to_bits()) }
    }

    /// The spacing that a file stores as `bits`.
    pub fn from_bits(bits: u64) -> Self {
        Self::new(f64::from_bits(bits))
    }

    /// The bits, as a file stores them.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The spacing that a file of version 2 stores as `bits`.
    pub fn from_old_bits(bits: u32) -> Self {
        let factor = f64::from(bits & ((1 << OLD_FACTOR_BITS) - 1));
        Self::new(factor * f64::from(1u32 << (bits >> OLD_FACTOR_BITS)) / OLD_UNITS)
    }

    /// The bits of the nearest spacing that a file of version 2 can store.
    pub fn old_bits(self) -> u32 {
        let units = self.bytes() * OLD_UNITS;
        for exponent in 0..32 {
            let factor = (units / f64::from(1u32 << exponent)).round();
            if factor < f64::from(1u32 << OLD_FACTOR_BITS) {
                return exponent << OLD_FACTOR_BITS | factor as u32;
            }
        }
        u32::MAX
    }

    /// In bytes.
    pub fn bytes(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// The bytes that `samples` samples stand for.
    #[inline]
    pub fn times(self, samples: u32) -> ByteSum {
        // Scaling by a power of two is exact.
        let units = (self.bytes() * UNITS).round() as u128;
        ByteSum::from_units(units * u128::from(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_exact() {
        for bytes in [1.0, 8.0, 800.0, 16_000.0, 80_000.0, 8e6, 8e7, 134_217_727.0, 8e9] {
            assert_eq!(SampleSpacing::new(bytes).bytes(), bytes);
            assert_eq!(SampleSpacing::new(bytes).times(1_000).rounded(), bytes as u64 * 1_000);
        }
        // 8 / 0.3 is 80 / 3: a billion samples are off by less than half a byte.
        assert_eq!(SampleSpacing::new(8.0 / 0.3).times(1_000_000_000).rounded(), 26_666_666_667);
    }

    #[test]
    fn nothing_wraps_and_every_pattern_has_a_meaning() {
        assert_eq!(SampleSpacing::new(f64::INFINITY).times(u32::MAX), ByteSum::MAX);
        assert_eq!([f64::NAN, -1.0, 0.0].map(SampleSpacing::new), [SampleSpacing::NONE; 3]);
        assert_eq!([u64::MAX, 1 << 63, f64::NAN.to_bits()].map(SampleSpacing::from_bits), [SampleSpacing::NONE; 3]);
        assert_eq!(SampleSpacing::from_bits(8.0f64.to_bits()).bits(), 8.0f64.to_bits());
    }

    #[test]
    fn spacings_of_old_files_are_kept_as_they_were() {
        for bits in [0, 12_345, 8 << 16, 31 << 27 | 1 << 26, u32::MAX] {
            let spacing = SampleSpacing::from_old_bits(bits);
            assert_eq!(SampleSpacing::from_old_bits(spacing.old_bits()), spacing);
        }
        assert_eq!(SampleSpacing::from_old_bits(8 << 16).bytes(), 8.0);
        assert!(SampleSpacing::from_old_bits(u32::MAX).times(u32::MAX).rounded() > 1 << 62);
    }
}
