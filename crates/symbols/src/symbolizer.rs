//! Opens modules, and keeps them open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

use crate::debug_info::DebugInfo;
use crate::debug_search::DebugSearch;
use crate::elf::ElfImage;
use crate::error::SymbolError;
use crate::module::ModuleSymbols;
use crate::symbol_table::{SymbolTable, Table};

/// Where a module was mapped, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct ModulePlace<'a> {
    /// Path of the module's file. The ` (deleted)` that Linux appends to a file that is gone is understood.
    pub path: &'a Path,
    /// Its build id in lower-case hexadecimal digits; empty if unknown. Then the file at the path is taken for the right one.
    pub build_id: &'a str,
    /// The address at which the file's byte `file_offset` was mapped; the lowest one if it was mapped more than once, as small
    /// files are.
    pub start: u64,
    /// Normally 0, the offset of the first mapping of the file; any other mapping of it will do.
    pub file_offset: u64,
}

/// Opens modules and finds their debug information; each file is opened once.
#[derive(Default)]
pub struct Symbolizer {
    search: DebugSearch,
    modules: HashMap<ModuleKey, Result<ModuleSymbols, SymbolError>>,
}

#[derive(PartialEq, Eq, Hash)]
struct ModuleKey {
    path: PathBuf,
    build_id: String,
}

impl Symbolizer {
    /// Looks beside each program and below `/usr/lib/debug`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also looks below this directory, before the system's: for `.build-id/…` as distributions lay them out, and for any file
    /// with the right build id, such as an unstripped copy of the program, whatever its name (up to 100,000 files).
    pub fn add_debug_dir(&mut self, dir: PathBuf) {
        self.search.add_dir(dir);
        self.modules.clear();
    }

    /// The symbols of a module, at this place until the next call.
    pub fn module(&mut self, place: &ModulePlace<'_>) -> Result<&mut ModuleSymbols, SymbolError> {
        let key = ModuleKey { path: place.path.to_owned(), build_id: place.build_id.to_owned() };
        let opened = match self.modules.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(open_module(place, &mut self.search)),
        };
        let module = opened.as_mut().map_err(|error| error.clone())?;
        if !module.place(place.start, place.file_offset) {
            return Err(SymbolError::Unplaced { path: place.path.to_owned(), file_offset: place.file_offset });
        }
        Ok(module)
    }
}

/// The files that together describe a module.
struct ModuleFiles {
    /// The one that was mapped, or what we have instead of it.
    program: ElfImage,
    /// With the debug information, if that is another file.
    debug_file: Option<ElfImage>,
}

fn open_module(place: &ModulePlace<'_>, search: &mut DebugSearch) -> Result<ModuleSymbols, SymbolError> {
    let files = match open_recorded(place) {
        Ok(program) => {
            let debug_file = if program.has_debug_info() { None } else { search.debug_file_of(&program) };
            ModuleFiles { program, debug_file }
        }
        Err(SymbolError::NotAFile { path }) => return Err(SymbolError::NotAFile { path }),
        Err(error) => replacement(place.build_id, search).ok_or(error)?,
    };
    Ok(symbols_of(&files, search))
}

/// The file at the recorded path, if it still is the recorded one.
fn open_recorded(place: &ModulePlace<'_>) -> Result<ElfImage, SymbolError> {
    let path = place.path.to_owned();
    let text = place.path.to_string_lossy();
    if text.is_empty() || text.starts_with('[') || text.starts_with("anon_inode:") {
        return Err(SymbolError::NotAFile { path });
    }
    let before_deletion = text.strip_suffix(" (deleted)").filter(|_| !place.path.exists());
    if before_deletion.is_some() && place.build_id.is_empty() {
        // Another file may have taken its name since, and nothing would tell.
        return Err(SymbolError::Missing { path });
    }
    let image = ElfImage::open(before_deletion.map_or(place.path, Path::new)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SymbolError::Missing { path: path.clone() },
        _ => SymbolError::Unreadable { path: path.clone(), reason: error.to_string() },
    })?;
    let found = image.build_id().unwrap_or_default();
    if !place.build_id.is_empty() && found != place.build_id {
        return Err(SymbolError::OtherBuild { path, expected: place.build_id.to_owned(), found: found.to_owned() });
    }
    Ok(image)
}

/// Copies of the recorded file or its debug information, if the file itself is gone.
fn replacement(build_id: &str, search: &mut DebugSearch) -> Option<ModuleFiles> {
    if build_id.is_empty() {
        return None;
    }
    let mut images = search.files_with_build_id(build_id);
    if images.is_empty() {
        return None;
    }
    // Even a file of debug information alone tells where the first segment belongs.
    let best = images.iter().position(ElfImage::has_code).unwrap_or(0);
    let program = images.swap_remove(best);
    let debug_file = if program.has_debug_info() { None } else { images.into_iter().find(ElfImage::has_debug_info) };
    Some(ModuleFiles { program, debug_file })
}

fn symbols_of(files: &ModuleFiles, search: &mut DebugSearch) -> ModuleSymbols {
    let with_debug_info = files.debug_file.as_ref().unwrap_or(&files.program);
    let debug_info = with_debug_info.has_debug_info().then(|| {
        let supplementary = search.supplementary_of(with_debug_info);
        DebugInfo::of(with_debug_info, supplementary.as_ref())
    });
    ModuleSymbols::new(files.program.segments(), debug_info.flatten(), best_symbol_table(files))
}

/// A stripped program has only the names that others use; its debug file has them all.
fn best_symbol_table(files: &ModuleFiles) -> SymbolTable {
    let images = || [Some(&files.program), files.debug_file.as_ref()].into_iter().flatten();
    let all = images().map(|image| SymbolTable::of(image, Table::All));
    let dynamic = images().map(|image| SymbolTable::of(image, Table::Dynamic));
    all.chain(dynamic).find(|table| !table.is_empty()).unwrap_or_default()
}
