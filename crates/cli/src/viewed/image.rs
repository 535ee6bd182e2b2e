//! Answers the viewer's questions about memory images: the documents of `highwater image`, and a treemap.

use super::treemap;
use super::walked::{Walked, WalkedImages};
use crate::commands::image::{diff, show};
use highwater_image::{Side, compare, view};
use highwater_view::Special;
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

    fn object(&self, place: &str) -> Result<Value, String> {
        let walked = self.walked()?;
        let looked = walked.look()?;
        let shown = view(&looked.heap, &looked.examination, place, DEPTH)?;
        Ok(show::document_of(walked.file(), &looked, place, &shown))
    }

    fn treemap(&self, depth: usize, least: f64) -> Result<Value, String> {
        let walked = self.walked()?;
        Ok(treemap::document(&walked.look()?, depth, least))
    }

    fn compare(&self, later: &Path) -> Result<Value, String> {
        let walked = [self.walked()?, self.all.get(later)?];
        let looked = [walked[0].look()?, walked[1].look()?];
        let sides = looked.each_ref().map(|looked| Side { heap: &looked.heap, examination: &looked.examination });
        let comparison =
            compare(&sides, usize::MAX).map_err(|_| "the images have heaps of different kinds".to_owned())?;
        Ok(diff::document(&walked.each_ref().map(|walked| walked.file()), &looked, &comparison))
    }
}
