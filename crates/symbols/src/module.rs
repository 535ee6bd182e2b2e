//! The symbols of one module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::KnownNames;
use crate::debug_info::{DebugFrame, DebugInfo};
use crate::demangle::{has_type_parameters, is_mangled};
use crate::elf::ElfImage;
use crate::function_entry::SizedName;
use crate::name_interner::NameInterner;
use crate::segments::{LoadSegment, bias};
use crate::split_dwarf::SplitDwarf;
use crate::symbol_tables::SymbolTables;
use crate::typed_name::{arguments_of, with_arguments, without_arguments};

/// A function at an address, as a programmer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its demangled name, with its type arguments where they are known; empty if only the source line is known. The arguments are `…` if one copy
    /// of the code serves several types.
    pub function: Arc<str>,
    /// Path of the source file as the compiler saw it; empty if unknown.
    pub file: Arc<str>,
    /// Line in that file, from 1; 0 if unknown.
    pub line: u32,
    /// Whether the compiler inlined this function into the next one of the list.
    pub inlined: bool,
    /// The sizes of the types among its type arguments, where DWARF has them.
    pub sizes: Box<[TypeSize]>,
}

/// The size of a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSize {
    /// The type, as DWARF spells it.
    pub name: Arc<str>,
    /// The size in bytes.
    pub size: u64,
}

/// The symbols of a module at the addresses it was asked for; from [`Symbolizer::module`](crate::Symbolizer::module).
pub struct ModuleSymbols {
    segments: Vec<LoadSegment>,
    has_debug_info: bool,
    bias: u64,
    /// By link-time address, so that it is valid wherever the module is mapped.
    known: KnownNames,
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
    pub(crate) fn new(files: ModuleFiles, known: KnownNames, kept_in: Option<PathBuf>) -> Self {
        // If nothing is known yet, the contents will be needed. They are read now, since the file may be replaced soon.
        let content = known.frames.is_empty().then(|| ModuleContent::of(&files));
        let has_debug_info = match &content {
            Some(content) => content.debug_info.is_some(),
            None => files.with_debug_info().has_debug_info(),
        };
        let segments = files.program.segments();
        ModuleSymbols { segments, has_debug_info, bias: 0, known, kept_in, has_news: false, files, content }
    }

    /// The known names and their cache file, if there are names that are not in the cache yet.
    pub(crate) fn news(&mut self) -> Option<(&Path, &KnownNames)> {
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
        if !self.known.frames.contains_key(&link_address) {
            let content = self.content.get_or_insert_with(|| ModuleContent::of(&self.files));
            self.known.frames.insert(link_address, content.frames_at(link_address));
            self.has_news = true;
        }
        &self.known.frames[&link_address]
    }

    /// What the call of `operator new` that returns to this runtime address makes, with the size of an object; `None` if nothing shows it. It is
    /// right only for blocks of that size.
    pub fn made_before(&mut self, return_address: u64) -> Option<TypeSize> {
        let link_address = return_address.wrapping_sub(self.bias);
        if let Some(known) = self.known.made.get(&link_address) {
            return known.clone();
        }
        let content = self.content.get_or_insert_with(|| ModuleContent::of(&self.files));
        let made = content.made_before(link_address, &self.files);
        self.known.made.insert(link_address, made.clone());
        self.has_news = true;
        made
    }

    /// Whether the function at a runtime address does not deal with the types that a library function claims which it calls: neither its variables and
    /// parameters are of them, nor, where those count, do the functions that are inlined into it have them in their names.
    #[cfg(feature = "catalog")]
    pub(crate) fn refutes(&mut self, address: u64, claim: &highwater_model::TypeClaim) -> bool {
        let link_address = address.wrapping_sub(self.bias);
        let marks = [claim.by_variables, claim.is_optimized].map(|is_set| if is_set { "+" } else { "-" });
        let key = (link_address, format!("{} {}", marks.concat(), claim.words.join(" ")));
        if let Some(known) = self.known.refuted.get(&key) {
            return *known;
        }
        let content = self.content.get_or_insert_with(|| ModuleContent::of(&self.files));
        let words = content.debug_info.as_ref().and_then(|info| info.words_at(link_address, claim.by_variables));
        let is_refuted = words.is_some_and(|words| {
            words.is_optimized.unwrap_or(claim.is_optimized)
                && !claim.words.iter().all(|word| words.found.contains(word))
        });
        self.known.refuted.insert(key, is_refuted);
        self.has_news = true;
        is_refuted
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
        let symbol = self.symbols.function_at(link_address);
        let is_merged = symbol.as_ref().is_some_and(|symbol| symbol.is_merged);
        let symbol = symbol.as_ref().map(|symbol| &*symbol.name).filter(|name| !name.is_empty());
        let mut frames = self.debug_info.as_ref().map(|info| info.frames(link_address)).unwrap_or_default();
        if frames.is_empty() && symbol.is_some() {
            frames.push(DebugFrame::default());
        }
        let outermost = frames.len().saturating_sub(1);
        let names = &mut self.names;
        let frame = |(position, frame): (usize, DebugFrame)| {
            let symbol = symbol.filter(|_| position == outermost);
            SourceFrame {
                function: function_name(names, &frame, symbol, is_merged),
                file: names.text(frame.file.as_deref().unwrap_or_default()),
                line: frame.line.unwrap_or(0),
                inlined: position < outermost,
                sizes: if is_merged { Box::default() } else { sizes(names, &frame) },
            }
        };
        frames.into_iter().enumerate().map(frame).collect()
    }
}

/// How many bytes after a call of `operator new` the call of the constructor is looked for, in code that was not optimised.
const CONSTRUCTOR_IS_NEAR: usize = 96;

impl ModuleContent {
    fn made_before(&mut self, return_address: u64, files: &ModuleFiles) -> Option<TypeSize> {
        let info = self.debug_info.as_ref()?;
        let made = info.made_before(return_address).or_else(|| self.constructed_after(return_address, info, files))?;
        Some(TypeSize { name: self.names.text(&made.name), size: made.size })
    }

    /// The class of the first constructor that is called after an address, on the same source line. Compilers that do not optimise do not describe
    /// calls; a direct call is five bytes, and its target must be the beginning of a constructor.
    fn constructed_after(&self, return_address: u64, info: &DebugInfo, files: &ModuleFiles) -> Option<SizedName> {
        let line = info.line(return_address.checked_sub(1)?)?;
        let code = files.program.code_at(return_address, CONSTRUCTOR_IS_NEAR)?;
        for (at, window) in code.windows(5).enumerate().filter(|(_, window)| window[0] == 0xe8) {
            let end = return_address.wrapping_add(at as u64 + 5);
            let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            let target = end.wrapping_add_signed(distance.into());
            let is_function = self.symbols.function_at(target).is_some_and(|symbol| symbol.start == target);
            if is_function && info.line(end - 1) == Some(line) {
                // Arguments may be made by other functions first.
                if let Some(class) = info.constructor_at(target) {
                    return Some(class);
                }
            }
        }
        None
    }
}

fn function_name(names: &mut NameInterner, frame: &DebugFrame, symbol: Option<&str>, is_merged: bool) -> Arc<str> {
    let entry = &frame.function;
    let raw = better_name(entry.linkage_name.as_deref().or(entry.name.as_deref()), symbol);
    let name = names.function(raw);
    if let (Some(class), false) = (&entry.class, is_mangled(raw)) {
        let is_library = frame.file.as_deref().is_some_and(|file| file.contains("/include/c++/"));
        let namespace = if is_library { "std::" } else { "" };
        return names.text(&format!("{namespace}{class}::{name}()"));
    }
    match &entry.name {
        // The name has parameters, and no arguments.
        Some(_) if has_type_parameters(raw) && is_merged => name,
        Some(typed) if has_type_parameters(raw) => names.text(&with_arguments(&name, typed, &entry.parameters)),
        _ if is_merged => names.text(&without_arguments(&name)),
        _ => name,
    }
}

fn sizes(names: &mut NameInterner, frame: &DebugFrame) -> Box<[TypeSize]> {
    let entry = &frame.function;
    let arguments = entry.name.as_deref().map(arguments_of).unwrap_or_default();
    let of_rust = arguments.iter().zip(&entry.parameters).filter(|_| arguments.len() == entry.parameters.len());
    let of_rust = of_rust.filter_map(|(argument, parameter)| Some((*argument, parameter.size?)));
    let of_cpp = frame.allocated.iter().map(|of| (of.name.as_str(), of.size));
    of_rust.chain(of_cpp).map(|(name, size)| TypeSize { name: names.text(name), size }).collect()
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
