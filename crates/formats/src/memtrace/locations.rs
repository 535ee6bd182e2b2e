//! Descriptions of location codes: files, functions, lines and columns.

use super::bytes::PacketCursor;
use super::header::TIME_BITS;
use super::names::{NEW, NameTables, OptionalName};
use highwater_model::ColumnRange;
use std::sync::Arc;

/// The code of an event that describes a location.
pub const CODE: u32 = 1;
/// The largest line, start column and end column that fit in a record. Larger and unknown values become these.
pub const MOST_LINE: u32 = 0xF_FFFF;
/// See [`MOST_LINE`].
pub const MOST_START: u16 = 0xFF;
/// See [`MOST_LINE`].
pub const MOST_END: u16 = 0x3FF;
/// Limit for the length of a name: a location event must fit into the room that a writer leaves for it.
const LONGEST_NAME: usize = 4096;

/// A source location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: OptionalName,
    /// The function, with its module.
    pub function: OptionalName,
    /// The line.
    pub line: u32,
    /// The columns of the line.
    pub columns: ColumnRange,
}

/// The description of a location code: empty if nothing is known, several source locations if functions were inlined, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The code: the return address of a call.
    pub code: u64,
    /// The source locations.
    pub locations: Vec<Location>,
    /// True if they are the likeliest reading of damaged bytes.
    pub is_guess: bool,
}

/// The fields of a record, as they are stored in 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationRecord {
    /// The line.
    pub line: u32,
    /// The first column.
    pub start: u16,
    /// The column after the last.
    pub end: u16,
    /// The index of the file, most recently used first.
    pub file: usize,
    /// The index of the function within the file.
    pub function: usize,
}

impl LocationRecord {
    /// Reads the six bytes.
    pub fn read(input: &mut PacketCursor<'_>) -> Option<Self> {
        let bits = u64::from(input.u32()?) | u64::from(input.u16()?) << 32;
        Some(Self {
            line: (bits & u64::from(MOST_LINE)) as u32,
            start: (bits >> 20 & u64::from(MOST_START)) as u16,
            end: (bits >> 28 & u64::from(MOST_END)) as u16,
            file: (bits >> 38 & 31) as usize,
            function: (bits >> 43 & 31) as usize,
        })
    }

    /// Appends the six bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        let bits = u64::from(self.line.min(MOST_LINE))
            | u64::from(self.start.min(MOST_START)) << 20
            | u64::from(self.end.min(MOST_END)) << 28
            | (self.file as u64) << 38
            | (self.function as u64) << 43;
        out.extend_from_slice(&bits.to_le_bytes()[..6]);
    }
}

/// Reads a name that is written out; `None` if it cannot be a name.
pub fn read_name(input: &mut PacketCursor<'_>) -> Option<Arc<str>> {
    let bytes = input.text()?;
    let sound = bytes.len() <= LONGEST_NAME && bytes.iter().all(|&byte| byte >= b' ' && byte != 0x7f);
    sound.then(|| Arc::from(String::from_utf8_lossy(bytes)))
}

/// Reads the names of a record and selects them in the tables; `None` if they are missing. `file` and `function` are the indexes in the record.
pub fn read_names(input: &mut PacketCursor<'_>, tables: &mut NameTables, file: usize, function: usize) -> Option<()> {
    if file == NEW {
        tables.add_file(Some(read_name(input)?));
    } else {
        tables.use_file(file).then_some(())?;
    }
    if function == NEW {
        tables.add_function(Some(read_name(input)?));
    } else {
        tables.use_function(function).then_some(())?;
    }
    Some(())
}

/// Reads one event after its header; `None` if it is malformed.
pub fn read(input: &mut PacketCursor<'_>, tables: &mut NameTables) -> Option<Described> {
    let code = input.int63()? as u64;
    let count = input.u8()?;
    let mut locations = Vec::with_capacity(count.into());
    for _ in 0..count {
        let LocationRecord { line, start, end, file, function } = LocationRecord::read(input)?;
        read_names(input, tables, file, function)?;
        let columns = ColumnRange { start, end };
        locations.push(Location { file: tables.file(), function: tables.function(), line, columns });
    }
    Some(Described { code, locations, is_guess: false })
}

/// The result of reading a packet that has only locations.
pub struct LocationRun {
    /// The locations that were read.
    pub described: Vec<Described>,
    /// The offset where reading stopped: the end, or the malformed event.
    pub end: usize,
}

/// Reads a packet that has only locations, all with the same time, from its first event on.
pub fn read_run(content: &[u8], tables: &mut NameTables) -> LocationRun {
    let mut described = Vec::new();
    let mut input = PacketCursor::new(content, 0);
    let mut end = 0;
    let first = PacketCursor::new(content, 0).u32();
    while !input.is_at_end() && input.u32() == first {
        match read(&mut input, tables) {
            Some(one) => described.push(one),
            None => break,
        }
        end = input.at;
    }
    LocationRun { described, end }
}

/// The header of the events in a packet that has only locations; `None` if it has other events.
pub fn only_event(content: &[u8], time_begin: i64, time_end: i64) -> Option<u32> {
    let word = PacketCursor::new(content, 0).u32()?;
    let low = time_begin as u32 & ((1 << TIME_BITS) - 1);
    (time_begin == time_end && word == CODE << TIME_BITS | low).then_some(word)
}

/// The module that a function is named after: `Stdlib__Set` of `Stdlib__Set.Make.bal`.
pub fn module_of(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

/// Whether a function is named after its file, as in OCaml: `Stdlib__Set.Make.bal` is in `set.ml`.
pub fn is_named_after(function: &str, file: &str) -> bool {
    let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = stem.split('.').next().unwrap_or(stem);
    let module = module_of(function);
    let module = module.rsplit("__").next().unwrap_or(module);
    module.eq_ignore_ascii_case(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_put_and_too_large_numbers_become_the_largest() {
        let record = LocationRecord { line: 9, start: 10, end: 17, file: 31, function: 31 };
        let mut bytes = Vec::new();
        record.put(&mut bytes);
        // From the format's own example.
        assert_eq!(bytes, [0x09, 0x00, 0xa0, 0x10, 0xc1, 0xff]);
        assert_eq!(LocationRecord::read(&mut PacketCursor::new(&bytes, 0)), Some(record));
        let large = LocationRecord { line: u32::MAX, start: 300, end: 5000, file: 1, function: 2 };
        bytes.clear();
        large.put(&mut bytes);
        let clamped = LocationRecord { line: MOST_LINE, start: MOST_START, end: MOST_END, ..large };
        assert_eq!(LocationRecord::read(&mut PacketCursor::new(&bytes, 0)), Some(clamped));
    }

    #[test]
    fn functions_are_named_after_their_files() {
        for (function, file) in [
            ("Stdlib__Set.Make.bal", "set.ml"),
            ("Full", "full.ml"),
            ("Memtrace__Memprof_tracer.ext", "src/memprof_tracer.ml"),
            ("Dune__exe__Main.f.(fun)", "bin/main.ml"),
        ] {
            assert!(is_named_after(function, file), "{function} {file}");
        }
        assert!(!is_named_after("Part3.f1", "src/part4.ml"));
    }
}
