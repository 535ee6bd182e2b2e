//! Opens files that lie beside an image and belong to it. Links may lead anywhere, so a process that reads below some folders only brings its own way to open them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Opens a file for reading.
type OpenFile = fn(&Path) -> io::Result<File>;

static OPEN: OnceLock<OpenFile> = OnceLock::new();

/// From now on this process opens the files beside images in this way. Only the first call counts.
pub fn open_beside_with(open: OpenFile) {
    let _ = OPEN.set(open);
}

/// Opens a file beside an image.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OPEN.get().map_or_else(|| File::open(path), |open| open(path))
}

/// Reads a file beside an image.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// True if there is such a file, and it may be opened.
pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file() && (OPEN.get().is_none() || open(path).is_ok())
}
