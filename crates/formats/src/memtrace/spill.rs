//! Locations whose columns did not fit, as encoders before September 2024 wrote them.
//!
//! Those encoders truncated both columns to twelve bits instead of eight and ten, and put them into the record without truncating them further. So
//! the upper bits of the end column overwrite the two lowest bits of the file's index. A reader that takes the index as it is misses a name, or finds
//! one where there is none, and cannot read the rest. But only certain indexes are possible, names look like names, functions are named after their
//! files, and the following events must fit. So all readings are followed in parallel, the most likely ones first, and the likeliest one that ends
//! exactly at the end of the packet is used.

use super::bytes::PacketCursor;
use super::locations::{Described, Location, LocationRecord, MOST_END, is_named_after, module_of, read_names};
use super::names::{NEW, NameTables};
use highwater_model::ColumnRange;
use std::rc::Rc;
use std::sync::Arc;

/// Limit for the number of readings that are followed.
const MOST_READINGS: usize = 24;

/// Costs of unlikely findings.
mod cost {
    /// A name is written out though an index would have been sufficient.
    pub const NAMED_AGAIN: u32 = 4;
    /// Other functions of its module are in another file.
    pub const OTHER_FILE: u32 = 5;
    /// A function is not named after its file …
    pub const OTHER_NAME: u32 = 2;
    /// … and other functions of that file are of another module.
    pub const OTHER_MODULE: u32 = 4;
    /// A code has another description than before.
    pub const DESCRIBED_OTHERWISE: u32 = 6;
    /// The end column had more than ten bits.
    pub const SPILLED: u32 = 2;
    /// The end column had all twelve bits set, as an unknown column has.
    pub const SPILLED_UNKNOWN: u32 = 1;
    /// The end column looks truncated, but is taken as it is.
    pub const LOOKS_CUT: u32 = 2;
    /// The end column lies before the start column.
    pub const BACKWARDS: u32 = 1;
}

/// The history of one reading: the latest item first.
struct Past {
    before: Option<Rc<Past>>,
    item: ReadingItem,
}

/// A code or a location of a reading.
enum ReadingItem {
    Code(u64),
    Location(Location),
}

/// One possible reading of the packet.
#[derive(Clone)]
struct CandidateReading {
    at: usize,
    tables: NameTables,
    cost: u32,
    past: Option<Rc<Past>>,
    code: u64,
    records: u8,
}

impl CandidateReading {
    fn remember(&mut self, item: ReadingItem) {
        self.past = Some(Rc::new(Past { before: self.past.take(), item }));
    }

    fn described(&self) -> Vec<Described> {
        let mut found: Vec<Described> = Vec::new();
        let mut locations = Vec::new();
        let mut past = self.past.as_ref();
        while let Some(one) = past {
            match &one.item {
                ReadingItem::Location(location) => locations.push(location.clone()),
                ReadingItem::Code(code) => {
                    locations.reverse();
                    found.push(Described { code: *code, locations: std::mem::take(&mut locations), is_guess: true });
                }
            }
            past = one.before.as_ref();
        }
        found.reverse();
        found
    }
}

/// Facts known from the rest of the trace.
pub trait KnownLocations {
    /// The description of a code.
    fn locations(&self, code: u64) -> Option<Vec<Location>>;
    /// The file of a module.
    fn file_of(&self, module: &str) -> Option<Arc<str>>;
}

/// True if the columns of a record look as if they had not fitted, or if a name looks like the wrong one.
pub fn is_suspicious(described: &[Described]) -> bool {
    described.iter().flat_map(|one| &one.locations).any(|location| {
        let ColumnRange { start, end } = location.columns;
        let misnamed = match (&location.function, &location.file) {
            (Some(function), Some(file)) => !is_named_after(function, file),
            _ => false,
        };
        end == MOST_END || end < start || misnamed
    })
}

/// Finds the likeliest reading of a packet that has only locations. `None` if there is none, or if `effort` is used up: each step of each reading
/// takes one.
pub fn read(
    content: &[u8],
    tables: &NameTables,
    known: &impl KnownLocations,
    effort: &mut u64,
) -> Option<(Vec<Described>, NameTables)> {
    let event = PacketCursor::new(content, 0).u32()?;
    let start = CandidateReading { at: 0, tables: tables.clone(), cost: 0, past: None, code: 0, records: 0 };
    let mut readings = vec![start];
    let mut best: Option<CandidateReading> = None;
    while !readings.is_empty() {
        let mut next = Vec::new();
        for reading in readings {
            *effort = effort.checked_sub(1)?;
            for reading in step(reading, content, event, known) {
                let is_better = best.as_ref().is_none_or(|best| reading.cost < best.cost);
                if reading.records == 0 && reading.at == content.len() {
                    if is_better {
                        best = Some(reading);
                    }
                } else if is_better {
                    next.push(reading);
                }
            }
        }
        next.sort_by_key(|reading| reading.cost);
        next.truncate(MOST_READINGS);
        readings = next;
    }
    best.map(|best| (best.described(), best.tables))
}

/// All continuations of a reading by one record.
fn step(
    mut reading: CandidateReading,
    content: &[u8],
    event: u32,
    known: &impl KnownLocations,
) -> Vec<CandidateReading> {
    if reading.records == 0 {
        let mut input = PacketCursor::new(content, reading.at);
        let header = (input.u32(), input.int63(), input.u8());
        let (Some(word), Some(code), Some(count)) = header else { return Vec::new() };
        if word != event {
            return Vec::new();
        }
        (reading.at, reading.code, reading.records) = (input.at, code as u64, count);
        reading.remember(ReadingItem::Code(code as u64));
        if count == 0 {
            return vec![reading];
        }
    }
    let mut input = PacketCursor::new(content, reading.at);
    let Some(record) = LocationRecord::read(&mut input) else { return Vec::new() };
    let spills = (0..4).filter(|spill| record.file & spill == *spill);
    spills.filter_map(|spill| read_as(&reading, input, &record, spill, known)).collect()
}

/// Reads a record as if the two upper bits of its end column, of twelve, were `spill`.
fn read_as(
    before: &CandidateReading,
    mut input: PacketCursor<'_>,
    record: &LocationRecord,
    spill: usize,
    known: &impl KnownLocations,
) -> Option<CandidateReading> {
    let file = record.file & !spill;
    let mut reading = before.clone();
    let at = input;
    if file == NEW {
        let named_again = before.tables.has_file(std::str::from_utf8(input.text()?).ok()?);
        reading.cost += if named_again { cost::NAMED_AGAIN } else { 0 };
        input = at;
    }
    read_names(&mut input, &mut reading.tables, file, record.function)?;
    let end = (spill << 10) as u16 | record.end;
    let columns = ColumnRange { start: record.start, end: if end == 0xFFF { MOST_END } else { end } };
    let (name, file) = (reading.tables.function(), reading.tables.file());
    reading.cost += cost_of_columns(record, spill);
    if let (Some(name), Some(file)) = (&name, &file) {
        reading.cost += cost_of_name(name, file, &reading.tables, known);
    }
    let location = Location { file, function: name, line: record.line, columns };
    if let Some(known) = known.locations(reading.code) {
        let index = known.len().checked_sub(reading.records.into());
        let same = index.and_then(|index| known.get(index)).is_some_and(|known| {
            (&known.file, &known.function, known.line) == (&location.file, &location.function, location.line)
        });
        reading.cost += if same { 0 } else { cost::DESCRIBED_OTHERWISE };
    }
    reading.remember(ReadingItem::Location(location));
    reading.at = input.at;
    reading.records -= 1;
    Some(reading)
}

/// The cost of a function's name: 0 if the function is named after its file, or like others of that file.
fn cost_of_name(name: &str, file: &str, tables: &NameTables, known: &impl KnownLocations) -> u32 {
    if let Some(known) = known.file_of(module_of(name)) {
        return if *known == *file { 0 } else { cost::OTHER_FILE };
    }
    if is_named_after(name, file) {
        return 0;
    }
    let mut others = tables.functions().skip(1).peekable();
    if others.peek().is_none() {
        return cost::OTHER_NAME;
    }
    if others.any(|other| module_of(other) == module_of(name)) { 0 } else { cost::OTHER_MODULE }
}

fn cost_of_columns(record: &LocationRecord, spill: usize) -> u32 {
    let all_bits = record.end == MOST_END;
    match spill {
        0 if all_bits && record.file & 3 == 3 => cost::LOOKS_CUT,
        0 if record.end < record.start => cost::BACKWARDS,
        0 => 0,
        3 if all_bits => cost::SPILLED_UNKNOWN,
        _ => cost::SPILLED,
    }
}
