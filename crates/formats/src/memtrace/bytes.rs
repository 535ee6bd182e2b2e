//! Numbers and texts in a packet: little-endian, without alignment.

/// Two bytes.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Four bytes.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Eight bytes.
#[inline]
pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// An OCaml integer has 63 bits: the highest of the 64 that are stored is lost.
#[inline]
pub fn to_63_bits(value: i64) -> i64 {
    value << 1 >> 1
}

/// The content of a packet, read from front to back.
#[derive(Clone, Copy, Debug)]
pub struct PacketCursor<'a> {
    bytes: &'a [u8],
    /// The offset of the next byte.
    pub at: usize,
}

impl<'a> PacketCursor<'a> {
    /// Reads from `at` on.
    #[inline]
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// True if all bytes were read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        let value = u16_at(self.bytes, self.at)?;
        self.at += 2;
        Some(value)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        let value = u32_at(self.bytes, self.at)?;
        self.at += 4;
        Some(value)
    }

    /// Eight bytes.
    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        let value = i64_at(self.bytes, self.at)?;
        self.at += 8;
        Some(value)
    }

    /// Eight bytes whose highest bit is ignored.
    #[inline]
    pub fn int63(&mut self) -> Option<i64> {
        self.i64().map(to_63_bits)
    }

    /// A number whose first byte determines its length.
    #[inline]
    pub fn vint(&mut self) -> Option<i64> {
        match self.u8()? {
            253 => self.u16().map(i64::from),
            254 => self.u32().map(|value| i64::from(value as i32)),
            255 => self.int63(),
            small => Some(small.into()),
        }
    }

    /// A number that cannot be negative. Old writers stored numbers of 32 bits without a sign.
    #[inline]
    pub fn count(&mut self) -> Option<u64> {
        let value = self.vint()?;
        let value = if value < 0 && value >= i32::MIN.into() { value + (1 << 32) } else { value };
        u64::try_from(value).ok()
    }

    /// A codeword: two bytes, and one more byte if the lowest two bits are 2. That condition is unpredictable, so there is no branch on it: the third
    /// byte is always read, if there is one.
    #[inline]
    pub fn codeword(&mut self) -> Option<(u16, u8)> {
        let three = self.bytes.get(self.at..self.at + 3);
        let Some(&[low, high, byte]) = three else { return self.last_codeword() };
        self.at += 2 + usize::from(low & 3 == 2);
        Some((u16::from_le_bytes([low, high]), byte))
    }

    #[cold]
    fn last_codeword(&mut self) -> Option<(u16, u8)> {
        let word = self.u16()?;
        // The input has no third byte, so the codeword must not need one.
        (word & 3 != 2).then_some((word, 0))
    }

    /// The bytes up to the next zero. The zero is skipped.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        self.at += length + 1;
        Some(&rest[..length])
    }

    /// Skips `count` bytes.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        let at = self.at.checked_add(count)?;
        (at <= self.bytes.len()).then(|| self.at = at)
    }
}

/// Appends a number in its shortest form.
pub fn put_vint(out: &mut Vec<u8>, value: i64) {
    if let Ok(small) = u8::try_from(value)
        && small < 253
    {
        out.push(small);
    } else if let Ok(short) = u16::try_from(value) {
        out.push(253);
        out.extend_from_slice(&short.to_le_bytes());
    } else if let Ok(middle) = i32::try_from(value) {
        out.push(254);
        out.extend_from_slice(&middle.to_le_bytes());
    } else {
        out.push(255);
        out.extend_from_slice(&to_63_bits(value).to_le_bytes());
    }
}

/// Appends a text, up to its first zero.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().take_while(|&byte| byte != 0));
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_put_and_are_as_short_as_they_can_be() {
        for (value, length) in [
            (0, 1),
            (252, 1),
            (253, 3),
            (65_535, 3),
            (65_536, 5),
            (-1, 5),
            (i32::MIN.into(), 5),
            (i32::MAX.into(), 5),
            (1 << 31, 9),
            (u32::MAX.into(), 9),
            (i64::MAX >> 1, 9),
            (i64::MIN >> 1, 9),
        ] {
            let mut bytes = Vec::new();
            put_vint(&mut bytes, value);
            assert_eq!((bytes.len(), PacketCursor::new(&bytes, 0).vint()), (length, Some(value)), "{value}");
            for cut in 0..bytes.len() {
                assert_eq!(PacketCursor::new(&bytes[..cut], 0).vint(), None);
            }
        }
    }

    #[test]
    fn counts_of_old_writers_have_no_sign() {
        assert_eq!(PacketCursor::new(&[254, 0, 0, 0, 0x80], 0).count(), Some(1 << 31));
        assert_eq!(PacketCursor::new(&[255, 0, 0, 0, 0, 0, 0, 0, 0xf0], 0).count(), None);
    }

    #[test]
    fn a_text_ends_at_its_zero() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "a\0b");
        assert_eq!(bytes, b"a\0");
        assert_eq!(PacketCursor::new(b"ab\0c", 0).text(), Some(&b"ab"[..]));
        assert_eq!(PacketCursor::new(b"ab", 0).text(), None);
    }
}
