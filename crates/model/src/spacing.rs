//! How far samples are apart.

/// The mean number of bytes from one sample to the next, in 32 bits that a file can store.
///
/// Bits `e << 27 | f` stand for f · 2ᵉ / 2¹⁶ bytes: every whole number below 2²⁷ is exact, all others are to eight digits. Sums of what
/// samples stand for are made in whole numbers, so that every reader in any language comes to the same.
///
/// ```
/// use highwater_model::Spacing;
///
/// assert_eq!(Spacing::new(80_000.0).times(3), 240_000);
/// assert_eq!(Spacing::new(8.0 / 0.3).times(3), 80);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spacing(u32);

const FACTOR_BITS: u32 = 27;
const UNIT_BITS: u32 = 16;

impl Spacing {
    /// Not known.
    pub const NONE: Self = Self(0);

    /// The spacing nearest to `bytes`; what is negative or no number is none.
    pub fn new(bytes: f64) -> Self {
        if bytes.is_nan() || bytes <= 0.0 {
            return Self::NONE;
        }
        let units = bytes * f64::from(1u32 << UNIT_BITS);
        for exponent in 0..32 {
            let factor = (units / f64::from(1u32 << exponent)).round();
            if factor < f64::from(1u32 << FACTOR_BITS) {
                return Self(exponent << FACTOR_BITS | factor as u32);
            }
        }
        Self(u32::MAX)
    }

    /// The spacing that a file stores as `bits`.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits, as a file stores them.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// In bytes.
    pub fn bytes(self) -> f64 {
        self.units() as f64 / f64::from(1u32 << UNIT_BITS)
    }

    #[inline]
    fn units(self) -> u64 {
        u64::from(self.0 & ((1 << FACTOR_BITS) - 1)) << (self.0 >> FACTOR_BITS)
    }

    /// The bytes that so many samples stand for, rounded half up.
    #[inline]
    pub fn times(self, samples: u32) -> u64 {
        let product = u128::from(self.units()) * u128::from(samples) + (1 << (UNIT_BITS - 1));
        u64::try_from(product >> UNIT_BITS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_and_all_others_nearly() {
        for bytes in [1.0, 8.0, 800.0, 16_000.0, 80_000.0, 8e6, 8e7, 134_217_727.0, 8e9] {
            assert_eq!(Spacing::new(bytes).bytes(), bytes);
            assert_eq!(Spacing::new(bytes).times(1_000), bytes as u64 * 1_000);
        }
        for bytes in [0.01, 8.0 / 0.3, 8.0 / 3e-6, 1e11] {
            let kept = Spacing::new(bytes).bytes();
            assert!((kept / bytes - 1.0).abs() < 1e-2_f64.min(1e-8 * (1.0 + 1e3 / bytes)), "{bytes} became {kept}");
        }
    }

    #[test]
    fn nothing_wraps_and_every_pattern_has_a_meaning() {
        assert_eq!(Spacing::new(f64::INFINITY), Spacing(u32::MAX));
        assert_eq!([f64::NAN, -1.0, 0.0].map(Spacing::new), [Spacing::NONE; 3]);
        assert!(Spacing(u32::MAX).times(u32::MAX) > 1 << 62);
        assert_eq!(Spacing::from_bits(12345).bits(), 12345);
    }
}
