//! Reads bytes into values, for a host that answers typed calls itself. Fields are found by name, and unknown ones are ignored, so callers with a newer or an
//! older interface are understood.

use super::decode::{CandidDecoder, TypeEntry};
use super::number::WholeNumber;
use super::types::{Simple, label_id};
use super::value::CandidValue;
use super::{CandidError, error};

/// Converts bytes to values.
pub fn decode_values(bytes: &[u8]) -> Result<Vec<CandidValue>, CandidError> {
    let (mut decoder, codes) = CandidDecoder::begin(bytes, &[])?;
    let values = codes.into_iter().map(|code| decoder.read_value(code, 0)).collect::<Result<_, _>>()?;
    decoder.end()?;
    Ok(values)
}

impl CandidDecoder<'_> {
    fn read_value(&mut self, code: i64, depth: usize) -> Result<CandidValue, CandidError> {
        self.count_value(depth)?;
        if let Some(simple) = Simple::coded(code) {
            return self.read_simple(simple);
        }
        let entry = self.entry(code)?;
        Ok(match &*entry {
            &TypeEntry::Opt(inner) => match self.byte()? {
                0 => CandidValue::Null,
                1 => CandidValue::Opt(Box::new(self.read_value(inner, depth + 1)?)),
                _ => return error("an opt is neither null nor a value"),
            },
            &TypeEntry::Vec(inner) => {
                let count = self.length()?;
                if Simple::coded(inner) == Some(Simple::Unsigned(1)) {
                    return Ok(CandidValue::Blob(self.bytes(count)?.to_vec()));
                }
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.read_value(inner, depth + 1)?);
                }
                CandidValue::Vec(items)
            }
            TypeEntry::Record(fields) => {
                let mut read = Vec::new();
                for &(id, code) in fields {
                    read.push((id, self.read_value(code, depth + 1)?));
                }
                CandidValue::Record(read)
            }
            TypeEntry::Variant(cases) => {
                let index = self.length()?;
                let Some(&(id, code)) = cases.get(index) else { return error("a variant has no such case") };
                CandidValue::Variant(id, Box::new(self.read_value(code, depth + 1)?))
            }
            TypeEntry::Reference => return error("functions and services are not taken here"),
        })
    }

    fn read_simple(&mut self, simple: Simple) -> Result<CandidValue, CandidError> {
        Ok(match simple {
            Simple::Null | Simple::Reserved => CandidValue::Null,
            Simple::Empty => return error("a value of the type that has none"),
            Simple::Bool => match self.byte()? {
                0 => CandidValue::Bool(false),
                1 => CandidValue::Bool(true),
                _ => return error("a truth value is neither true nor false"),
            },
            Simple::Nat => CandidValue::Whole(self.number(false)?),
            Simple::Int => CandidValue::Whole(self.number(true)?),
            Simple::Unsigned(width) | Simple::Signed(width) => {
                CandidValue::Whole(WholeNumber::from_i128(self.fixed(width, matches!(simple, Simple::Signed(_)))?))
            }
            Simple::Float32 => CandidValue::Float(f32::from_le_bytes(self.array()?).into()),
            Simple::Float64 => CandidValue::Float(f64::from_le_bytes(self.array()?)),
            Simple::Text => CandidValue::Text(self.text()?.to_owned()),
            Simple::Principal => CandidValue::Principal(self.principal()?.to_vec()),
        })
    }
}

/// What a caller of typed methods needs of a value. Each returns `None` if the value is of another type.
impl CandidValue {
    /// A field of a record, by name. An optional field that is null counts as missing; one that is there is given without its `opt`.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Record(fields) = self else { return None };
        let id = label_id(name);
        match &fields.iter().find(|(known, _)| *known == id)?.1 {
            Self::Null => None,
            Self::Opt(inner) => Some(inner),
            value => Some(value),
        }
    }

    /// The value of a variant's case, by name.
    pub fn case(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Variant(id, value) if *id == label_id(name) => Some(value),
            _ => None,
        }
    }

    /// The bytes of a blob. An empty `vec` is one, whatever its type.
    pub fn as_blob(&self) -> Option<&[u8]> {
        match self {
            Self::Blob(bytes) => Some(bytes),
            Self::Vec(items) if items.is_empty() => Some(&[]),
            _ => None,
        }
    }

    /// The bytes of a principal.
    pub fn as_principal(&self) -> Option<&[u8]> {
        match self {
            Self::Principal(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A whole number.
    pub fn as_number(&self) -> Option<i128> {
        match self {
            Self::Whole(number) => number.to_i128(),
            _ => None,
        }
    }

    /// The items of a `vec`.
    pub fn as_items(&self) -> Option<&[Self]> {
        match self {
            Self::Vec(items) => Some(items),
            Self::Blob(bytes) if bytes.is_empty() => Some(&[]),
            _ => None,
        }
    }

    /// A record, by the names of its fields.
    pub fn record<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Record(fields.into_iter().map(|(name, value)| (label_id(name), value)).collect())
    }

    /// A field of a record, by its name.
    pub fn named(name: &str, value: Self) -> (u32, Self) {
        (label_id(name), value)
    }

    /// A case of a variant, by its name.
    pub fn variant(name: &str, value: Self) -> Self {
        Self::Variant(label_id(name), Box::new(value))
    }

    /// A number.
    pub fn number(number: impl Into<i128>) -> Self {
        Self::Whole(WholeNumber::from_i128(number.into()))
    }

    /// `opt`, or null.
    pub fn opt(value: Option<Self>) -> Self {
        value.map_or(Self::Null, |value| Self::Opt(Box::new(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candid::{Interface, encode_arguments};

    #[test]
    fn values_are_read_by_the_names_of_their_fields() {
        let interface = Interface::parse(
            "type mode = variant { install; upgrade : opt record { skip : opt bool } };
             service : { f : (record { id : principal; mode : mode; arg : blob; n : opt nat64; left : opt text; f : float32; s : vec text; i : int8 }) -> () }",
        );
        let text = "(record { id = principal \"aaaaa-aa\"; mode = variant { upgrade = opt record { skip = opt true } }; arg = blob \"ab\"; n = opt 5; left = null; f = 0.5; s = vec { \"a\" }; i = -3 })";
        let bytes = encode_arguments(text, Some((&interface.unwrap(), "f"))).unwrap();
        let values = decode_values(&bytes).unwrap();
        let [value] = &values[..] else { panic!("{values:?}") };
        assert_eq!(value.field("id").and_then(CandidValue::as_principal), Some(&[][..]));
        assert_eq!(value.field("arg").and_then(CandidValue::as_blob), Some(&b"ab"[..]));
        assert_eq!(value.field("n").and_then(CandidValue::as_number), Some(5));
        assert_eq!(value.field("i").and_then(CandidValue::as_number), Some(-3));
        assert_eq!(value.field("f"), Some(&CandidValue::Float(0.5)));
        assert_eq!(value.field("left"), None);
        assert_eq!(value.field("missing"), None);
        let mode = value.field("mode").unwrap();
        assert_eq!(mode.case("install"), None);
        let CandidValue::Opt(options) = mode.case("upgrade").unwrap() else { panic!("{mode:?}") };
        assert_eq!(options.field("skip"), Some(&CandidValue::Bool(true)));
        for end in 0..bytes.len() {
            assert!(decode_values(&bytes[..end]).is_err(), "{end}");
        }
    }
}
