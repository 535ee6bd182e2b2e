//! A mapping of a memory object, unmapped when dropped.

use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::AsFd;

/// A shared mapping of an object whose size is sealed, so that all of it can always be read.
#[derive(Debug)]
pub struct SharedMapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: it is only an address; all reads and writes there go through atomics.
unsafe impl Send for SharedMapping {}
// SAFETY: likewise.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps bytes of an object, from `offset` on.
    pub fn new(object: impl AsFd, offset: u64, bytes: usize, protection: ProtFlags) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, object, offset)? };
        Ok(Self { base: base.cast(), bytes })
    }

    /// The address of its first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// `count` values at an offset.
    ///
    /// # Safety
    /// `T` consists of atomics only, and the offset is a multiple of its alignment.
    #[inline]
    pub unsafe fn slice<T>(&self, offset: u64, count: usize) -> &[T] {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| (offset as usize).checked_add(bytes));
        assert!(end.is_some_and(|end| end <= self.bytes), "beyond the mapping");
        // SAFETY: within the mapping, as was just checked; atomics may change at any time.
        unsafe { std::slice::from_raw_parts(self.base.add(offset as usize).cast(), count) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}
