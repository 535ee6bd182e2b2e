//! What is known about the code of one module.

use std::collections::HashMap;
use std::sync::Arc;

use crate::debug_info::{DebugFrame, DebugInfo};
use crate::demangle::is_mangled;
use crate::names::Names;
use crate::segments::{Segment, bias};
use crate::symbol_table::SymbolTable;

/// A function at an address, as a programmer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its demangled name; empty if only the source line is known.
    pub function: Arc<str>,
    /// Path of the source file as the compiler saw it; empty if unknown.
    pub file: Arc<str>,
    /// Line in that file, from 1; 0 if unknown.
    pub line: u32,
    /// Whether the compiler copied this function into the next one of the list.
    pub inlined: bool,
}

/// The symbols of a module at the place it was asked for; from [`Symbolizer::module`](crate::Symbolizer::module).
pub struct ModuleSymbols {
    pub(crate) segments: Vec<Segment>,
    pub(crate) debug_info: Option<DebugInfo>,
    pub(crate) symbols: SymbolTable,
    bias: u64,
    names: Names,
    /// By link-time address, so that it holds wherever the module is mapped.
    known: HashMap<u64, Box<[SourceFrame]>>,
}

impl ModuleSymbols {
    pub(crate) fn new(segments: Vec<Segment>, debug_info: Option<DebugInfo>, symbols: SymbolTable) -> Self {
        ModuleSymbols { segments, debug_info, symbols, bias: 0, names: Names::default(), known: HashMap::new() }
    }

    /// Takes addresses from now on as those of a process that has the file's byte `file_offset` at `start`.
    /// False if no segment holds that byte.
    pub(crate) fn place(&mut self, start: u64, file_offset: u64) -> bool {
        let bias = bias(&self.segments, start, file_offset);
        self.bias = bias.unwrap_or(self.bias);
        bias.is_some()
    }

    /// The functions at a runtime address, innermost first; empty if nothing is known.
    ///
    /// The address is that of the instruction: for a return address from a stack, subtract 1, or the line may be that of the
    /// next statement.
    pub fn lookup(&mut self, address: u64) -> &[SourceFrame] {
        let link_address = address.wrapping_sub(self.bias);
        if !self.known.contains_key(&link_address) {
            let frames = self.frames_at(link_address);
            self.known.insert(link_address, frames);
        }
        &self.known[&link_address]
    }

    /// Whether there is DWARF for at least a part of the module. Without it there are names, but no lines and no inlined frames.
    pub fn has_debug_info(&self) -> bool {
        self.debug_info.is_some()
    }

    fn frames_at(&mut self, link_address: u64) -> Box<[SourceFrame]> {
        let symbol = self.symbols.name_at(link_address);
        let symbol = symbol.as_deref().filter(|name| !name.is_empty());
        let mut frames = self.debug_info.as_ref().map(|info| info.frames(link_address)).unwrap_or_default();
        if frames.is_empty() && symbol.is_some() {
            frames.push(DebugFrame { function: None, file: None, line: None });
        }
        let outermost = frames.len().saturating_sub(1);
        let names = &mut self.names;
        let frame = |(position, frame): (usize, DebugFrame)| {
            let symbol = symbol.filter(|_| position == outermost);
            SourceFrame {
                function: names.function(better_name(frame.function.as_deref(), symbol)),
                file: names.file(&frame.file.unwrap_or_default()),
                line: frame.line.unwrap_or(0),
                inlined: position < outermost,
            }
        };
        frames.into_iter().enumerate().map(frame).collect()
    }
}

/// Which of DWARF's name and the symbol table's says more. Compilers leave the mangled names out of small debug information, and
/// then DWARF knows `new` where the symbol is `app::Session::new`; the C library's DWARF says `__libc_malloc`.
fn better_name<'a>(debug_name: Option<&'a str>, symbol: Option<&'a str>) -> &'a str {
    match (debug_name, symbol) {
        (Some(name), Some(symbol)) if is_mangled(symbol) && !is_mangled(name) => symbol,
        (Some(name), Some(symbol)) if name.starts_with("__") && !symbol.starts_with('_') => symbol,
        (Some(name), _) => name,
        (None, symbol) => symbol.unwrap_or_default(),
    }
}
