//! The memory of the target, through `/proc/PID/mem`.
//!
//! Writes go through read-only mappings, as a debugger's do: the kernel copies the page first. They are not atomic, so no word that the running target uses is written
//! this way unless any mixture of old and new bytes is harmless, or all threads are stopped.

use crate::look::living_folder;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Reads and writes memory of one process. The file stays with the program that ran when it was opened: after an `exec` it reads nothing.
#[derive(Debug)]
pub(crate) struct TargetMemory {
    file: File,
}

impl TargetMemory {
    /// Memory that can be written.
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(format!("{}/mem", living_folder(pid)))? })
    }

    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, address)
    }

    pub(crate) fn read_vec(&self, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut into = vec![0; bytes];
        self.read(address, &mut into)?;
        Ok(into)
    }

    pub(crate) fn read_u64(&self, address: u64) -> io::Result<u64> {
        let mut into = [0; 8];
        self.read(address, &mut into)?;
        Ok(u64::from_le_bytes(into))
    }

    pub(crate) fn read_u32(&self, address: u64) -> io::Result<u32> {
        let mut into = [0; 4];
        self.read(address, &mut into)?;
        Ok(u32::from_le_bytes(into))
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    /// Whether exactly these bytes are there.
    pub(crate) fn holds(&self, address: u64, expected: &[u8]) -> bool {
        self.read_vec(address, expected.len()).is_ok_and(|found| found == expected)
    }
}
