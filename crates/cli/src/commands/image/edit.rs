//! `highwater image edit`: another value in one place.

use super::heap::ImageInput;
use crate::failure::Failure;
use crate::image_file::ImageFile;
use crate::open::OnDamage;
use crate::output::Output;
use crate::target::replace_file;
use clap::Args;
use highwater_image::{Sidecar, change, write_changed};
use std::path::PathBuf;

/// The arguments of `highwater image edit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image edit a.img totalBalance=7 -o b.img --module a.wasm
  highwater image edit a.img 'tree#node.account.balance=0' -o b.img
  highwater image edit a.img 'title=\"The Rope Dokument\"' -o b.img
  highwater image edit a.img 'static[23]=7' -o b.img               without a module

What does not fit into the place of the old value is refused, and what others would see change.")]
pub struct Edit {
    #[command(flatten)]
    input: ImageInput,
    /// What, and its new value
    #[arg(value_name = "PATH=VALUE")]
    change: String,
    /// The image with the change
    #[arg(short, long, value_name = "NEW")]
    output: PathBuf,
}

impl Edit {
    /// Writes the image with the change.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let Some((place, value)) = self.change.split_once('=') else {
            return Err(Failure::Usage(format!("'{}' is no change; write PATH=VALUE", self.change)));
        };
        let (place, value) = (place.trim(), value.trim());
        let file = ImageFile::open(&self.input.path, self.input.module.as_deref())?;
        let looked = file.look_and_warn(0, OnDamage::Warn)?;
        let change = change(&looked.heap, &looked.examination, place, value).map_err(|why| {
            Failure::in_file(&self.input.path, format_args!("'{place}' cannot become {value}: {why}"))
        })?;
        if is_same_file(&self.input.path, &self.output) {
            return Err(Failure::in_file(&self.output, "is the image itself; write the changed one elsewhere"));
        }
        replace_file(&self.output, |path| {
            let written = write_changed(file.image(), &change.patches, path);
            written.map_err(|error| Failure::writing_file(&self.output, &error))
        })?;
        let sidecar = Sidecar::path_of(&self.input.path);
        if sidecar.is_file() {
            let beside = Sidecar::path_of(&self.output);
            std::fs::copy(&sidecar, &beside).map_err(|error| Failure::writing_file(&beside, &error))?;
        }
        output.line(&format!("{}: {place} was {}, is {value}", self.output.display(), change.before))
    }
}

fn is_same_file(one: &std::path::Path, other: &std::path::Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
