//! Sampling by words, as in OCaml's runtime.

use crate::spacing::SampleSpacing;
use crate::weight::Weight;

/// Each word of each block, its header included, is a sample with the same probability, independently of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordSampling {
    /// The bits of the probability.
    rate: u64,
    /// The bits of the logarithm of the probability that a word is not a sample.
    missing: u64,
    spacing: SampleSpacing,
    word_bytes: u8,
}

impl WordSampling {
    /// Samples words of 4 or 8 bytes; `None` if the rate is not a probability above 0.
    pub fn new(rate: f64, word_bytes: u8) -> Option<Self> {
        let is_sound = rate > 0.0 && rate <= 1.0 && matches!(word_bytes, 4 | 8);
        is_sound.then(|| Self {
            rate: rate.to_bits(),
            missing: (-rate).ln_1p().to_bits(),
            spacing: SampleSpacing::new(bytes_per_sample(rate, word_bytes)),
            word_bytes,
        })
    }

    /// The probability that a word is a sample.
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.rate)
    }

    /// The size of a word.
    pub fn word_bytes(&self) -> u8 {
        self.word_bytes
    }

    /// The mean number of bytes from one sample to the next.
    pub fn bytes_per_sample(&self) -> f64 {
        bytes_per_sample(self.rate(), self.word_bytes)
    }

    /// The same, in the form that blocks carry.
    pub fn spacing(&self) -> SampleSpacing {
        self.spacing
    }

    /// The weight of a block of `words` words, not counting its header, of which `samples` were samples. The number of blocks it stands for is one
    /// over the probability that any of its words is a sample.
    pub fn weight(&self, words: u64, samples: u32) -> Weight {
        self.weight_of_blocks(words).of_samples(samples, self.spacing())
    }

    /// The weight without samples: the number of blocks only.
    pub fn weight_of_blocks(&self, words: u64) -> Weight {
        let none = (words as f64 + 1.0) * f64::from_bits(self.missing);
        Weight::new(1.0 / -none.exp_m1())
    }
}

fn bytes_per_sample(rate: f64, word_bytes: u8) -> f64 {
    let bytes = f64::from(word_bytes) / rate;
    // Rates are written in decimals: one in 10,000 is not exact in binary.
    let whole = bytes.round();
    if (bytes - whole).abs() < whole * 1e-12 { whole } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_samples_over_the_rate() {
        let sampling = WordSampling::new(1e-4, 8).unwrap();
        let weight = sampling.weight(2, 3);
        assert_eq!((weight.bytes(16), weight.samples()), (240_000, 3));
        assert!((weight.value() - 3_333.67).abs() < 0.1, "{}", weight.value());
        // A block so large that it cannot be missed stands for itself.
        assert_eq!(sampling.weight(10_000_000, 1000).value(), 1.0);
    }

    #[test]
    fn where_every_word_is_a_sample_nothing_is_left_to_estimate() {
        let sampling = WordSampling::new(1.0, 8).unwrap();
        assert_eq!((sampling.weight(3, 4).value(), sampling.weight(3, 4).bytes(24)), (1.0, 32));
        assert_eq!(sampling.weight(0, 1).bytes(0), 8);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (rate, word_bytes) in [(0.0, 8), (-0.5, 8), (1.5, 8), (f64::NAN, 8), (0.5, 0), (0.5, 16)] {
            assert_eq!(WordSampling::new(rate, word_bytes), None, "{rate} {word_bytes}");
        }
    }

    #[test]
    fn decimal_rates_give_whole_numbers_of_bytes() {
        for (rate, bytes) in
            [(5e-4, 16_000.0), (1e-2, 800.0), (1e-4, 80_000.0), (1e-3, 8_000.0), (1e-6, 8e6), (3e-4, 8.0 / 3e-4)]
        {
            assert_eq!(WordSampling::new(rate, 8).unwrap().bytes_per_sample(), bytes);
        }
    }
}
