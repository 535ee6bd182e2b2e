//! Memory images: opened with what belongs to them, and made into snapshots. docs/images.md.

use crate::error::InputError;
use crate::format::{Format, Read, WrittenState};
use highwater_image::{Damages, Examination, Heap, Image, ImageSnapshot, Module, NoHeap, Sidecar};
use highwater_model::{Damage, Source, SourceKind};
use highwater_store::write_snapshot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every byte of a memory. It has no mark at its beginning: a file is one if it has a heap that a lens knows.
pub struct MemoryImage;

impl Format for MemoryImage {
    fn key(&self) -> &'static str {
        "image"
    }

    fn title(&self) -> &'static str {
        "memory image with a heap that is known"
    }

    fn source_title(&self) -> &'static str {
        "a memory image"
    }

    fn advice(&self) -> &'static str {
        "'highwater image heap' tells what is in it"
    }

    fn recognizes(&self, _: &[u8]) -> bool {
        true
    }

    fn read(&self) -> Read {
        Read::State(write_state)
    }
}

/// An image with its sidecar, and its module if that is known.
pub struct ImageFile {
    path: PathBuf,
    image: Image,
    module: Option<Module>,
    sidecar: Sidecar,
}

/// The heap of an image, with what a walk through it found.
pub struct ExaminedHeap<'a> {
    /// The heap.
    pub heap: Heap<'a>,
    /// What was found.
    pub examination: Arc<Examination>,
    /// What is wrong with the image, with the walk's findings.
    pub damage: Damages,
}

impl ImageFile {
    /// Opens an image. Its module is the one given, or the one that its sidecar names if that lies beside it.
    pub fn open(path: &Path, module: Option<&Path>) -> Result<Self, InputError> {
        let image = Image::open(path).map_err(|error| InputError::unreadable(path, error))?;
        let sidecar = Sidecar::beside(path);
        let module = match module {
            Some(module) => Some(read_module(module)?),
            None => {
                let named = sidecar.module.as_deref().and_then(|name| Path::new(name).file_name());
                let beside = named.map(|name| path.with_file_name(name)).filter(|module| module.is_file());
                beside.and_then(|module| read_module(&module).ok())
            }
        };
        Ok(Self { path: path.to_owned(), image, module, sidecar })
    }

    /// The image's bytes.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What the user called it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the heap, and walks through it; the `top` largest objects are kept.
    pub fn examine(&self, top: usize) -> Result<ExaminedHeap<'_>, NoHeap> {
        self.examine_with(|heap| Arc::new(Examination::of(heap, top)))
    }

    /// The same where it was walked through before: only the heap is found again.
    pub fn examined(&self, known: &Arc<Examination>) -> Result<ExaminedHeap<'_>, NoHeap> {
        self.examine_with(|_| Arc::clone(known))
    }

    fn examine_with(
        &self,
        examination: impl FnOnce(&Heap<'_>) -> Arc<Examination>,
    ) -> Result<ExaminedHeap<'_>, NoHeap> {
        let mut damage = Damages::default();
        let heap = Heap::find(&self.image, self.module.as_ref(), &self.sidecar, &mut damage)?;
        let examination = examination(&heap);
        damage.append(examination.damage().clone());
        Ok(ExaminedHeap { heap, examination, damage })
    }

    /// Whose memory it is.
    pub fn source(&self) -> Source {
        let stem = || self.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Source {
            kind: SourceKind::IMAGE,
            program: self.sidecar.module.clone().or_else(stem).unwrap_or_default(),
            start_unix_ns: self.sidecar.time_unix_ns.unwrap_or(0),
            context: self.sidecar.calls.join("; "),
            snapshot: true,
            ..Source::default()
        }
    }
}

impl ExaminedHeap<'_> {
    /// What is wrong; damage beyond the places that are kept is one entry.
    pub fn damage_list(&self) -> Vec<Damage> {
        let mut all = self.damage.places.clone();
        if self.damage.unnamed() > 0
            && let Some(last) = all.last()
        {
            let what = format!("{} more damaged places behind the one", self.damage.unnamed());
            all.push(Damage { offset: last.offset, length: 0, what: what.into() });
        }
        all
    }
}

fn read_module(path: &Path) -> Result<Module, InputError> {
    let bytes = std::fs::read(path).map_err(|error| InputError::unreadable(path, error))?;
    Module::parse(&bytes).map_err(|error| InputError::unusable(path, error))
}

/// Writes the state of an image as a snapshot; `None` where it is no image.
fn write_state(path: &Path, target: File) -> Result<Option<WrittenState>, InputError> {
    let file = ImageFile::open(path, None)?;
    let Ok(examined) = file.examine(0) else { return Ok(None) };
    let snapshot = ImageSnapshot::of(&examined.heap, &examined.examination, file.source());
    let written = write_snapshot(target, &snapshot.source, &snapshot.catalog, &snapshot.accounts);
    let (target, _) = written.map_err(InputError::Write)?;
    Ok(Some((target, examined.damage_list())))
}
