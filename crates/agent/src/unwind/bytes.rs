//! A cursor over bytes of a loaded module that never leaves its bounds.

/// The bytes that remain to be read: `at .. end`, addresses.
#[derive(Clone, Copy, Debug)]
pub struct ByteCursor {
    at: u64,
    end: u64,
}

/// Bases of encoded pointers, besides their own address.
pub struct Pointers {
    /// `.eh_frame_hdr`.
    pub data: u64,
}

impl ByteCursor {
    /// The bytes from `at` to `end`; `None` if the bounds are invalid.
    pub fn new(at: u64, end: u64) -> Option<Self> {
        (at <= end && at != 0).then_some(Self { at, end })
    }

    /// The address of the next byte.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next `length` bytes, which are skipped.
    pub fn take(&mut self, length: u64) -> Option<Self> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.end)?;
        let taken = Self { at: self.at, end };
        self.at = end;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.take(N as u64)?;
        // SAFETY: within the bounds that the maker of this cursor vouches for; any bytes are valid.
        Some(unsafe { (taken.at as *const [u8; N]).read_unaligned() })
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned LEB128 number: seven bits per byte.
    pub fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed LEB128 number: seven bits per byte.
    pub fn sleb(&mut self) -> Option<i64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let unused = 64u32.saturating_sub(shift + 7);
                return Some(value << unused >> unused);
            }
        }
        None
    }

    /// A pointer in one of the encodings of exception tables.
    pub fn pointer(&mut self, encoding: u8, bases: &Pointers) -> Option<u64> {
        let start = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.u16()?),
            0x03 => u64::from(self.u32()?),
            0x09 => self.sleb()? as u64,
            0x0a => self.u16()? as i16 as u64,
            0x0b => self.u32()? as i32 as u64,
            _ => return None,
        };
        let base = match encoding & 0x70 {
            0x00 => 0,
            0x10 => start,
            0x30 => bases.data,
            _ => return None,
        };
        // Bit 7 would be an indirection: no code address is stored that way.
        (encoding & 0x80 == 0).then_some(base.wrapping_add(value))
    }
}
