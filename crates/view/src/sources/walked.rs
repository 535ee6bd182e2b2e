//! A cache of walked memory images: walking one takes seconds, and each click on its treemap asks about it.

use super::stamp::Stamp;
use highwater_image::{Examination, ImageParts};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_query::images::heap_document;
use highwater_store::history::Cache;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The number of single objects listed.
const LARGEST: usize = 10;
/// The maximum size of the cached walk results. The most recently used ones stay, at least one. The images themselves are not counted.
const CACHE_BYTES: usize = 256 << 20;

/// An image, and the result of a walk of its heap.
pub struct Walked {
    file: ImageFile,
    examination: Arc<Examination>,
    /// The heap document. Built on the first request, because that sums up every object.
    heap: OnceLock<Value>,
}

/// A cache of walked memory images. An image is identified by its path and its file's stamp. A changed image is walked again before a byte of it is
/// read: if the file was truncated, the rest of the old mapping cannot be read at all.
#[derive(Default)]
pub struct WalkedImages {
    /// The module of all of them, if the user names one.
    module: Option<PathBuf>,
    cache: Cache,
    /// The key of the last walk for each path, used while its file is gone.
    last: Mutex<Vec<ImageVersion>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageVersion {
    path: PathBuf,
    image: Stamp,
    facts: Option<Stamp>,
    module: Option<Stamp>,
}

impl ImageVersion {
    fn of(path: &Path, module: Option<&Path>) -> std::io::Result<Self> {
        let [image, facts] = ImageParts::changing_files(path);
        let module = module.and_then(|module| Stamp::of(module).ok());
        Ok(Self { path: path.to_owned(), image: Stamp::of(&image)?, facts: Stamp::of(&facts).ok(), module })
    }
}

impl WalkedImages {
    /// Images of which this is the module; without one, it is looked for beside each image.
    pub fn of_module(module: Option<PathBuf>) -> Self {
        Self { module, ..Self::default() }
    }

    /// The module that the user names.
    pub fn module(&self) -> Option<&Path> {
        self.module.as_deref()
    }

    /// The image at a path. If the file is gone: the image that was there, if it is still cached.
    pub fn get(&self, path: &Path) -> Result<Arc<Walked>, String> {
        let key = match ImageVersion::of(path, self.module()) {
            Ok(key) => key,
            Err(_) => self.last_of(path).ok_or_else(|| format!("{}: it cannot be read any more", path.display()))?,
        };
        let walked =
            self.cache.get(format!("{key:?}"), CACHE_BYTES, || Walked::open(path, self.module()), Walked::bytes)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|known| known.path != key.path);
        last.push(key);
        Ok(walked)
    }

    fn last_of(&self, path: &Path) -> Option<ImageVersion> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|key| key.path == path).cloned()
    }
}

impl Walked {
    fn open(path: &Path, module: Option<&Path>) -> Result<Self, String> {
        let file = ImageFile::open(path, module).map_err(|error| error.to_string())?;
        let examination = file.examine(LARGEST).map_err(|no_heap| no_heap.to_string())?.examination;
        Ok(Self { file, examination, heap: OnceLock::new() })
    }

    /// The image.
    pub fn file(&self) -> &ImageFile {
        &self.file
    }

    /// Its heap, with the result of the walk.
    pub fn examined(&self) -> Result<ExaminedHeap<'_>, String> {
        self.file.examined(&self.examination).map_err(|no_heap| no_heap.to_string())
    }

    /// The document of `highwater image heap`.
    pub fn heap(&self) -> Result<Value, String> {
        if let Some(known) = self.heap.get() {
            return Ok(known.clone());
        }
        let document = heap_document(&self.file, &self.examined()?, usize::MAX);
        Ok(self.heap.get_or_init(|| document).clone())
    }

    /// Approximate memory use: fourteen bytes for each object, and some bits for each address where one could be.
    fn bytes(&self) -> usize {
        self.examination.graph.len() * 16 + self.examination.survey.walked_bytes as usize / 16 + (64 << 10)
    }
}
