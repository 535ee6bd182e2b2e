//! Reading the contents of a program's blocks, while a cut of it lasts.
//!
//! A block's bytes are read first. Then its record is checked: it must still say that the block is live. A free is recorded before the block is
//! given back, so the bytes that were read belonged to the block.

use crate::cut::{Cut, RecordPosition, Unread};
use crate::results::new_result;
use crate::table::is_of_mappings;
use highwater_shm::table_v1::TableBlock;
use rustix::io::Errno;
use std::ffi::{c_int, c_ulong, c_void};
use std::fs::File;
use std::io::{BufWriter, Write};

/// The maximum of all contents together, in bytes.
const MOST_BYTES: u64 = 256 << 20;
/// The maximum number of bytes read at once, unless a single block is larger.
const BATCH_BYTES: u64 = 1 << 20;
/// The maximum number of blocks read at once: the system call takes no more.
const BATCH_BLOCKS: usize = 1024;
/// Bytes of address and length, which precede the contents of a block.
const HEAD_BYTES: u64 = 16;

/// A block whose contents are to be read.
#[derive(Clone, Copy, Debug)]
struct WantedBlock {
    position: RecordPosition,
    /// The address in its record.
    address: u64,
    length: u64,
}

impl WantedBlock {
    /// The address in the process's memory.
    fn true_address(&self) -> u64 {
        if is_of_mappings(self.position.shard) { self.address & !1 } else { self.address }
    }
}

/// The contents to read.
#[derive(Debug)]
pub struct Peek {
    pid: u32,
    /// The maximum number of bytes to read of each block.
    bytes: u64,
    wanted: Vec<WantedBlock>,
    total: u64,
    missing: u64,
}

/// The contents that were read, in the format of [`protocol`](crate::protocol).
#[derive(Debug)]
pub struct Peeked {
    /// The contents.
    pub file: File,
    /// The number of blocks whose contents could not be read.
    pub missing: u64,
}

/// Why nothing was read.
#[derive(Debug)]
pub enum Unpeeked {
    /// The cut is void.
    Unread(Unread),
    /// A system call failed.
    System(Errno),
}

impl From<Unread> for Unpeeked {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<std::io::Error> for Unpeeked {
    fn from(error: std::io::Error) -> Self {
        Self::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Peek {
    /// Reads at most the first `bytes` bytes of each block of a process.
    pub fn new(pid: u32, bytes: u64) -> Self {
        Self { pid, bytes, wanted: Vec::new(), total: 0, missing: 0 }
    }

    /// Adds a block of the cut.
    pub fn want(&mut self, position: RecordPosition, block: &TableBlock) {
        let length = block.size.min(self.bytes).min(MOST_BYTES);
        self.total = self.total.saturating_add(length + HEAD_BYTES);
        if self.total > MOST_BYTES {
            self.missing += 1;
        } else {
            self.wanted.push(WantedBlock { position, address: block.address, length });
        }
    }

    /// Reads the contents of all added blocks.
    pub fn read(mut self, cut: &Cut<'_>) -> Result<Peeked, Unpeeked> {
        let mut out = BufWriter::with_capacity(1 << 20, new_result()?);
        let wanted = std::mem::take(&mut self.wanted);
        let (mut rest, mut buffer) = (&wanted[..], Vec::new());
        while !rest.is_empty() {
            let (batch, bytes) = first_batch(rest);
            buffer.clear();
            buffer.resize(bytes, 0);
            let complete = match read_blocks(self.pid, batch, &mut buffer) {
                Ok(complete) => complete,
                Err(Errno::SRCH) => {
                    self.missing += rest.len() as u64;
                    break;
                }
                Err(error) => return Err(Unpeeked::System(error)),
            };
            let mut bytes = &buffer[..];
            for wanted in &batch[..complete] {
                let (own, others) = bytes.split_at(wanted.length as usize);
                bytes = others;
                if cut.still_lives(wanted.position, wanted.address) {
                    out.write_all(&wanted.true_address().to_le_bytes())?;
                    out.write_all(&wanted.length.to_le_bytes())?;
                    out.write_all(own)?;
                } else {
                    self.missing += 1;
                }
            }
            // The block at which reading stopped cannot be read.
            let stopped = usize::from(complete < batch.len());
            self.missing += stopped as u64;
            rest = &rest[complete + stopped..];
            cut.go_on()?;
        }
        let file = out.into_inner().map_err(|error| error.into_error())?;
        Ok(Peeked { file, missing: self.missing })
    }
}

/// The blocks to read next, and their bytes.
fn first_batch(wanted: &[WantedBlock]) -> (&[WantedBlock], usize) {
    let (mut count, mut bytes) = (0, 0);
    for one in wanted.iter().take(BATCH_BLOCKS) {
        if count > 0 && bytes + one.length > BATCH_BYTES {
            break;
        }
        count += 1;
        bytes += one.length;
    }
    (&wanted[..count], bytes as usize)
}

/// Reads blocks, one after the other, into a buffer as long as all of them. Returns how many were read completely.
fn read_blocks(pid: u32, blocks: &[WantedBlock], buffer: &mut [u8]) -> Result<usize, Errno> {
    let read = match read_memory(pid, blocks, buffer) {
        // The first block is not mapped.
        Err(Errno::FAULT) => 0,
        other => other?,
    };
    let mut end = 0;
    let is_complete = |block: &&WantedBlock| {
        end += block.length as usize;
        end <= read
    };
    Ok(blocks.iter().take_while(is_complete).count())
}

/// A range of memory, as the system call takes it (`iovec`).
#[repr(C)]
struct MemorySpan {
    base: *mut c_void,
    length: usize,
}

unsafe extern "C" {
    fn process_vm_readv(
        pid: c_int,
        local: *const MemorySpan,
        local_count: c_ulong,
        remote: *const MemorySpan,
        remote_count: c_ulong,
        flags: c_ulong,
    ) -> isize;
}

/// Reads blocks of a process into a buffer. Returns the number of bytes read.
fn read_memory(pid: u32, blocks: &[WantedBlock], buffer: &mut [u8]) -> Result<usize, Errno> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let pid = c_int::try_from(pid).map_err(|_| Errno::SRCH)?;
    let local = MemorySpan { base: buffer.as_mut_ptr().cast(), length: buffer.len() };
    let remote: Vec<MemorySpan> = blocks
        .iter()
        .map(|block| MemorySpan {
            base: std::ptr::without_provenance_mut(block.true_address() as usize),
            length: block.length as usize,
        })
        .collect();
    // SAFETY: the system writes only into the buffer, and not beyond its length; it checks the addresses that it reads.
    let read = unsafe { process_vm_readv(pid, &local, 1, remote.as_ptr(), remote.len() as c_ulong, 0) };
    usize::try_from(read).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
