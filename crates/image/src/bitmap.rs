//! One bit for each unit of a heap, and the count of set bits before a bit.

use crate::large::zeros;

/// Bits, all clear at first. Memory in which no bit was set costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// A bitmap of `bits` bits.
    pub fn new(bits: u64) -> Self {
        Self { words: zeros(bits.div_ceil(64) as usize) }
    }

    /// Whether a bit is set; false beyond the end.
    #[inline]
    pub fn get(&self, bit: u64) -> bool {
        self.words.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Sets a bit; true if it was not set before. False beyond the end.
    #[inline]
    pub fn set(&mut self, bit: u64) -> bool {
        let Some(word) = self.words.get_mut((bit / 64) as usize) else { return false };
        let mask = 1 << (bit % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// The last bit that is set at or before `bit`, but not before `first`.
    pub fn last_between(&self, first: u64, bit: u64) -> Option<u64> {
        let mut index = (bit / 64) as usize;
        let mut word = self.words.get(index)? & (u64::MAX >> (63 - bit % 64));
        while word == 0 {
            if index as u64 <= first / 64 {
                return None;
            }
            index -= 1;
            word = self.words[index];
        }
        Some(index as u64 * 64 + 63 - u64::from(word.leading_zeros())).filter(|found| *found >= first)
    }

    /// The set bits, in order.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().zip(0u64..).flat_map(|(&word, index)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| index * 64 + u64::from(rest.trailing_zeros()))?;
                rest &= rest - 1;
                Some(bit)
            })
        })
    }
}

/// Bits that do not change any more and can be counted: each set bit gets a number by its order.
#[derive(Clone, Debug, Default)]
pub struct RankedBitmap {
    bits: Bitmap,
    /// For each word, the number of set bits before it.
    before: Vec<u32>,
    ones: u32,
}

impl RankedBitmap {
    /// Counts the bits; at most `u32::MAX` of them may be set.
    pub fn new(bits: Bitmap) -> Self {
        let mut ones = 0;
        let count = |word: &u64| {
            let before = ones;
            ones += word.count_ones();
            before
        };
        let before = bits.words.iter().map(count).collect();
        Self { bits, before, ones }
    }

    /// The number of set bits.
    pub fn ones(&self) -> u32 {
        self.ones
    }

    /// The bits.
    pub fn bits(&self) -> &Bitmap {
        &self.bits
    }

    /// The number of set bits before a set bit; `None` if it is not set.
    #[inline]
    pub fn rank(&self, bit: u64) -> Option<u32> {
        let index = (bit / 64) as usize;
        let word = *self.bits.words.get(index)?;
        let shift = bit % 64;
        (word >> shift & 1 == 1).then(|| self.before[index] + (word & !(u64::MAX << shift)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_bits_are_numbered_in_order() {
        let mut bits = Bitmap::new(200);
        for bit in [3, 64, 65, 199] {
            assert!(bits.set(bit) && !bits.set(bit));
        }
        assert!(!bits.set(256) && !bits.get(1 << 40));
        assert_eq!(bits.ones().collect::<Vec<_>>(), [3, 64, 65, 199]);
        assert_eq!((bits.last_between(0, 198), bits.last_between(0, 2)), (Some(65), None));
        assert_eq!(
            (bits.last_between(0, 64), bits.last_between(0, 63), bits.last_between(4, 63)),
            (Some(64), Some(3), None)
        );
        let ranked = RankedBitmap::new(bits);
        assert_eq!([3, 64, 65, 199, 4].map(|bit| ranked.rank(bit)), [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(ranked.ones(), 4);
    }
}
