//! One line in the JSON form: `@ {"event":"ALLOCATE", …}`.

use super::fault::ObjectLineFault;
use crate::events::fields::Fields;
use highwater_model::Nanos;
use std::borrow::Cow;

/// A line in the JSON form.
#[derive(Debug)]
pub(super) struct JsonLine<'a> {
    fields: Fields<'a>,
    pub verb: Verb,
}

/// The kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Allocate,
    Drop,
    Resize,
    Memory,
    Mark,
}

/// The thread of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogThread<'a> {
    /// A thread with a number.
    Number(u64),
    /// A thread with a name.
    Name(Cow<'a, str>),
}

/// A time with more milliseconds than this is invalid.
const MOST_MILLISECONDS: f64 = 1.8e13;

/// Parses a line.
pub(super) fn parse(text: &str) -> Result<JsonLine<'_>, ObjectLineFault> {
    let fields = Fields::parse(text).map_err(|_| ObjectLineFault::Json)?;
    let verb = match fields.text("event").map_err(|_| ObjectLineFault::Member)? {
        "ALLOCATE" => Verb::Allocate,
        "DROP" => Verb::Drop,
        "RESIZE" => Verb::Resize,
        "MEMORY" => Verb::Memory,
        "MARK" => Verb::Mark,
        "" => return Err(ObjectLineFault::NoVerb),
        _ => return Err(ObjectLineFault::UnknownVerb),
    };
    Ok(JsonLine { fields, verb })
}

impl JsonLine<'_> {
    pub fn bytes(&self) -> Result<u64, ObjectLineFault> {
        self.fields.number("bytes").map_err(|_| ObjectLineFault::Size)?.ok_or(ObjectLineFault::Size)
    }

    /// A number, or its digits as a text: many languages cannot represent 64 bits in a number.
    pub fn id(&self) -> Result<u64, ObjectLineFault> {
        match self.fields.number("id") {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(ObjectLineFault::Id),
            Err(_) => {
                let digits = self.fields.text("id").map_err(|_| ObjectLineFault::Id)?;
                super::text_form::number(digits.as_bytes()).ok_or(ObjectLineFault::Id)
            }
        }
    }

    pub fn type_name(&self) -> Result<&str, ObjectLineFault> {
        self.fields.text("type").ok().filter(|name| !name.is_empty()).ok_or(ObjectLineFault::Type)
    }

    /// `file:line`.
    pub fn place(&self) -> Result<String, ObjectLineFault> {
        let file = self.fields.text("file").ok().filter(|file| !file.is_empty()).ok_or(ObjectLineFault::Place)?;
        let line = self.fields.number("line").ok().flatten().ok_or(ObjectLineFault::Place)?;
        Ok(format!("{file}:{line}"))
    }

    /// The variable that holds the object; empty if it is not known.
    pub fn variable(&self) -> Result<&str, ObjectLineFault> {
        self.fields.text("variable").map_err(|_| ObjectLineFault::Member)
    }

    pub fn label(&self) -> Result<&str, ObjectLineFault> {
        self.fields.text("label").map_err(|_| ObjectLineFault::Label)
    }

    /// The time, in milliseconds with a fraction or in nanoseconds.
    pub fn time(&self) -> Result<Option<Nanos>, ObjectLineFault> {
        if let Some(time) = self.fields.number("time_ns").map_err(|_| ObjectLineFault::Member)? {
            return Ok(Some(Nanos(time)));
        }
        let sensible = |ms: &f64| (0.0..MOST_MILLISECONDS).contains(ms);
        let time = self
            .fields
            .fraction("time")
            .map(|time| time.filter(sensible).ok_or(ObjectLineFault::Member))
            .transpose()?;
        Ok(time.map(|ms| Nanos((ms * 1e6).round() as u64)))
    }

    pub fn thread(&self) -> Result<Option<LogThread<'_>>, ObjectLineFault> {
        match self.fields.number("thread") {
            Ok(number) => Ok(number.map(LogThread::Number)),
            Err(_) => match self.fields.text("thread") {
                Ok(name) => Ok(Some(LogThread::Name(Cow::Borrowed(name)))),
                Err(_) => Err(ObjectLineFault::Member),
            },
        }
    }

    /// The JSON list of the stack as text, not parsed.
    pub fn stack(&self) -> Result<Option<&str>, ObjectLineFault> {
        self.fields.stack_text().map_err(|_| ObjectLineFault::Member)
    }
}
