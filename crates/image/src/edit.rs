//! Changes of values, and images that differ from another in a few bytes.

use crate::image::Image;
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Memory grows by pages of this size.
const PAGE: u64 = 64 << 10;

/// Bytes to write over the same number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The address.
    pub at: u64,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

/// A change of one value: what differs in the new image, and the old value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageEdit {
    /// The bytes to write over those in the image, or after its end.
    pub patches: Vec<Patch>,
    /// The length of the new image, if it is longer: a whole number of pages.
    pub new_length: Option<u64>,
    /// New values of the module's globals, by their number. They are not in the image: the writer of the image must write them into its sidecar.
    pub globals: Vec<(u32, u64)>,
    /// The old value.
    pub before: String,
}

impl ImageEdit {
    /// Changes the text of the old image's sidecar into that of the new one's. Text that needs no change, or is no JSON, stays as it is.
    pub fn change_sidecar(&self, text: &mut Vec<u8>) {
        if self.new_length.is_none() && self.globals.is_empty() {
            return;
        }
        let Ok(mut sidecar) = serde_json::from_slice(text) else { return };
        self.change_document(&mut sidecar);
        *text = serde_json::to_vec_pretty(&sidecar).unwrap_or_default();
        text.push(b'\n');
    }

    fn change_document(&self, sidecar: &mut Value) {
        if let (Some(length), Some(bytes)) = (self.new_length, sidecar.pointer_mut("/memory/bytes")) {
            *bytes = json!(length);
        }
        for (number, value) in &self.globals {
            let names = crate::sidecar::names_of_global(*number);
            let Some(globals) = sidecar.get_mut("globals").and_then(Value::as_object_mut) else { continue };
            if let Some(name) = names.iter().find(|name| globals.contains_key(*name)) {
                globals.insert(name.clone(), json!(value));
            }
        }
    }
}

/// Writes a copy of an image with changes into an empty file. Holes stay holes. A change after the end makes it longer by whole pages.
pub fn write_changed(image: &Image, patches: &[Patch], file: &File) -> io::Result<()> {
    let too_far = || io::Error::new(io::ErrorKind::InvalidInput, "a change beyond any memory");
    let mut length = image.len();
    for patch in patches {
        let end = patch.at.checked_add(patch.bytes.len() as u64).ok_or_else(too_far)?;
        if end > length {
            length = end.checked_next_multiple_of(PAGE).ok_or_else(too_far)?;
        }
    }
    file.set_len(length)?;
    for range in image.data() {
        file.write_all_at(image.slice(range.start, range.end - range.start), range.start)?;
    }
    for patch in patches {
        file.write_all_at(&patch.bytes, patch.at)?;
    }
    file.sync_all()
}
