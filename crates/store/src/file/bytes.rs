//! The bytes of a recording: in a file or in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The longest pause inside one `write` of a file that a program writes now.
const LONGEST_WRITE: Duration = Duration::from_millis(200);

/// Bytes that can be read at any offset. Files are read, not mapped: a file that shrinks while it is read must give an error, not a signal.
#[derive(Debug)]
pub enum Bytes {
    /// A file and its length when it was opened.
    File(File, u64),
    /// Memory.
    Memory(Vec<u8>),
}

impl Bytes {
    /// An open file's bytes.
    pub fn of_file(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::File(file, length))
    }

    /// How many there are.
    pub fn length(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// True if a program appends to the file now. The system makes a long `write` visible page by page, so the end of such a file can be a
    /// part of a block that is whole a moment later.
    ///
    /// Waits until the file grows, but not longer than until its last change is [`LONGEST_WRITE`] ago.
    pub fn are_growing(&self) -> io::Result<bool> {
        let Self::File(file, length) = self else { return Ok(false) };
        loop {
            let metadata = file.metadata()?;
            if metadata.len() != *length {
                return Ok(metadata.len() > *length);
            }
            // A time in the future is no sign of a change just now.
            if metadata.modified()?.elapsed().map_or(true, |ago| ago > LONGEST_WRITE) {
                return Ok(false);
            }
            std::thread::sleep(LONGEST_WRITE / 20);
        }
    }

    /// Fills `buffer` with the `length` bytes at `offset`. `Ok(false)` if there are fewer.
    pub fn read(&self, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<bool> {
        buffer.clear();
        if offset.checked_add(length as u64).is_none_or(|end| end > self.length()) {
            return Ok(false);
        }
        match self {
            Self::File(file, _) => {
                // The length comes from the file: a file with holes can be longer than the available memory.
                buffer.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
                buffer.resize(length, 0);
                match file.read_exact_at(buffer, offset) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                    result => result.map(|()| true),
                }
            }
            Self::Memory(bytes) => {
                buffer.extend_from_slice(&bytes[offset as usize..offset as usize + length]);
                Ok(true)
            }
        }
    }
}
