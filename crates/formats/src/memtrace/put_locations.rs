//! Writes the descriptions of location codes.

use super::locations::{self, LocationRecord};
use super::names::{NEW, NameTables};
use highwater_model::{Catalog, FrameId};
use std::sync::Arc;

/// Limit for the bytes of a description. A longer one is replaced.
const MOST_BYTES: usize = 4096;
/// The bytes of an event's header, code and count.
const HEAD: usize = 9;
/// Replaces a description that is too long.
const TOO_LONG: (&str, &str) = ("<unknown>", "??");

/// A source location as it is written.
struct WrittenLocation {
    file: Arc<str>,
    function: Arc<str>,
    line: u32,
    start: u16,
    end: u16,
}

/// Appends the description of a code, after the header of its event. `frame` is the frame of the code.
pub fn put(code: u64, frame: FrameId, catalog: &Catalog, tables: &mut NameTables, out: &mut Vec<u8>) {
    let mut locations = locations_of(frame, catalog);
    let length: usize =
        locations.iter().map(|location| 6 + location.file.len() + 1 + location.function.len() + 1).sum();
    if locations.len() > 255 || HEAD + length > MOST_BYTES {
        let (file, function) = (Arc::from(TOO_LONG.0), Arc::from(TOO_LONG.1));
        locations = vec![WrittenLocation { file, function, line: 1, start: 1, end: 1 }];
    }
    out.extend_from_slice(&code.to_le_bytes());
    out.push(locations.len() as u8);
    for location in locations {
        let file = tables.find_file(&location.file);
        match file {
            Some(index) => drop(tables.use_file(index)),
            None => tables.add_own_file(Arc::clone(&location.file)),
        }
        let function = tables.find_function(&location.function);
        match function {
            Some(index) => drop(tables.use_function(index)),
            None => tables.add_function(Some(Arc::clone(&location.function))),
        }
        let WrittenLocation { line, start, end, .. } = location;
        LocationRecord { line, start, end, file: file.unwrap_or(NEW), function: function.unwrap_or(NEW) }.put(out);
        for (text, is_new) in [(&location.file, file.is_none()), (&location.function, function.is_none())] {
            if is_new {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
        }
    }
}

/// The source locations of a frame, outermost first; none if only an address is known.
fn locations_of(frame: FrameId, catalog: &Catalog) -> Vec<WrittenLocation> {
    let frames = catalog.stacks.frame_ids(frame).rev().filter_map(|id| catalog.stacks.frame(FrameId(id)));
    let texts = frames.map(|frame| catalog.frame_text(frame));
    let known = texts.filter(|text| !text.function.is_empty() || !text.file.is_empty() || text.line != 0);
    known
        .map(|text| {
            // Without a source file, the module at least shows the origin.
            let file = if text.file.is_empty() { text.module } else { text.file };
            WrittenLocation {
                file: name(file),
                function: name(text.function),
                line: text.line.min(locations::MOST_LINE),
                start: text.columns.start,
                end: text.columns.end,
            }
        })
        .collect()
}

/// A name up to the first byte that would end it.
fn name(text: &str) -> Arc<str> {
    if text.bytes().all(|byte| byte >= b' ' && byte != 0x7f) {
        return Arc::from(text);
    }
    let printable = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().map(printable).collect::<String>().into()
}
