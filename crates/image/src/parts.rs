//! The files that an image consists of, in both of its forms.
//!
//! ```text
//!  a host's files        x.img   x.img.json   x.img.stable   and the module beside it, if its name is known
//!  a snapshot folder     D/wasm_memory.bin   D/metadata.json   D/stable_memory.bin   D/wasm_module.bin
//! ```

use crate::beside;
use crate::canister::{FolderError, SnapshotFolder};
use crate::sidecar::Sidecar;
use crate::wasm::WasmModule;
use std::path::{Path, PathBuf};

/// The files that an image consists of, and the facts about it.
#[derive(Debug)]
pub struct ImageParts {
    /// The file with the bytes of the memory.
    pub memory: PathBuf,
    /// The file with the stable memory of a canister.
    pub stable: Option<PathBuf>,
    /// The file with the module, if it is known.
    pub module_path: Option<PathBuf>,
    /// The module.
    pub module: Option<WasmModule>,
    /// The facts that the bytes do not contain, as far as there are any.
    pub sidecar: Sidecar,
    /// The folder, if the image is one.
    pub folder: Option<SnapshotFolder>,
}

impl ImageParts {
    /// Finds the parts of an image. The module is the given one; else that of the folder, or the one that the sidecar names if it lies beside the image.
    pub fn find(path: &Path, module: Option<&Path>) -> Result<Self, FolderError> {
        if path.is_dir() {
            return Self::of_folder(SnapshotFolder::open(path)?, module);
        }
        let sidecar = Sidecar::read_lossy(path);
        let given = module.map(|module| Ok((module.to_owned(), read_module(module)?))).transpose()?;
        let found = given.or_else(|| {
            let name = Path::new(sidecar.module_name.as_deref()?).file_name()?;
            let beside = Some(path.with_file_name(name)).filter(|module| beside::is_file(module))?;
            let module = read_module(&beside).ok()?;
            Some((beside, module))
        });
        let (module_path, module) = found.unzip();
        let stable = Some(Sidecar::stable_path_of(path)).filter(|stable| beside::is_file(stable));
        Ok(Self { memory: path.to_owned(), stable, module_path, module, sidecar, folder: None })
    }

    /// The files that change with an image, in both of its forms: the memory, and the facts about it.
    pub fn changing_files(path: &Path) -> [PathBuf; 2] {
        if path.is_dir() { SnapshotFolder::changing_files(path) } else { [path.to_owned(), Sidecar::path_of(path)] }
    }

    fn of_folder(folder: SnapshotFolder, module: Option<&Path>) -> Result<Self, FolderError> {
        let own = folder.module()?;
        let sidecar = folder.sidecar(&own)?;
        let (module_path, module) = match module {
            Some(module) => (module.to_owned(), read_module(module)?),
            None => (folder.module_path(), own),
        };
        Ok(Self {
            memory: folder.memory_path(),
            stable: folder.stable_path(),
            module_path: Some(module_path),
            module: Some(module),
            sidecar,
            folder: Some(folder),
        })
    }
}

fn read_module(path: &Path) -> Result<WasmModule, FolderError> {
    let bytes = beside::read(path).map_err(|error| FolderError::Unreadable(path.to_owned(), error))?;
    WasmModule::parse(&bytes).map_err(|error| FolderError::Module(path.to_owned(), error))
}
