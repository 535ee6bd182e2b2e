//! Prepares a module for the host. Its code does not change, but the host gets control of its state:
//!
//! * Its memory is imported, so that it lies in the host's pages ([`crate::memory`]).
//! * Its globals and tables are exported, and all functions if it changes its tables, so that they can be restored after a trap.
//! * It has no start section: the host calls the start function once, and not again when the module is instantiated again after a trap.

use super::BadModule;
use super::facts::ModuleFacts;
use highwater_image::wasm::{HEADER, WasmSection};

/// The module from which the memory is imported.
pub const OURS: &str = "highwater";
/// The name of the memory.
pub const MEMORY: &str = "memory";

/// The name under which a global is exported.
pub fn global_export(index: usize) -> String {
    format!("highwater:global:{index}")
}

/// The name under which a table is exported.
pub fn table_export(index: usize) -> String {
    format!("highwater:table:{index}")
}

/// The name under which a function is exported.
pub fn function_export(index: usize) -> String {
    format!("highwater:function:{index}")
}

const TYPES: u8 = 1;
const IMPORTS: u8 = 2;
const MEMORIES: u8 = 5;
const EXPORTS: u8 = 7;
const START: u8 = 8;
/// The order of sections in a file.
const ORDER: [u8; 13] = [TYPES, IMPORTS, 3, 4, MEMORIES, 13, 6, EXPORTS, START, 9, 12, 10, 11];

/// Rewrites the sections of a module: memory imported, globals and tables exported, start section removed.
pub fn prepare(sections: &[WasmSection<'_>], facts: &ModuleFacts) -> Result<Vec<u8>, BadModule> {
    let first = |id| sections.iter().find(|section| section.id == id);
    let mut imports = SectionEntries::new();
    if let Some(memory) = &facts.own_memory {
        imports.begin(OURS);
        imports.name(MEMORY);
        imports.bytes.push(2);
        // The initial size is 0. The host grows the memory in steps, because the engine touches all memory that it adds.
        imports.bytes.push(u8::from(memory.maximum_pages.is_some()) | u8::from(memory.is_wide) << 2);
        imports.bytes.push(0);
        if let Some(maximum) = memory.maximum_pages {
            push_number(&mut imports.bytes, maximum);
        }
    }
    let mut exports = SectionEntries::new();
    for index in 0..facts.globals.len() {
        exports.add(&global_export(index), 3, index as u32);
    }
    for index in 0..facts.tables {
        exports.add(&table_export(index as usize), 1, index);
    }
    let functions = if facts.changes_tables { (0..facts.functions).collect() } else { Vec::from_iter(facts.start) };
    for index in functions {
        exports.add(&function_export(index as usize), 0, index);
    }
    let mut module = HEADER.to_vec();
    for id in ORDER {
        match id {
            IMPORTS => push_section(&mut module, id, &joined(first(id), &imports)?),
            EXPORTS => push_section(&mut module, id, &joined(first(id), &exports)?),
            MEMORIES if facts.own_memory.is_some() => {}
            START => {}
            _ => {
                for section in sections.iter().filter(|section| section.id == id) {
                    push_section(&mut module, id, section.content);
                }
            }
        }
    }
    Ok(module)
}

/// Entries to be added to a section.
struct SectionEntries {
    count: u32,
    bytes: Vec<u8>,
}

impl SectionEntries {
    fn new() -> Self {
        Self { count: 0, bytes: Vec::new() }
    }

    fn begin(&mut self, name: &str) {
        self.count += 1;
        self.name(name);
    }

    fn name(&mut self, name: &str) {
        push_number(&mut self.bytes, name.len() as u64);
        self.bytes.extend(name.as_bytes());
    }

    fn add(&mut self, name: &str, kind: u8, index: u32) {
        self.begin(name);
        self.bytes.push(kind);
        push_number(&mut self.bytes, index.into());
    }
}

/// A section's content with entries added.
fn joined(section: Option<&WasmSection<'_>>, added: &SectionEntries) -> Result<Vec<u8>, BadModule> {
    let (count, entries) = section.and_then(WasmSection::entries).unwrap_or((0, &[]));
    let count = count.checked_add(added.count).ok_or(BadModule::TooManyEntries)?;
    let mut joined = Vec::with_capacity(entries.len() + added.bytes.len() + 5);
    push_number(&mut joined, count.into());
    joined.extend(entries);
    joined.extend(&added.bytes);
    Ok(joined)
}

/// Appends a number (LEB128).
fn push_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn push_section(module: &mut Vec<u8>, id: u8, content: &[u8]) {
    module.push(id);
    push_number(module, content.len() as u64);
    module.extend(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Option<(u32, usize)> {
        let section = WasmSection { id: IMPORTS, start: 0, offset: 2, content };
        section.entries().map(|(number, rest)| (number, content.len() - rest.len()))
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 1, 127, 128, 300, 1 << 20, u32::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, value.into());
            assert_eq!(read(&bytes), Some((value, bytes.len())));
        }
        assert_eq!(read(&[0x80, 0x80]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x7f]), None);
    }
}
