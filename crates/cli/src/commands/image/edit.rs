//! `highwater image edit`: changes one value in a copy of an image.

use super::folder::{copy_content, copy_stable, remove_stable, write_snapshot_folder};
use super::heap::ImageInput;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::open::{OnDamage, cannot_read};
use crate::output::Output;
use crate::target::{Overwrite, create_file, write_file};
use clap::Args;
use highwater_image::canister::SnapshotFolder;
use highwater_image::{Image, ImageEdit, ImageParts, Sidecar, write_changed};
use highwater_input::image::ImageFile;
use std::path::PathBuf;

/// The arguments of `highwater image edit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image edit a.img totalBalance=7 -o b.img --module a.wasm
  highwater image edit a.img 'tree#node.account.balance=0' -o b.img
  highwater image edit a.img 'title=\"any length\"' -o b.img
  highwater image edit a.img 'primes=[2, 3, 5, 7]' -o b.img
  highwater image edit a.img 'note=null : ?Text' -o b.img
  highwater image edit a.img 'static[23]=7' -o b.img               without a module
  highwater image edit snapshot/ totalBalance=7 -o edited/         a folder to upload

What does not fit into the place of the old value becomes a new object, if the heap has room for it. No other path sees the change.")]
pub struct EditArgs {
    #[command(flatten)]
    input: ImageInput,
    /// What, and its new value
    #[arg(value_name = "PATH=VALUE")]
    change: String,
    /// The image with the change; a folder if FILE is one
    #[arg(short, long, value_name = "NEW")]
    output: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl EditArgs {
    /// Writes the image with the change.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let Some((path, value)) = self.change.split_once('=') else {
            return Err(Failure::Usage(format!("'{}' is no change; write PATH=VALUE", self.change)));
        };
        let (path, value) = (path.trim(), value.trim());
        let file = ImageFile::open(&self.input.path, self.input.module.as_deref())?;
        let image = file.image().ok_or_else(|| {
            Failure::in_file(&self.input.path, "is a heap dump: it has no bytes that could be changed")
        })?;
        let examined = examine(&file, 0, OnDamage::Warn)?;
        let change = examined
            .heap
            .edit(&examined.examination.survey, path, value)
            .map_err(|why| Failure::in_file(&self.input.path, format_args!("'{path}' cannot become {value}: {why}")))?;
        if is_same_file(&self.input.path, &self.output) {
            return Err(Failure::in_file(&self.output, "is the image itself; write the changed one elsewhere"));
        }
        let parts = file.parts().ok_or_else(|| Failure::in_file(&self.input.path, "is a heap dump"))?;
        match &parts.folder {
            Some(folder) => self.write_folder(folder, image, &change)?,
            None => self.write_files(parts, image, &change)?,
        }
        output.line(&format!("{}: {path} was {}, is {value}", self.output.display(), change.before))
    }
}

impl EditArgs {
    /// Writes the image, with copies of the files beside it.
    fn write_files(&self, parts: &ImageParts, image: &Image, change: &ImageEdit) -> Result<(), Failure> {
        let sidecar = Sidecar::path_of(&self.input.path);
        let beside = [
            (Some(sidecar).filter(|path| path.is_file()), Sidecar::path_of(&self.output)),
            (parts.stable.clone(), Sidecar::stable_path_of(&self.output)),
        ];
        self.overwrite.check(&self.output)?;
        for (_, to) in &beside {
            self.overwrite.check(to)?;
        }
        remove_stable(&self.output, self.overwrite)?;
        create_file(&self.output, self.overwrite, |new| {
            let written = write_changed(image, &change.patches, &new);
            written.map_err(|error| Failure::writing_file(&self.output, &error))
        })?;
        let [(sidecar, sidecar_to), (stable, stable_to)] = beside;
        if let Some(sidecar) = sidecar {
            let mut text = std::fs::read(&sidecar).map_err(|error| cannot_read(&sidecar, &error))?;
            change.change_sidecar(&mut text);
            write_file(&sidecar_to, self.overwrite, |out| {
                out.write_all(&text).map_err(|error| Failure::writing_file(&sidecar_to, &error))
            })?;
        }
        if let Some(stable) = stable {
            create_file(&stable_to, self.overwrite, |new| {
                copy_content(&stable, &new).map_err(|error| Failure::writing_file(&stable_to, &error))
            })?;
        }
        Ok(())
    }

    /// Writes a folder that can be uploaded.
    fn write_folder(&self, folder: &SnapshotFolder, image: &Image, change: &ImageEdit) -> Result<(), Failure> {
        let document = folder.edited_document(change).map_err(Failure::fault)?;
        write_snapshot_folder(&self.output, |new| {
            new.module(&std::fs::read(folder.module_path())?)?;
            new.chunks_of(folder)?;
            write_changed(image, &change.patches, &new.memory()?)?;
            copy_stable(folder.stable_path().as_deref(), new)?;
            Ok(document)
        })
    }
}

fn is_same_file(one: &std::path::Path, other: &std::path::Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
