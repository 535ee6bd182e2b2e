//! The modules of a recorded program: which one a code address lies in, and the names of the code.
//!
//! Tools that write addresses also write what the loader reports of each module: its path, its base address, and the address and size of its parts. None
//! of them writes build ids. A file on disk is taken for the recorded module only if its parts are exactly the same: another build nearly always
//! differs in at least one size. It then also gives the build id, so that names that are looked for later come from the same build.

use highwater_model::{Catalog, Module, StringId};
use highwater_symbols::{ModuleIdentity, Symbolized, Symbolizer, resolve_frames};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The name of the kernel's module in native recordings. Loaders call it `linux-vdso.so.1`.
const VDSO: &str = "[vdso]";

/// The modules that are loaded now.
#[derive(Default)]
pub(crate) struct LoadedModules {
    /// By start: the end, and the index in the catalog.
    ranges: BTreeMap<u64, (u64, u32)>,
    /// By path and parts: the index in the catalog. Tools list all modules again when one is loaded.
    known: HashMap<(StringId, u64, Segments), u32>,
    /// By path: what the file there says of itself.
    on_disk: HashMap<StringId, Option<ModuleIdentity>>,
    /// By index in the catalog: whether the file on disk is the recorded one. Modules of other origin are missing.
    is_same_file: HashMap<u32, bool>,
}

/// The address, as the linker gave it, and the size of each part of a module.
pub(crate) type Segments = Vec<(u64, u64)>;

impl LoadedModules {
    /// All modules are listed anew.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds a module whose parts lie at `base` plus their addresses. One without a place is ignored.
    pub fn add(&mut self, catalog: &mut Catalog, path: &str, base: u64, segments: Segments) {
        let path = if path.starts_with("linux-vdso") || path.starts_with("linux-gate") { VDSO } else { path };
        let bounds = |(address, size): &(u64, u64)| {
            let start = base.checked_add(*address)?;
            Some((start, start.checked_add(*size)?))
        };
        let parts: Option<Vec<(u64, u64)>> = segments.iter().map(bounds).collect();
        let parts = parts.unwrap_or_default();
        let (Some(start), Some(end)) = (parts.iter().map(|part| part.0).min(), parts.iter().map(|part| part.1).max())
        else {
            return;
        };
        if start == 0 || path.is_empty() {
            return;
        }
        let path_id = catalog.strings.intern(path);
        let on_disk = self.on_disk.entry(path_id).or_insert_with(|| ModuleIdentity::of(Path::new(path)));
        let same = on_disk.as_ref().filter(|on_disk| on_disk.segments == segments);
        let index = *self.known.entry((path_id, base, segments)).or_insert_with(|| {
            let build_id = catalog.strings.intern(same.map_or("", |same| &same.build_id));
            // The first part of a module begins with the first byte of its file.
            catalog.add_module(Module { path: path_id, build_id, start, end, ..Module::default() })
        });
        self.is_same_file.insert(index, same.is_some());
        self.ranges.insert(start, (end, index));
    }

    /// The module that a code address lies in: its index in the catalog, plus one; 0 if it lies in none. So frames name their modules.
    pub fn number_of(&self, address: u64) -> u32 {
        let before = self.ranges.range(..=address).next_back();
        before.filter(|(_, (end, _))| address <= *end).map_or(0, |(_, (_, index))| index + 1)
    }

    /// True if a module of the catalog is the file that is on disk now.
    pub fn is_on_disk(&self, index: u32) -> bool {
        self.is_same_file.get(&index).copied().unwrap_or(false)
    }

    /// Finds the names of the catalog's addresses in the files on disk. Returns a sentence about missing names.
    pub fn find_names(&self, catalog: &mut Catalog, symbolizer: &mut Symbolizer) -> Option<String> {
        let unnamed = |frame: &highwater_model::Frame| frame.address != 0 && frame.function == StringId::EMPTY;
        let frames = catalog.stacks.frames().iter().filter(|frame| unnamed(frame));
        let modules: Vec<u32> = catalog.stacks.frames().iter().map(|frame| frame.module).collect();
        let all = frames.count();
        let Symbolized { named, .. } = resolve_frames(catalog, symbolizer, |frame| {
            let module = modules.get(frame.0 as usize).and_then(|module| module.checked_sub(1));
            module.is_some_and(|module| self.is_on_disk(module))
        });
        let missing = all.saturating_sub(named);
        // Loaders and the kernel have code without names in every program.
        (missing > all / 4).then(|| {
            let gone = self.gone(catalog).map_or_else(String::new, |gone| format!(": {gone}"));
            format!("When this file was read, {missing} of {all} code addresses had no name{gone}.")
        })
    }

    /// Modules that are no longer on disk as they were recorded.
    fn gone(&self, catalog: &Catalog) -> Option<String> {
        let mut gone: Vec<u32> =
            self.is_same_file.iter().filter(|(_, same)| !**same).map(|(index, _)| *index).collect();
        gone.sort_unstable();
        let paths = gone.iter().filter_map(|index| catalog.modules.get(*index as usize));
        let mut paths: Vec<&str> =
            paths.map(|module| catalog.strings.get(module.path)).filter(|path| *path != VDSO).collect();
        paths.dedup();
        let more = match paths.len() {
            0 => return None,
            1 => String::new(),
            2 => format!(" and {}", paths[1]),
            count => format!(" and {} other files", count - 1),
        };
        let were = if paths.len() == 1 { "was" } else { "were" };
        Some(format!("{}{more} {were} not found as recorded", paths[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_module_around_it() {
        let (mut catalog, mut modules) = (Catalog::default(), LoadedModules::default());
        modules.add(&mut catalog, "/no/such/app", 0x1000, vec![(0, 0x100), (0x200, 0x80)]);
        modules.add(&mut catalog, "linux-vdso.so.1", 0x9000, vec![(0, 0x10)]);
        let found = [0xfff, 0x1000, 0x1150, 0x1280, 0x1281, 0x9008].map(|address| modules.number_of(address));
        assert_eq!(found, [0, 1, 1, 1, 0, 2]);
        let module = &catalog.modules[0];
        assert_eq!((module.start, module.end, module.offset_of(0x1150)), (0x1000, 0x1280, Some(0x150)));
        assert_eq!(catalog.strings.get(catalog.modules[1].path), "[vdso]");
        modules.clear();
        assert_eq!(modules.number_of(0x1150), 0);
        modules.add(&mut catalog, "/no/such/app", 0x1000, vec![(0, 0x100), (0x200, 0x80)]);
        assert_eq!((modules.number_of(0x1150), catalog.modules.len()), (1, 2), "the same module is listed again");
    }

    #[test]
    fn modules_that_cannot_be_are_ignored() {
        let (mut catalog, mut modules) = (Catalog::default(), LoadedModules::default());
        for (path, base, segments) in [
            ("/a", u64::MAX, vec![(1, 1)]),
            ("/a", 5, vec![(u64::MAX - 5, 9)]),
            ("/a", 5, vec![]),
            ("", 5, vec![(1, 1)]),
        ] {
            modules.add(&mut catalog, path, base, segments);
        }
        assert!(catalog.modules.is_empty());
    }

    #[test]
    fn a_file_with_other_parts_is_not_the_recorded_one() {
        let program = std::env::current_exe().unwrap();
        let path = program.to_str().unwrap();
        let ModuleIdentity { build_id, segments } = ModuleIdentity::of(&program).unwrap();
        let (mut catalog, mut modules) = (Catalog::default(), LoadedModules::default());
        modules.add(&mut catalog, path, 0x10_0000, segments.clone());
        let mut other = segments;
        other[0].1 += 1;
        modules.add(&mut catalog, path, 0x10_0000, other);
        assert_eq!((modules.is_on_disk(0), modules.is_on_disk(1)), (true, false));
        assert_eq!(catalog.strings.get(catalog.modules[0].build_id), build_id);
        assert_eq!(catalog.strings.get(catalog.modules[1].build_id), "");
    }
}
