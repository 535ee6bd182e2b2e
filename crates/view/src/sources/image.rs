//! Answers the viewer's questions about memory images: the documents of `highwater image`, and a treemap.

use super::special::Special;
use super::walked::{Walked, WalkedImages};
use highwater_image::{ComparedImage, compare};
use highwater_query::images::{diff_document, show_document, treemap_document};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of levels shown of an object.
const DEPTH: u32 = 3;

/// A memory image.
pub struct ViewedImage {
    path: PathBuf,
    all: Arc<WalkedImages>,
}

impl ViewedImage {
    /// The image at a path; `all` caches its walk.
    pub fn new(path: &Path, all: &Arc<WalkedImages>) -> Self {
        Self { path: path.to_owned(), all: Arc::clone(all) }
    }

    fn walked(&self) -> Result<Arc<Walked>, String> {
        self.all.get(&self.path)
    }
}

impl Special for ViewedImage {
    fn heap(&self) -> Result<Value, String> {
        self.walked()?.heap()
    }

    fn object(&self, path: &str) -> Result<Value, String> {
        let walked = self.walked()?;
        let examined = walked.examined()?;
        let shown = examined.heap.view(&examined.examination, path, DEPTH).map_err(|error| error.to_string())?;
        Ok(show_document(walked.file(), &examined, path, &shown))
    }

    fn treemap(&self, depth: usize, least: f64) -> Result<Value, String> {
        let walked = self.walked()?;
        Ok(treemap_document(&walked.examined()?, depth, least))
    }

    fn compare(&self, later: &Path) -> Result<Value, String> {
        let walked = [self.walked()?, self.all.get(later)?];
        let examined = [walked[0].examined()?, walked[1].examined()?];
        let compared = examined
            .each_ref()
            .map(|examined| ComparedImage { heap: &*examined.heap, examination: &examined.examination });
        let comparison =
            compare(&compared, usize::MAX).map_err(|_| "the images have heaps of different kinds".to_owned())?;
        Ok(diff_document(&walked.each_ref().map(|walked| walked.file()), &examined, &comparison))
    }
}
