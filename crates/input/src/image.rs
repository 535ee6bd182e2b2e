//! Memory images and heap dumps: opens them, images with their sidecars and modules, and converts them to snapshots. See docs/image.md.

use crate::dump::dump_error;
use crate::error::InputError;
use crate::format::{Format, Read, SNIFFED, WrittenState};
use highwater_image::{
    Damages, DumpHeap, DumpKind, DumpSource, Examination, Image, ImageHeap, ImageParts, NoHeap, find_heap,
    recognize_dump,
};
use highwater_model::{Damage, Source, SourceKind};
use highwater_store::write_snapshot;
use std::fs::File;
use std::io::Read as _;
use std::ops::Deref;
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

/// An image with its sidecar, and with its module if that is known; or a heap dump.
pub struct ImageFile {
    path: PathBuf,
    content: ImageContent,
}

enum ImageContent {
    Image(Box<WholeMemory>),
    Dump(DumpHeap),
}

struct WholeMemory {
    image: Image,
    parts: ImageParts,
}

/// A heap that was found in an image, or read from a dump.
pub enum FoundHeap<'a> {
    /// The heap of an image.
    InImage(Box<dyn ImageHeap + 'a>),
    /// The heap of a dump.
    OfDump(&'a (dyn ImageHeap + 'a)),
}

impl<'a> Deref for FoundHeap<'a> {
    type Target = dyn ImageHeap + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::InImage(heap) => &**heap,
            Self::OfDump(heap) => *heap,
        }
    }
}

/// The heap of an image or a dump, with the results of a walk over it.
pub struct ExaminedHeap<'a> {
    /// The heap.
    pub heap: FoundHeap<'a>,
    /// The results of the walk.
    pub examination: Arc<Examination>,
    /// Damage of the image, including that found by the walk.
    pub damage: Damages,
}

impl ImageFile {
    /// Opens an image, given by its file or its folder, or a dump. The module of an image is the given one, or the one that lies with it. A dump has none.
    pub fn open(path: &Path, module: Option<&Path>) -> Result<Self, InputError> {
        if let Some(kind) = dump_kind(path)? {
            if module.is_some() {
                return Err(InputError::unusable(path, format!("a {} has no module", kind.title())));
            }
            let heap = kind.open(&DumpSource::file(path)).map_err(|error| dump_error(path, error))?;
            return Ok(Self { path: path.to_owned(), content: ImageContent::Dump(heap) });
        }
        let parts = ImageParts::find(path, module)?;
        let image = Image::open(&parts.memory).map_err(|error| InputError::unreadable(&parts.memory, error))?;
        Ok(Self { path: path.to_owned(), content: ImageContent::Image(Box::new(WholeMemory { image, parts })) })
    }

    /// The files that an image consists of; none of a dump.
    pub fn parts(&self) -> Option<&ImageParts> {
        match &self.content {
            ImageContent::Image(memory) => Some(&memory.parts),
            ImageContent::Dump(_) => None,
        }
    }

    /// The image's bytes; none of a dump, which has objects only.
    pub fn image(&self) -> Option<&Image> {
        match &self.content {
            ImageContent::Image(memory) => Some(&memory.image),
            ImageContent::Dump(_) => None,
        }
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
        let heap = match &self.content {
            ImageContent::Image(memory) => {
                let WholeMemory { image, parts } = &**memory;
                FoundHeap::InImage(find_heap(image, parts.module.as_ref(), &parts.sidecar, &mut damage)?)
            }
            ImageContent::Dump(heap) => FoundHeap::OfDump(&**heap),
        };
        let examination = examination(&*heap);
        damage.append(examination.damage().clone());
        Ok(ExaminedHeap { heap, examination, damage })
    }

    /// The source of the snapshot.
    pub fn source(&self) -> Source {
        let stem = self.path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let of_state = Source { snapshot: true, ..Source::default() };
        match &self.content {
            ImageContent::Image(memory) => Source {
                kind: SourceKind::IMAGE,
                program: memory.parts.sidecar.module_name.clone().unwrap_or(stem),
                start_unix_ns: memory.parts.sidecar.time_unix_ns.unwrap_or(0),
                context: memory.parts.sidecar.calls.join("; "),
                ..of_state
            },
            ImageContent::Dump(heap) => Source { kind: SourceKind::new(heap.key()), program: stem, ..of_state },
        }
    }
}

/// The kind of dump in a file; none if it is an image.
fn dump_kind(path: &Path) -> Result<Option<&'static dyn DumpKind>, InputError> {
    if path.is_dir() {
        return Ok(None);
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SNIFFED).read_to_end(&mut start));
    read.map_err(|error| InputError::unreadable(path, error))?;
    Ok(recognize_dump(&start))
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

/// Writes the state of an image as a snapshot; `None` if the file is not an image.
pub(crate) fn write_state(path: &Path, target: File) -> Result<Option<WrittenState>, InputError> {
    write_state_with(path, None, target)
}

/// The same with the module that a user names.
pub(crate) fn write_state_with(
    path: &Path,
    module: Option<&Path>,
    target: File,
) -> Result<Option<WrittenState>, InputError> {
    let file = ImageFile::open(path, module)?;
    let Ok(examined) = file.examine(0) else { return Ok(None) };
    let snapshot = examined.heap.snapshot(&examined.examination, file.source());
    let written = write_snapshot(target, &snapshot.source, &snapshot.catalog, &snapshot.accounts);
    let (file, written) = written.map_err(InputError::Write)?;
    Ok(Some(WrittenState { file, written, damage: examined.damage_list() }))
}
