//! The facts about a module that the host needs before and while it runs.

use super::{BadModule, MemoryKind};
use highwater_image::WasmModule;
use highwater_image::wasm::{GlobalType, WasmMemory};

/// A global of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// The name under which it is exported, else its debug name, else `global_` and its number.
    pub name: String,
    /// Its type.
    pub ty: GlobalType,
    /// Whether it can change.
    pub is_mutable: bool,
}

/// The start of the heap in every module with enhanced orthogonal persistence.
const HEAP_OF_ENHANCED: u64 = 5 << 20;
/// Classical heaps of Motoko begin at multiples of this.
const HEAP_ALIGNMENT: u64 = 32;

/// The facts about a module that the host needs before and while it runs.
#[derive(Debug)]
pub struct ModuleFacts {
    /// The width of its memory's addresses.
    pub memory: MemoryKind,
    /// The initial and the maximum size of its memory, in bytes.
    pub memory_limits: (u64, Option<u64>),
    /// The memory, if the module defines it itself.
    pub(crate) own_memory: Option<WasmMemory>,
    /// Its globals, by index.
    pub globals: Vec<GlobalInfo>,
    /// The number of its tables.
    pub tables: u32,
    /// True if its code ever changes a table.
    pub changes_tables: bool,
    /// The number of its functions, imported ones included.
    pub functions: u32,
    /// The index of its start function.
    pub start: Option<u32>,
    /// The address at which its heap begins, if the module states it.
    pub heap_start: Option<u64>,
    /// Its Candid interface, if it carries one.
    pub interface: Option<String>,
    /// The labels of records and variants that it lists.
    pub labels: Vec<String>,
    /// True for a canister: it uses the system API of the Internet Computer.
    pub is_canister: bool,
}

impl ModuleFacts {
    /// The number of tables whose state must be kept: 0 if no table is ever changed.
    pub(crate) fn changing_tables(&self) -> usize {
        if self.changes_tables { self.tables as usize } else { 0 }
    }

    /// The facts about a module; the error says why the host cannot run it.
    pub(super) fn of(module: WasmModule) -> Result<Self, BadModule> {
        if let Some(name) = module.other_import {
            return Err(BadModule::Import(name));
        }
        let memory = match module.memories.as_slice() {
            [memory] => *memory,
            [] => return Err(BadModule::NoMemory),
            more => return Err(BadModule::Memories(more.len())),
        };
        let bytes = |pages: u64| pages.saturating_mul(memory.page_bytes);
        let named = module.unique_global_names().into_iter().zip(&module.globals);
        let global = |(name, global): (String, &highwater_image::wasm::WasmGlobal)| GlobalInfo {
            name,
            ty: global.ty,
            is_mutable: global.is_mutable,
        };
        Ok(Self {
            memory: if memory.is_wide { MemoryKind::Memory64 } else { MemoryKind::Memory32 },
            memory_limits: (bytes(memory.initial_pages), memory.maximum_pages.map(bytes)),
            own_memory: module.own_memory().copied(),
            globals: named.map(global).collect(),
            tables: module.tables,
            changes_tables: module.changes_tables()?,
            functions: module.functions,
            start: module.start,
            heap_start: heap_start(&module),
            interface: module.interface,
            labels: module.labels,
            is_canister: module.is_canister,
        })
    }
}

/// The address at which the heap begins, if the module states it: with enhanced persistence, as a Motoko program, or as a linker exports it.
fn heap_start(module: &WasmModule) -> Option<u64> {
    if module.has_persistent_heap {
        return Some(HEAP_OF_ENHANCED);
    }
    let base = module.global_returned_by("get_heap_base").and_then(|index| module.globals.get(index as usize)?.bits());
    let base = base.and_then(|base| base.checked_next_multiple_of(HEAP_ALIGNMENT));
    base.or_else(|| module.exported_global("__heap_base")?.bits())
}
