//! The header in front of each page: a struct in Thrift's compact protocol.
//!
//! It is read here because the library takes as much memory as a header claims, before it looks at the page.

/// Structs in structs in a header that is skipped.
const MAX_DEPTH: u32 = 16;

/// What a header says. Nothing of it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageHeader {
    /// 0 is a data page, 1 an index page, 2 a dictionary, 3 a data page of version 2.
    pub kind: i64,
    pub plain_bytes: i64,
    pub stored_bytes: i64,
    pub values: i64,
    pub encoding: i64,
    /// Of a data page of version 1.
    pub level_encoding: i64,
    /// Of a data page of version 2.
    pub level_bytes: i64,
    pub repetition_bytes: i64,
    pub is_plain: bool,
}

impl PageHeader {
    pub const DATA: i64 = 0;
    pub const INDEX: i64 = 1;
    pub const DICTIONARY: i64 = 2;
    pub const DATA_2: i64 = 3;

    /// Reads a header, and returns it with its length. `None` if the bytes end within it, or are no header.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut reader = CompactReader { bytes, at: 0 };
        let mut header = Self::default();
        let mut id = 0;
        while let Some(kind) = reader.field(&mut id)? {
            match (id, kind) {
                (1, INT) => header.kind = reader.number()?,
                (2, INT) => header.plain_bytes = reader.number()?,
                (3, INT) => header.stored_bytes = reader.number()?,
                (5, STRUCT) => header.data_page(&mut reader)?,
                (7, STRUCT) => header.dictionary(&mut reader)?,
                (8, STRUCT) => header.data_page_2(&mut reader)?,
                _ => reader.skip(kind, MAX_DEPTH)?,
            }
        }
        Some((header, reader.at))
    }

    fn data_page(&mut self, reader: &mut CompactReader<'_>) -> Option<()> {
        let mut id = 0;
        while let Some(kind) = reader.field(&mut id)? {
            match (id, kind) {
                (1, INT) => self.values = reader.number()?,
                (2, INT) => self.encoding = reader.number()?,
                (3, INT) => self.level_encoding = reader.number()?,
                _ => reader.skip(kind, MAX_DEPTH)?,
            }
        }
        Some(())
    }

    fn dictionary(&mut self, reader: &mut CompactReader<'_>) -> Option<()> {
        let mut id = 0;
        while let Some(kind) = reader.field(&mut id)? {
            match (id, kind) {
                (1, INT) => self.values = reader.number()?,
                (2, INT) => self.encoding = reader.number()?,
                _ => reader.skip(kind, MAX_DEPTH)?,
            }
        }
        Some(())
    }

    fn data_page_2(&mut self, reader: &mut CompactReader<'_>) -> Option<()> {
        let mut id = 0;
        while let Some(kind) = reader.field(&mut id)? {
            match (id, kind) {
                (1, INT) => self.values = reader.number()?,
                (4, INT) => self.encoding = reader.number()?,
                (5, INT) => self.level_bytes = reader.number()?,
                (6, INT) => self.repetition_bytes = reader.number()?,
                (7, FALSE) => self.is_plain = true,
                _ => reader.skip(kind, MAX_DEPTH)?,
            }
        }
        Some(())
    }
}

const FALSE: u8 = 2;
const INT: u8 = 5;
const STRUCT: u8 = 12;

struct CompactReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl CompactReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The type of the next field, whose number takes the place of the one before; `Some(None)` after the last.
    #[expect(clippy::option_option, reason = "the end of the bytes is not the end of the struct")]
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = match byte >> 4 {
            0 => self.number()?,
            delta => id.saturating_add(i64::from(delta)),
        };
        Some(Some(byte & 0xf))
    }

    fn pass(&mut self, length: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        self.at = if end <= self.bytes.len() { end } else { return None };
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.varint()?;
                self.pass(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                (0..count).try_for_each(|_| self.skip_element(head & 0xf, depth))
            }
            11 => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0xf, depth)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// In lists and maps a truth value has a byte of its own: each element takes some, so that a count cannot be larger than the bytes.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        if matches!(kind, 1 | 2) { self.pass(1) } else { self.skip(kind, depth) }
    }
}

#[cfg(test)]
mod tests {
    use super::PageHeader;

    /// A data page of 5 values in 40 bytes, 30 stored, with statistics that are skipped.
    const HEADER: &[u8] = &[
        0x15, 0, 0x15, 80, 0x15, 60, 0x2c, 0x15, 10, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x18, 2, b'a', b'b', 0x00, 0x00,
        0x00, 0xff,
    ];

    #[test]
    fn a_header_is_read_and_what_follows_is_not() {
        let (header, length) = PageHeader::read(HEADER).unwrap();
        assert_eq!(length, HEADER.len() - 1);
        let wanted =
            PageHeader { plain_bytes: 40, stored_bytes: 30, values: 5, level_encoding: 3, ..PageHeader::default() };
        assert_eq!(header, wanted);
    }

    #[test]
    fn no_bytes_are_a_header_that_ends_or_is_none() {
        for length in 0..HEADER.len() - 1 {
            assert_eq!(PageHeader::read(&HEADER[..length]), None, "{length}");
        }
        // Structs in structs without an end, a list of 2^63 elements, a number of eleven bytes.
        assert_eq!(PageHeader::read(&[0x1c; 1000]), None);
        assert_eq!(PageHeader::read(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), None);
        assert_eq!(
            PageHeader::read(&[0x15, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
            None
        );
    }
}
