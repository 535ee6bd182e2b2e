//! The fields of a line or a frame, by name and kind.

use super::fault::{EventLineFault, ExpectedValue};
use super::scan::{self, JsonValue, NotJson};
use highwater_model::{Heap, SampleSpacing, Weight};
use serde_json::Value;
use std::borrow::Cow;

/// The members of a JSON object. `null` means the same as a missing field; of two members with the same name the last one counts.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, JsonValue<'a>)>);

/// The only field with a nested value. It is parsed later, if at all.
const NESTED: &str = "stack";

impl<'a> Fields<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, NotJson> {
        let members = scan::object(text)?;
        for (name, value) in &members {
            if let (JsonValue::List(text) | JsonValue::Object(text), true) = (value, name != NESTED)
                && serde_json::from_str::<Value>(text).is_err()
            {
                return Err(NotJson);
            }
        }
        Ok(Self(members))
    }

    fn get(&self, name: &str) -> Option<&JsonValue<'a>> {
        self.0
            .iter()
            .rfind(|(known, _)| known == name)
            .map(|(_, value)| value)
            .filter(|value| **value != JsonValue::Null)
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, EventLineFault> {
        match self.get(name) {
            None => Ok(None),
            Some(JsonValue::Number(text)) => whole_number(name, text).map(Some),
            Some(_) => Err(EventLineFault::Not(name, ExpectedValue::Number)),
        }
    }

    pub(crate) fn required_number(&self, name: &'static str) -> Result<u64, EventLineFault> {
        self.number(name)?.ok_or(EventLineFault::Missing(name))
    }

    /// A number, or a text in hex.
    pub(crate) fn address(&self, name: &'static str) -> Result<Option<u64>, EventLineFault> {
        match self.get(name) {
            None => Ok(None),
            Some(JsonValue::Number(text)) => whole_number(name, text).map(Some),
            Some(JsonValue::Text(text)) => hex_number(name, text).map(Some),
            Some(_) => Err(EventLineFault::Not(name, ExpectedValue::Address)),
        }
    }

    pub(crate) fn required_address(&self, name: &'static str) -> Result<u64, EventLineFault> {
        self.address(name)?.ok_or(EventLineFault::Missing(name))
    }

    /// A text; empty if the field is missing.
    pub(crate) fn text(&self, name: &'static str) -> Result<&str, EventLineFault> {
        match self.get(name) {
            None => Ok(""),
            Some(JsonValue::Text(text)) => Ok(text),
            Some(_) => Err(EventLineFault::Not(name, ExpectedValue::Text)),
        }
    }

    pub(crate) fn required_text(&self, name: &'static str) -> Result<&str, EventLineFault> {
        self.get(name).ok_or(EventLineFault::Missing(name))?;
        self.text(name)
    }

    /// Whether there is such a field.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.get(name).is_some()
    }

    /// A heap; the allocator's heap if the field is missing.
    pub(crate) fn heap(&self) -> Result<Heap, EventLineFault> {
        match self.text("heap")? {
            "" => Ok(Heap::Malloc),
            name => Heap::from_name(name).ok_or(EventLineFault::Not("heap", ExpectedValue::Heap)),
        }
    }

    /// A weight; one if the field is missing.
    pub(crate) fn weight(&self) -> Result<Weight, EventLineFault> {
        let weight = match self.fraction("weight") {
            None => Weight::ONE,
            Some(value) => value
                .filter(|value| (1.0..=Weight::MOST.value()).contains(value))
                .map(Weight::new)
                .ok_or(EventLineFault::Not("weight", ExpectedValue::Weight))?,
        };
        let Some(samples) = self.number("samples")? else { return Ok(weight) };
        let samples = u32::try_from(samples).map_err(|_| EventLineFault::TooLarge("samples"))?;
        let spacing = self.fraction("bytes_per_sample").ok_or(EventLineFault::Missing("bytes_per_sample"))?;
        let spacing = spacing.filter(|bytes| *bytes > 0.0);
        let spacing = spacing.ok_or(EventLineFault::Not("bytes_per_sample", ExpectedValue::PositiveNumber))?;
        Ok(weight.of_samples(samples, SampleSpacing::new(spacing)))
    }

    /// A number that may have a fraction; the inner `None` stands for a value of another kind.
    pub(crate) fn fraction(&self, name: &'static str) -> Option<Option<f64>> {
        match self.get(name)? {
            JsonValue::Number(text) => Some(text.parse().ok()),
            _ => Some(None),
        }
    }

    /// A boolean; false if the field is missing.
    pub(crate) fn truth(&self, name: &'static str) -> Result<bool, EventLineFault> {
        match self.get(name) {
            None => Ok(false),
            Some(JsonValue::Truth(truth)) => Ok(*truth),
            Some(_) => Err(EventLineFault::Not(name, ExpectedValue::Truth)),
        }
    }

    /// A list of texts; `None` if the field is missing.
    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<String>>, EventLineFault> {
        match self.get(name) {
            None => Ok(None),
            Some(JsonValue::List(text)) => {
                serde_json::from_str(text).map(Some).map_err(|_| EventLineFault::Not(name, ExpectedValue::Texts))
            }
            Some(_) => Err(EventLineFault::Not(name, ExpectedValue::Texts)),
        }
    }

    /// A boolean; `None` if the field is missing.
    pub(crate) fn known_truth(&self, name: &'static str) -> Result<Option<bool>, EventLineFault> {
        self.get(name).map(|_| self.truth(name)).transpose()
    }

    /// A list of objects, as text; empty if the field is missing.
    pub(crate) fn objects(&self, name: &'static str) -> Result<Vec<Fields<'_>>, EventLineFault> {
        let wrong = || EventLineFault::Not(name, ExpectedValue::Frames);
        let text = match self.get(name) {
            None => return Ok(Vec::new()),
            Some(JsonValue::List(text)) => *text,
            Some(_) => return Err(wrong()),
        };
        let elements = scan::list(text).map_err(|NotJson| wrong())?;
        let object = |element: JsonValue<'a>| match element {
            JsonValue::Object(text) => Fields::parse(text).map_err(|NotJson| wrong()),
            _ => Err(wrong()),
        };
        elements.into_iter().map(object).collect()
    }

    /// The JSON list of the stack as text, not parsed.
    pub(crate) fn stack_text(&self) -> Result<Option<&'a str>, EventLineFault> {
        match self.get(NESTED) {
            None => Ok(None),
            Some(JsonValue::List(text)) => Ok(Some(text)),
            Some(_) => Err(EventLineFault::Not(NESTED, ExpectedValue::Frames)),
        }
    }
}

/// Parses `text`, which is a JSON number.
fn whole_number(name: &'static str, text: &str) -> Result<u64, EventLineFault> {
    if text.starts_with('-') {
        Err(EventLineFault::Negative(name))
    } else if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        Err(EventLineFault::Fractional(name))
    } else {
        text.parse().map_err(|_| EventLineFault::TooLarge(name))
    }
}

fn hex_number(name: &'static str, text: &str) -> Result<u64, EventLineFault> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(EventLineFault::Not(name, ExpectedValue::Address));
    }
    u64::from_str_radix(digits, 16).map_err(|_| EventLineFault::TooLarge(name))
}
