//! The folder of a snapshot: checks it before anything is read from it, and writes one that the tools accept.

use super::WASM_PAGE;
use super::metadata::{GlobalValue, MetadataError, SnapshotMetadata};
use crate::beside;
use crate::edit::ImageEdit;
use crate::sidecar::Sidecar;
use crate::wasm::{WasmError, WasmModule, unpacked};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file with the facts.
pub const METADATA: &str = "metadata.json";
const MODULE: &str = "wasm_module.bin";
const MEMORY: &str = "wasm_memory.bin";
const STABLE: &str = "stable_memory.bin";
const CHUNKS: &str = "wasm_chunk_store";
/// The longest metadata. Their lists have at most some thousand entries.
const LONGEST_METADATA: u64 = 16 << 20;

/// Why a folder is not a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has no metadata.
    #[error("{} is a folder, and no canister snapshot: it has no {METADATA}", .0.display())]
    NotASnapshot(PathBuf),
    /// A file is missing.
    #[error("{} is missing: the download was not finished; 'icp canister snapshot download … --resume' completes it", .0.display())]
    Missing(PathBuf),
    /// A file has another length than the metadata say.
    #[error(
        "{} has {there} bytes, and {METADATA} says {stated}: {}",
        .path.display(),
        if there < stated { "the download was not finished; 'icp canister snapshot download … --resume' completes it" } else { "the files are of two snapshots" }
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        there: u64,
        /// The length that the metadata state.
        stated: u64,
    },
    /// A memory does not consist of whole pages.
    #[error("{}: the memory of {} bytes is not a number of pages of 64 KiB", .0.display(), .1)]
    Pages(PathBuf, u64),
    /// A file cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// The metadata are not JSON.
    #[error("{}: {}", .0.display(), .1)]
    NotJson(PathBuf, serde_json::Error),
    /// The metadata are those of something else.
    #[error("{}: {}", .0.display(), .1)]
    Metadata(PathBuf, MetadataError),
    /// The module cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Module(PathBuf, WasmError),
    /// The globals are not those of the module.
    #[error("{}: the globals are not those of {MODULE}", .0.display())]
    Globals(PathBuf),
}

/// The folder of a snapshot, all files of which are there and have the lengths that the metadata state.
#[derive(Clone, Debug)]
pub struct SnapshotFolder {
    path: PathBuf,
    /// The facts about the canister.
    pub metadata: SnapshotMetadata,
    /// The document that they are from.
    pub document: Value,
}

impl SnapshotFolder {
    /// Reads the metadata of a folder, and checks its files against them.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let facts = path.join(METADATA);
        let mut text = Vec::new();
        match beside::open(&facts).and_then(|file| file.take(LONGEST_METADATA).read_to_end(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FolderError::NotASnapshot(path.to_owned()));
            }
            Err(error) => return Err(FolderError::Unreadable(facts, error)),
        }
        let document: Value =
            serde_json::from_slice(&text).map_err(|error| FolderError::NotJson(facts.clone(), error))?;
        let metadata =
            SnapshotMetadata::from_json(&document).map_err(|error| FolderError::Metadata(facts.clone(), error))?;
        let folder = Self { path: path.to_owned(), metadata, document };
        folder.check()?;
        Ok(folder)
    }

    fn check(&self) -> Result<(), FolderError> {
        let metadata = &self.metadata;
        for bytes in [metadata.memory_bytes, metadata.stable_bytes] {
            if !bytes.is_multiple_of(WASM_PAGE) {
                return Err(FolderError::Pages(self.path.join(METADATA), bytes));
            }
        }
        for (name, stated) in
            [(MODULE, metadata.module_bytes), (MEMORY, metadata.memory_bytes), (STABLE, metadata.stable_bytes)]
        {
            let path = self.path.join(name);
            match std::fs::metadata(&path) {
                Ok(about) if !about.is_file() => {
                    return Err(FolderError::Unreadable(path, io::Error::other("not a regular file")));
                }
                Ok(about) if about.len() != stated => {
                    return Err(FolderError::Length { path, there: about.len(), stated });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !(name == STABLE && stated == 0) {
                        return Err(FolderError::Missing(path));
                    }
                }
                Err(error) => return Err(FolderError::Unreadable(path, error)),
            }
        }
        match self.chunk_paths().into_iter().find(|path| !path.is_file()) {
            Some(path) => Err(FolderError::Missing(path)),
            None => Ok(()),
        }
    }

    /// The files that differ between two snapshots in the same folder.
    pub(crate) fn changing_files(path: &Path) -> [PathBuf; 2] {
        [path.join(MEMORY), path.join(METADATA)]
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file with the main memory.
    pub fn memory_path(&self) -> PathBuf {
        self.path.join(MEMORY)
    }

    /// The file with the stable memory, if there is any.
    pub fn stable_path(&self) -> Option<PathBuf> {
        (self.metadata.stable_bytes > 0).then(|| self.path.join(STABLE))
    }

    /// The file with the module.
    pub fn module_path(&self) -> PathBuf {
        self.path.join(MODULE)
    }

    /// The files with the chunks of the chunk store.
    pub fn chunk_paths(&self) -> Vec<PathBuf> {
        let name = |hash: &Vec<u8>| self.path.join(CHUNKS).join(format!("{}.bin", crate::sidecar::hexadecimal(hash)));
        self.metadata.chunks.iter().map(name).collect()
    }

    /// The module, unpacked.
    pub fn module_content(&self) -> Result<Vec<u8>, FolderError> {
        let path = self.module_path();
        let bytes = beside::read(&path).map_err(|error| FolderError::Unreadable(path.clone(), error))?;
        Ok(unpacked(&bytes).map_err(|error| FolderError::Module(path, error))?.into_owned())
    }

    /// The module.
    pub fn module(&self) -> Result<WasmModule, FolderError> {
        WasmModule::parse(&self.module_content()?).map_err(|error| FolderError::Module(self.module_path(), error))
    }

    /// The metadata of the snapshot after an edit: a new object may need more memory, and changes a global of a 32-bit heap.
    pub fn edited_document(&self, edit: &ImageEdit) -> Result<Value, FolderError> {
        let mut metadata = self.metadata.clone();
        metadata.memory_bytes = edit.new_length.unwrap_or(metadata.memory_bytes);
        let mut document = self.document.clone();
        document["wasm_memory_size"] = metadata.memory_bytes.into();
        if !edit.globals.is_empty() {
            let kept = self.module()?.kept_globals();
            for (number, bits) in &edit.globals {
                let place = kept.iter().position(|index| index == number);
                let value = place.and_then(|place| metadata.globals.get_mut(place));
                let Some(GlobalValue::Number(_, old)) = value else {
                    return Err(FolderError::Globals(self.path.join(METADATA)));
                };
                *old = *bits;
            }
            document["globals"] = metadata.to_json()["globals"].take();
        }
        Ok(document)
    }

    /// The facts in the form in which a host writes them beside an image.
    pub fn sidecar(&self, module: &WasmModule) -> Result<Sidecar, FolderError> {
        self.metadata.sidecar(module).ok_or_else(|| FolderError::Globals(self.path.join(METADATA)))
    }
}

/// A folder that is being written, under another name until it is complete. It is removed if it is never finished.
pub struct WrittenFolder {
    unfinished: PathBuf,
    target: PathBuf,
}

impl WrittenFolder {
    /// Begins a folder. At its path may be nothing, or an empty folder.
    pub fn create(target: &Path) -> io::Result<Self> {
        match std::fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, "is a folder that is not empty"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let unfinished = target.with_added_extension(format!("unfinished-{}", std::process::id()));
        std::fs::create_dir(&unfinished)?;
        let folder = Self { unfinished, target: target.to_owned() };
        std::fs::set_permissions(&folder.unfinished, Permissions::from_mode(0o700))?;
        std::fs::create_dir(folder.unfinished.join(CHUNKS))?;
        Ok(folder)
    }

    /// The file for the main memory.
    pub fn memory(&self) -> io::Result<File> {
        File::create_new(self.unfinished.join(MEMORY))
    }

    /// The file for the stable memory.
    pub fn stable(&self) -> io::Result<File> {
        File::create_new(self.unfinished.join(STABLE))
    }

    /// Writes the module as it is installed.
    pub fn module(&self, bytes: &[u8]) -> io::Result<()> {
        std::fs::write(self.unfinished.join(MODULE), bytes)
    }

    /// Copies the chunks of another folder.
    pub fn chunks_of(&self, other: &SnapshotFolder) -> io::Result<()> {
        for path in other.chunk_paths() {
            let Some(name) = path.file_name() else { continue };
            std::fs::copy(&path, self.unfinished.join(CHUNKS).join(name))?;
        }
        Ok(())
    }

    /// Writes the metadata, and gives the folder its name. Fails if another program has put something there meanwhile.
    pub fn finish(self, document: &Value) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(document)?;
        text.push('\n');
        let mut file = File::create_new(self.unfinished.join(METADATA))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&self.unfinished, &self.target)
    }
}

impl Drop for WrittenFolder {
    fn drop(&mut self) {
        // A finished folder has another name.
        let _ = std::fs::remove_dir_all(&self.unfinished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::HEADER;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("highwater-folder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn metadata() -> SnapshotMetadata {
        SnapshotMetadata { module_bytes: 8, memory_bytes: WASM_PAGE, ..SnapshotMetadata::default() }
    }

    fn write(path: &Path, metadata: &SnapshotMetadata) {
        let folder = WrittenFolder::create(path).expect("a folder");
        folder.module(&HEADER).expect("a module");
        folder.memory().and_then(|file| file.set_len(metadata.memory_bytes)).expect("a memory");
        folder.stable().and_then(|file| file.set_len(metadata.stable_bytes)).expect("a stable memory");
        folder.finish(&metadata.to_json()).expect("finished");
    }

    #[test]
    fn what_is_written_is_opened() {
        let path = scratch("written");
        write(&path, &metadata());
        let folder = SnapshotFolder::open(&path).expect("a snapshot");
        assert_eq!(folder.metadata, metadata());
        assert_eq!(folder.stable_path(), None);
        // As dfx leaves it.
        std::fs::remove_file(path.join(STABLE)).expect("removed");
        assert!(SnapshotFolder::open(&path).is_ok());
        let again = WrittenFolder::create(&path).err().expect("not empty");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_dir_all(&path).expect("removed");
    }

    #[test]
    fn a_folder_that_is_never_finished_leaves_nothing() {
        let path = scratch("unfinished");
        drop(WrittenFolder::create(&path).expect("a folder"));
        let parent = path.parent().expect("a parent");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let left = std::fs::read_dir(parent).expect("a folder").flatten();
        assert_eq!(left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count(), 0);
    }

    #[test]
    fn half_a_download_is_told_from_a_mixed_one() {
        let path = scratch("half");
        write(&path, &metadata());
        let memory = path.join(MEMORY);
        let length = |bytes: u64| {
            File::options().write(true).open(&memory).and_then(|file| file.set_len(bytes)).expect("a length");
            SnapshotFolder::open(&path).expect_err("another length").to_string()
        };
        assert!(
            length(100).contains("wasm_memory.bin has 100 bytes, and metadata.json says 65536: the download was not")
        );
        assert!(length(2 * WASM_PAGE).contains("the files are of two snapshots"));
        std::fs::remove_file(&memory).expect("removed");
        let missing = SnapshotFolder::open(&path).expect_err("missing").to_string();
        assert!(missing.contains("wasm_memory.bin is missing: the download was not finished"), "{missing}");
        for (text, words) in [("{", "metadata.json: EOF"), ("{\"name\": 1}", "not the metadata of a canister snapshot")]
        {
            std::fs::write(path.join(METADATA), text).expect("written");
            let error = SnapshotFolder::open(&path).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
        std::fs::remove_file(path.join(METADATA)).expect("removed");
        let error = SnapshotFolder::open(&path).expect_err("no metadata").to_string();
        assert!(error.contains("is a folder, and no canister snapshot: it has no metadata.json"), "{error}");
        std::fs::remove_dir_all(&path).expect("removed");
    }
}
