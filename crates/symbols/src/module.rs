//! The symbols of one module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::KnownFrames;
use crate::debug_info::{DebugFrame, DebugInfo};
use crate::demangle::is_mangled;
use crate::elf::ElfImage;
use crate::name_interner::NameInterner;
use crate::segments::{LoadSegment, bias};
use crate::split_dwarf::SplitDwarf;
use crate::symbol_tables::SymbolTables;

/// A function at an address, as a programmer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its demangled name; empty if only the source line is known.
    pub function: Arc<str>,
    /// Path of the source file as the compiler saw it; empty if unknown.
    pub file: Arc<str>,
    /// Line in that file, from 1; 0 if unknown.
    pub line: u32,
    /// Whether the compiler inlined this function into the next one of the list.
    pub inlined: bool,
}

/// The symbols of a module at the addresses it was asked for; from [`Symbolizer::module`](crate::Symbolizer::module).
pub struct ModuleSymbols {
    segments: Vec<LoadSegment>,
    has_debug_info: bool,
    bias: u64,
    /// By link-time address, so that it is valid wherever the module is mapped.
    known: KnownFrames,
    kept_in: Option<PathBuf>,
    /// Whether there are new names that are not in the cache yet.
    has_news: bool,
    files: ModuleFiles,
    /// The contents of the files, read when an unknown address is asked for.
    content: Option<ModuleContent>,
}

/// The files that together describe a module.
pub(crate) struct ModuleFiles {
    /// The mapped file, or its replacement.
    pub(crate) program: ElfImage,
    /// The file with the debug information, if that is a separate one.
    pub(crate) debug_file: Option<ElfImage>,
    /// The file with the parts that `dwz` moved out of it.
    pub(crate) supplementary: Option<ElfImage>,
    /// The package with the parts that the linker left out (`.dwp`).
    pub(crate) package: Option<ElfImage>,
    /// The directories that may have those parts in files of their own (`.dwo`).
    pub(crate) split_dirs: Vec<PathBuf>,
}

impl ModuleFiles {
    pub(crate) fn with_debug_info(&self) -> &ElfImage {
        self.debug_file.as_ref().unwrap_or(&self.program)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ElfImage> {
        let others = [&self.debug_file, &self.supplementary, &self.package];
        [Some(&self.program)].into_iter().chain(others.map(Option::as_ref)).flatten()
    }
}

/// The contents of a module's files.
struct ModuleContent {
    debug_info: Option<DebugInfo>,
    symbols: SymbolTables,
    names: NameInterner,
}

impl ModuleSymbols {
    /// The symbols from these files. `known` was found in them before, and is cached in the file `kept_in`.
    pub(crate) fn new(files: ModuleFiles, known: KnownFrames, kept_in: Option<PathBuf>) -> Self {
        // If nothing is known yet, the contents will be needed. They are read now, since the file may be replaced soon.
        let content = known.is_empty().then(|| ModuleContent::of(&files));
        let has_debug_info = match &content {
            Some(content) => content.debug_info.is_some(),
            None => files.with_debug_info().has_debug_info(),
        };
        let segments = files.program.segments();
        ModuleSymbols { segments, has_debug_info, bias: 0, known, kept_in, has_news: false, files, content }
    }

    /// The known names and their cache file, if there are names that are not in the cache yet.
    pub(crate) fn news(&mut self) -> Option<(&Path, &KnownFrames)> {
        // Names from a part of the debug information must not stand in the way of better ones, once the missing files are there.
        if self.content.as_ref().is_some_and(ModuleContent::is_incomplete) {
            return None;
        }
        std::mem::take(&mut self.has_news).then_some((self.kept_in.as_deref()?, &self.known))
    }

    /// Interprets addresses from now on as those of a process that has mapped the file's byte `file_offset` at `start`. Returns false if no segment
    /// holds that byte.
    pub(crate) fn set_mapping(&mut self, start: u64, file_offset: u64) -> bool {
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
            let content = self.content.get_or_insert_with(|| ModuleContent::of(&self.files));
            self.known.insert(link_address, content.frames_at(link_address));
            self.has_news = true;
        }
        &self.known[&link_address]
    }

    /// Whether there is DWARF for at least a part of the module. Without it there are names, but no lines and no inlined frames.
    pub fn has_debug_info(&self) -> bool {
        self.has_debug_info
    }
}

impl ModuleContent {
    fn of(files: &ModuleFiles) -> Self {
        let with_debug_info = files.with_debug_info();
        let split = || SplitDwarf::new(files.package.as_ref(), files.split_dirs.clone());
        let debug_info = with_debug_info
            .has_debug_info()
            .then(|| DebugInfo::of(with_debug_info, files.supplementary.as_ref(), split()));
        Self {
            debug_info: debug_info.flatten(),
            symbols: SymbolTables::of(&files.program, files.debug_file.as_ref()),
            names: NameInterner::default(),
        }
    }

    fn is_incomplete(&self) -> bool {
        self.debug_info.as_ref().is_some_and(DebugInfo::is_incomplete)
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

/// Chooses the more informative of DWARF's name and the symbol table's. Compilers leave mangled names out of small debug information: then DWARF
/// has `new` where the symbol is `app::Session::new`. The C library's DWARF says `__libc_malloc`.
fn better_name<'a>(debug_name: Option<&'a str>, symbol: Option<&'a str>) -> &'a str {
    match (debug_name, symbol) {
        (Some(name), Some(symbol)) if is_mangled(symbol) && !is_mangled(name) => symbol,
        (Some(name), Some(symbol)) if name.starts_with("__") && !symbol.starts_with('_') => symbol,
        (Some(name), _) => name,
        (None, symbol) => symbol.unwrap_or_default(),
    }
}
