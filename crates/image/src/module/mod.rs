//! The module of an image, as far as lenses need it: names, and start addresses.

mod code;
mod reader;

pub use code::Instruction;
use code::Instructions;
use reader::Reader;
use rustc_hash::FxHashMap;
use std::fmt;

/// The most entries that are read of any table: real modules have far fewer, and hostile ones cannot make us allocate more.
const MOST_ENTRIES: u64 = 1 << 20;

/// A WASM module, as far as it is understood. Missing parts are empty.
#[derive(Default)]
pub struct Module {
    /// The initial size of its memory, in pages.
    pub initial_pages: u64,
    /// True if addresses have 64 bits.
    pub is_wide: bool,
    /// The initial values of its globals, if they are numbers; imported ones are left out.
    pub globals: Vec<Option<i64>>,
    /// The end of its data, as far as its address is constant.
    pub data_end: u64,
    /// The labels of a Motoko program: names of fields and variants.
    pub labels: Vec<String>,
    /// Types of a Motoko program's stable variables, as text.
    pub stable_types: String,
    function_names: FxHashMap<u64, String>,
    exported_globals: FxHashMap<String, u64>,
    imported_functions: u64,
    imported_globals: u64,
    bodies: Vec<Vec<u8>>,
    /// Functions by their index in the table.
    table: FxHashMap<u64, u64>,
}

/// Why bytes are not a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAModule {
    /// The offset at which they stop being valid.
    pub offset: u64,
}

impl fmt::Display for NotAModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => f.write_str("not a WASM module"),
            offset => write!(f, "not a whole WASM module: the section at {offset:#x} cannot be read"),
        }
    }
}

impl std::error::Error for NotAModule {}

impl Module {
    /// Reads a module. Sections that are not needed here are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotAModule> {
        let Some(rest) = bytes.strip_prefix(b"\0asm\x01\0\0\0") else { return Err(NotAModule { offset: 0 }) };
        let mut module = Self::default();
        let mut rest = Reader::new(rest);
        let mut offset = 8;
        while !rest.is_empty() {
            let before = rest;
            let mut read = || -> Option<()> {
                let id = rest.byte()?;
                let section = rest.section()?;
                module.section(id, section)
            };
            read().ok_or(NotAModule { offset })?;
            offset += before.length() - rest.length();
        }
        Ok(module)
    }

    fn section(&mut self, id: u8, mut section: Reader<'_>) -> Option<()> {
        match id {
            0 => {
                let name = section.name()?;
                // A custom section that cannot be read does not make the module invalid.
                let _ = match name {
                    "name" => self.names(section),
                    "motoko" => self.labels(section),
                    "icp:private motoko:stable-types" | "icp:public motoko:stable-types" => {
                        self.stable_types = String::from_utf8_lossy(section.remaining()).into_owned();
                        Some(())
                    }
                    _ => Some(()),
                };
                Some(())
            }
            2 => self.imports(section),
            5 => {
                if section.number()? > 0 {
                    (self.is_wide, self.initial_pages) = section.limits()?;
                }
                Some(())
            }
            6 => each(section, |section| {
                section.signed()?;
                section.byte()?;
                self.globals.push(section.constant()?);
                Some(())
            }),
            7 => each(section, |section| {
                let name = section.name()?;
                let kind = section.byte()?;
                let index = section.number()?;
                if kind == 3 {
                    self.exported_globals.insert(name.to_owned(), index);
                }
                Some(())
            }),
            9 => {
                // Unknown kinds of segments leave the rest of the table unknown.
                let _ = each(section, |section| self.elements(section));
                Some(())
            }
            10 => each(section, |section| {
                let body = section.section()?;
                self.bodies.push(body.remaining().to_vec());
                Some(())
            }),
            11 => each(section, |section| {
                let flags = section.number()?;
                if flags == 2 {
                    section.number()?;
                }
                let start = if flags == 1 { None } else { section.constant()? };
                let length = section.number()?;
                section.bytes(length)?;
                let end =
                    start.and_then(|start| u64::try_from(start).ok()).map_or(0, |start| start.saturating_add(length));
                self.data_end = self.data_end.max(end);
                Some(())
            }),
            _ => Some(()),
        }
    }

    fn imports(&mut self, section: Reader<'_>) -> Option<()> {
        each(section, |section| {
            section.name()?;
            section.name()?;
            match section.byte()? {
                0 => {
                    section.number()?;
                    self.imported_functions += 1;
                }
                1 => {
                    section.signed()?;
                    section.limits()?;
                }
                2 => (self.is_wide, self.initial_pages) = section.limits()?,
                3 => {
                    section.signed()?;
                    section.byte()?;
                    self.imported_globals += 1;
                }
                _ => {
                    section.byte()?;
                    section.number()?;
                }
            }
            Some(())
        })
    }

    fn elements(&mut self, section: &mut Reader<'_>) -> Option<()> {
        let flags = section.number()?;
        if flags & 1 != 0 || flags & 4 != 0 {
            return None;
        }
        if flags == 2 {
            section.number()?;
        }
        let start = section.constant()?;
        if flags == 2 {
            section.byte()?;
        }
        let count = section.number()?;
        for place in 0..count.min(MOST_ENTRIES) {
            let function = section.number()?;
            if let Some(start) = start {
                self.table.insert((start as u64).wrapping_add(place), function);
            }
        }
        Some(())
    }

    fn names(&mut self, mut section: Reader<'_>) -> Option<()> {
        while !section.is_empty() {
            let id = section.byte()?;
            let part = section.section()?;
            if id == 1 {
                each(part, |part| {
                    let index = part.number()?;
                    let name = part.name()?;
                    self.function_names.insert(index, name.to_owned());
                    Some(())
                })?;
            }
        }
        Some(())
    }

    fn labels(&mut self, mut section: Reader<'_>) -> Option<()> {
        if section.byte()? == 0 {
            each(section.section()?, |part| {
                self.labels.push(part.name()?.to_owned());
                Some(())
            })?;
        }
        Some(())
    }

    /// A function's name.
    pub fn function_name(&self, function: u64) -> Option<&str> {
        self.function_names.get(&function).map(String::as_str)
    }

    /// The names of the functions in the table, by their index.
    pub fn functions_in_table(&self) -> impl Iterator<Item = (u64, &str)> {
        self.table.iter().filter_map(|(&place, &function)| Some((place, self.function_name(function)?)))
    }

    /// The function with a name.
    pub fn function_named(&self, name: &str) -> Option<u64> {
        let found = self.function_names.iter().filter(|(_, other)| *other == name).map(|(&index, _)| index);
        found.min()
    }

    /// True if a function has this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.function_named(name).is_some()
    }

    /// The instructions of the function with a name, up to the first unknown one.
    pub fn instructions_of(&self, name: &str) -> Option<Vec<Instruction>> {
        let index = self.function_named(name)?.checked_sub(self.imported_functions)?;
        let body = self.bodies.get(usize::try_from(index).ok()?)?;
        Some(Instructions::of(body)?.collect())
    }

    /// The initial value of a global.
    pub fn global(&self, index: u64) -> Option<i64> {
        let index = index.checked_sub(self.imported_globals)?;
        *self.globals.get(usize::try_from(index).ok()?)?
    }

    /// The initial value of an exported global.
    pub fn exported_global(&self, name: &str) -> Option<i64> {
        self.global(*self.exported_globals.get(name)?)
    }
}

/// Reads a vector: a count, then that many entries, each read by `entry`.
fn each<'a>(mut section: Reader<'a>, mut entry: impl FnMut(&mut Reader<'a>) -> Option<()>) -> Option<()> {
    let count = section.number()?;
    if count > MOST_ENTRIES {
        return None;
    }
    for _ in 0..count {
        entry(&mut section)?;
    }
    Some(())
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { initial_pages, is_wide, bodies, labels, .. } = self;
        write!(f, "Module({initial_pages} pages, wide: {is_wide}, {} functions, {} labels)", bodies.len(), labels.len())
    }
}
