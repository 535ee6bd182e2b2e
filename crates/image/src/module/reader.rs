//! Reads the elements of WASM files: numbers of variable length, names, constant expressions.

/// Bytes that are read from the front. All methods return `None` if the bytes end too soon.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of bytes left.
    pub fn length(&self) -> u64 {
        self.rest.len() as u64
    }

    /// All bytes left.
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// An unsigned number in LEB128.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed number in LEB128.
    pub fn signed(&mut self) -> Option<i64> {
        let mut value = 0i64;
        for shift in (0..70u32).step_by(7) {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                let unused = 64u32.saturating_sub(shift + 7);
                return Some(value << unused >> unused);
            }
        }
        None
    }

    /// A length, and a reader over that many bytes.
    pub fn section(&mut self) -> Option<Reader<'a>> {
        let length = self.number()?;
        self.bytes(length).map(Reader::new)
    }

    pub fn name(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    /// Limits of a memory or table: whether it is 64 bits wide, and its initial size.
    pub fn limits(&mut self) -> Option<(bool, u64)> {
        let flags = self.byte()?;
        let initial = self.number()?;
        if flags & 1 != 0 {
            self.number()?;
        }
        Some((flags & 4 != 0, initial))
    }

    /// A constant expression: its value, if it is a number.
    pub fn constant(&mut self) -> Option<Option<i64>> {
        let mut value = None;
        loop {
            match self.byte()? {
                0x0b => return Some(value),
                0x41 | 0x42 => value = Some(self.signed()?),
                0x43 => drop(self.bytes(4)?),
                0x44 => drop(self.bytes(8)?),
                0x23 | 0xd2 => drop(self.number()?),
                0xd0 => drop(self.signed()?),
                0x6a..=0x6c | 0x7c..=0x7e => value = None,
                _ => return None,
            }
        }
    }
}
