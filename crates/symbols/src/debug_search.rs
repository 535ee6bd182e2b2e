//! The search for separate debug files.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::debuginfod::{Artifact, Debuginfod};
use crate::elf::{ElfImage, build_id_of};
use crate::split_dwarf::package_names;

/// Where distributions install debug files.
const SYSTEM_DIR: &str = "/usr/lib/debug";

/// The maximum number of files examined in a given directory, and their maximum depth.
const MOST_FILES: usize = 100_000;
const DEEPEST_DIR: usize = 16;

/// The directories with debug files.
#[derive(Default)]
pub(crate) struct DebugSearch {
    given: Vec<PathBuf>,
    /// The files below the given directories, by build id; built when first needed.
    files_by_build_id: Option<HashMap<String, Vec<PathBuf>>>,
    servers: Option<Debuginfod>,
}

impl DebugSearch {
    pub(crate) fn add_dir(&mut self, dir: PathBuf) {
        self.given.push(dir);
        self.files_by_build_id = None;
    }

    /// Asks these servers for files that are not on this machine.
    pub(crate) fn ask_servers(&mut self, servers: Option<Debuginfod>) {
        self.servers = servers;
    }

    /// The file with the debug information of a program that has none itself.
    pub(crate) fn debug_file_of(&mut self, program: &ElfImage) -> Option<ElfImage> {
        let build_id = program.build_id().unwrap_or_default();
        self.with_build_id_in_name(build_id)
            .or_else(|| self.linked(program))
            .or_else(|| self.given_files_with_build_id(build_id).find(ElfImage::has_debug_info))
            .or_else(|| self.downloaded(build_id, Artifact::Debuginfo, program.path()).filter(ElfImage::has_debug_info))
    }

    /// All files with this build id, or one from a server: debug files and copies of the program, which was at this path.
    pub(crate) fn files_with_build_id(&mut self, build_id: &str, path: &Path) -> Vec<ElfImage> {
        let named = self.with_build_id_in_name(build_id);
        let files: Vec<ElfImage> = named.into_iter().chain(self.given_files_with_build_id(build_id)).collect();
        if !files.is_empty() {
            return files;
        }
        // A debug file has all names; the program is only needed if there is none.
        let mut kinds = [Artifact::Debuginfo, Artifact::Executable].into_iter();
        kinds.find_map(|kind| self.downloaded(build_id, kind, path)).into_iter().collect()
    }

    fn downloaded(&mut self, build_id: &str, kind: Artifact, module: &Path) -> Option<ElfImage> {
        self.servers.as_mut()?.find(build_id, kind, module)
    }

    /// The file with the parts that `dwz` moved out of this debug file.
    pub(crate) fn supplementary_of(&mut self, debug_file: &ElfImage) -> Option<ElfImage> {
        let link = debug_file.supplementary_link()?;
        let beside = real_dir(debug_file.path()).map(|dir| dir.join(&link.path));
        let below_dwz_dir = below_dwz_dir(&link.path);
        let in_dirs = self.dirs().filter_map(|dir| Some(dir.join(below_dwz_dir.as_ref()?)));
        let is_it = |image: &ElfImage| image.build_id() == Some(&link.build_id);
        let named = beside.into_iter().chain(in_dirs).find_map(|path| ElfImage::open(&path).ok().filter(is_it));
        named.or_else(|| self.files_with_build_id(&link.build_id, &link.path).into_iter().next())
    }

    /// The package with the split DWARF of a module (`.dwp`), beside the module's files or in the given directories. Nothing but its units shows
    /// whether it belongs to them.
    pub(crate) fn package_of(&self, files: &[&ElfImage]) -> Option<ElfImage> {
        let candidates = files.iter().flat_map(|file| {
            let names = package_names(file.path());
            let dirs = real_dir(file.path()).into_iter().chain(self.given.iter().cloned());
            dirs.flat_map(move |dir| names.clone().into_iter().map(move |name| dir.join(name)))
        });
        candidates.into_iter().find_map(|path| ElfImage::open(&path).ok())
    }

    /// The directories that may have the split DWARF of a module in files of their own (`.dwo`).
    pub(crate) fn split_dirs_of(&self, files: &[&ElfImage]) -> Vec<PathBuf> {
        files.iter().filter_map(|file| real_dir(file.path())).chain(self.given.iter().cloned()).collect()
    }

    fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.given.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM_DIR)])
    }

    /// `.build-id/ab/cdef.debug`.
    fn with_build_id_in_name(&self, build_id: &str) -> Option<ElfImage> {
        // The build id comes from a recording, and must not become a path to another place.
        if build_id.len() < 4 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let (first, rest) = build_id.split_at(2);
        let name = Path::new(".build-id").join(first).join(format!("{rest}.debug"));
        self.dirs().find_map(|dir| {
            let image = ElfImage::open(&dir.join(&name)).ok()?;
            (image.build_id() == Some(build_id) && image.has_debug_info()).then_some(image)
        })
    }

    fn linked(&self, program: &ElfImage) -> Option<ElfImage> {
        let link = program.debug_link()?;
        let dir = real_dir(program.path())?;
        let below_root: PathBuf = dir.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let near = [dir.clone(), dir.join(".debug")];
        let mut dirs = near.into_iter().chain(self.dirs().map(|debug_dir| debug_dir.join(&below_root)));
        dirs.find_map(|dir| {
            let image = ElfImage::open(&dir.join(&link.file_name)).ok().filter(ElfImage::has_debug_info)?;
            let belongs = match (program.build_id(), image.build_id()) {
                (Some(expected), Some(found)) => expected == found,
                _ => image.has_checksum(link.checksum),
            };
            belongs.then_some(image)
        })
    }

    fn given_files_with_build_id(&mut self, build_id: &str) -> impl Iterator<Item = ElfImage> {
        let given = &self.given;
        let index = self.files_by_build_id.get_or_insert_with(|| index_by_build_id(given));
        let paths = index.get(build_id).map(Vec::as_slice).unwrap_or_default();
        let images = paths.iter().filter_map(|path| ElfImage::open(path).ok());
        images.filter(move |image| image.build_id() == Some(build_id))
    }
}

/// A program is often found through a symbolic link, but its debug file is never beside that link.
fn real_dir(file: &Path) -> Option<PathBuf> {
    fs::canonicalize(file).ok()?.parent().map(Path::to_owned)
}

/// `.dwz/…` of a path such as `/usr/lib/debug/.dwz/…`, so that it is found in another debug directory as well.
fn below_dwz_dir(path: &Path) -> Option<PathBuf> {
    let below: PathBuf = path.components().skip_while(|part| part.as_os_str() != ".dwz").collect();
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && below.file_name().is_some()).then_some(below)
}

fn index_by_build_id(dirs: &[PathBuf]) -> HashMap<String, Vec<PathBuf>> {
    let mut index: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for dir in dirs {
        for file in files_below(dir) {
            if let Some(build_id) = build_id_of(&file) {
                index.entry(build_id).or_default().push(file);
            }
        }
    }
    index
}

/// The files below a directory, in a stable order. Links to directories are not followed, as they can form circles.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut waiting = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        let mut entries: Vec<_> = entries.flatten().take(MOST_FILES - files.len()).collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                files.push(entry.path());
            } else if depth < DEEPEST_DIR {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    files
}
