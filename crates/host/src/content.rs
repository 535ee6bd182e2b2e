//! The bytes of a memory wherever they are stored: in a file, or in a captured image.

use crate::image::CapturedImage;
use crate::memory::{PAGE, is_zero};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How many bytes of a file are read at once.
const PIECE: u64 = 1 << 20;

/// The bytes of a memory.
pub trait MemoryContent {
    /// Their number.
    fn bytes(&self) -> u64;

    /// Passes every page that is not all zeros to `visit`, with its offset. The last page may be shorter.
    fn pages(&self, visit: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// A file with the bytes of a memory. Its holes are not read.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    bytes: u64,
}

impl MemoryFile {
    /// The content of an open file.
    pub fn new(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl MemoryContent for MemoryFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn pages(&self, visit: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; PIECE as usize];
        let mut at = 0;
        while at < self.bytes {
            // Skips holes if the file system reports them.
            match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(at)) {
                Ok(next) => at = next / PAGE as u64 * PAGE as u64,
                Err(rustix::io::Errno::NXIO) => break,
                Err(_) => {}
            }
            let part = &mut buffer[..self.bytes.saturating_sub(at).min(PIECE) as usize];
            self.file.read_exact_at(part, at)?;
            for (index, page) in part.chunks(PAGE).enumerate() {
                if !is_zero(page) {
                    visit(at + (index * PAGE) as u64, page)?;
                }
            }
            at += part.len() as u64;
        }
        Ok(())
    }
}

impl MemoryContent for CapturedImage {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }

    fn pages(&self, visit: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.stored_pages().try_for_each(|(at, page)| visit(at, page))
    }
}
