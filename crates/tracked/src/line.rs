//! An event as a line of an object log, formatted without heap memory.

use crate::event::ObjectEvent;
use std::fmt::{self, Write};

/// The size of the buffer. Names are truncated so that a line fits.
const ROOM: usize = 1024;

/// The text of one event: one line, or two if an object is dropped whose size has changed (a resize, then the drop).
pub(crate) struct ObjectLine {
    text: [u8; ROOM],
    length: usize,
}

impl ObjectLine {
    /// The lines of an event, each with its line end.
    pub fn of(event: &ObjectEvent<'_>) -> Self {
        let mut line = Self { text: [0; ROOM], length: 0 };
        // This writer truncates, so it never fails.
        let _ = match *event {
            ObjectEvent::Allocate { id, bytes, type_name, location, variable: None } => {
                let (file, type_name) = (LineName(location.file(), 320), LineName(type_name, 320));
                writeln!(line, "@ ALLOCATE {bytes} {file}:{} {type_name} {id}", location.line())
            }
            // The text form has no room for a variable.
            ObjectEvent::Allocate { id, bytes, type_name, location, variable: Some(variable) } => {
                let [file, type_name, variable] = [(location.file(), 320), (type_name, 320), (variable, 160)]
                    .map(|(text, most)| JsonText(LineName(text, most)));
                let at = location.line();
                writeln!(
                    line,
                    r#"@ {{"event":"ALLOCATE","bytes":{bytes},"file":"{file}","line":{at},"type":"{type_name}","id":{id},"variable":"{variable}"}}"#
                )
            }
            ObjectEvent::Drop { id, bytes, reported, type_name, .. } => {
                let type_name = LineName(type_name, 320);
                if reported.is_some() {
                    let _ = writeln!(line, "@ RESIZE {bytes} {type_name} {id}");
                }
                writeln!(line, "@ DROP {bytes} {type_name} {id}")
            }
            ObjectEvent::Resize { id, bytes, type_name } => {
                writeln!(line, "@ RESIZE {bytes} {} {id}", LineName(type_name, 320))
            }
            ObjectEvent::Memory { bytes, label: "" } => writeln!(line, "@ MEMORY {bytes}"),
            ObjectEvent::Memory { bytes, label } => writeln!(line, "@ MEMORY {bytes} {}", LineName(label, 640)),
            ObjectEvent::Mark { label } => writeln!(line, "@ MARK {}", LineName(label, 640)),
        };
        line
    }

    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

impl Write for ObjectLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// A name in a line: line ends become spaces, and it is truncated to the given number of bytes.
struct LineName<'a>(&'a str, usize);

impl fmt::Display for LineName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mut text, most) = *self;
        if text.len() > most {
            let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text = &text[..end];
        }
        for (number, part) in text.split(['\n', '\r']).enumerate() {
            if number > 0 {
                f.write_char(' ')?;
            }
            f.write_str(part)?;
        }
        if text.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// A name inside a JSON string. A character that would need an escape becomes one that needs none: names of files, types and variables hardly ever
/// have one, and the length of the line stays bounded.
struct JsonText<'a>(LineName<'a>);

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Plain(f), "{}", self.0)
    }
}

struct Plain<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Plain<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| {
            self.0.write_char(match character {
                '"' => '\'',
                '\\' => '/',
                control if control.is_control() => ' ',
                other => other,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    fn text(event: &ObjectEvent<'_>) -> String {
        String::from_utf8(ObjectLine::of(event).bytes().to_vec()).expect("lines are UTF-8")
    }

    #[test]
    fn every_event_has_its_line() {
        let location = Location::caller();
        let here = format!("{}:{}", location.file(), location.line());
        let birth = |variable| ObjectEvent::Allocate { id: 0, bytes: 24, type_name: "Map<K, V>", location, variable };
        assert_eq!(text(&birth(None)), format!("@ ALLOCATE 24 {here} Map<K, V> 0\n"));
        let (file, line) = (location.file(), location.line());
        let named = format!(
            "@ {{\"event\":\"ALLOCATE\",\"bytes\":24,\"file\":\"{file}\",\"line\":{line},\"type\":\"Map<K, V>\",\"id\":0,\"variable\":\"self.a'b\"}}\n"
        );
        assert_eq!(text(&birth(Some("self.a\"b"))), named);
        let drop = |reported| ObjectEvent::Drop { id: 7, bytes: 80, reported, type_name: "T", same_thread: true };
        assert_eq!(text(&drop(None)), "@ DROP 80 T 7\n");
        assert_eq!(text(&drop(Some(24))), "@ RESIZE 80 T 7\n@ DROP 80 T 7\n");
        assert_eq!(text(&ObjectEvent::Memory { bytes: 9, label: "" }), "@ MEMORY 9\n");
        assert_eq!(text(&ObjectEvent::Memory { bytes: 9, label: "a\nb" }), "@ MEMORY 9 a b\n");
        assert_eq!(text(&ObjectEvent::Mark { label: "one" }), "@ MARK one\n");
    }

    #[test]
    fn a_name_that_does_not_fit_is_cut_but_the_line_is_whole() {
        let long: &'static str = String::leak("ü".repeat(5000));
        let line =
            text(&ObjectEvent::Drop { id: 123, bytes: 8, reported: Some(1), type_name: long, same_thread: true });
        assert_eq!(line.lines().count(), 2);
        assert!(line.lines().all(|line| line.ends_with("ü… 123")), "{line}");
        assert!(line.ends_with('\n'));
    }
}
