//! Memory images: opens them with their sidecars and modules, and converts them to snapshots. See docs/image.md.

use crate::error::InputError;
use crate::format::{Format, Read, WrittenState};
use highwater_image::{Damages, Examination, Image, ImageHeap, NoHeap, Sidecar, WasmModule, find_heap};
use highwater_model::{Damage, Source, SourceKind};
use highwater_store::write_snapshot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every byte of a memory. It has no signature at its beginning: a file is an image if it has a heap that a lens knows.
pub struct ImageFormat;

impl Format for ImageFormat {
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
        "'highwater image heap' shows what is in it"
    }

    fn recognizes(&self, _: &[u8]) -> bool {
        true
    }

    fn read(&self) -> Read {
        Read::State(write_state)
    }
}

/// An image with its sidecar, and with its module if that is known.
pub struct ImageFile {
    path: PathBuf,
    image: Image,
    module: Option<WasmModule>,
    sidecar: Sidecar,
}

/// The heap of an image, with the results of a walk over it.
pub struct ExaminedHeap<'a> {
    /// The heap.
    pub heap: Box<dyn ImageHeap + 'a>,
    /// The results of the walk.
    pub examination: Arc<Examination>,
    /// Damage of the image, including that found by the walk.
    pub damage: Damages,
}

impl ImageFile {
    /// Opens an image. Its module is the given one, or the one named by its sidecar if that lies beside it.
    pub fn open(path: &Path, module: Option<&Path>) -> Result<Self, InputError> {
        let image = Image::open(path).map_err(|error| InputError::unreadable(path, error))?;
        let sidecar = Sidecar::read_lossy(path);
        let module = match module {
            Some(module) => Some(read_module(module)?),
            None => {
                let named = sidecar.module_name.as_deref().and_then(|name| Path::new(name).file_name());
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

    /// The path as given by the user.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the heap and walks it. Keeps the `top` largest objects.
    pub fn examine(&self, top: usize) -> Result<ExaminedHeap<'_>, NoHeap> {
        self.examine_with(|heap| Arc::new(heap.examine(top)))
    }

    /// The same for an image that was walked before: only finds the heap again.
    pub fn examined(&self, known: &Arc<Examination>) -> Result<ExaminedHeap<'_>, NoHeap> {
        self.examine_with(|_| Arc::clone(known))
    }

    fn examine_with(
        &self,
        examination: impl FnOnce(&dyn ImageHeap) -> Arc<Examination>,
    ) -> Result<ExaminedHeap<'_>, NoHeap> {
        let mut damage = Damages::default();
        let heap = find_heap(&self.image, self.module.as_ref(), &self.sidecar, &mut damage)?;
        let examination = examination(&*heap);
        damage.append(examination.damage().clone());
        Ok(ExaminedHeap { heap, examination, damage })
    }

    /// The source of the snapshot.
    pub fn source(&self) -> Source {
        let stem = || self.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Source {
            kind: SourceKind::IMAGE,
            program: self.sidecar.module_name.clone().or_else(stem).unwrap_or_default(),
            start_unix_ns: self.sidecar.time_unix_ns.unwrap_or(0),
            context: self.sidecar.calls.join("; "),
            snapshot: true,
            ..Source::default()
        }
    }
}

impl ExaminedHeap<'_> {
    /// The damage. Damage beyond the limit of stored entries is one entry.
    pub fn damage_list(&self) -> Vec<Damage> {
        let mut all = self.damage.entries.clone();
        if self.damage.unlisted() > 0
            && let Some(last) = all.last()
        {
            let what = format!("{} more damaged places behind the one", self.damage.unlisted());
            all.push(Damage { offset: last.offset, length: 0, what: what.into() });
        }
        all
    }
}

fn read_module(path: &Path) -> Result<WasmModule, InputError> {
    let bytes = std::fs::read(path).map_err(|error| InputError::unreadable(path, error))?;
    WasmModule::parse(&bytes).map_err(|error| InputError::unusable(path, error))
}

/// Writes the state of an image as a snapshot; `None` if the file is not an image.
fn write_state(path: &Path, target: File) -> Result<Option<WrittenState>, InputError> {
    let file = ImageFile::open(path, None)?;
    let Ok(examined) = file.examine(0) else { return Ok(None) };
    let snapshot = examined.heap.snapshot(&examined.examination, file.source());
    let written = write_snapshot(target, &snapshot.source, &snapshot.catalog, &snapshot.accounts);
    let (file, written) = written.map_err(InputError::Write)?;
    Ok(Some(WrittenState { file, written, damage: examined.damage_list() }))
}
