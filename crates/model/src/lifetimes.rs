//! The lifetimes of dead blocks.

use crate::byte_sum::ByteSum;
use crate::ids::Nanos;

/// Age ranges per doubling: enough for two digits.
const PARTS: u32 = 4;
const BUCKETS: usize = (64 * PARTS) as usize;

/// How many blocks and bytes died within each range of ages. Ranges grow with age, four for each doubling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    buckets: Vec<LifetimeBucket>,
    nanoseconds: u128,
}

/// Blocks that died at similar ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeBucket {
    /// The number of blocks, estimated if blocks have weights.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: ByteSum,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { buckets: vec![LifetimeBucket::default(); BUCKETS], nanoseconds: 0 }
    }
}

/// The range that contains an age.
fn bucket_of(age: u64) -> usize {
    if age < u64::from(PARTS) {
        return age as usize;
    }
    let doubling = age.ilog2();
    let part = (age >> (doubling - 2)) & u64::from(PARTS - 1);
    ((doubling - 1) * PARTS) as usize + part as usize
}

/// The greatest age in a range.
fn end_of(bucket: usize) -> Nanos {
    let next = bucket as u64 + 1;
    if next <= u64::from(PARTS) {
        return Nanos(next - 1);
    }
    let (doubling, part) = (next / u64::from(PARTS) + 1, next % u64::from(PARTS));
    let start = (u128::from(PARTS) + u128::from(part)) << (doubling - 2);
    Nanos(u64::try_from(start - 1).unwrap_or(u64::MAX))
}

impl Lifetimes {
    /// Adds blocks that died at an age.
    pub fn add(&mut self, age: Nanos, blocks: u64, bytes: ByteSum) {
        let bucket = &mut self.buckets[bucket_of(age.0)];
        bucket.blocks = bucket.blocks.saturating_add(blocks);
        bucket.bytes += bytes;
        self.nanoseconds = self.nanoseconds.saturating_add(u128::from(age.0) * u128::from(blocks));
    }

    /// How many blocks died.
    pub fn blocks(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.blocks))
    }

    /// The mean age; `None` if no block died.
    pub fn mean(&self) -> Option<Nanos> {
        let blocks = self.blocks();
        (blocks > 0).then(|| Nanos(u64::try_from(self.nanoseconds / u128::from(blocks)).unwrap_or(u64::MAX)))
    }

    /// The age that this fraction of the blocks, from 0 to 1, did not outlive, to two digits; `None` if no block died.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let blocks = self.blocks();
        let wanted = ((blocks as f64 * part).ceil() as u64).clamp(1, blocks.max(1));
        let mut sum = 0u64;
        let reached = self.buckets.iter().position(|bucket| {
            sum = sum.saturating_add(bucket.blocks);
            sum >= wanted
        });
        reached.map(end_of)
    }

    /// The ranges in which blocks died: the greatest age in each, and the blocks.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, LifetimeBucket)> {
        let ends = (0..BUCKETS).map(end_of);
        ends.zip(self.buckets.iter().copied()).filter(|(_, bucket)| *bucket != LifetimeBucket::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_age_lies_in_the_bucket_that_ends_after_it_and_not_before() {
        let ages = (0..64).flat_map(|doubling| {
            let start = 1u64 << doubling;
            [start.saturating_sub(1), start, start + start / 3, start + (start - 1)]
        });
        for age in ages.chain([0, u64::MAX]) {
            let bucket = bucket_of(age);
            assert!(end_of(bucket).0 >= age, "{age}");
            assert!(bucket == 0 || end_of(bucket - 1).0 < age, "{age}");
            assert!(end_of(bucket).0 as f64 <= age as f64 * 1.34 + 1.0, "{age}");
        }
    }

    #[test]
    fn the_median_is_the_age_that_half_did_not_outlive() {
        let mut lifetimes = Lifetimes::default();
        assert_eq!((lifetimes.mean(), lifetimes.quantile(0.5)), (None, None));
        for age in 1..=1000 {
            lifetimes.add(Nanos(age * 1000), 1, ByteSum::whole(16));
        }
        let median = lifetimes.quantile(0.5).unwrap().0;
        assert!((500_000..640_000).contains(&median), "{median}");
        assert_eq!(lifetimes.mean(), Some(Nanos(500_500)));
        assert_eq!(lifetimes.iter().map(|(_, bucket)| bucket.bytes).sum::<ByteSum>().rounded(), 16_000);
        lifetimes.add(Nanos(u64::MAX), u64::MAX, ByteSum::MAX);
        assert_eq!((lifetimes.blocks(), lifetimes.quantile(0.5)), (u64::MAX, Some(Nanos(u64::MAX))));
    }
}
