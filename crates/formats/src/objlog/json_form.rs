//! One line in the JSON form: `@ {"event":"ALLOCATE", …}`.

use super::fault::Fault;
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
pub enum Thread<'a> {
    /// A thread with a number.
    Number(u64),
    /// A thread with a name.
    Name(Cow<'a, str>),
}

/// A time with more milliseconds than this is invalid.
const MOST_MILLISECONDS: f64 = 1.8e13;

/// Parses a line.
pub(super) fn parse(text: &str) -> Result<JsonLine<'_>, Fault> {
    let fields = Fields::parse(text).map_err(|_| Fault::Json)?;
    let verb = match fields.text("event").map_err(|_| Fault::Member)? {
        "ALLOCATE" => Verb::Allocate,
        "DROP" => Verb::Drop,
        "RESIZE" => Verb::Resize,
        "MEMORY" => Verb::Memory,
        "MARK" => Verb::Mark,
        "" => return Err(Fault::NoVerb),
        _ => return Err(Fault::UnknownVerb),
    };
    Ok(JsonLine { fields, verb })
}

impl JsonLine<'_> {
    pub fn bytes(&self) -> Result<u64, Fault> {
        self.fields.number("bytes").map_err(|_| Fault::Size)?.ok_or(Fault::Size)
    }

    /// A number, or its digits as a text: many languages cannot represent 64 bits in a number.
    pub fn id(&self) -> Result<u64, Fault> {
        match self.fields.number("id") {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(Fault::Id),
            Err(_) => {
                let digits = self.fields.text("id").map_err(|_| Fault::Id)?;
                super::text_form::number(digits.as_bytes()).ok_or(Fault::Id)
            }
        }
    }

    pub fn type_name(&self) -> Result<&str, Fault> {
        self.fields.text("type").ok().filter(|name| !name.is_empty()).ok_or(Fault::Type)
    }

    /// `file:line`.
    pub fn place(&self) -> Result<String, Fault> {
        let file = self.fields.text("file").ok().filter(|file| !file.is_empty()).ok_or(Fault::Place)?;
        let line = self.fields.number("line").ok().flatten().ok_or(Fault::Place)?;
        Ok(format!("{file}:{line}"))
    }

    pub fn label(&self) -> Result<&str, Fault> {
        self.fields.text("label").map_err(|_| Fault::Label)
    }

    /// The time, in milliseconds with a fraction or in nanoseconds.
    pub fn time(&self) -> Result<Option<Nanos>, Fault> {
        if let Some(time) = self.fields.number("time_ns").map_err(|_| Fault::Member)? {
            return Ok(Some(Nanos(time)));
        }
        let sensible = |ms: &f64| (0.0..MOST_MILLISECONDS).contains(ms);
        let time = self.fields.fraction("time").map(|time| time.filter(sensible).ok_or(Fault::Member)).transpose()?;
        Ok(time.map(|ms| Nanos((ms * 1e6).round() as u64)))
    }

    pub fn thread(&self) -> Result<Option<Thread<'_>>, Fault> {
        match self.fields.number("thread") {
            Ok(number) => Ok(number.map(Thread::Number)),
            Err(_) => match self.fields.text("thread") {
                Ok(name) => Ok(Some(Thread::Name(Cow::Borrowed(name)))),
                Err(_) => Err(Fault::Member),
            },
        }
    }

    /// The JSON list of the stack as text, not parsed.
    pub fn stack(&self) -> Result<Option<&str>, Fault> {
        self.fields.stack_text().map_err(|_| Fault::Member)
    }
}
