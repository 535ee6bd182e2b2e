//! The pages of a program's memory: the state after the last finished message, and the changes of the current message.
//!
//! ```text
//!  the module reads and writes ──▶ a private mapping ── untouched pages ──▶ a memory object: the last finished state
//!                                        │
//!                                        └─ pages written to: copies of the kernel's making, ours alone
//!  commit:  the copies are written into the object (pages of zeros become holes), then dropped
//!  restore: the copies are dropped, and the state before the message is there again
//! ```
//!
//! So a trap costs only the pages that the message touched, and so does a message that ends well, however large the memory is. The kernel shows in
//! `/proc/self/pagemap` which pages are copies; if that cannot be read, all pages count as copies.
#![allow(unsafe_code, reason = "the mapping that the engine runs on; nothing else in the crate is unsafe")]

use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The size of a page, the unit of an image.
pub const PAGE: usize = 4096;
/// Pagemap entries that are read at once.
const BATCH: usize = 16 << 10;

/// A private mapping of a memory object: the object holds the last finished state, and the kernel copies each page that the current message writes to.
#[derive(Debug)]
pub struct PagedMemory {
    object: File,
    base: *mut u8,
    capacity: usize,
    pagemap: Option<File>,
}

// SAFETY: the pointer is to memory that only its owner uses; see `bytes`.
unsafe impl Send for PagedMemory {}

impl PagedMemory {
    /// Reserves `capacity` bytes, all zero. Reserved bytes take no memory until they are written.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let capacity = capacity.next_multiple_of(PAGE).max(PAGE);
        let object = File::from(rustix::fs::memfd_create("highwater-image", MemfdFlags::CLOEXEC)?);
        object.set_len(capacity as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), capacity, protection, flags, &object, 0)? };
        Ok(Self { object, base: base.cast(), capacity, pagemap: File::open("/proc/self/pagemap").ok() })
    }

    /// The reserved bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The whole mapping, for an engine to run on.
    ///
    /// # Safety
    /// A slice returned earlier must not be used any more, and this one must not be used after `self` is dropped. No code may use it during a call of any
    /// other method of `self`.
    pub unsafe fn bytes(&mut self) -> &'static mut [u8] {
        // SAFETY: mapped, readable and writable; no other code uses it, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.capacity) }
    }

    /// Lets the engine fill a part with zeros, as it does when a memory grows, without touching any page of the object: anonymous pages are mapped there
    /// during `fill`. Afterwards the object's content is mapped there again.
    pub fn aside<T>(&mut self, part: Range<u64>, fill: impl FnOnce() -> T) -> io::Result<T> {
        let (begin, end) = (part.start as usize / PAGE * PAGE, (part.end as usize).next_multiple_of(PAGE));
        if begin >= end || end > self.capacity {
            return Ok(fill());
        }
        let (protection, length) = (ProtFlags::READ | ProtFlags::WRITE, end - begin);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: within our mapping, which stays whole: pages replace pages. No code uses them meanwhile, as users of `bytes` promised.
        unsafe { rustix::mm::mmap_anonymous(self.base.add(begin).cast(), length, protection, flags)? };
        // Large pages are filled several times as fast.
        // SAFETY: advice only, for our own pages.
        let _ = unsafe { rustix::mm::madvise(self.base.add(begin).cast(), length, Advice::LinuxHugepage) };
        let filled = fill();
        // SAFETY: as for the mapping above.
        unsafe {
            rustix::mm::mmap(self.base.add(begin).cast(), length, protection, flags, &self.object, begin as u64)?
        };
        Ok(filled)
    }

    /// Makes all writes to the first `bytes` since the last commit part of the finished state.
    pub fn commit(&mut self, bytes: u64) -> io::Result<()> {
        let end = (bytes as usize).min(self.capacity);
        let mut changed = Vec::new();
        self.changed_pages(end, &mut changed)?;
        for pages in changed {
            self.write_back(pages)?;
        }
        self.discard()
    }

    /// Discards all writes since the last commit, and clears the finished state after the first `bytes`.
    pub fn restore(&mut self, bytes: u64) -> io::Result<()> {
        self.discard()?;
        let end = (bytes as usize).next_multiple_of(PAGE).min(self.capacity);
        self.punch(end, self.capacity - end)
    }

    /// Discards all writes since the last commit.
    fn discard(&mut self) -> io::Result<()> {
        // SAFETY: our mapping; its pages get the object's content again, and no code reads them meanwhile, as users of `bytes` promised.
        unsafe { rustix::mm::madvise(self.base.cast(), self.capacity, Advice::LinuxDontNeed) }.map_err(Into::into)
    }

    /// Reads the finished state from `offset` on.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.object.read_exact_at(buffer, offset)
    }

    /// Writes to the finished state. There must be no uncommitted changes there.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.object.write_all_at(bytes, offset)
    }

    /// The parts of the finished state, up to `end`, that may contain bytes other than zero.
    pub fn occupied(&self, end: u64) -> io::Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < end {
            let begin = match rustix::fs::seek(&self.object, SeekFrom::Data(at)) {
                Ok(begin) => begin,
                Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            if begin >= end {
                break;
            }
            at = rustix::fs::seek(&self.object, SeekFrom::Hole(begin))?;
            found.push(begin..at.min(end));
        }
        Ok(found)
    }

    /// Appends the runs of pages that are private copies.
    fn changed_pages(&self, end: usize, found: &mut Vec<Range<usize>>) -> io::Result<()> {
        let Some(pagemap) = &self.pagemap else {
            found.push(0..end);
            return Ok(());
        };
        let first = self.base as u64 / PAGE as u64;
        let mut entries = vec![0; BATCH * 8];
        for batch in (0..end.div_ceil(PAGE)).step_by(BATCH) {
            let count = (end.div_ceil(PAGE) - batch).min(BATCH);
            let entries = &mut entries[..count * 8];
            pagemap.read_exact_at(entries, (first + batch as u64) * 8)?;
            for (index, entry) in entries.chunks_exact(8).enumerate() {
                let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
                // Bits 63 and 62: in memory or swapped out; bit 61: a page of the object.
                let is_copy = entry >> 62 != 0 && entry >> 61 & 1 == 0;
                let page = (batch + index) * PAGE;
                match found.last_mut() {
                    _ if !is_copy => {}
                    Some(run) if run.end == page => run.end += PAGE,
                    _ => found.push(page..page + PAGE),
                }
            }
        }
        Ok(())
    }

    /// Makes a hole in the object, which reads as zeros.
    fn punch(&self, offset: usize, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.object, flags, offset as u64, length as u64)?)
    }

    /// Writes pages into the object; zero pages become holes.
    fn write_back(&mut self, pages: Range<usize>) -> io::Result<()> {
        let offset = pages.start;
        // SAFETY: within the mapping; the holder of `bytes` does not use it now.
        let content = unsafe { std::slice::from_raw_parts(self.base.add(offset), pages.len()) };
        let mut at = 0;
        while at < content.len() {
            let is_empty = is_zero(page_at(content, at));
            let begin = at;
            while at < content.len() && is_zero(page_at(content, at)) == is_empty {
                at += PAGE;
            }
            let at = at.min(content.len());
            let target = (offset + begin) as u64;
            if is_empty {
                self.punch(offset + begin, at - begin)?;
            } else {
                self.object.write_all_at(&content[begin..at], target)?;
            }
        }
        Ok(())
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; the holder of `bytes` does not use it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.capacity) };
    }
}

fn page_at(content: &[u8], at: usize) -> &[u8] {
    &content[at..content.len().min(at + PAGE)]
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| chunk.iter().fold(0, |all, &byte| all | byte) == 0) && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(memory: &mut PagedMemory) -> &'static mut [u8] {
        // SAFETY: the tests below use what they are given only until the next call.
        unsafe { memory.bytes() }
    }

    #[test]
    fn what_is_discarded_is_as_before_and_what_is_committed_stays() {
        let mut memory = PagedMemory::new(1 << 20).unwrap();
        pages(&mut memory)[5000] = 7;
        memory.commit(1 << 20).unwrap();
        pages(&mut memory)[5000] = 8;
        pages(&mut memory)[300_000] = 9;
        memory.restore(1 << 20).unwrap();
        assert_eq!((pages(&mut memory)[5000], pages(&mut memory)[300_000]), (7, 0));
        let mut one = [0];
        memory.read(5000, &mut one).unwrap();
        assert_eq!(one, [7]);
    }

    #[test]
    fn without_a_pagemap_it_is_the_same() {
        let mut memory = PagedMemory::new(1 << 20).unwrap();
        memory.pagemap = None;
        pages(&mut memory)[5000] = 7;
        memory.commit(1 << 20).unwrap();
        assert_eq!(pages(&mut memory)[5000], 7);
        assert_eq!(memory.occupied(1 << 20).unwrap().as_slice(), std::slice::from_ref(&(4096..8192)));
    }

    #[test]
    fn pages_that_became_zero_take_no_room() {
        let mut memory = PagedMemory::new(64 << 30).unwrap();
        let far = 40usize << 30;
        pages(&mut memory)[far] = 1;
        pages(&mut memory)[..1 << 20].fill(3);
        memory.commit(64 << 30).unwrap();
        assert_eq!(memory.occupied(64 << 30).unwrap(), [0..1 << 20, far as u64..far as u64 + 4096]);
        pages(&mut memory)[..1 << 20].fill(0);
        memory.commit(64 << 30).unwrap();
        assert_eq!(memory.occupied(64 << 30).unwrap().len(), 1);
    }

    #[test]
    fn what_is_filled_aside_leaves_the_object_as_it_is() {
        let mut memory = PagedMemory::new(1 << 30).unwrap();
        pages(&mut memory)[5000] = 7;
        memory.commit(1 << 30).unwrap();
        let all = pages(&mut memory);
        memory.aside(0..64 << 20, || all[..64 << 20].fill(0)).unwrap();
        assert_eq!(pages(&mut memory)[5000], 7);
        assert_eq!(memory.occupied(1 << 30).unwrap().as_slice(), std::slice::from_ref(&(4096..8192)));
        pages(&mut memory)[9000] = 1;
        memory.restore(1 << 30).unwrap();
        assert_eq!(pages(&mut memory)[9000], 0);
    }

    #[test]
    fn zeros_are_recognised() {
        assert!(is_zero(&[0; 4096]) && is_zero(&[]) && is_zero(&[0; 70]));
        for at in [0, 63, 64, 69] {
            let mut bytes = [0; 70];
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
        }
    }
}
