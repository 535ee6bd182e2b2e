//! A value of Candid's text format.

use super::number::Number;
use super::types::Type;

/// A value as the text states it, before it gets a type from an interface.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number.
    Whole(Number),
    /// A number with a point or an exponent.
    Float(f64),
    /// `"…"`
    Text(String),
    /// `blob "…"`
    Blob(Vec<u8>),
    /// `principal "…"`
    Principal(Vec<u8>),
    /// `opt …`
    Opt(Box<Value>),
    /// `vec { … }`
    Vec(Vec<Value>),
    /// `record { … }`, by the hashes of its labels
    Record(Vec<(u32, Value)>),
    /// `variant { … }`
    Variant(u32, Box<Value>),
    /// `… : type`
    Typed(Box<Value>, Type),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Whole(_) => "a whole number",
            Self::Float(_) => "a number with a point",
            Self::Text(_) => "a text",
            Self::Blob(_) => "a blob",
            Self::Principal(_) => "a principal",
            Self::Opt(_) => "an opt",
            Self::Vec(_) => "a vec",
            Self::Record(_) => "a record",
            Self::Variant(..) => "a variant",
            Self::Typed(value, _) => value.kind(),
        }
    }
}
