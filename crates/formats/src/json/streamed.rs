//! A document written as it is made, so that a long list never exists as a whole.

use super::untimed::{is_untimed, lines_for_times};
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Writes one JSON object, member by member; each element of a list is on a line of its own.
///
/// Names are written as they come: giving one twice is the caller's mistake.
#[derive(Debug)]
pub struct DocumentWriter<W: Write> {
    out: W,
    is_empty: bool,
    /// The document is about a source that tells no times.
    is_untimed: bool,
}

impl<W: Write> DocumentWriter<W> {
    /// Opens the document.
    pub fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(Self { out, is_empty: true, is_untimed: false })
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        self.out.write_all(if self.is_empty { b"\n" } else { b",\n" })?;
        self.is_empty = false;
        serde_json::to_writer(&mut self.out, name)?;
        self.out.write_all(b":")
    }

    /// A member.
    pub fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        if !self.is_untimed && value["source"]["timed"] != false {
            return self.plain_member(name, value);
        }
        let around = Map::from_iter([(name.to_owned(), value.clone())]);
        let told = lines_for_times(Value::Object(around), self.is_untimed);
        told.as_object().into_iter().flatten().try_for_each(|(name, value)| self.plain_member(name, value))
    }

    fn plain_member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        self.name(name)?;
        serde_json::to_writer(&mut self.out, value)?;
        Ok(())
    }

    /// Several members. What comes after a `source` that tells no times has lines in place of times.
    pub fn members(&mut self, members: &Map<String, Value>) -> io::Result<()> {
        self.is_untimed |= is_untimed(members);
        members.iter().try_for_each(|(name, value)| self.member(name, value))
    }

    /// A member that is a list, of which one element at a time is in memory.
    pub fn list(&mut self, name: &str, elements: impl IntoIterator<Item = Value>) -> io::Result<()> {
        self.name(name)?;
        self.out.write_all(b"[")?;
        let mut separator: &[u8] = b"\n";
        for element in elements {
            self.out.write_all(separator)?;
            let element = if self.is_untimed { lines_for_times(element, true) } else { element };
            serde_json::to_writer(&mut self.out, &element)?;
            separator = b",\n";
        }
        self.out.write_all(b"]")
    }

    /// Closes the document and gives the writer back, flushed.
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
        writer.list("empty", []).unwrap();
        writer.list("two", [json!(1), json!([2])]).unwrap();
        let text = writer.end().unwrap();
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, json!({"a \"quoted\" name": {"x": 1}, "empty": [], "two": [1, [2]]}));

        let nothing = DocumentWriter::begin(Vec::new()).unwrap().end().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&nothing).unwrap(), json!({}));
    }
}
