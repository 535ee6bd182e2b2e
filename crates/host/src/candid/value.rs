//! A value of Candid's text format.

use super::number::WholeNumber;
use super::types::Type;

/// A value as the text states it, before it gets a type from an interface.
#[derive(Clone, Debug, PartialEq)]
pub enum CandidValue {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A whole number.
    Whole(WholeNumber),
    /// A number with a point or an exponent.
    Float(f64),
    /// `"…"`
    Text(String),
    /// `blob "…"`
    Blob(Vec<u8>),
    /// `principal "…"`
    Principal(Vec<u8>),
    /// `opt …`
    Opt(Box<CandidValue>),
    /// `vec { … }`
    Vec(Vec<CandidValue>),
    /// `record { … }`, by the hashes of its labels
    Record(Vec<(u32, CandidValue)>),
    /// `variant { … }`
    Variant(u32, Box<CandidValue>),
    /// `… : type`
    Typed(Box<CandidValue>, Type),
}

impl CandidValue {
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
