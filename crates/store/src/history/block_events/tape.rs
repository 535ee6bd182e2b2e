//! Bytes that are written once, by several threads, and read in any order: in memory for short recordings, in an unnamed file for long ones.

use crate::history::history::HistoryError;
use crate::unnamed_file;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Append-only bytes that several threads write, and that are read in any order.
#[derive(Debug)]
pub enum Tape {
    /// In memory.
    Memory(RwLock<Vec<u8>>),
    /// In an unnamed file, which disappears when it is closed.
    File {
        /// The file.
        file: File,
        /// The offset of the next write.
        end: AtomicU64,
    },
}

impl Tape {
    /// An empty tape.
    pub fn new(in_memory: bool) -> Result<Self, HistoryError> {
        if in_memory {
            return Ok(Self::Memory(RwLock::default()));
        }
        let file = unnamed_file().map_err(HistoryError::TemporaryFile)?;
        Ok(Self::File { file, end: AtomicU64::new(0) })
    }

    /// Appends bytes, and returns their offset.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, HistoryError> {
        match self {
            Self::Memory(all) => {
                let mut all = all.write().unwrap_or_else(PoisonError::into_inner);
                let at = all.len() as u64;
                all.extend_from_slice(bytes);
                Ok(at)
            }
            Self::File { file, end } => {
                let at = end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                file.write_all_at(bytes, at).map_err(HistoryError::TemporaryFile)?;
                Ok(at)
            }
        }
    }

    /// Reads appended bytes into a buffer, which may be longer.
    pub fn read<'a>(&self, at: u64, length: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let into = &mut buffer[..length];
        match self {
            Self::Memory(all) => {
                let all = all.read().unwrap_or_else(PoisonError::into_inner);
                let wanted = usize::try_from(at).ok().and_then(|at| all.get(at..at.checked_add(length)?));
                into.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
            }
            Self::File { file, .. } => file.read_exact_at(into, at)?,
        }
        Ok(into)
    }
}
