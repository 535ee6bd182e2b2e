//! The bytes of a dump at any offset. Values are read when they are shown, so the dump is not kept in memory.

use crate::dumps::{DumpError, DumpSource};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A dump that is not compressed.
#[derive(Clone)]
pub(super) enum DumpBytes {
    /// The file itself, or a nameless temporary file with its decompressed content.
    File(Arc<File>, u64),
    /// Bytes in memory.
    Memory(Arc<[u8]>),
}

impl DumpBytes {
    /// The bytes of a source. A compressed file is decompressed into a temporary file without a name: it is gone when the process ends.
    pub fn of(source: &DumpSource) -> Result<Self, DumpError> {
        if let DumpSource::File(path) = source {
            let file = File::open(path)?;
            let mut start = [0; 4];
            let is_plain = file.read_exact_at(&mut start, 0).is_ok() && start == *b"JAVA";
            if is_plain {
                let length = file.metadata()?.len();
                return Ok(Self::File(Arc::new(file), length));
            }
            let mut file = temporary_file()?;
            let length = io::copy(&mut source.read()?, &mut file)?;
            return Ok(Self::File(Arc::new(file), length));
        }
        let mut bytes = Vec::new();
        source.read()?.read_to_end(&mut bytes)?;
        Ok(Self::Memory(bytes.into()))
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills a buffer from an offset on; returns fewer bytes at the end only.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file, _) => {
                let mut filled = 0;
                while filled < buffer.len() {
                    match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(filled)
            }
            Self::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }
}

fn temporary_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(descriptor))
}
