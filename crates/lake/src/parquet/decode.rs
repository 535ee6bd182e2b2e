//! The encodings of values in pages. Each decoder gives some values at a time, and `None` if the bytes are none of its encoding.
//!
//! They are here because those of the library end the program at some bytes that no writer makes.

/// Bits from a place on, least significant first, at most 64.
fn bits(bytes: &[u8], at: usize, width: u32) -> Option<u64> {
    let first = at / 8;
    let needed = (at % 8 + width as usize).div_ceil(8);
    let part = bytes.get(first..first.checked_add(needed)?)?;
    let mut word = [0; 16];
    word[..part.len()].copy_from_slice(part);
    let value = u128::from_le_bytes(word) >> (at % 8);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    Some(value as u64 & mask)
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn signed(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Small numbers in runs, and in packs of eight: places in a dictionary, and levels.
#[derive(Clone, Debug)]
pub struct RunDecoder {
    width: u32,
    at: usize,
    end: usize,
    run: NumberRun,
}

#[derive(Clone, Copy, Debug)]
enum NumberRun {
    Same { value: u32, left: u64 },
    Packed { bit: usize, left: u64 },
}

impl RunDecoder {
    /// Runs in a part of a page.
    pub fn new(width: u32, at: usize, end: usize) -> Option<Self> {
        (width <= 32).then_some(Self { width, at, end, run: NumberRun::Same { value: 0, left: 0 } })
    }

    /// The runs of a page whose first byte is the width of the numbers.
    pub fn with_width(bytes: &[u8], at: usize) -> Option<Self> {
        Self::new(u32::from(*bytes.get(at)?), at + 1, bytes.len())
    }

    fn next_run(&mut self, bytes: &[u8]) -> Option<()> {
        let bytes = bytes.get(..self.end)?;
        let head = varint(bytes, &mut self.at)?;
        let count = head >> 1;
        if count == 0 {
            return None;
        }
        if head & 1 == 0 {
            let length = (self.width as usize).div_ceil(8);
            let value = bits(bytes, self.at.checked_mul(8)?, length as u32 * 8)?;
            self.at += length;
            self.run = NumberRun::Same { value: u32::try_from(value).ok()?, left: count };
        } else {
            // Some writers leave the end of the last pack out.
            let whole = count.checked_mul(u64::from(self.width))?;
            let length = usize::try_from(whole).ok()?.min(bytes.len() - self.at);
            self.run = NumberRun::Packed { bit: self.at.checked_mul(8)?, left: count.checked_mul(8)? };
            self.at += length;
        }
        Some(())
    }

    /// Appends this number of numbers.
    pub fn read(&mut self, bytes: &[u8], count: usize, out: &mut Vec<u32>) -> Option<()> {
        let mut missing = count;
        while missing > 0 {
            match &mut self.run {
                NumberRun::Same { left: 0, .. } | NumberRun::Packed { left: 0, .. } => self.next_run(bytes)?,
                NumberRun::Same { value, left } => {
                    let taken = missing.min(usize::try_from(*left).unwrap_or(usize::MAX));
                    out.resize(out.len() + taken, *value);
                    *left -= taken as u64;
                    missing -= taken;
                }
                NumberRun::Packed { bit, left } => {
                    let taken = missing.min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let bytes = bytes.get(..self.end)?;
                    for _ in 0..taken {
                        out.push(u32::try_from(bits(bytes, *bit, self.width)?).ok()?);
                        *bit += self.width as usize;
                    }
                    *left -= taken as u64;
                    missing -= taken;
                }
            }
        }
        Some(())
    }
}

/// Numbers as differences, in blocks that have a smallest difference, in parts that have a width.
#[derive(Clone, Debug)]
pub struct DeltaDecoder {
    parts_in_block: usize,
    numbers_in_part: usize,
    /// Numbers that are not read yet.
    left: u64,
    last: i64,
    is_first: bool,
    smallest: i64,
    widths: Vec<u8>,
    part: usize,
    left_in_part: usize,
    bit: usize,
}

impl DeltaDecoder {
    /// Writers take blocks of 128 or 2048 numbers, in 4 or 8 parts.
    const MAX_BLOCK: u64 = 1 << 16;

    /// The numbers of a page, from a place on.
    pub fn new(bytes: &[u8], mut at: usize) -> Option<Self> {
        let block = varint(bytes, &mut at).filter(|block| (1..=Self::MAX_BLOCK).contains(block))?;
        let parts = varint(bytes, &mut at).filter(|parts| *parts > 0 && block % parts == 0)?;
        let numbers_in_part = usize::try_from(block / parts).ok().filter(|numbers| numbers % 8 == 0)?;
        let left = varint(bytes, &mut at)?;
        let first = signed(varint(bytes, &mut at)?);
        Some(Self {
            parts_in_block: usize::try_from(parts).ok()?,
            numbers_in_part,
            left,
            last: first,
            is_first: true,
            smallest: 0,
            widths: Vec::new(),
            part: 0,
            left_in_part: 0,
            bit: at.checked_mul(8)?,
        })
    }

    fn next_part(&mut self, bytes: &[u8]) -> Option<()> {
        if self.part + 1 < self.widths.len() {
            self.part += 1;
        } else {
            let mut at = self.bit / 8;
            self.smallest = signed(varint(bytes, &mut at)?);
            self.widths.clear();
            self.widths.extend_from_slice(bytes.get(at..at.checked_add(self.parts_in_block)?)?);
            self.bit = (at + self.parts_in_block) * 8;
            self.part = 0;
        }
        self.left_in_part = self.numbers_in_part;
        (self.widths[self.part] <= 64).then_some(())
    }

    /// Appends this number of numbers.
    pub fn read(&mut self, bytes: &[u8], count: usize, out: &mut Vec<i64>) -> Option<()> {
        self.left = self.left.checked_sub(count as u64)?;
        for _ in 0..count {
            if self.is_first {
                self.is_first = false;
            } else {
                if self.left_in_part == 0 {
                    self.next_part(bytes)?;
                }
                let width = u32::from(self.widths[self.part]);
                let more = bits(bytes, self.bit, width)?.cast_signed();
                self.bit += width as usize;
                self.left_in_part -= 1;
                self.last = self.last.wrapping_add(self.smallest).wrapping_add(more);
            }
            out.push(self.last);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DeltaDecoder, RunDecoder, bits};

    #[test]
    fn bits_cross_bytes() {
        let bytes = [0b1010_0101, 0b1100_0011, 0xff, 0, 0, 0, 0, 0, 0x80];
        assert_eq!(bits(&bytes, 4, 8), Some(0b0011_1010));
        assert_eq!(bits(&bytes, 8, 64), Some(0x8000_0000_0000_ffc3));
        assert_eq!((bits(&bytes, 9, 64), bits(&bytes, 72, 0)), (None, Some(0)));
    }

    /// The examples of the format's own description.
    #[test]
    fn runs_and_packs() {
        let mut out = Vec::new();
        // 0 to 7 in three bits each.
        let mut packed = RunDecoder::new(3, 0, 4).unwrap();
        packed.read(&[3, 0b1000_1000, 0b1100_0110, 0b1111_1010], 5, &mut out).unwrap();
        packed.read(&[3, 0b1000_1000, 0b1100_0110, 0b1111_1010], 3, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(packed.read(&[3, 0b1000_1000, 0b1100_0110, 0b1111_1010], 1, &mut out), None);
        out.clear();
        let page = [9, 200, 1, 0x2c, 1, 3, 7];
        let mut runs = RunDecoder::with_width(&page, 0).unwrap();
        runs.read(&page, 100, &mut out).unwrap();
        assert_eq!(out, [300; 100]);
        assert!(RunDecoder::with_width(&[33, 2, 0], 0).is_none() && RunDecoder::with_width(&[], 0).is_none());
        for hostile in [&[8, 0, 0][..], &[8, 1, 0], &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert_eq!(RunDecoder::with_width(hostile, 0).unwrap().read(hostile, 1, &mut Vec::new()), None);
        }
    }

    #[test]
    fn differences() {
        // 7, 5, 3, 1, 2, 3, 4, 5: blocks of 128 in four parts, the smallest difference is -2.
        let mut page = vec![0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0];
        page.extend([0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
        let mut out = Vec::new();
        let mut decoder = DeltaDecoder::new(&page, 0).unwrap();
        decoder.read(&page, 3, &mut out).unwrap();
        decoder.read(&page, 5, &mut out).unwrap();
        assert_eq!(out, [7, 5, 3, 1, 2, 3, 4, 5]);
        assert_eq!(decoder.read(&page, 1, &mut out), None);
        for hostile in
            [&[0, 4, 8, 14][..], &[0x80, 1, 0, 8, 14], &[0x80, 1, 5, 8, 14], &[0x80, 0x80, 0x80, 1, 4, 8, 14]]
        {
            assert!(DeltaDecoder::new(hostile, 0).is_none(), "{hostile:?}");
        }
        let wide = [0x80, 1, 4, 8, 14, 3, 65, 0, 0, 0];
        assert_eq!(DeltaDecoder::new(&wide, 0).unwrap().read(&wide, 2, &mut Vec::new()), None);
    }
}
