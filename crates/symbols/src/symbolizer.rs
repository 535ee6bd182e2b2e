//! Opens modules, and keeps them open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

use crate::cache::{NameCache, users_folder};
use crate::debug_search::DebugSearch;
use crate::debuginfod::{Debuginfod, DebuginfodServers};
use crate::elf::ElfImage;
use crate::error::SymbolError;
use crate::module::{ModuleFiles, ModuleSymbols};

/// Where a module was mapped, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct ModuleMapping<'a> {
    /// Path of the module's file. The suffix ` (deleted)`, which Linux appends if the file is gone, is ignored.
    pub path: &'a Path,
    /// Its build id in lower-case hexadecimal digits; empty if unknown. If it is unknown, the file at the path is assumed to be the right one.
    pub build_id: &'a str,
    /// The address at which the file's byte `file_offset` was mapped; the lowest one if it was mapped more than once, as happens with small files.
    pub start: u64,
    /// Normally 0, the offset of the first mapping of the file; any other mapping works too.
    pub file_offset: u64,
}

/// Opens modules and finds their debug information; each file is opened once.
#[derive(Default)]
pub struct Symbolizer {
    search: DebugSearch,
    cache: Option<NameCache>,
    root: Option<PathBuf>,
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

    /// As [`new`](Self::new), with a cache: keeps the names found in files of this folder, by build id, so that the next run need not look for
    /// them.
    pub fn with_cache(folder: PathBuf) -> Self {
        let mut symbolizer = Self::new();
        symbolizer.cache = Some(NameCache::in_folder(folder));
        symbolizer
    }

    /// As the user wishes: with a cache in `$XDG_CACHE_HOME/highwater/names`, and with the servers in the variable `DEBUGINFOD_URLS`, if it is set.
    pub fn with_users_cache() -> Self {
        Self::for_user(&DebuginfodServers::FromEnvironment)
    }

    /// As [`with_users_cache`](Self::with_users_cache), with these servers: they are asked for debug files that are not on this machine.
    pub fn for_user(servers: &DebuginfodServers) -> Self {
        let mut symbolizer = users_folder().map_or_else(Self::new, Self::with_cache);
        symbolizer.search.ask_servers(Debuginfod::new(servers));
        symbolizer
    }

    /// Writes the names found to the cache, if there is one.
    pub fn keep(&mut self) {
        let Some(cache) = &self.cache else { return };
        let opened = self.modules.values_mut().filter_map(|opened| opened.as_mut().ok());
        opened.filter_map(ModuleSymbols::news).for_each(|(file, known)| cache.write(file, known));
    }

    /// Also looks below this directory, before the system's: for `.build-id/…` as distributions lay them out, and for any file
    /// with the right build id, such as an unstripped copy of the program, whatever its name (up to 100,000 files).
    pub fn add_debug_dir(&mut self, dir: PathBuf) {
        self.search.add_dir(dir);
        self.modules.clear();
    }

    /// Looks for modules below this folder, too: the root of the container that their process is in.
    pub fn set_root(&mut self, root: Option<PathBuf>) {
        if root != self.root {
            self.modules.retain(|_, opened| opened.is_ok());
            self.root = root;
        }
    }

    /// The symbols of a module, placed at these addresses until the next call.
    pub fn module(&mut self, mapping: &ModuleMapping<'_>) -> Result<&mut ModuleSymbols, SymbolError> {
        let key = ModuleKey { path: mapping.path.to_owned(), build_id: mapping.build_id.to_owned() };
        let opened = match self.modules.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                vacant.insert(open_module(mapping, self.root.as_deref(), &mut self.search, self.cache.as_ref()))
            }
        };
        let module = opened.as_mut().map_err(|error| error.clone())?;
        if !module.set_mapping(mapping.start, mapping.file_offset) {
            return Err(SymbolError::Unplaced { path: mapping.path.to_owned(), file_offset: mapping.file_offset });
        }
        Ok(module)
    }
}

impl Drop for Symbolizer {
    fn drop(&mut self) {
        self.keep();
    }
}

/// The root of a process's file system, if that is not ours: the process is in a container, or chrooted.
pub fn foreign_root(pid: u32) -> Option<PathBuf> {
    let of = |process: &str, part: &str| std::fs::read_link(format!("/proc/{process}/{part}")).ok();
    let process = pid.to_string();
    let is_ours = of(&process, "ns/mnt")? == of("self", "ns/mnt")? && of(&process, "root")? == of("self", "root")?;
    (!is_ours).then(|| format!("/proc/{pid}/root").into())
}

fn open_module(
    mapping: &ModuleMapping<'_>,
    root: Option<&Path>,
    search: &mut DebugSearch,
    cache: Option<&NameCache>,
) -> Result<ModuleSymbols, SymbolError> {
    let below_root = |root: &Path| {
        let path = root.join(mapping.path.strip_prefix("/").unwrap_or(mapping.path));
        open_recorded(&ModuleMapping { path: &path, ..*mapping })
    };
    let recorded = match root {
        // Nothing else shows which of two files with this path it is.
        Some(root) if mapping.build_id.is_empty() => below_root(root),
        Some(root) => open_recorded(mapping).or_else(|error| below_root(root).map_err(|_| error)),
        None => open_recorded(mapping),
    };
    let (program, debug_file) = match recorded {
        Ok(program) => {
            let debug_file = if program.has_debug_info() { None } else { search.debug_file_of(&program) };
            (program, debug_file)
        }
        Err(SymbolError::NotAFile { path }) => return Err(SymbolError::NotAFile { path }),
        Err(error) => replacement(mapping, search).ok_or(error)?,
    };
    let supplementary = search.supplementary_of(debug_file.as_ref().unwrap_or(&program));
    let own: Vec<&ElfImage> = [Some(&program), debug_file.as_ref()].into_iter().flatten().collect();
    let is_split = own.iter().any(|image| image.may_have_split_dwarf());
    let package = if is_split { search.package_of(&own) } else { None };
    let split_dirs = search.split_dirs_of(&own);
    let files = ModuleFiles { program, debug_file, supplementary, package, split_dirs };
    let kept_in = cache.and_then(|cache| cache.file_for(files.program.build_id()?, files.all()));
    let known = cache.zip(kept_in.as_ref()).map(|(cache, file)| cache.read(file)).unwrap_or_default();
    Ok(ModuleSymbols::new(files, known, kept_in))
}

/// The file at the recorded path, if it is still the recorded one.
fn open_recorded(mapping: &ModuleMapping<'_>) -> Result<ElfImage, SymbolError> {
    let path = mapping.path.to_owned();
    let text = mapping.path.to_string_lossy();
    if text.is_empty() || text.starts_with('[') || text.starts_with("anon_inode:") {
        return Err(SymbolError::NotAFile { path });
    }
    let before_deletion = text.strip_suffix(" (deleted)").filter(|_| !mapping.path.exists());
    if before_deletion.is_some() && mapping.build_id.is_empty() {
        // Another file may have taken its name since, and nothing would show it.
        return Err(SymbolError::Missing { path });
    }
    let image =
        ElfImage::open(before_deletion.map_or(mapping.path, Path::new)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SymbolError::Missing { path: path.clone() },
            _ => SymbolError::Unreadable { path: path.clone(), reason: error.to_string() },
        })?;
    let found = image.build_id().unwrap_or_default();
    if !mapping.build_id.is_empty() && found != mapping.build_id {
        return Err(SymbolError::OtherBuild { path, expected: mapping.build_id.to_owned(), found: found.to_owned() });
    }
    Ok(image)
}

/// A copy of the recorded file and its debug information, if the file itself is gone.
fn replacement(mapping: &ModuleMapping<'_>, search: &mut DebugSearch) -> Option<(ElfImage, Option<ElfImage>)> {
    if mapping.build_id.is_empty() {
        return None;
    }
    let mut images = search.files_with_build_id(mapping.build_id, mapping.path);
    if images.is_empty() {
        return None;
    }
    // Even a file with debug information only shows where the first segment belongs.
    let best = images.iter().position(ElfImage::has_code).unwrap_or(0);
    let program = images.swap_remove(best);
    let debug_file = if program.has_debug_info() { None } else { images.into_iter().find(ElfImage::has_debug_info) };
    Some((program, debug_file))
}
