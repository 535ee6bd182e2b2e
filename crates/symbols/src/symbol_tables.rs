//! The symbol tables of a module, the best ones only.

use crate::elf::ElfImage;
use crate::mini_debug_info::mini_debug_file;
use crate::symbol_table::{SymbolFunction, SymbolTable, SymbolTableKind};

/// The tables that together have most names, in the order in which they are asked.
#[derive(Default)]
pub(crate) struct SymbolTables(Vec<SymbolTable>);

impl SymbolTables {
    /// A stripped program has only the names that other modules use; its debug file has all names. A program of some distributions has the other
    /// names of functions in a compressed file inside it (`.gnu_debugdata`), without the names that other modules use.
    pub(crate) fn of(program: &ElfImage, debug_file: Option<&ElfImage>) -> Self {
        let images = || [Some(program), debug_file].into_iter().flatten();
        let mut complete = images().map(|image| SymbolTable::of(image, SymbolTableKind::All));
        if let Some(table) = complete.find(|table| !table.is_empty()) {
            return Self(vec![table]);
        }
        let mini = mini_debug_file(program).map(|file| SymbolTable::in_file(file, SymbolTableKind::All));
        let dynamic = images().map(|image| SymbolTable::of(image, SymbolTableKind::Dynamic));
        Self(mini.into_iter().chain(dynamic).filter(|table| !table.is_empty()).take(2).collect())
    }

    /// The function that contains the address.
    pub(crate) fn function_at(&self, address: u64) -> Option<SymbolFunction<'_>> {
        self.0.iter().find_map(|table| table.function_at(address))
    }
}
