//! JSON as a sequence of events. Libraries that make values of JSON use the stack of the program for nested values, or refuse deep ones. Trees of calls are
//! deep.
//!
//! The memory that a reader takes is a bit for each open array or object, and the longest string.

use std::io::{self, BufRead};

/// The longest string, in bytes.
const LONGEST_STRING: usize = 1 << 20;
/// The longest number, in bytes.
const LONGEST_NUMBER: usize = 64;

/// A part of a JSON text. Texts of strings are in [`JsonEvents::text`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum JsonEvent {
    /// An object begins.
    Object,
    /// An array begins.
    Array,
    /// The innermost object or array ends.
    End,
    /// The name of the next value of an object.
    Key,
    /// A string.
    String,
    /// A number.
    Number(f64),
    /// `true`, `false` or `null`.
    Word,
    /// The text ends.
    Finish,
}

/// Why JSON cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    /// The operating system reports an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text is no JSON.
    #[error("byte {offset}: {what}")]
    Fault {
        /// The offset of the fault.
        offset: u64,
        /// The fault.
        what: &'static str,
    },
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// A value, or the end of the array that has just begun.
    FirstValue,
    /// A key, or the end of the object that has just begun.
    FirstKey,
    /// A comma, or the end of what is open.
    Next,
}

/// Reads JSON.
pub(crate) struct JsonEvents<R> {
    input: R,
    offset: u64,
    /// For each open value whether it is an object.
    open: Vec<bool>,
    expected: Expected,
    /// The text of the last string or key.
    pub(crate) text: String,
}

impl<R: BufRead> JsonEvents<R> {
    /// Reads `input` from its beginning.
    pub(crate) fn new(input: R) -> Self {
        Self { input, offset: 0, open: Vec::new(), expected: Expected::Value, text: String::new() }
    }

    /// A fault where the last event ended.
    pub(crate) fn fault(&self, what: &'static str) -> JsonError {
        JsonError::Fault { offset: self.offset, what }
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Result<JsonEvent, JsonError> {
        let Some(mut byte) = self.peek_visible()? else {
            return match self.expected == Expected::Next && self.open.is_empty() {
                true => Ok(JsonEvent::Finish),
                false => Err(self.fault("the text ends too early")),
            };
        };
        if self.expected == Expected::Next {
            let Some(is_object) = self.open.last().copied() else { return Err(self.fault("the end is expected")) };
            if byte == if is_object { b'}' } else { b']' } {
                return self.end();
            }
            if byte != b',' {
                return Err(self.fault("a comma or the end of a list is expected"));
            }
            self.skip();
            byte = self.peek_visible()?.ok_or_else(|| self.fault("the text ends too early"))?;
            return if is_object { self.key(byte) } else { self.value(byte) };
        }
        match (self.expected, byte) {
            (Expected::FirstKey, b'}') | (Expected::FirstValue, b']') => self.end(),
            (Expected::FirstKey, _) => self.key(byte),
            _ => self.value(byte),
        }
    }

    /// Skips the value that begins with an event that was just read.
    pub(crate) fn skip_rest(&mut self, first: JsonEvent) -> Result<(), JsonError> {
        if !matches!(first, JsonEvent::Object | JsonEvent::Array) {
            return Ok(());
        }
        let depth = self.open.len();
        while self.open.len() >= depth {
            self.next()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<JsonEvent, JsonError> {
        self.skip();
        self.open.pop();
        self.expected = Expected::Next;
        Ok(JsonEvent::End)
    }

    fn key(&mut self, byte: u8) -> Result<JsonEvent, JsonError> {
        if byte != b'"' {
            return Err(self.fault("a key is expected"));
        }
        self.string()?;
        if self.peek_visible()? != Some(b':') {
            return Err(self.fault("a colon is expected"));
        }
        self.skip();
        self.expected = Expected::Value;
        Ok(JsonEvent::Key)
    }

    fn value(&mut self, byte: u8) -> Result<JsonEvent, JsonError> {
        match byte {
            b'{' | b'[' => {
                self.skip();
                self.open.push(byte == b'{');
                let (event, expected) = match byte {
                    b'{' => (JsonEvent::Object, Expected::FirstKey),
                    _ => (JsonEvent::Array, Expected::FirstValue),
                };
                self.expected = expected;
                Ok(event)
            }
            b'"' => {
                self.string()?;
                self.expected = Expected::Next;
                Ok(JsonEvent::String)
            }
            b'-' | b'0'..=b'9' => {
                let text = self.run(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))?;
                let number = text.parse().map_err(|_| self.fault("a number is expected"))?;
                self.expected = Expected::Next;
                Ok(JsonEvent::Number(number))
            }
            b't' | b'f' | b'n' => {
                let text = self.run(|byte| byte.is_ascii_lowercase())?;
                if !matches!(text.as_str(), "true" | "false" | "null") {
                    return Err(self.fault("the word is not known"));
                }
                self.expected = Expected::Next;
                Ok(JsonEvent::Word)
            }
            _ => Err(self.fault("a value is expected")),
        }
    }

    /// The bytes that have a property, up to the limit.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> Result<String, JsonError> {
        let mut text = String::new();
        while let Some(byte) = self.peek()?.filter(|byte| belongs(*byte)) {
            if text.len() == LONGEST_NUMBER {
                return Err(self.fault("the number is too long"));
            }
            text.push(char::from(byte));
            self.skip();
        }
        Ok(text)
    }

    /// Reads a string, from its first quote on, into `text`.
    fn string(&mut self) -> Result<(), JsonError> {
        self.skip();
        let mut bytes = vec![b'"'];
        let (mut is_escaped, mut has_escapes) = (false, false);
        loop {
            let part = self.input.fill_buf()?;
            if part.is_empty() {
                return Err(self.fault("the string has no end"));
            }
            let is_last = |byte: &u8| {
                let is_quote = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                has_escapes |= is_escaped;
                is_quote
            };
            let end = part.iter().position(is_last);
            let length = end.map_or(part.len(), |end| end + 1);
            if bytes.len() + length > LONGEST_STRING {
                return Err(self.fault("the string is too long"));
            }
            bytes.extend_from_slice(&part[..length]);
            self.consume(length);
            if end.is_some() {
                break;
            }
        }
        let quoted = String::from_utf8_lossy(&bytes);
        self.text.clear();
        if has_escapes {
            self.text = serde_json::from_str(&quoted).map_err(|_| self.fault("the string has a wrong escape"))?;
        } else {
            self.text.push_str(quoted.trim_matches('"'));
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, JsonError> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    /// The next byte that is no white space.
    fn peek_visible(&mut self) -> Result<Option<u8>, JsonError> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.skip(),
                other => return Ok(other),
            }
        }
    }

    fn skip(&mut self) {
        self.consume(1);
    }

    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        self.offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The events of a text, with the texts of strings.
    fn events(text: &[u8]) -> Result<Vec<(JsonEvent, String)>, JsonError> {
        let mut reader = JsonEvents::new(io::BufReader::with_capacity(3, text));
        let mut events = Vec::new();
        loop {
            let event = reader.next()?;
            let text = matches!(event, JsonEvent::Key | JsonEvent::String).then(|| reader.text.clone());
            events.push((event, text.unwrap_or_default()));
            if event == JsonEvent::Finish {
                return Ok(events);
            }
        }
    }

    #[test]
    fn every_kind_of_value() {
        let text = r#" { "a\u00e9\n" : [ 1, -2.5e1, "x\"\\", {}, [], null, true ] , "é":false } "#;
        let kinds: Vec<JsonEvent> = events(text.as_bytes()).unwrap().iter().map(|(kind, _)| *kind).collect();
        use JsonEvent::*;
        let inner = [Number(1.0), Number(-25.0), String, Object, End, Array, End, Word, Word, End];
        assert_eq!(kinds, [&[Object, Key, Array], inner.as_slice(), &[Key, Word, End, Finish]].concat());
        let texts: Vec<std::string::String> =
            events(text.as_bytes()).unwrap().into_iter().map(|(_, text)| text).collect();
        assert_eq!((texts[1].as_str(), texts[5].as_str(), texts[13].as_str()), ("aé\n", "x\"\\", "é"));
    }

    #[test]
    fn depth_takes_no_stack() {
        let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
        assert_eq!(events(&deep).unwrap().len(), (2 << 20) + 1);
    }

    proptest! {
        #[test]
        fn texts_are_accepted_or_refused_as_by_serde(text in r#"[\[\]{}:,"0-9a \\ntrue.-]{0,24}"#) {
            let expected = serde_json::from_str::<serde_json::Value>(&text);
            // Words and numbers are checked less strictly: what follows them is.
            if expected.is_ok() {
                prop_assert!(events(text.as_bytes()).is_ok(), "{}", text);
            }
            if events(text.as_bytes()).is_err() {
                prop_assert!(expected.is_err(), "{}", text);
            }
        }
    }
}
