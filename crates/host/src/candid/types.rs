//! The types of Candid.

use super::number::WholeNumber;

/// A type as it is written; names stand for types of an [`Interface`](super::Interface).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type without parts.
    Simple(Simple),
    /// `opt t`
    Opt(Box<Type>),
    /// `vec t`
    Vec(Box<Type>),
    /// `record { … }`
    Record(Vec<CandidField>),
    /// `variant { … }`
    Variant(Vec<CandidField>),
    /// `func …`: its argument and result types are ignored.
    Func,
    /// `service …`: its methods are ignored.
    Service,
    /// The name of a type of an interface.
    Named(String),
}

/// A type without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simple {
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `nat`
    Nat,
    /// `int`
    Int,
    /// `nat8` to `nat64`, by bytes
    Unsigned(u8),
    /// `int8` to `int64`, by bytes
    Signed(u8),
    /// `float32`
    Float32,
    /// `float64`
    Float64,
    /// `text`
    Text,
    /// `reserved`
    Reserved,
    /// `empty`
    Empty,
    /// `principal`
    Principal,
}

/// A field of a record, or a case of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidField {
    /// The hash of its name.
    pub id: u32,
    /// Its type.
    pub ty: Type,
}

const SIMPLE: [(&str, i64, Simple); 17] = [
    ("null", -1, Simple::Null),
    ("bool", -2, Simple::Bool),
    ("nat", -3, Simple::Nat),
    ("int", -4, Simple::Int),
    ("nat8", -5, Simple::Unsigned(1)),
    ("nat16", -6, Simple::Unsigned(2)),
    ("nat32", -7, Simple::Unsigned(4)),
    ("nat64", -8, Simple::Unsigned(8)),
    ("int8", -9, Simple::Signed(1)),
    ("int16", -10, Simple::Signed(2)),
    ("int32", -11, Simple::Signed(4)),
    ("int64", -12, Simple::Signed(8)),
    ("float32", -13, Simple::Float32),
    ("float64", -14, Simple::Float64),
    ("text", -15, Simple::Text),
    ("reserved", -16, Simple::Reserved),
    ("empty", -17, Simple::Empty),
];

impl Simple {
    /// The type with a name.
    pub fn named(name: &str) -> Option<Self> {
        let principal = (name == "principal").then_some(Self::Principal);
        SIMPLE.iter().find(|(known, ..)| *known == name).map(|(_, _, simple)| *simple).or(principal)
    }

    /// The type with a code in the binary format.
    pub fn coded(code: i64) -> Option<Self> {
        let principal = (code == -24).then_some(Self::Principal);
        SIMPLE.iter().find(|(_, known, _)| *known == code).map(|(_, _, simple)| *simple).or(principal)
    }

    /// Its code in the binary format.
    pub fn code(self) -> i64 {
        SIMPLE.iter().find(|(.., simple)| *simple == self).map_or(-24, |(_, code, _)| *code)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        SIMPLE.iter().find(|(.., simple)| *simple == self).map_or("principal", |(name, ..)| name)
    }
}

/// The hash of a name, by which fields are encoded.
pub fn label_id(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(223).wrapping_add(u32::from(byte)))
}

/// Appends a code or an index as signed LEB128.
pub fn push_code(bytes: &mut Vec<u8>, code: i64) {
    WholeNumber::from_i128(code.into()).push_signed(bytes);
}

/// Appends a length or a label as LEB128.
pub fn push_length(bytes: &mut Vec<u8>, length: u64) {
    WholeNumber::from_i128(length.into()).push_unsigned(bytes);
}
