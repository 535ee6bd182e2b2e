//! What the viewer asks of files that know more than a recording: object logs and memory images.
//!
//! Each question reads the file again: images are mapped, and looking through one takes less than showing it.

mod treemap;

use crate::commands::image::{diff, heap, show};
use crate::commands::objects::Objects;
use crate::failure::Failure;
use crate::image_file::ImageFile;
use highwater_image::{Side, compare, view};
use highwater_view::Special;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How deep an object is shown.
const DEPTH: u32 = 3;

/// An object log.
pub struct ObjectLog(pub PathBuf);

/// A memory image.
pub struct ViewedImage(pub PathBuf);

fn line(failure: Failure) -> String {
    failure.line().unwrap_or("it cannot be read").to_owned()
}

impl Special for ObjectLog {
    fn types(&self) -> Result<Value, String> {
        Objects::document_of(&self.0).map_err(line)
    }
}

impl ViewedImage {
    fn open(&self) -> Result<ImageFile, String> {
        ImageFile::open(&self.0, None).map_err(line)
    }
}

impl Special for ViewedImage {
    fn heap(&self) -> Result<Value, String> {
        let file = self.open()?;
        let looked = file.look(heap::DEFAULT_TOP).map_err(|no_heap| no_heap.to_string())?;
        Ok(heap::document(&file, &looked, usize::MAX))
    }

    fn object(&self, place: &str) -> Result<Value, String> {
        let file = self.open()?;
        let looked = file.look(0).map_err(|no_heap| no_heap.to_string())?;
        let shown = view(&looked.heap, &looked.examination, place, DEPTH).map_err(|problem| problem.to_string())?;
        Ok(show::document_of(&file, &looked, place, &shown))
    }

    fn treemap(&self, depth: usize, least: f64) -> Result<Value, String> {
        let file = self.open()?;
        let looked = file.look(0).map_err(|no_heap| no_heap.to_string())?;
        Ok(treemap::document(&looked, depth, least))
    }

    fn compare(&self, later: &Path) -> Result<Value, String> {
        let files = [self.open()?, ImageFile::open(later, None).map_err(line)?];
        let mut looked = Vec::new();
        for file in &files {
            looked.push(file.look(0).map_err(|no_heap| no_heap.to_string())?);
        }
        let sides: Vec<Side<'_, '_>> =
            looked.iter().map(|looked| Side { heap: &looked.heap, examination: &looked.examination }).collect();
        let comparison =
            compare(&sides, usize::MAX).map_err(|_| "the images have heaps of different kinds".to_owned())?;
        Ok(diff::document(&files, &looked, &comparison))
    }
}
