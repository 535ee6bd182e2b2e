//! The facts that a WASM module states about itself, read with `wasmparser`. Nothing is validated and no code runs: lenses need names and start addresses,
//! the host what it must keep and restore.
//!
//! A module is hostile input. What cannot be read is a [`WasmError`] with its offset, except in custom sections, which are left out; memory is bounded by the
//! length of the module.

mod code;
mod packed;
mod read;
mod sections;

pub use code::Instruction;
pub use packed::unpacked;
pub use sections::{HEADER, WasmSection, sections};

use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::ops::Range;

/// Why bytes are not a module that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WasmError {
    /// They do not begin as a module does.
    #[error("not a WASM module")]
    NotWasm,
    /// They are compressed, and cannot be unpacked: why.
    #[error("a gzip file that cannot be unpacked: {0}")]
    Packed(String),
    /// A section goes beyond the end.
    #[error("not a sound WASM module: the section at byte {section} is cut off")]
    CutOff {
        /// The offset at which the section begins.
        section: usize,
    },
    /// A section cannot be read.
    #[error("not a sound WASM module: {problem} at byte {offset}")]
    Malformed {
        /// What is wrong.
        problem: String,
        /// The offset at which it is wrong.
        offset: usize,
    },
}

impl From<wasmparser::BinaryReaderError> for WasmError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed { problem: error.message().to_owned(), offset: error.offset() }
    }
}

/// A memory that a module defines or imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasmMemory {
    /// True if it is imported.
    pub is_imported: bool,
    /// True if addresses have 64 bits.
    pub is_wide: bool,
    /// Its initial size, in pages.
    pub initial_pages: u64,
    /// Its maximum size, in pages.
    pub maximum_pages: Option<u64>,
    /// The size of a page in bytes.
    pub page_bytes: u64,
}

/// The type of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalType {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A type that is not a number.
    Other,
}

/// A global of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasmGlobal {
    /// Its type.
    pub ty: GlobalType,
    /// True if it can change.
    pub is_mutable: bool,
    /// Its initial value, if that is a constant integer; none for imported ones.
    pub value: Option<i64>,
}

impl WasmGlobal {
    /// The bits of its initial value.
    pub fn bits(&self) -> Option<u64> {
        self.value.map(|value| if self.ty == GlobalType::I32 { u64::from(value as u32) } else { value as u64 })
    }
}

/// A WASM module, as far as it is understood. Missing parts are empty.
#[derive(Default)]
pub struct WasmModule {
    /// Its memories, imported ones first.
    pub memories: Vec<WasmMemory>,
    /// Its globals by index, imported ones first.
    pub globals: Vec<WasmGlobal>,
    /// The number of its tables, imported ones included.
    pub tables: u32,
    /// The number of its functions, imported ones included.
    pub functions: u32,
    /// The index of its start function.
    pub start: Option<u32>,
    /// The end of its data, as far as its address is constant.
    pub data_end: u64,
    /// The first import that is neither function, table, memory nor global: `module.name`.
    pub other_import: Option<String>,
    /// True for a canister: it uses the system API of the Internet Computer.
    pub is_canister: bool,
    /// The Candid interface that it carries.
    pub interface: Option<String>,
    /// True if it says that its heap persists (Motoko's enhanced orthogonal persistence).
    pub has_persistent_heap: bool,
    /// The labels of a Motoko program: names of fields and variants.
    pub labels: Vec<String>,
    /// Types of a Motoko program's stable variables, as text.
    pub stable_types: String,
    exported_globals: Vec<(u32, String)>,
    global_names: Vec<(u32, String)>,
    function_names: FxHashMap<u32, String>,
    /// By function and local.
    local_names: FxHashMap<(u32, u32), String>,
    imported_functions: u32,
    /// The content of the code section, and its offset in the file.
    code: Vec<u8>,
    code_offset: usize,
    /// The bodies of functions within the code section.
    bodies: Vec<Range<usize>>,
    /// Functions by their index in the table.
    table: FxHashMap<u64, u32>,
}

impl WasmModule {
    /// Reads a module, which may be compressed with gzip. Sections that are not needed here are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, WasmError> {
        Self::of_sections(&sections(&unpacked(bytes)?)?)
    }

    /// The same, of a module that is split into sections already.
    pub fn of_sections(sections: &[WasmSection<'_>]) -> Result<Self, WasmError> {
        let mut module = Self::default();
        sections.iter().try_for_each(|section| module.read_section(section))?;
        Ok(module)
    }

    /// The memory of the program: its own, or the one that it imports.
    pub fn memory(&self) -> Option<&WasmMemory> {
        self.own_memory().or(self.memories.last())
    }

    /// The memory that it defines.
    pub fn own_memory(&self) -> Option<&WasmMemory> {
        self.memories.iter().find(|memory| !memory.is_imported)
    }

    /// The width of its addresses, as sidecars write it.
    pub fn memory_kind(&self) -> &'static str {
        if self.is_wide() { "memory64" } else { "memory32" }
    }

    /// True if addresses have 64 bits.
    pub fn is_wide(&self) -> bool {
        self.memory().is_some_and(|memory| memory.is_wide)
    }

    /// A function's name.
    pub fn function_name(&self, function: u32) -> Option<&str> {
        self.function_names.get(&function).map(String::as_str)
    }

    /// The name of a function's local: a parameter or a variable.
    pub fn local_name(&self, function: u32, local: u32) -> Option<&str> {
        self.local_names.get(&(function, local)).map(String::as_str)
    }

    /// The functions in the table, by their index there.
    pub fn functions_in_table(&self) -> impl Iterator<Item = (u64, u32)> {
        self.table.iter().map(|(&index, &function)| (index, function))
    }

    /// The function with a name.
    pub fn function_named(&self, name: &str) -> Option<u32> {
        let found = self.function_names.iter().filter(|(_, other)| *other == name).map(|(&index, _)| index);
        found.min()
    }

    /// True if a function has this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.function_named(name).is_some()
    }

    /// The instructions of the function with a name, up to the first that cannot be read.
    pub fn instructions_of(&self, name: &str) -> Option<Vec<Instruction>> {
        Some(self.instructions_in(self.function_named(name)?)?.collect())
    }

    /// The instructions of a function, up to the first that cannot be read.
    pub fn instructions_in(&self, function: u32) -> Option<impl Iterator<Item = Instruction> + '_> {
        let index = function.checked_sub(self.imported_functions)?;
        let body = self.bodies.get(usize::try_from(index).ok()?)?;
        code::instructions(&self.code[body.clone()], self.code_offset + body.start)
    }

    /// The global that a function returns, given the function's name.
    pub fn global_returned_by(&self, name: &str) -> Option<u32> {
        match self.instructions_of(name)?.first()? {
            Instruction::GlobalGet(index) => Some(*index),
            _ => None,
        }
    }

    /// True if its code ever changes a table. Reads all code.
    pub fn changes_tables(&self) -> Result<bool, WasmError> {
        for body in &self.bodies {
            if code::changes_table(&self.code[body.clone()], self.code_offset + body.start)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The initial value of a global.
    pub fn global(&self, index: u32) -> Option<i64> {
        self.globals.get(usize::try_from(index).ok()?)?.value
    }

    /// The exported global with a name.
    pub fn exported_global(&self, name: &str) -> Option<&WasmGlobal> {
        let (index, _) = self.exported_globals.iter().find(|(_, exported)| exported == name)?;
        self.globals.get(usize::try_from(*index).ok()?)
    }

    /// The globals that the Internet Computer keeps, by index, in the order in which it lists their values: exported ones as they are exported, then all
    /// other mutable ones.
    pub fn kept_globals(&self) -> Vec<u32> {
        let mut kept: Vec<u32> = self.exported_globals.iter().map(|(index, _)| *index).collect();
        let exported: FxHashSet<u32> = kept.iter().copied().collect();
        let other =
            self.globals.iter().zip(0..).filter(|(global, index)| global.is_mutable && !exported.contains(index));
        kept.extend(other.map(|(_, index)| index));
        kept
    }

    /// A unique name for each global: the one under which it is exported, else its debug name, else `global_` and its number.
    pub fn unique_global_names(&self) -> Vec<String> {
        let mut wanted: FxHashMap<u32, &str> = FxHashMap::default();
        for (index, name) in self.exported_globals.iter().chain(&self.global_names) {
            wanted.entry(*index).or_insert(name);
        }
        let mut taken = FxHashSet::default();
        let mut name = |index: u32| {
            let wanted = wanted.get(&index).copied().filter(|name| !taken.contains(*name)).map(str::to_owned);
            let name = wanted.unwrap_or_else(|| format!("global_{index}"));
            taken.insert(name.clone());
            name
        };
        (0..self.globals.len() as u32).map(&mut name).collect()
    }
}

impl fmt::Debug for WasmModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memories, bodies, labels, .. } = self;
        write!(f, "WasmModule({memories:?}, {} functions, {} labels)", bodies.len(), labels.len())
    }
}
