//! Arrays outside of every heap: what a measure keeps must not appear in what it measures, nor in a recording.

use highwater_agent::private_memory::{self, AreaUse};
use std::ops::{Deref, DerefMut};

/// An array in the agent's private memory, which grows by doubling.
pub(super) struct PrivateArray<T: Copy> {
    start: *mut T,
    length: usize,
    bytes: usize,
}

// SAFETY: it owns its memory as a vector does.
unsafe impl<T: Copy + Send> Send for PrivateArray<T> {}

/// The first size, one page.
const FIRST_BYTES: usize = 4096;

impl<T: Copy> PrivateArray<T> {
    /// Without memory.
    pub(super) const fn new() -> Self {
        assert!(align_of::<T>() <= FIRST_BYTES && size_of::<T>() <= FIRST_BYTES);
        Self { start: std::ptr::null_mut(), length: 0, bytes: 0 }
    }

    fn capacity(&self) -> usize {
        self.bytes / size_of::<T>()
    }

    /// Makes room for this number of further elements; false if there is no memory.
    pub(super) fn reserve(&mut self, more: usize) -> bool {
        let Some(needed) = self.length.checked_add(more) else { return false };
        if needed <= self.capacity() {
            return true;
        }
        let Some(needed) = needed.checked_mul(size_of::<T>()) else { return false };
        let bytes = needed.max(self.bytes.saturating_mul(2)).next_multiple_of(FIRST_BYTES);
        let Some(memory) = private_memory::take(bytes, AreaUse::Various) else { return false };
        // SAFETY: the new memory is larger, and page-aligned.
        unsafe { std::ptr::copy_nonoverlapping(self.start, memory.cast(), self.length) };
        let length = self.length;
        self.give_back();
        (self.start, self.length, self.bytes) = (memory.cast(), length, bytes);
        true
    }

    /// Adds an element; false if there is no memory.
    pub(super) fn push(&mut self, element: T) -> bool {
        if !self.reserve(1) {
            return false;
        }
        // SAFETY: there is room for one more.
        unsafe { self.start.add(self.length).write(element) };
        self.length += 1;
        true
    }

    /// Adds elements; false if there is no memory for all of them.
    pub(super) fn extend(&mut self, elements: &[T]) -> bool {
        self.reserve(elements.len()) && elements.iter().all(|element| self.push(*element))
    }

    /// Removes all elements. Memory that few measures need is given back.
    pub(super) fn clear(&mut self) {
        const KEPT_BYTES: usize = 64 << 10;
        self.length = 0;
        if self.bytes > KEPT_BYTES {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if !self.start.is_null() {
            // SAFETY: taken with this size, and nothing refers to it any more.
            unsafe { private_memory::give_back(self.start.cast(), self.bytes) };
        }
        (self.start, self.length, self.bytes) = (std::ptr::null_mut(), 0, 0);
    }
}

impl<T: Copy> Deref for PrivateArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: this number of elements was written.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Copy> DerefMut for PrivateArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.start.is_null() {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl<T: Copy> Drop for PrivateArray<T> {
    fn drop(&mut self) {
        self.give_back();
    }
}
