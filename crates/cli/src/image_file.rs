//! Memory images: opening them with what belongs to them, and making snapshots of them.

use crate::failure::Failure;
use crate::open::{OnDamage, cannot_read, warn_of_damage};
use crate::temporary;
use highwater_image::{Damages, Examination, Heap, Image, ImageSnapshot, Module, NoHeap, Sidecar};
use highwater_model::{Source, SourceKind};
use highwater_store::{Damage, Recording, write_snapshot};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An image with its sidecar, and its module if that is known.
pub struct ImageFile {
    path: PathBuf,
    image: Image,
    module: Option<Module>,
    sidecar: Sidecar,
}

/// The heap of an image, looked through.
pub struct Looked<'a> {
    /// The heap.
    pub heap: Heap<'a>,
    /// What was found.
    pub examination: Arc<Examination>,
    /// What is wrong with the image, with the walk's findings.
    pub damage: Damages,
}

impl ImageFile {
    /// Opens an image. Its module is the one given, or the one that its sidecar names if that lies beside it.
    pub fn open(path: &Path, module: Option<&Path>) -> Result<Self, Failure> {
        let image = Image::open(path).map_err(|error| cannot_read(path, &error))?;
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

    /// Finds the heap, and looks through it; the `top` largest objects are kept.
    pub fn look(&self, top: usize) -> Result<Looked<'_>, NoHeap> {
        self.look_with(|heap| Arc::new(Examination::of(heap, top)))
    }

    /// The same where it was looked through before: only the heap is found again.
    pub fn look_again(&self, known: &Arc<Examination>) -> Result<Looked<'_>, NoHeap> {
        self.look_with(|_| Arc::clone(known))
    }

    fn look_with(&self, examination: impl FnOnce(&Heap<'_>) -> Arc<Examination>) -> Result<Looked<'_>, NoHeap> {
        let mut damage = Damages::default();
        let heap = Heap::find(&self.image, self.module.as_ref(), &self.sidecar, &mut damage)?;
        let examination = examination(&heap);
        damage.append(examination.damage().clone());
        Ok(Looked { heap, examination, damage })
    }

    /// The same, with damage dealt with as the user wants.
    pub fn look_and_warn(&self, top: usize, on_damage: OnDamage) -> Result<Looked<'_>, Failure> {
        let looked = self.look(top).map_err(|no_heap| Failure::in_file(&self.path, no_heap))?;
        looked.judge_damage(&self.path, on_damage)?;
        Ok(looked)
    }

    /// Whose memory it is.
    pub fn source(&self) -> Source {
        let stem = || self.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Source {
            kind: SourceKind::Image,
            program: self.sidecar.module.clone().or_else(stem).unwrap_or_default(),
            start_unix_ns: self.sidecar.time_unix_ns.unwrap_or(0),
            context: self.sidecar.calls.join("; "),
            snapshot: true,
            ..Source::default()
        }
    }
}

impl Looked<'_> {
    /// Warns of damage, or fails because of it.
    fn judge_damage(&self, path: &Path, on_damage: OnDamage) -> Result<(), Failure> {
        let damage = self.damage_list();
        let Some(first) = damage.first() else { return Ok(()) };
        match on_damage {
            OnDamage::Fail => Err(Failure::in_file(path, format_args!("damaged: {first}"))),
            OnDamage::Warn => {
                warn_of_damage(path, &damage, 0);
                Ok(())
            }
            OnDamage::Collect => Ok(()),
        }
    }

    /// What is wrong; what has no place of its own any more is one entry.
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

fn read_module(path: &Path) -> Result<Module, Failure> {
    let bytes = std::fs::read(path).map_err(|error| cannot_read(path, &error))?;
    Module::parse(&bytes).map_err(|error| Failure::in_file(path, error))
}

/// A recording of an image's one state, and what is wrong with the image. `None` where it is no image.
pub fn recording_of(path: &Path) -> Result<Option<(Recording, Vec<Damage>)>, Failure> {
    let file = ImageFile::open(path, None)?;
    let Ok(looked) = file.look(0) else { return Ok(None) };
    let snapshot = ImageSnapshot::of(&looked.heap, &looked.examination, file.source());
    let written = write_snapshot(temporary::file()?, &snapshot.source, &snapshot.catalog, &snapshot.accounts);
    let (target, _) = written.map_err(|error| temporary::cannot_write(&error))?;
    Ok(Some((temporary::recording(target, path)?, looked.damage_list())))
}
