//! Writes the folders of canister snapshots.

use crate::failure::{Failure, reason};
use crate::target::Overwrite;
use highwater_host::content::{MemoryContent, MemoryFile};
use highwater_image::Sidecar;
use highwater_image::canister::WrittenFolder;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Lets `write` fill a folder that has its name only when it is complete; `write` returns the metadata. Nothing that exists is replaced.
pub fn write_snapshot_folder(
    path: &Path,
    write: impl FnOnce(&WrittenFolder) -> io::Result<Value>,
) -> Result<(), Failure> {
    let written = WrittenFolder::create(path).and_then(|folder| {
        let document = write(&folder)?;
        folder.finish(&document)
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::in_file(path, "exists, and is not an empty folder; write elsewhere"),
        _ => Failure::in_file(path, format_args!("cannot be written: {}", reason(&error))),
    })
}

/// Copies a file without its pages of zeros.
pub fn copy_content(from: &Path, to: &File) -> io::Result<()> {
    let content = File::open(from).and_then(MemoryFile::new)?;
    to.set_len(content.bytes())?;
    content.pages(&mut |at, page| to.write_all_at(page, at))
}

/// Removes the stable memory of an image that is about to be replaced: the new image may have none.
pub fn remove_stable(image: &Path, overwrite: Overwrite) -> Result<(), Failure> {
    let path = Sidecar::stable_path_of(image);
    overwrite.check(&path)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::writing_file(&path, &error)),
        _ => Ok(()),
    }
}

/// Writes the stable memory of a folder: that of another file, or an empty one.
pub fn copy_stable(from: Option<&Path>, folder: &WrittenFolder) -> io::Result<()> {
    let to = folder.stable()?;
    from.map_or(Ok(()), |from| copy_content(from, &to))
}
