//! The part of the protobuf wire format that a writer of `profile.proto` needs.
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
const LENGTH_DELIMITED: u64 = 2;

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
}
