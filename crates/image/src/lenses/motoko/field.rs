//! The value of an object's field, for scripts.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::show::ShowLimits;
use super::value::MotokoValue;
use crate::heap::{FieldValue, HeapError};
use crate::survey::Survey;

/// The most bytes that are read of a text.
const LONGEST_TEXT: u64 = 16 << 20;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    pub(super) fn field_value(&self, survey: &Survey, object: u64, name: &str) -> Result<FieldValue, HeapError> {
        let value = self.find_value(&format!("{object:#x}.{name}"), &survey.found)?.value;
        Ok(match value {
            MotokoValue::Null => FieldValue::Null,
            MotokoValue::False => FieldValue::Bool(false),
            MotokoValue::True => FieldValue::Bool(true),
            MotokoValue::Int(number) => FieldValue::Number(number.to_string()),
            MotokoValue::Fixed(_, number) => FieldValue::Number(number.to_string()),
            MotokoValue::Char(code) => FieldValue::Char(char::from_u32(code).unwrap_or('\u{fffd}')),
            // Compact numbers are shifted by one bit. Only the program knows whether the word is of another type.
            MotokoValue::Untyped(word) => FieldValue::Number((word as i32 >> 1).to_string()),
            MotokoValue::Invalid(word) => return Err(format!("it holds {word:#x}, which is no value").into()),
            MotokoValue::Object(at) => match self.kind_of(at) {
                MotokoKind::Text | MotokoKind::Concat => {
                    FieldValue::Text(String::from_utf8_lossy(&self.text(at, LONGEST_TEXT)).into_owned())
                }
                MotokoKind::Blob | MotokoKind::Principal => FieldValue::Blob(self.contents(at).to_vec()),
                MotokoKind::BigInt => FieldValue::Number(self.big_number(at)),
                MotokoKind::Nat64 | MotokoKind::Int64 | MotokoKind::Nat32 | MotokoKind::Int32 => {
                    FieldValue::Number(self.show(value, ShowLimits::to_depth(1)).replace('_', ""))
                }
                MotokoKind::Float => {
                    let shown = self.show(value, ShowLimits::to_depth(1));
                    FieldValue::Float(shown.parse().map_err(|_| format!("'{shown}' is no number"))?)
                }
                _ => FieldValue::Object(at),
            },
        })
    }
}
