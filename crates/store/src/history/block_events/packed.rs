//! Columns of numbers. Each is stored as its difference from the least, in as few bits as the largest needs, so any of them can be read without the others.

/// Numbers that need more bits take 64, so that each one lies within eight bytes from the byte in which it begins.
const WIDEST: u32 = 57;

/// The packing of a column.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packing {
    least: u64,
    bits: u8,
    /// The offset of its first byte. A block of events is never too large for 32 bits.
    start: u32,
}

/// Appends a column.
pub fn pack(numbers: impl Iterator<Item = u64> + Clone, out: &mut Vec<u8>) -> Packing {
    let (least, most) = numbers.clone().fold((u64::MAX, 0), |(least, most), n| (n.min(least), n.max(most)));
    let least = least.min(most);
    let needed = u64::BITS - (most - least).leading_zeros();
    let bits = if needed > WIDEST { u64::BITS } else { needed };
    let start = out.len() as u32;
    let (mut word, mut filled) = (0u64, 0u32);
    for number in numbers {
        let number = number - least;
        word |= number << filled;
        filled += bits;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // The bits that did not fit; none if the number ended with the word.
            word = number.checked_shr(bits - filled).unwrap_or(0);
        }
    }
    // With a whole word after the last number, all numbers can be read in the same way.
    out.extend_from_slice(&word.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    Packing { least, bits: bits as u8, start }
}

/// A packed column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    least: u64,
    bits: usize,
    mask: u64,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// A column in a buffer that has several.
    pub fn new(packing: Packing, all: &'a [u8]) -> Self {
        let mask = if packing.bits == 0 { 0 } else { u64::MAX >> (u64::BITS - u32::from(packing.bits)) };
        let bytes = all.get(packing.start as usize..).unwrap_or_default();
        Self { least: packing.least, bits: packing.bits.into(), mask, bytes }
    }

    /// True if every number of the column is this one.
    pub fn is_always(&self, number: u64) -> bool {
        self.bits == 0 && self.least == number
    }

    /// The number at an index.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        if self.bits == 0 {
            return self.least;
        }
        let bit = at * self.bits;
        let word = self.bytes.get(bit / 8..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_le_bytes);
        self.least + ((word >> (bit % 8)) & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for bits in 0..=64u32 {
            let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            let numbers: Vec<u64> = (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut out = vec![7; 3];
            let packing = pack(numbers.iter().copied(), &mut out);
            let packed = Packed::new(packing, &out);
            assert!((0..numbers.len()).all(|at| packed.get(at) == numbers[at]), "{bits} bits");
        }
        let mut out = Vec::new();
        let packing = pack([u64::MAX, u64::MAX - 5].into_iter(), &mut out);
        assert_eq!(Packed::new(packing, &out).get(1), u64::MAX - 5);
        assert!(out.len() < 20);
        pack(std::iter::empty(), &mut out);
    }
}
