//! Memory images that were walked: to walk one takes seconds, and each click on its treemap asks about it.

use crate::commands::image::heap;
use highwater_image::{Examination, Sidecar};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_view::{Memo, Stamp};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes of what walks found that are kept: those asked for last, and one in any case. Images themselves are mapped.
const KEPT_BYTES: usize = 256 << 20;

/// An image, and what a walk through it found.
pub struct Walked {
    file: ImageFile,
    examination: Arc<Examination>,
    /// What is told of the heap, once somebody has asked: every object is added up for it.
    heap: OnceLock<Value>,
}

/// See the module's text. An image is known by its path, and by what lies there: one that changes is walked again before a byte of it is
/// read, since of one that was made shorter the rest cannot be read at all.
pub struct WalkedImages {
    kept: Memo<Key, Walked>,
    /// The last that was walked of each path, for as long as its file is gone.
    last: Mutex<Vec<Key>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    path: PathBuf,
    image: Stamp,
    sidecar: Option<Stamp>,
}

impl Key {
    fn of(path: &Path) -> std::io::Result<Self> {
        let sidecar = Stamp::of(&Sidecar::path_of(path)).ok();
        Ok(Self { path: path.to_owned(), image: Stamp::of(path)?, sidecar })
    }
}

impl Default for WalkedImages {
    fn default() -> Self {
        Self { kept: Memo::new(KEPT_BYTES), last: Mutex::default() }
    }
}

impl WalkedImages {
    /// The image at a path; where that is gone, the one that was there, if it is kept.
    pub fn get(&self, path: &Path) -> Result<Arc<Walked>, String> {
        let key = match Key::of(path) {
            Ok(key) => key,
            Err(_) => self.last_of(path).ok_or_else(|| format!("{}: it cannot be read any more", path.display()))?,
        };
        let walked = self.kept.get(&key, || Walked::open(path), Walked::bytes)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|known| known.path != key.path);
        last.push(key);
        Ok(walked)
    }

    fn last_of(&self, path: &Path) -> Option<Key> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|key| key.path == path).cloned()
    }
}

impl Walked {
    fn open(path: &Path) -> Result<Self, String> {
        let file = ImageFile::open(path, None).map_err(|error| error.to_string())?;
        let examination = file.examine(heap::DEFAULT_TOP).map_err(|no_heap| no_heap.to_string())?.examination;
        Ok(Self { file, examination, heap: OnceLock::new() })
    }

    /// The image.
    pub fn file(&self) -> &ImageFile {
        &self.file
    }

    /// Its heap, as it was found.
    pub fn look(&self) -> Result<ExaminedHeap<'_>, String> {
        self.file.examined(&self.examination).map_err(|no_heap| no_heap.to_string())
    }

    /// All that `highwater image heap` tells of it.
    pub fn heap(&self) -> Result<Value, String> {
        if let Some(known) = self.heap.get() {
            return Ok(known.clone());
        }
        let document = heap::document(&self.file, &self.look()?, usize::MAX);
        Ok(self.heap.get_or_init(|| document).clone())
    }

    /// About how much memory it takes: fourteen bytes for each object, and some bits for each place where one could be.
    fn bytes(&self) -> usize {
        self.examination.graph.len() * 16 + self.examination.survey.walked_bytes as usize / 16 + (64 << 10)
    }
}
