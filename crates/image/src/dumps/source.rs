//! The bytes of a dump, decompressed, from front to back, as often as needed.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The decompressed bytes by which a dump is recognized.
const START: u64 = 4096;

/// A dump that can be read from its beginning more than once.
#[derive(Clone, Debug)]
pub enum DumpSource {
    /// The file at a path.
    File(PathBuf),
    /// Bytes in memory.
    Bytes(Arc<[u8]>),
}

impl DumpSource {
    /// The file at a path.
    pub fn file(path: &Path) -> Self {
        Self::File(path.to_owned())
    }

    /// Reads it from its beginning, decompressed. It is not buffered: readers ask for many bytes at once.
    pub fn read(&self) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::File(path) => unpacked(File::open(path)?),
            Self::Bytes(bytes) => unpacked(Cursor::new(Arc::clone(bytes))),
        }
    }

    /// Its size as it is stored.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Self::File(path) => std::fs::metadata(path).map_or(0, |about| about.len()),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// The content of a file, decompressed if necessary.
fn unpacked(mut content: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    content.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
    let is = |magic: &[u8]| start.starts_with(magic);
    let (is_gzip, is_zstd) = (is(GZIP), is(ZSTD));
    let whole = Cursor::new(start).chain(content);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole)))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}

/// The beginning of a file, decompressed as far as it goes.
pub(super) fn unpacked_start(start: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A start that ends within a compressed block is not an error: the bytes before it are used.
    let _ = if start.starts_with(GZIP) {
        MultiGzDecoder::new(start).take(START).read_to_end(&mut bytes)
    } else if start.starts_with(ZSTD) {
        zstd::Decoder::new(start).and_then(|decoder| decoder.take(START).read_to_end(&mut bytes))
    } else {
        start.take(START).read_to_end(&mut bytes)
    };
    bytes
}
