//! Maps the text of a stack to its handle, and parses each text once.

use super::fault::EventLineFault;
use super::fields::Fields;
use super::scan::{self, JsonValue, NotJson};
use highwater_model::{Catalog, ColumnRange, FrameText, StackId};
use std::collections::HashMap;

/// The known stacks, by their text. A program has few allocation sites compared with its allocations.
#[derive(Debug, Default)]
pub(crate) struct StackTexts {
    known: HashMap<Box<str>, StackId>,
    held_bytes: usize,
}

/// Limit for the bytes of all texts. Beyond it all texts are forgotten, which costs time but never loses a stack.
const MAX_HELD_BYTES: usize = 64 << 20;

/// A stack that could not be parsed.
#[derive(Debug)]
pub(crate) enum BadStack {
    NotJson,
    Fault(EventLineFault),
}

impl From<NotJson> for BadStack {
    fn from(NotJson: NotJson) -> Self {
        Self::NotJson
    }
}

impl StackTexts {
    pub(crate) fn stack(&mut self, text: &str, catalog: &mut Catalog) -> Result<StackId, BadStack> {
        if let Some(&stack) = self.known.get(text) {
            return Ok(stack);
        }
        let stack = read_stack(text, catalog)?;
        if self.held_bytes + text.len() > MAX_HELD_BYTES {
            *self = Self::default();
        }
        self.held_bytes += text.len();
        self.known.insert(text.into(), stack);
        Ok(stack)
    }
}

fn read_stack(text: &str, catalog: &mut Catalog) -> Result<StackId, BadStack> {
    let elements = scan::list(text)?;
    let mut objects = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        objects.push(match element {
            JsonValue::Text(_) => None,
            JsonValue::Object(text) => Some(Fields::parse(text)?),
            _ => return Err(in_frame(index, EventLineFault::NotAFrame)),
        });
    }
    let mut frames = Vec::with_capacity(elements.len());
    for (index, (element, object)) in elements.iter().zip(&objects).enumerate() {
        frames.push(match (element, object) {
            (_, Some(fields)) => frame(fields).map_err(|why| in_frame(index, why))?,
            (JsonValue::Text(function), None) => FrameText { function, ..FrameText::default() },
            (_, None) => FrameText::default(),
        });
    }
    Ok(catalog.intern_stack(&frames))
}

fn column(fields: &Fields<'_>, name: &'static str) -> Result<u16, EventLineFault> {
    u16::try_from(fields.number(name)?.unwrap_or(0)).map_err(|_| EventLineFault::TooLarge(name))
}

fn in_frame(index: usize, why: EventLineFault) -> BadStack {
    BadStack::Fault(EventLineFault::Frame { index, why: Box::new(why) })
}

fn frame<'f>(fields: &'f Fields<'_>) -> Result<FrameText<'f>, EventLineFault> {
    let line = fields.number("line")?.unwrap_or(0);
    Ok(FrameText {
        function: fields.text("function")?,
        file: fields.text("file")?,
        line: u32::try_from(line).map_err(|_| EventLineFault::TooLarge("line"))?,
        module: fields.text("module")?,
        address: fields.address("address")?.unwrap_or(0),
        inlined: fields.truth("inlined")?,
        columns: ColumnRange { start: column(fields, "column")?, end: column(fields, "end_column")? },
        ..FrameText::default()
    })
}
