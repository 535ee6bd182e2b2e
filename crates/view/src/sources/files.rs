//! Opens files of every format for the viewer.

use super::file::{FileKind, OpenedFile, Opener};
use super::fleet::{LakeOpener, ViewedFleet};
use super::image::ViewedImage;
use super::special::{Plain, Special};
use super::stamp::is_in_object_store;
use super::walked::WalkedImages;
use highwater_fleet::FleetScope;
use highwater_input::Read;
use highwater_model::SourceKind;
use highwater_query::objects::types_document;
use highwater_store::history::Work;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens files as every reading command does. What is found in memory images is cached for all of them.
#[derive(Default)]
pub struct Files {
    walked: Arc<WalkedImages>,
    /// Opens lakes, and the part of them that is shown.
    lakes: Option<(Box<LakeOpener>, FleetScope)>,
}

impl Files {
    /// The same, with what opens lakes, and the part of them that is shown.
    pub fn with_lakes(self, open: Box<LakeOpener>, scope: FleetScope) -> Self {
        Self { lakes: Some((open, scope)), ..self }
    }

    /// The same; this is the module of the memory images.
    pub fn with_module(self, module: Option<PathBuf>) -> Self {
        Self { walked: Arc::new(WalkedImages::of_module(module)), ..self }
    }
}

impl Opener for Files {
    fn open(&self, path: &Path, work: &Work<'_>) -> Result<OpenedFile, String> {
        if let Some((open, scope)) = self.lakes.as_ref().filter(|_| is_lake(path)) {
            return ViewedFleet::open(path, open(path)?, scope, work).map_err(|error| named(path, &error.to_string()));
        }
        let mut go_on = |_: &str, _: f64| work.go_on().is_ok();
        let file = highwater_input::open_with_module(path, self.walked.module(), &mut go_on)
            .map_err(|error| error.to_string())?;
        let kind = match file.format().read() {
            Read::Recording if file.is_snapshot() => FileKind::Snapshot,
            Read::Recording | Read::Unordered(_) | Read::Steps(_) => FileKind::Recording,
            Read::History(_) if file.source().kind == SourceKind::OBJLOG => FileKind::Objects,
            Read::History(_) => FileKind::Trace,
            Read::Profile(_) if file.source().snapshot => FileKind::Snapshot,
            Read::Profile(_) => FileKind::Recording,
            Read::State(_) => FileKind::Image,
        };
        let special: Box<dyn Special> = match kind {
            FileKind::Objects => Box::new(ViewedLog(path.to_owned())),
            FileKind::Image => Box::new(ViewedImage::new(path, &self.walked)),
            _ => Box::new(Plain),
        };
        let recording = Arc::clone(file.recording(&mut go_on).map_err(|error| error.to_string())?);
        Ok(OpenedFile { kind, recording, damage: file.problems().damage.clone(), special })
    }
}

/// Whether a path is that of a lake: a folder with its file, or in an object store, where only lakes are.
fn is_lake(path: &Path) -> bool {
    is_in_object_store(path) || path.join("lake.json").is_file()
}

/// A line with the path of its file; errors of stores begin with it already.
fn named(path: &Path, line: &str) -> String {
    let path = path.display().to_string();
    if line.starts_with(&path) { line.to_owned() } else { format!("{path}: {line}") }
}

/// An object log.
struct ViewedLog(PathBuf);

impl Special for ViewedLog {
    fn types(&self) -> Result<Value, String> {
        types_document(&self.0).map_err(|error| error.to_string())
    }
}
