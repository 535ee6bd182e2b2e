//! Reading what is in the blocks of a program, while a cut of it lasts.
//!
//! A block's bytes are read first, and then it is made sure that its record still says that it lives: a free is recorded before the block is
//! given back, so what was read was the block's.

use crate::cut::{Cut, Place, Unread};
use crate::results::new_result;
use crate::table::is_of_mappings;
use highwater_shm::table_v1::Block;
use rustix::io::Errno;
use std::ffi::{c_int, c_ulong, c_void};
use std::fs::File;
use std::io::{BufWriter, Write};

/// Bytes of all contents together, at most.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes that are read at once, at most, unless a single block asks for more.
const BATCH_BYTES: u64 = 1 << 20;
/// Blocks that are read at once, at most: the system does not take more.
const BATCH_BLOCKS: usize = 1024;
/// Bytes of address and length, which go before the contents of a block.
const HEAD_BYTES: u64 = 16;

/// A block whose contents are wanted.
#[derive(Clone, Copy, Debug)]
struct WantedBlock {
    place: Place,
    /// As it is recorded.
    address: u64,
    length: u64,
}

impl WantedBlock {
    /// Where it really lies.
    fn true_address(&self) -> u64 {
        if is_of_mappings(self.place.shard) { self.address & !1 } else { self.address }
    }
}

/// What is wanted.
#[derive(Debug)]
pub struct Peek {
    pid: u32,
    /// The first bytes of each block, so many.
    bytes: u64,
    wanted: Vec<WantedBlock>,
    total: u64,
    missing: u64,
}

/// What was read, as [`protocol`](crate::protocol) says.
#[derive(Debug)]
pub struct Peeked {
    /// The contents.
    pub file: File,
    /// Blocks whose contents are not there.
    pub missing: u64,
}

/// Why nothing was read.
#[derive(Debug)]
pub enum Unpeeked {
    /// The cut is void.
    Unread(Unread),
    /// The system does not let us.
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
    /// The first `bytes` of each block of a process.
    pub fn new(pid: u32, bytes: u64) -> Self {
        Self { pid, bytes, wanted: Vec::new(), total: 0, missing: 0 }
    }

    /// A block of the cut.
    pub fn want(&mut self, place: Place, block: &Block) {
        let length = block.size.min(self.bytes).min(MOST_BYTES);
        self.total = self.total.saturating_add(length + HEAD_BYTES);
        if self.total > MOST_BYTES {
            self.missing += 1;
        } else {
            self.wanted.push(WantedBlock { place, address: block.address, length });
        }
    }

    /// Reads what is wanted.
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
                if cut.still_lives(wanted.place, wanted.address) {
                    out.write_all(&wanted.true_address().to_le_bytes())?;
                    out.write_all(&wanted.length.to_le_bytes())?;
                    out.write_all(own)?;
                } else {
                    self.missing += 1;
                }
            }
            // What ended the batch early cannot be read.
            let stopped = usize::from(complete < batch.len());
            self.missing += stopped as u64;
            rest = &rest[complete + stopped..];
            cut.go_on()?;
        }
        let file = out.into_inner().map_err(|error| error.into_error())?;
        Ok(Peeked { file, missing: self.missing })
    }
}

/// The blocks that are read next, and how many bytes they have.
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

/// Reads blocks, one behind the other, into a buffer that is as long as all of them; how many are complete.
fn read_blocks(pid: u32, blocks: &[WantedBlock], buffer: &mut [u8]) -> Result<usize, Errno> {
    let read = match read_memory(pid, blocks, buffer) {
        // The first one is not there.
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

/// A part of memory, as the system wants it.
#[repr(C)]
struct Part {
    base: *mut c_void,
    length: usize,
}

unsafe extern "C" {
    fn process_vm_readv(
        pid: c_int,
        local: *const Part,
        local_count: c_ulong,
        remote: *const Part,
        remote_count: c_ulong,
        flags: c_ulong,
    ) -> isize;
}

/// Reads blocks of a process into a buffer; how many bytes of it.
fn read_memory(pid: u32, blocks: &[WantedBlock], buffer: &mut [u8]) -> Result<usize, Errno> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let pid = c_int::try_from(pid).map_err(|_| Errno::SRCH)?;
    let local = Part { base: buffer.as_mut_ptr().cast(), length: buffer.len() };
    let remote: Vec<Part> = blocks
        .iter()
        .map(|block| Part {
            base: std::ptr::without_provenance_mut(block.true_address() as usize),
            length: block.length as usize,
        })
        .collect();
    // SAFETY: the system writes into the buffer only, at most as much as it holds; what it reads it checks itself.
    let read = unsafe { process_vm_readv(pid, &local, 1, remote.as_ptr(), remote.len() as c_ulong, 0) };
    usize::try_from(read).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
