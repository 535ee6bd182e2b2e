//! `highwater image edit`: changes one value in a copy of an image.

use super::heap::ImageInput;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::open::{OnDamage, cannot_read};
use crate::output::Output;
use crate::target::{Overwrite, create_file, write_file};
use clap::Args;
use highwater_image::{Sidecar, write_changed};
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

What does not fit into the place of the old value becomes a new object, if the heap has room for it. No other path sees the change.")]
pub struct EditArgs {
    #[command(flatten)]
    input: ImageInput,
    /// What, and its new value
    #[arg(value_name = "PATH=VALUE")]
    change: String,
    /// The image with the change
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
        let (sidecar, beside) = (Sidecar::path_of(&self.input.path), Sidecar::path_of(&self.output));
        self.overwrite.check(&self.output)?;
        if sidecar.is_file() {
            self.overwrite.check(&beside)?;
        }
        create_file(&self.output, self.overwrite, |new| {
            let written = write_changed(image, &change.patches, &new);
            written.map_err(|error| Failure::writing_file(&self.output, &error))
        })?;
        if sidecar.is_file() {
            let mut text = std::fs::read(&sidecar).map_err(|error| cannot_read(&sidecar, &error))?;
            change.change_sidecar(&mut text);
            write_file(&beside, self.overwrite, |out| {
                out.write_all(&text).map_err(|error| Failure::writing_file(&beside, &error))
            })?;
        }
        output.line(&format!("{}: {path} was {}, is {value}", self.output.display(), change.before))
    }
}

fn is_same_file(one: &std::path::Path, other: &std::path::Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
