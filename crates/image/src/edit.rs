//! Changes of values, and images that differ from another in a few bytes.

use crate::image::Image;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes to write over the same number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The address.
    pub at: u64,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

/// A change of one value: the bytes to write, and the old value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageEdit {
    /// The bytes to write over those in the image.
    pub patches: Vec<Patch>,
    /// The old value.
    pub before: String,
}

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
