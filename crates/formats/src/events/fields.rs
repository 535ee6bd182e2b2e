//! The fields of a line or a frame, by name and kind.

use super::fault::{Expected, Fault};
use super::scan::{self, Json, NotJson};
use highwater_model::{Heap, Spacing, Weight};
use serde_json::Value;
use std::borrow::Cow;

/// The members of a JSON object. `null` means the same as a missing field; of two members with the same name the last one counts.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

/// The only field with a nested value. It is parsed later, if at all.
const NESTED: &str = "stack";

impl<'a> Fields<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, NotJson> {
        let members = scan::object(text)?;
        for (name, value) in &members {
            if let (Json::List(text) | Json::Object(text), true) = (value, name != NESTED)
                && serde_json::from_str::<Value>(text).is_err()
            {
                return Err(NotJson);
            }
        }
        Ok(Self(members))
    }

    fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value).filter(|value| **value != Json::Null)
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Number(text)) => whole_number(name, text).map(Some),
            Some(_) => Err(Fault::Not(name, Expected::Number)),
        }
    }

    pub(crate) fn required_number(&self, name: &'static str) -> Result<u64, Fault> {
        self.number(name)?.ok_or(Fault::Missing(name))
    }

    /// A number, or a text in hex.
    pub(crate) fn address(&self, name: &'static str) -> Result<Option<u64>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Number(text)) => whole_number(name, text).map(Some),
            Some(Json::Text(text)) => hex_number(name, text).map(Some),
            Some(_) => Err(Fault::Not(name, Expected::Address)),
        }
    }

    pub(crate) fn required_address(&self, name: &'static str) -> Result<u64, Fault> {
        self.address(name)?.ok_or(Fault::Missing(name))
    }

    /// A text; empty if the field is missing.
    pub(crate) fn text(&self, name: &'static str) -> Result<&str, Fault> {
        match self.get(name) {
            None => Ok(""),
            Some(Json::Text(text)) => Ok(text),
            Some(_) => Err(Fault::Not(name, Expected::Text)),
        }
    }

    pub(crate) fn required_text(&self, name: &'static str) -> Result<&str, Fault> {
        self.get(name).ok_or(Fault::Missing(name))?;
        self.text(name)
    }

    /// A heap; the allocator's heap if the field is missing.
    pub(crate) fn heap(&self) -> Result<Heap, Fault> {
        match self.text("heap")? {
            "" => Ok(Heap::Malloc),
            name => Heap::from_name(name).ok_or(Fault::Not("heap", Expected::Heap)),
        }
    }

    /// A weight; one if the field is missing.
    pub(crate) fn weight(&self) -> Result<Weight, Fault> {
        let weight = match self.fraction("weight") {
            None => Weight::ONE,
            Some(value) => value
                .filter(|value| (1.0..=Weight::MOST.value()).contains(value))
                .map(Weight::new)
                .ok_or(Fault::Not("weight", Expected::Weight))?,
        };
        let Some(samples) = self.number("samples")? else { return Ok(weight) };
        let samples = u32::try_from(samples).map_err(|_| Fault::TooLarge("samples"))?;
        let spacing = self.fraction("bytes_per_sample").ok_or(Fault::Missing("bytes_per_sample"))?;
        let spacing = spacing.filter(|bytes| *bytes > 0.0);
        let spacing = spacing.ok_or(Fault::Not("bytes_per_sample", Expected::PositiveNumber))?;
        Ok(weight.of_samples(samples, Spacing::new(spacing)))
    }

    /// A number that may have a fraction; the inner `None` stands for a value of another kind.
    pub(crate) fn fraction(&self, name: &'static str) -> Option<Option<f64>> {
        match self.get(name)? {
            Json::Number(text) => Some(text.parse().ok()),
            _ => Some(None),
        }
    }

    /// A boolean; false if the field is missing.
    pub(crate) fn truth(&self, name: &'static str) -> Result<bool, Fault> {
        match self.get(name) {
            None => Ok(false),
            Some(Json::Truth(truth)) => Ok(*truth),
            Some(_) => Err(Fault::Not(name, Expected::Truth)),
        }
    }

    /// The JSON list of the stack as text, not parsed.
    pub(crate) fn stack_text(&self) -> Result<Option<&'a str>, Fault> {
        match self.get(NESTED) {
            None => Ok(None),
            Some(Json::List(text)) => Ok(Some(text)),
            Some(_) => Err(Fault::Not(NESTED, Expected::Frames)),
        }
    }
}

/// Parses `text`, which is a JSON number.
fn whole_number(name: &'static str, text: &str) -> Result<u64, Fault> {
    if text.starts_with('-') {
        Err(Fault::Negative(name))
    } else if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        Err(Fault::Fractional(name))
    } else {
        text.parse().map_err(|_| Fault::TooLarge(name))
    }
}

fn hex_number(name: &'static str, text: &str) -> Result<u64, Fault> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Fault::Not(name, Expected::Address));
    }
    u64::from_str_radix(digits, 16).map_err(|_| Fault::TooLarge(name))
}
