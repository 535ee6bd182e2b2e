//! Writes a document piece by piece, so that a long list is never in memory as a whole.

use super::DocumentStacks;
use super::untimed::{clock_of, clock_of_source, lines_for_times};
use highwater_model::{Clock, disturbs_text};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Escapes characters that disturb the surrounding text, as `\\u202e`. Names stay exact for a program that reads the document, and are harmless to a
/// terminal that shows it. Such characters occur only inside JSON strings; ASCII control characters are escaped there anyway.
struct Harmless<W: Write>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Ok(text) = std::str::from_utf8(bytes) else { return self.0.write(bytes) };
        let mut rest = text;
        while let Some(at) = rest.find(|c| c >= '\u{7f}' && disturbs_text(c)) {
            let (before, from) = rest.split_at(at);
            self.0.write_all(before.as_bytes())?;
            let mut after = from.chars();
            if let Some(c) = after.next() {
                // All of them are in the Basic Multilingual Plane.
                write!(self.0, "\\u{:04x}", u32::from(c))?;
            }
            rest = after.as_str();
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes one JSON object, member by member. Each element of a list is on a separate line.
///
/// Names are written as given. The caller must not give a name twice.
#[derive(Debug)]
pub struct DocumentWriter<W: Write> {
    out: W,
    is_empty: bool,
    /// What the times of the document's source count.
    clock: Clock,
}

impl<W: Write> DocumentWriter<W> {
    /// Opens the document.
    pub fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(Self { out, is_empty: true, clock: Clock::Time })
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        self.out.write_all(if self.is_empty { b"\n" } else { b",\n" })?;
        self.is_empty = false;
        serde_json::to_writer(Harmless(&mut self.out), name)?;
        self.out.write_all(b":")
    }

    /// A member.
    pub fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        if self.clock == Clock::Time && clock_of_source(&value["source"]) == Clock::Time {
            return self.plain_member(name, value);
        }
        let around = Map::from_iter([(name.to_owned(), value.clone())]);
        let converted = lines_for_times(Value::Object(around), self.clock);
        converted.as_object().into_iter().flatten().try_for_each(|(name, value)| self.plain_member(name, value))
    }

    fn plain_member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        self.name(name)?;
        serde_json::to_writer(Harmless(&mut self.out), value)?;
        Ok(())
    }

    /// Several members. After a `source` without times, line numbers replace times.
    pub fn members(&mut self, members: &Map<String, Value>) -> io::Result<()> {
        if self.clock == Clock::Time {
            self.clock = clock_of(members);
        }
        members.iter().try_for_each(|(name, value)| self.member(name, value))
    }

    /// A member that is a list. One element is in memory at a time.
    pub fn list(&mut self, name: &str, elements: impl IntoIterator<Item = impl Serialize>) -> io::Result<()> {
        self.name(name)?;
        self.out.write_all(b"[")?;
        let mut separator: &[u8] = b"\n";
        for element in elements {
            self.out.write_all(separator)?;
            if self.clock != Clock::Time {
                let element = lines_for_times(serde_json::to_value(element)?, self.clock);
                serde_json::to_writer(Harmless(&mut self.out), &element)?;
            } else {
                serde_json::to_writer(Harmless(&mut self.out), &element)?;
            }
            separator = b",\n";
        }
        self.out.write_all(b"]")
    }

    /// `frames` and `stacks`.
    pub fn stacks(&mut self, stacks: &DocumentStacks<'_>) -> io::Result<()> {
        self.list("frames", stacks.frames())?;
        self.list("stacks", stacks.stacks())
    }

    /// Closes the document, flushes the writer and returns it.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(b"\n}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_one_json_object() {
        let mut writer = DocumentWriter::begin(Vec::new()).unwrap();
        writer.member("a \"quoted\" name", &json!({"x": 1})).unwrap();
        writer.list("empty", [] as [Value; 0]).unwrap();
        writer.list("two", [json!(1), json!([2])]).unwrap();
        let text = writer.end().unwrap();
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, json!({"a \"quoted\" name": {"x": 1}, "empty": [], "two": [1, [2]]}));

        let mut writer = DocumentWriter::begin(Vec::new()).unwrap();
        writer.member("name", &json!("a\u{202e}b\u{2028}\u{85}漢\n")).unwrap();
        let text = String::from_utf8(writer.end().unwrap()).unwrap();
        assert!(text.contains(r#""a\u202eb\u2028\u0085漢\n""#), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["name"], "a\u{202e}b\u{2028}\u{85}漢\n");

        let nothing = DocumentWriter::begin(Vec::new()).unwrap().end().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&nothing).unwrap(), json!({}));
    }
}
