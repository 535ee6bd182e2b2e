//! Split DWARF: debug information that the linker never sees.
//!
//! With `-gsplit-dwarf`, or Rust's `split-debuginfo`, the program has only a *skeleton* of each compilation unit. The unit itself lies in a file that
//! the compiler wrote beside the object (`.dwo`), or in a package of all of them (`.dwp`). A unit is recognized by its identifier (`dwo_id`), which
//! is a hash of it: a file from another compilation is never used.

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{Dwarf, DwarfPackage, EndianSlice, LittleEndian};
use addr2line::{LookupContinuation, LookupResult, SplitDwarfLoad};

use crate::debug_sections::DebugSections;
use crate::elf::ElfImage;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The parts of a module's debug information that lie in other files.
#[derive(Default)]
pub(crate) struct SplitDwarf {
    package: Option<DebugSections>,
    /// The directories in which `.dwo` files are looked for after the one that the compiler recorded.
    dirs: Vec<PathBuf>,
    files: DwoFiles,
    /// Whether the file of a unit was looked for and not found.
    is_incomplete: Cell<bool>,
}

impl SplitDwarf {
    /// `dirs` are searched after the directory that the compiler recorded.
    pub(crate) fn new(package: Option<&ElfImage>, dirs: Vec<PathBuf>) -> Self {
        Self { package: package.and_then(DebugSections::of_package), dirs, ..Self::default() }
    }

    /// Whether the file of a unit was looked for and not found: it may be there the next time.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.get()
    }

    /// Completes a lookup with the files that it needs.
    pub(crate) fn complete<'a, L>(&'a self, mut lookup: LookupResult<L>) -> L::Output
    where
        L: LookupContinuation<Buf = Bytes<'a>>,
    {
        loop {
            lookup = match lookup {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => continuation.resume(self.load(&load)),
            }
        }
    }

    fn load<'a>(&'a self, load: &SplitDwarfLoad<Bytes<'a>>) -> Option<Arc<Dwarf<Bytes<'a>>>> {
        let found = self.in_package(load).or_else(|| self.in_file(load));
        self.is_incomplete.set(self.is_incomplete.get() || found.is_none());
        found.map(Arc::new)
    }

    fn in_package<'a>(&'a self, load: &SplitDwarfLoad<Bytes<'a>>) -> Option<Dwarf<Bytes<'a>>> {
        let sections = self.package.as_ref()?;
        let empty = EndianSlice::new(&[], LittleEndian);
        DwarfPackage::load(|id| Ok(sections.reader(id)), empty)
            .and_then(|package| package.find_cu(load.dwo_id, &load.parent))
            .ok()?
    }

    fn in_file<'a>(&'a self, load: &SplitDwarfLoad<Bytes<'a>>) -> Option<Dwarf<Bytes<'a>>> {
        let path = |bytes: Bytes<'a>| Path::new(OsStr::from_bytes(bytes.slice()));
        let name = path(load.path?);
        let recorded = load.comp_dir.map(path).map_or_else(|| name.to_owned(), |dir| dir.join(name));
        // Below another directory, a relative path may still be the right one; an absolute path is not.
        let names = [Some(name).filter(|name| name.is_relative()), name.file_name().map(Path::new)];
        let elsewhere = self.dirs.iter().flat_map(|dir| names.iter().flatten().map(move |name| dir.join(name)));
        let mut paths = [recorded].into_iter().chain(elsewhere);
        paths.find_map(|path| {
            let sections = DebugSections::of_split_unit(&ElfImage::open(&path).ok()?)?;
            has_unit(&sections, load)?;
            let mut dwarf = self.files.add(sections).dwarf()?;
            dwarf.make_dwo(&load.parent);
            Some(dwarf)
        })
    }
}

/// Whether the file's unit is the one that a skeleton asks for.
fn has_unit(sections: &DebugSections, load: &SplitDwarfLoad<Bytes<'_>>) -> Option<()> {
    let dwarf = sections.dwarf()?;
    let unit = dwarf.unit(dwarf.units().next().ok()??).ok()?;
    (unit.dwo_id == Some(load.dwo_id)).then_some(())
}

/// Files that were read, each at a fixed address, so that readers can borrow them while others are added. A linked list needs no unsafe code, and
/// only the files of the units that are asked for are in it.
#[derive(Default)]
struct DwoFiles(OnceCell<Box<DwoFile>>);

struct DwoFile {
    sections: DebugSections,
    next: DwoFiles,
}

impl DwoFiles {
    fn add(&self, sections: DebugSections) -> &DebugSections {
        let mut end = &self.0;
        while let Some(file) = end.get() {
            end = &file.next.0;
        }
        &end.get_or_init(|| Box::new(DwoFile { sections, next: DwoFiles::default() })).sections
    }
}

impl Drop for DwoFiles {
    /// Not recursive, as the list may be long.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut file) = next {
            next = file.next.0.take();
        }
    }
}

/// Where the package of a file may be: `PROGRAM.dwp`, and `PROGRAM.dwp` for `PROGRAM.debug`.
pub(crate) fn package_names(file: &Path) -> Vec<PathBuf> {
    let Some(name) = file.file_name() else { return Vec::new() };
    let mut appended = name.to_owned();
    appended.push(".dwp");
    let of_debug_file = (file.extension() == Some(OsStr::new("debug"))).then(|| Path::new(name).with_extension("dwp"));
    [PathBuf::from(appended)].into_iter().chain(of_debug_file).collect()
}
