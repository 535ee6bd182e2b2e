//! Writes an image that differs from another in a few bytes.

use crate::image::Image;
use crate::motoko::Patch;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Writes a copy of an image with changes into an empty file. Holes stay holes.
pub fn write_changed(image: &Image, patches: &[Patch], file: &File) -> io::Result<()> {
    file.set_len(image.len())?;
    for range in image.data() {
        file.write_all_at(image.slice(range.start, range.end - range.start), range.start)?;
    }
    for patch in patches {
        if patch.at.saturating_add(patch.bytes.len() as u64) > image.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a change beyond the end of the image"));
        }
        file.write_all_at(&patch.bytes, patch.at)?;
    }
    file.sync_all()
}
