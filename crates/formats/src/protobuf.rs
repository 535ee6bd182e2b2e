//! The part of the protobuf wire format that `profile.proto` and the messages around profiles need.
//!
//! A message is a sequence of (field number, wire type, value). Numbers are varints: seven bits a byte, lowest first,
//! the top bit set on all but the last. Texts, messages and packed lists are a length and their bytes. A field that is
//! zero or empty is left out, as proto3 does; a reader takes an absent field as zero.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtobufMessage {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

impl ProtobufMessage {
    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the message and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// An unsigned number.
    pub(crate) fn uint(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A signed number that is never negative here. Numbers that are too large become the largest one.
    pub(crate) fn int(&mut self, field: u64, value: u64) {
        self.uint(field, as_int64(value));
    }

    /// A number of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | FIXED_64);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A signed number that is written even if it is 0: one of several fields of which one is present.
    pub(crate) fn present_int(&mut self, field: u64, value: i64) {
        self.varint(field << 3 | VARINT);
        self.varint(value.cast_unsigned());
    }

    /// A boolean.
    pub(crate) fn flag(&mut self, field: u64, value: bool) {
        self.uint(field, u64::from(value));
    }

    /// A text. Also written if it is empty, as is the first entry of a string table.
    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.delimited(field, text.as_bytes());
    }

    /// A message inside this one.
    pub(crate) fn message(&mut self, field: u64, inner: &Self) {
        self.delimited(field, &inner.bytes);
    }

    /// Bytes that are no text.
    pub(crate) fn binary(&mut self, field: u64, bytes: &[u8]) {
        self.delimited(field, bytes);
    }

    /// Adds the fields of another message to this one.
    pub(crate) fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// All bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A packed list of signed numbers, none of them negative.
    pub(crate) fn ints(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        values.iter().for_each(|&value| packed.varint(as_int64(value)));
        self.message(field, &packed);
    }

    fn delimited(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtobufField<'a> {
    /// Its number.
    pub number: u64,
    /// The offset of its value, as [`ProtobufFields::new`] counts.
    pub offset: usize,
    /// Its value.
    pub value: ProtobufValue<'a>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtobufValue<'a> {
    /// A number.
    Number(u64),
    /// A text, a message or a packed list.
    Bytes(&'a [u8]),
    /// Four or eight bytes, which `profile.proto` does not use.
    Fixed,
}

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtobufError {
    /// The offset of the field that cannot be read.
    pub offset: usize,
    /// The fault.
    pub fault: &'static str,
    /// True if the bytes end too early: they may be the beginning of a message.
    pub is_cut: bool,
}

/// The fields of a message, in order. It ends after the first error.
#[derive(Clone, Debug)]
pub struct ProtobufFields<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> ProtobufFields<'a> {
    /// The fields of a message that begins at `offset` of a file.
    pub fn new(message: &'a [u8], offset: usize) -> Self {
        Self { rest: message, offset }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        self.offset += count;
        Some(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufFault> {
        let (value, length) = varint(self.rest)?;
        self.take(length);
        Ok(value)
    }

    fn field(&mut self) -> Result<ProtobufField<'a>, ProtobufFault> {
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 {
            return Err(ProtobufFault::Wrong("a field has the number 0"));
        }
        let mut offset = self.offset;
        let value = match key & 7 {
            VARINT => ProtobufValue::Number(self.varint()?),
            LENGTH_DELIMITED => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufFault::Cut)?;
                offset = self.offset;
                ProtobufValue::Bytes(self.take(length).ok_or(ProtobufFault::Cut)?)
            }
            FIXED_64 => self.take(8).map(|_| ProtobufValue::Fixed).ok_or(ProtobufFault::Cut)?,
            FIXED_32 => self.take(4).map(|_| ProtobufValue::Fixed).ok_or(ProtobufFault::Cut)?,
            _ => return Err(ProtobufFault::Wrong("a field is of no known wire type")),
        };
        Ok(ProtobufField { number, offset, value })
    }
}

impl<'a> Iterator for ProtobufFields<'a> {
    type Item = Result<ProtobufField<'a>, ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        Some(self.field().map_err(|fault| {
            self.rest = &[];
            match fault {
                ProtobufFault::Cut => ProtobufError { offset, fault: "a field ends too early", is_cut: true },
                ProtobufFault::Wrong(fault) => ProtobufError { offset, fault, is_cut: false },
            }
        }))
    }
}

impl ProtobufValue<'_> {
    /// Appends the numbers of a repeated field: a packed list, or one number of a list that is not packed. False if it is neither.
    pub fn append_numbers(&self, numbers: &mut Vec<u64>) -> bool {
        match *self {
            Self::Number(number) => numbers.push(number),
            Self::Fixed => return false,
            Self::Bytes(mut packed) => {
                while !packed.is_empty() {
                    let Ok((number, length)) = varint(packed) else { return false };
                    numbers.push(number);
                    packed = &packed[length..];
                }
            }
        }
        true
    }
}

enum ProtobufFault {
    Cut,
    Wrong(&'static str),
}

/// The number at the beginning of bytes, and its length.
fn varint(bytes: &[u8]) -> Result<(u64, usize), ProtobufFault> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        // The tenth byte has the 64th bit.
        if at == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    match bytes.len() {
        0..10 => Err(ProtobufFault::Cut),
        _ => Err(ProtobufFault::Wrong("a number has more than 64 bits")),
    }
}

/// `profile.proto` uses signed numbers. A number that does not fit becomes the largest that does.
fn as_int64(value: u64) -> u64 {
    value.min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_the_examples_of_the_protobuf_documentation() {
        let mut message = ProtobufMessage::default();
        message.uint(1, 150);
        assert_eq!(message.bytes(), [0x08, 0x96, 0x01]);

        let mut outer = ProtobufMessage::default();
        outer.message(3, &message);
        assert_eq!(outer.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);

        message.clear();
        message.text(2, "testing");
        assert_eq!(message.bytes(), b"\x12\x07testing");

        message.clear();
        message.ints(6, &[3, 270, 86942]);
        assert_eq!(message.bytes(), [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
    }

    #[test]
    fn zero_is_left_out_and_the_largest_number_stays_positive() {
        let mut message = ProtobufMessage::default();
        message.uint(1, 0);
        message.flag(2, false);
        assert!(message.bytes().is_empty());

        message.int(1, u64::MAX);
        assert_eq!(message.bytes(), [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    }

    #[test]
    fn reads_what_it_writes_and_says_where_bytes_are_wrong() {
        let mut message = ProtobufMessage::default();
        message.uint(1, u64::MAX);
        message.text(2, "testing");
        message.ints(6, &[3, 270, 86942]);
        let fields: Vec<ProtobufField<'_>> =
            ProtobufFields::new(message.bytes(), 100).map(|field| field.unwrap()).collect();
        assert_eq!(fields[0], ProtobufField { number: 1, offset: 101, value: ProtobufValue::Number(u64::MAX) });
        assert_eq!(fields[1], ProtobufField { number: 2, offset: 113, value: ProtobufValue::Bytes(b"testing") });
        let mut numbers = Vec::new();
        assert!(fields[2].value.append_numbers(&mut numbers));
        assert_eq!(numbers, [3, 270, 86942]);

        let last = |bytes: &[u8]| ProtobufFields::new(bytes, 0).last().map(|field| field.unwrap_err());
        assert_eq!(last(&[0x08, 0x96]).map(|error| (error.offset, error.is_cut)), Some((0, true)));
        assert_eq!(last(&[0x08, 1, 0x12, 5, 1]).map(|error| (error.offset, error.is_cut)), Some((2, true)));
        assert_eq!(last(&[0x0b]).map(|error| error.fault), Some("a field is of no known wire type"));
        assert_eq!(last(&[0x00, 1]).map(|error| error.fault), Some("a field has the number 0"));
        assert!(last(&[[0x08].as_slice(), &[0xff; 10]].concat()).is_some_and(|error| !error.is_cut));
        assert_eq!(last(&[]), None);
        assert!(!ProtobufValue::Bytes(&[0x80]).append_numbers(&mut numbers));
        assert_eq!(
            ProtobufFields::new(&[0x0d, 1, 2, 3, 4, 0x08, 7], 0).count(),
            2,
            "a value of a fixed length is skipped"
        );
    }
}
