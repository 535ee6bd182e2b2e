//! Weights: the blocks and bytes that a sampled block stands for (law 6).

use crate::byte_sum::ByteSum;
use crate::ids::AllocId;
use crate::spacing::SampleSpacing;

/// The blocks and bytes that a recorded block stands for: exactly one block, itself, in a recording that leaves nothing out.
///
/// It stands for a number of blocks of its kind, from 1 to just below 2³², kept in 22 bits, five of exponent and 17 of fraction, so that a file needs
/// three bytes for it and every bit pattern has a meaning: bits `e << 17 | f` stand for (1 + f / 2¹⁷) · 2ᵉ. Zero is exactly one. The bytes that it
/// stands for are this number times its size. If the source [counted its samples](Self::of_samples), they are the number of samples times the mean
/// [`SampleSpacing`] of samples. They are seldom a whole number, so sums use the [`amount`](Self::amount) and are rounded at the end; [`bytes`](Self::bytes)
/// is for showing one block.
///
/// ```
/// use highwater_model::{AllocId, SampleSpacing, Weight};
///
/// // A block of 1,000 bytes, of which on the average every 2,500th byte is sampled.
/// let weight = Weight::of_sample(1_000, 2_500);
/// assert!((weight.value() - 3.033).abs() < 0.001);
/// assert_eq!(weight.bytes(1_000), 3_033);
/// assert!([3, 4].contains(&weight.blocks(AllocId(7))));
/// assert_eq!((Weight::ONE.bytes(1_000), Weight::ONE.blocks(AllocId(7))), (1_000, 1));
///
/// // The same where it is known that two of its bytes were hit.
/// let counted = weight.of_samples(2, SampleSpacing::new(2_500.0));
/// assert_eq!((counted.bytes(1_000), counted.samples()), (5_000, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Weight {
    /// The bits of the number of blocks, and [`ROUNDED`].
    blocks: u32,
    /// How many samples hit it; 0 where they were not counted.
    samples: u32,
    spacing: SampleSpacing,
}

const FRACTION_BITS: u32 = 17;
const ALL_BITS: u32 = 22;
/// Flag: the bytes are rounded for each record.
const ROUNDED: u32 = 1 << 31;
/// The bits of a float's fraction that are not kept.
const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - FRACTION_BITS;

impl Weight {
    /// A block that stands for itself alone.
    pub const ONE: Self = Self::of_blocks(0);
    /// The largest weight, a little less than 2³².
    pub const MOST: Self = Self::of_blocks((1 << ALL_BITS) - 1);

    const fn of_blocks(blocks: u32) -> Self {
        Self { blocks, samples: 0, spacing: SampleSpacing::NONE }
    }

    /// The weight nearest to `value`; a value below 1 or NaN becomes 1.
    pub fn new(value: f64) -> Self {
        if value.is_nan() || value <= 1.0 {
            return Self::ONE;
        }
        let value = value.min(Self::MOST.value());
        // The float's own exponent and the upper bits of its fraction. A fraction that is rounded up to the next power of two carries into the
        // exponent.
        let rounded = (value.to_bits() + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS;
        Self::of_blocks((rounded - (1023 << FRACTION_BITS)) as u32)
    }

    /// The weight of a block of `size` bytes if on average one of `rate` bytes is sampled, independently of all others: one over the probability that
    /// at least one of its bytes is sampled. A block without bytes counts as one of one byte.
    pub fn of_sample(size: u64, rate: u64) -> Self {
        let chance = -(-(size.max(1) as f64) / rate.max(1) as f64).exp_m1();
        Self::new(1.0 / chance)
    }

    /// The same number of blocks, for a block that was hit by `samples` samples, `spacing` bytes apart on average. 0 samples means that they were not
    /// counted.
    #[inline]
    pub fn of_samples(self, samples: u32, spacing: SampleSpacing) -> Self {
        let spacing = if samples == 0 { SampleSpacing::NONE } else { spacing };
        Self { samples, spacing, ..self }
    }

    /// The same for a block of a file up to version 2, in which the bytes of each record are rounded before they are added up.
    pub fn rounded_per_record(self) -> Self {
        if self.is_one() { Self::ONE } else { Self { blocks: self.blocks | ROUNDED, ..self } }
    }

    /// True if bytes are rounded for each record.
    pub fn is_rounded(self) -> bool {
        self.blocks & ROUNDED != 0
    }

    /// The bits of the number of blocks, as a file stores them.
    pub fn bits(self) -> u32 {
        self.blocks & !ROUNDED
    }

    /// Everything except samples, in 32 bits: zero for one block.
    pub fn raw(self) -> u32 {
        self.blocks
    }

    /// The weight of a value of [`raw`](Self::raw), without samples.
    pub fn from_raw(raw: u32) -> Self {
        Self::of_blocks(raw & (ROUNDED | ((1 << ALL_BITS) - 1)))
    }

    /// The weight whose number of blocks a file stores as `bits`.
    pub fn from_bits(bits: u64) -> Option<Self> {
        (bits < 1 << ALL_BITS).then_some(Self::of_blocks(bits as u32))
    }

    /// True for a block that stands for itself alone.
    #[inline]
    pub fn is_one(self) -> bool {
        self.bits() == 0 && self.samples == 0
    }

    /// How many samples hit it, and the distance between samples; `None` if they were not counted.
    pub fn counted(self) -> Option<(u32, SampleSpacing)> {
        (self.samples > 0).then_some((self.samples, self.spacing))
    }

    /// How many samples hit it; 1 if they were not counted.
    #[inline]
    pub fn samples(self) -> u64 {
        self.samples.max(1).into()
    }

    /// How many blocks, on average.
    pub fn value(self) -> f64 {
        self.parts() as f64 / f64::from(1u32 << FRACTION_BITS)
    }

    /// The bytes that a block of `size` bytes stands for, rounded half up. Sums use [amounts](Self::amount).
    #[inline]
    pub fn bytes(self, size: u64) -> u64 {
        if self.is_one() { size } else { self.scaled(size).rounded() }
    }

    /// The bytes that a block of `size` bytes stands for, unrounded, for use in sums.
    #[inline]
    pub fn amount(self, size: u64) -> ByteSum {
        if self.is_one() {
            ByteSum::whole(size)
        } else if self.is_rounded() {
            ByteSum::whole(self.scaled(size).rounded())
        } else {
            self.scaled(size)
        }
    }

    #[inline]
    fn scaled(self, size: u64) -> ByteSum {
        if self.samples > 0 {
            return self.spacing.times(self.samples);
        }
        let product = u128::from(size) * u128::from(self.parts());
        // Units are finer than parts. A product that would not fit is larger than any memory.
        const FINER: u32 = 32 - FRACTION_BITS;
        if product > u128::MAX >> FINER { ByteSum::MAX } else { ByteSum::from_units(product << FINER) }
    }

    /// The weight in units of 2⁻¹⁷: whole numbers, so that every reader in any language gets the same sums.
    #[inline]
    fn parts(self) -> u64 {
        let bits = self.bits();
        let fraction = u64::from(bits & ((1 << FRACTION_BITS) - 1));
        (fraction | 1 << FRACTION_BITS) << (bits >> FRACTION_BITS)
    }

    /// The whole number of blocks that the allocation with this number counts as: the weight rounded down or up. The choice depends on the number
    /// only, so that it is the same at every call, and the mean over many allocations is the weight.
    #[inline]
    pub fn blocks(self, id: AllocId) -> u64 {
        if self.is_one() { 1 } else { self.drawn(id) }
    }

    /// An upper bound on [`blocks`](Self::blocks) for any number.
    pub fn most_blocks(self) -> u64 {
        (self.parts() >> FRACTION_BITS) + 1
    }

    #[inline]
    fn drawn(self, id: AllocId) -> u64 {
        let draw = mixed(id.0) >> (64 - FRACTION_BITS);
        (self.parts() + draw) >> FRACTION_BITS
    }
}

/// The finalizer of splitmix64: it maps neighbouring numbers to unrelated ones.
#[inline]
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_kept_to_five_digits() {
        for value in [1.0, 1.00001, 1.5, 1.999_999, 2.0, 3.033, 1e3, 524_288.5, 4e9] {
            let kept = Weight::new(value).value();
            assert!((kept / value - 1.0).abs() < 4e-6, "{value} became {kept}");
        }
        assert_eq!(Weight::new(1.999_999_9), Weight::new(2.0));
        for none in [f64::NAN, 0.0, -3.0, f64::NEG_INFINITY, 1.0] {
            assert_eq!(Weight::new(none), Weight::ONE);
        }
        assert_eq!(Weight::new(f64::INFINITY), Weight::MOST);
        assert!(Weight::MOST.value() < 2f64.powi(32));
        assert_eq!(Weight::from_bits(1 << 22), None);
    }

    #[test]
    fn bytes_are_rounded_and_never_wrap() {
        assert_eq!(Weight::new(1.5).bytes(3), 5);
        assert_eq!(Weight::new(2.5).bytes(u64::MAX), u64::MAX);
        assert_eq!(Weight::MOST.bytes(u64::MAX), u64::MAX);
        assert_eq!(Weight::new(4.0).bytes(0), 0);
    }

    #[test]
    fn sums_are_rounded_last_but_for_old_files() {
        let weight = Weight::new(2.5).of_samples(1, SampleSpacing::new(8.0 / 0.3));
        let sum = |weight: Weight, size| std::iter::repeat_n(weight.amount(size), 3000).sum::<ByteSum>().rounded();
        assert_eq!((sum(weight, 24), sum(weight.rounded_per_record(), 24)), (80_000, 81_000));
        let weight = Weight::new(1.25);
        assert_eq!((sum(weight, 1), sum(weight.rounded_per_record(), 1)), (3750, 3000));
        assert_eq!((weight.bytes(1), weight.rounded_per_record().bytes(1)), (1, 1));
        assert_eq!(Weight::ONE.rounded_per_record(), Weight::ONE);
        let old = weight.rounded_per_record();
        assert_eq!((old.bits(), old.value(), Weight::from_raw(old.raw())), (weight.bits(), 1.25, old));
    }

    #[test]
    fn counted_samples_settle_the_bytes_and_not_the_blocks() {
        let weight = Weight::new(3.5).of_samples(3, SampleSpacing::new(16_000.0));
        assert_eq!((weight.bytes(24), weight.bytes(0), weight.samples(), weight.value()), (48_000, 48_000, 3, 3.5));
        assert_eq!(weight.counted(), Some((3, SampleSpacing::new(16_000.0))));
        assert!(!Weight::ONE.of_samples(1, SampleSpacing::new(8.0)).is_one());
        assert_eq!((Weight::ONE.counted(), Weight::ONE.samples()), (None, 1));
        assert_eq!(Weight::new(2.0).of_samples(0, SampleSpacing::new(8.0)), Weight::new(2.0));
    }

    #[test]
    fn the_mean_of_the_blocks_drawn_is_the_weight() {
        for value in [1.25, 3.033, 17.9, 1000.01] {
            let weight = Weight::new(value);
            let sum: u64 = (0..100_000).map(|id| weight.blocks(AllocId(id))).sum();
            assert!((sum as f64 / 1e5 - weight.value()).abs() < 0.01, "{value}: {sum}");
            assert!((0..1000).all(|id| (weight.blocks(AllocId(id)) as f64 - value).abs() < 1.0));
        }
    }
}
