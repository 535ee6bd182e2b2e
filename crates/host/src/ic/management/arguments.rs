//! Arguments of the management canister's methods, by the names of their fields.

use crate::candid::CandidValue;
use crate::ic::reject::{Reject, code};

/// A field that is missing, or of another type.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentError(pub &'static str);

impl From<ArgumentError> for Reject {
    fn from(error: ArgumentError) -> Self {
        Self::new(code::INVALID_ARGUMENT, format!("Error decoding the argument: '{}' is missing or not valid", error.0))
    }
}

/// Typed access to an argument.
pub trait Argument {
    /// A field that must be there.
    fn need(&self, name: &'static str) -> Result<&CandidValue, ArgumentError>;
    /// A principal; `name` is for the message.
    fn principal(&self, name: &'static str) -> Result<Vec<u8>, ArgumentError>;
    /// The items of a list.
    fn items(&self, name: &'static str) -> Result<&[CandidValue], ArgumentError>;
    /// A principal in a field.
    fn principal_of(&self, name: &'static str) -> Result<Vec<u8>, ArgumentError>;
    /// Bytes in a field.
    fn blob_of(&self, name: &'static str) -> Result<&[u8], ArgumentError>;
    /// A number of 64 bits in a field.
    fn number_of(&self, name: &'static str) -> Result<u64, ArgumentError>;
}

impl Argument for CandidValue {
    fn need(&self, name: &'static str) -> Result<&CandidValue, ArgumentError> {
        self.field(name).ok_or(ArgumentError(name))
    }

    fn principal(&self, name: &'static str) -> Result<Vec<u8>, ArgumentError> {
        self.as_principal().filter(|bytes| bytes.len() <= 29).map(<[u8]>::to_vec).ok_or(ArgumentError(name))
    }

    fn items(&self, name: &'static str) -> Result<&[CandidValue], ArgumentError> {
        self.as_items().ok_or(ArgumentError(name))
    }

    fn principal_of(&self, name: &'static str) -> Result<Vec<u8>, ArgumentError> {
        self.need(name)?.principal(name)
    }

    fn blob_of(&self, name: &'static str) -> Result<&[u8], ArgumentError> {
        self.need(name)?.as_blob().ok_or(ArgumentError(name))
    }

    fn number_of(&self, name: &'static str) -> Result<u64, ArgumentError> {
        let number = self.need(name)?.as_number().and_then(|number| u64::try_from(number).ok());
        number.ok_or(ArgumentError(name))
    }
}
