//! CBOR, as far as the interface uses it: whole numbers, bytes, texts, arrays, maps with texts as keys, and the tag that marks CBOR.
//!
//! Written by hand because the interface needs only this part, and because a request's hash must be taken of exactly these values.

/// The deepest nesting. Requests need five levels.
const DEEPEST: usize = 16;
/// The most values in one document: a byte of input can become a value of 32 bytes.
const MOST_VALUES: usize = 100_000;
/// The tag that says "this is CBOR".
const SELF_DESCRIBED: u64 = 55_799;
/// Ends arrays and maps whose length is not stated.
const BREAK: u8 = 0xff;

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cbor {
    /// A whole number that is not negative.
    Unsigned(u64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
    /// An array.
    Array(Vec<Cbor>),
    /// A map, in the order of the document. No key occurs twice.
    Map(Vec<(String, Cbor)>),
    /// `null`, or `undefined`.
    Null,
    /// A truth value.
    Bool(bool),
}

/// What is wrong with a document, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the CBOR of a request: {problem}, at byte {offset}")]
pub struct CborError {
    /// The offset of the byte.
    pub offset: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

impl Cbor {
    /// Reads a document. Nothing may follow its value.
    pub fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut reader = CborReader { bytes, at: 0, values: 0 };
        let value = reader.value(0)?;
        if reader.at < bytes.len() {
            return reader.fail("bytes follow its end");
        }
        Ok(value)
    }

    /// The document of a value, with the tag that marks CBOR.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_head(&mut bytes, 6, SELF_DESCRIBED);
        self.push(&mut bytes);
        bytes
    }

    /// A map of named values.
    pub fn map<const N: usize>(entries: [(&str, Cbor); N]) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The value of a key; `None` if there is none, or if this is no map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Appends the value.
    fn push(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Unsigned(number) => push_head(bytes, 0, *number),
            Self::Bytes(content) => {
                push_head(bytes, 2, content.len() as u64);
                bytes.extend(content);
            }
            Self::Text(text) => {
                push_head(bytes, 3, text.len() as u64);
                bytes.extend(text.as_bytes());
            }
            Self::Array(items) => {
                push_head(bytes, 4, items.len() as u64);
                items.iter().for_each(|item| item.push(bytes));
            }
            Self::Map(entries) => {
                push_head(bytes, 5, entries.len() as u64);
                for (key, value) in entries {
                    push_head(bytes, 3, key.len() as u64);
                    bytes.extend(key.as_bytes());
                    value.push(bytes);
                }
            }
            Self::Bool(truth) => bytes.push(0xf4 + u8::from(*truth)),
            Self::Null => bytes.push(0xf6),
        }
    }
}

/// Appends the kind of a value, and its number or length.
fn push_head(bytes: &mut Vec<u8>, kind: u8, number: u64) {
    let kind = kind << 5;
    match number {
        0..24 => bytes.push(kind | number as u8),
        24..0x100 => bytes.extend([kind | 24, number as u8]),
        0x100..0x1_0000 => {
            bytes.push(kind | 25);
            bytes.extend((number as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            bytes.push(kind | 26);
            bytes.extend((number as u32).to_be_bytes());
        }
        _ => {
            bytes.push(kind | 27);
            bytes.extend(number.to_be_bytes());
        }
    }
}

struct CborReader<'a> {
    bytes: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> CborReader<'a> {
    fn fail<T>(&self, problem: &'static str) -> Result<T, CborError> {
        Err(CborError { offset: self.at, problem })
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], CborError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let Some(taken) = taken else { return self.fail("it ends too early") };
        self.at += taken.len();
        Ok(taken)
    }

    /// The kind of the next value, and its number or length; `None` if the length is not stated.
    fn head(&mut self) -> Result<(u8, Option<u64>), CborError> {
        let first = self.take(1)?.first().copied().unwrap_or_default();
        let number = match first & 0x1f {
            number @ 0..24 => Some(number.into()),
            width @ 24..28 => {
                let digits = self.take(1 << (width - 24))?;
                Some(digits.iter().fold(0, |number, &digit| number << 8 | u64::from(digit)))
            }
            31 => None,
            _ => return self.fail("a length of no known form"),
        };
        Ok((first >> 5, number))
    }

    /// Whether the end of an array or a map follows; `left` counts down where the length is stated.
    fn ends(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => true,
            Some(count) => {
                *count -= 1;
                false
            }
            None if self.bytes.get(self.at) == Some(&BREAK) => {
                self.at += 1;
                true
            }
            None => false,
        }
    }

    /// Reads a value. `depth` bounds the recursion.
    fn value(&mut self, depth: usize) -> Result<Cbor, CborError> {
        self.values += 1;
        if depth > DEEPEST {
            return self.fail("it is nested too deeply");
        }
        if self.values > MOST_VALUES {
            return self.fail("it has too many values");
        }
        let (kind, number) = self.head()?;
        match (kind, number) {
            (0, Some(number)) => Ok(Cbor::Unsigned(number)),
            (2, Some(length)) => Ok(Cbor::Bytes(self.take(length)?.to_vec())),
            (3, Some(length)) => Ok(Cbor::Text(self.text(length)?)),
            (4, mut left) => {
                let mut items = Vec::new();
                while !self.ends(&mut left) {
                    items.push(self.value(depth + 1)?);
                }
                Ok(Cbor::Array(items))
            }
            (5, mut left) => {
                let mut entries: Vec<(String, Cbor)> = Vec::new();
                while !self.ends(&mut left) {
                    let (3, Some(length)) = self.head()? else { return self.fail("a key is no text") };
                    let key = self.text(length)?;
                    if entries.iter().any(|(known, _)| *known == key) {
                        return self.fail("a key occurs twice");
                    }
                    entries.push((key, self.value(depth + 1)?));
                }
                Ok(Cbor::Map(entries))
            }
            (6, Some(SELF_DESCRIBED)) if depth == 0 => self.value(1),
            (7, Some(truth @ 20..=21)) => Ok(Cbor::Bool(truth == 21)),
            (7, Some(22 | 23)) => Ok(Cbor::Null),
            _ => self.fail("a kind of value that requests do not have"),
        }
    }

    fn text(&mut self, length: u64) -> Result<String, CborError> {
        let content = self.take(length)?;
        match std::str::from_utf8(content) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.fail("a text is not UTF-8"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is an example of RFC 8949, appendix A.
    #[test]
    fn documents_of_the_standard_are_read() {
        let cases: [(&[u8], Cbor); 9] = [
            (&[0x17], Cbor::Unsigned(23)),
            (&[0x18, 0x64], Cbor::Unsigned(100)),
            (&[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Cbor::Unsigned(u64::MAX)),
            (&[0x44, 1, 2, 3, 4], Cbor::Bytes(vec![1, 2, 3, 4])),
            (&[0x62, 0xc3, 0xbc], Cbor::Text("ü".into())),
            (&[0x83, 1, 2, 3], Cbor::Array((1..4).map(Cbor::Unsigned).collect())),
            (&[0x9f, 1, 0xff], Cbor::Array(vec![Cbor::Unsigned(1)])),
            (&[0xbf, 0x61, 0x61, 1, 0xff], Cbor::map([("a", Cbor::Unsigned(1))])),
            (&[0xf5], Cbor::Bool(true)),
        ];
        for (bytes, value) in cases {
            assert_eq!(Cbor::read(bytes).unwrap(), value, "{bytes:02x?}");
            assert_eq!(Cbor::read(&value.write()).unwrap(), value);
        }
        assert_eq!(Cbor::Unsigned(1000).write(), [0xd9, 0xd9, 0xf7, 0x19, 0x03, 0xe8]);
    }

    #[test]
    fn what_is_no_document_is_refused_with_its_place() {
        let cases: [(&[u8], usize, &str); 11] = [
            (&[], 0, "it ends too early"),
            (&[0x44, 1], 1, "it ends too early"),
            (&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 9, "it ends too early"),
            (&[0x9f], 1, "it ends too early"),
            (&[1, 2], 1, "bytes follow its end"),
            (&[0x61, 0xff], 2, "a text is not UTF-8"),
            (&[0xa1, 1, 2], 2, "a key is no text"),
            (&[0xa2, 0x61, 0x61, 1, 0x61, 0x61, 2], 6, "a key occurs twice"),
            (&[0x20], 1, "a kind of value that requests do not have"),
            (&[0x1c], 1, "a length of no known form"),
            (&[0xff], 1, "a kind of value that requests do not have"),
        ];
        for (bytes, offset, problem) in cases {
            assert_eq!(Cbor::read(bytes), Err(CborError { offset, problem }), "{bytes:02x?}");
        }
        assert_eq!(Cbor::read(&[0x81; 1000]).unwrap_err().problem, "it is nested too deeply");
        let mut many = vec![0x9a, 0, 0x02, 0, 0];
        many.resize(5 + 0x2_0000, 0);
        assert_eq!(Cbor::read(&many).unwrap_err().problem, "it has too many values");
    }
}
