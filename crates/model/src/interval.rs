//! The uncertainty of estimates: 95 % intervals of sampled figures.
//!
//! Samples form a Poisson process: if `n` samples are expected, about `n ± √n` are found. So `n` samples that stand for `m` bytes each give an
//! estimate of `n · m ± 1.96 · √n · m` bytes. For few samples this is not accurate enough: below [`FEW`] samples the bounds are the exact ones of
//! Garwood. They are the rates at which the number found, or a greater one, occurs in 2.5 % of all cases, and at which the number found, or a smaller
//! one, does. These bounds are not symmetric: if no sample is found, there may still be up to 3.69 spacings of memory.

use crate::figures::{Figures, Totals};
use crate::snapshot::{Snapshot, Source};
use std::sync::LazyLock;

/// From this number of samples on, the normal distribution is close enough.
const FEW: usize = 100;
/// The tail on each side.
const TAIL: f64 = 0.025;
/// How many standard deviations lie on each side.
const DEVIATIONS: f64 = 1.96;

static EXACT_BOUNDS: LazyLock<Vec<(f64, f64)>> =
    LazyLock::new(|| (0..FEW).map(|samples| (lower_bound(samples), upper_bound(samples))).collect());

/// The least and the greatest number of samples that may be expected if `found` samples are found.
pub fn expected_samples(found: u64) -> (f64, f64) {
    match EXACT_BOUNDS.get(usize::try_from(found).unwrap_or(usize::MAX)) {
        Some(&bounds) => bounds,
        None => {
            let around = DEVIATIONS * (found as f64).sqrt();
            (found as f64 - around, found as f64 + around)
        }
    }
}

/// The rate at which `found` or more samples occur in 2.5 % of all cases.
fn lower_bound(found: usize) -> f64 {
    if found == 0 { 0.0 } else { solve(|rate| 1.0 - at_most(found - 1, rate) < TAIL) }
}

/// The rate at which `found` or fewer samples occur in 2.5 % of all cases.
fn upper_bound(found: usize) -> f64 {
    solve(|rate| at_most(found, rate) > TAIL)
}

/// The probability of at most `most` samples if `rate` are expected.
fn at_most(most: usize, rate: f64) -> f64 {
    let mut term = (-rate).exp();
    let mut sum = term;
    for count in 1..=most {
        term *= rate / count as f64;
        sum += term;
    }
    sum
}

/// The rate up to which `is_below` holds.
fn solve(is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 4.0 * FEW as f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    low
}

/// The range that contains a figure in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The lower bound.
    pub low: u64,
    /// The upper bound.
    pub high: u64,
}

/// The sampling parameters of a source that determine the uncertainty of its estimates.
#[derive(Clone, Copy, Debug)]
pub struct Certainty {
    /// Mean bytes from one sample to the next.
    bytes_per_sample: f64,
    /// The deviation as a fraction of that of a Poisson process: 0 if every word is a sample.
    spread: f64,
}

impl Certainty {
    /// The certainty of a source; `None` if it does not sample, or does not say how.
    pub fn of(source: &Source) -> Option<Self> {
        if let Some(words) = source.word_sampling {
            let spread = (1.0 - words.rate()).sqrt();
            return Some(Self { bytes_per_sample: words.bytes_per_sample(), spread });
        }
        source
            .sample_rate
            .filter(|_| source.knows_samples())
            .map(|rate| Self { bytes_per_sample: rate as f64, spread: 1.0 })
    }

    /// Mean bytes from one sample to the next.
    pub fn bytes_per_sample(&self) -> f64 {
        self.bytes_per_sample
    }

    /// The deviation as a fraction of that of a Poisson process.
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// True if the figures are exact, because every word is a sample.
    pub fn is_exact(&self) -> bool {
        self.spread == 0.0
    }

    /// How far `samples` may be off, downwards and upwards.
    fn deviation(&self, samples: u64) -> (f64, f64) {
        let (low, high) = expected_samples(samples);
        let found = samples as f64;
        ((found - low) * self.spread, (high - found) * self.spread)
    }

    /// The interval of an estimate in bytes that is made of `samples` samples.
    pub fn of_bytes(&self, estimate: u64, samples: u64) -> Interval {
        let (down, up) = self.deviation(samples);
        around(estimate, down * self.bytes_per_sample, up * self.bytes_per_sample)
    }

    /// The same if the number of samples is not known: it is derived from the bytes.
    pub fn of_bytes_alone(&self, estimate: u64) -> Interval {
        self.of_bytes(estimate, (estimate as f64 / self.bytes_per_sample).round() as u64)
    }

    /// The interval of a number of blocks that `records` records stand for, as if each stood for the same number.
    pub fn of_blocks(&self, estimate: u64, records: u64) -> Interval {
        if estimate == records {
            return Interval { low: estimate, high: estimate };
        }
        let (down, up) = self.deviation(records);
        let each = estimate as f64 / records.max(1) as f64;
        let Interval { low, high } = around(estimate, down * each, up * each);
        Interval { low: low.max(records), high }
    }
}

fn around(estimate: u64, down: f64, up: f64) -> Interval {
    // A float that is too large for 64 bits becomes the largest that fits.
    let (low, high) = ((estimate as f64 - down).round(), (estimate as f64 + up).round());
    Interval { low: (low as u64).min(estimate), high: (high as u64).max(estimate) }
}

impl Snapshot {
    /// The uncertainty of its estimates; `None` if figures are exact, or the sampling parameters are not known.
    pub fn certainty(&self) -> Option<Certainty> {
        Certainty::of(&self.source)
    }
}

impl Figures {
    /// The interval of the bytes live.
    pub fn live_interval(&self, certainty: &Certainty) -> Interval {
        certainty.of_bytes(self.live_bytes(), self.live_samples())
    }

    /// The interval of the bytes ever allocated.
    pub fn allocated_interval(&self, certainty: &Certainty) -> Interval {
        certainty.of_bytes(self.allocated_bytes, self.samples())
    }
}

impl Totals {
    /// The interval of the peak. Its samples are not counted.
    pub fn peak_interval(&self, certainty: &Certainty) -> Interval {
        certainty.of_bytes_alone(self.figures.peak_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word_sampling::WordSampling;

    #[test]
    fn few_samples_have_the_bounds_of_the_tables() {
        // Garwood 1936; every table of Poisson limits has these values.
        for (found, low, high) in [
            (0, 0.0, 3.689),
            (1, 0.0253, 5.572),
            (2, 0.242, 7.225),
            (5, 1.623, 11.668),
            (10, 4.795, 18.390),
            (50, 37.11, 65.92),
        ] {
            let bounds = expected_samples(found);
            assert!((bounds.0 - low).abs() < 0.01 && (bounds.1 - high).abs() < 0.01, "{found}: {bounds:?}");
        }
    }

    #[test]
    fn many_samples_have_two_deviations_and_the_two_rules_meet() {
        assert_eq!(expected_samples(10_000), (9_804.0, 10_196.0));
        let (below, above) = (expected_samples(99), expected_samples(100));
        assert!((above.0 - below.0).abs() < 2.0 && (above.1 - below.1).abs() < 2.0, "{below:?} {above:?}");
    }

    #[test]
    fn an_estimate_lies_within_its_interval_nothing_wraps_and_what_is_exact_is() {
        let source = Source { word_sampling: WordSampling::new(1e-4, 8), ..Source::default() };
        let certainty = Certainty::of(&source).unwrap();
        assert_eq!(certainty.of_bytes(80_000 * 10_000, 10_000), Interval { low: 784_320_784, high: 815_679_216 });
        assert_eq!(certainty.of_bytes(u64::MAX, 3).high, u64::MAX);
        assert_eq!(certainty.of_bytes(0, 0), Interval { low: 0, high: 295_096 });
        let all = Source { word_sampling: WordSampling::new(1.0, 8), ..Source::default() };
        assert_eq!(Certainty::of(&all).unwrap().of_bytes(800, 100), Interval { low: 800, high: 800 });
        assert!(Certainty::of(&Source::default()).is_none());
    }

    #[test]
    fn the_truth_lies_within_about_as_often_as_promised() {
        // 4,000 blocks of 100 bytes, one byte of 10,000 sampled: 40 samples expected.
        let certainty = Certainty { bytes_per_sample: 10_000.0, spread: 1.0 };
        let mut state = 88_172_645_463_325_252u64;
        let mut chance = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut within = 0;
        for _ in 0..500 {
            let samples = (0..4_000).filter(|_| chance() < 0.01).count() as u64;
            let interval = certainty.of_bytes(samples * 10_000, samples);
            within += u64::from((interval.low..=interval.high).contains(&400_000));
        }
        assert!((465..=495).contains(&within), "{within} of 500");
    }
}
