//! Reading the stack without ever faulting.
//!
//! The tables of a sound program only lead to words of its stack; those of an unsound one may lead anywhere. So each
//! thread has a *window*: from its lowest stack pointer seen so far up to the top of its stack, all of it found
//! readable page by page, once. Reading there needs two comparisons. Memory outside (a signal handler's own
//! stack, a coroutine's) is first checked by asking the kernel.

use crate::{sys, tls};
use core::cell::Cell;

const PAGE: u64 = 4096;
/// The maximum number of pages by which a window grows at once: a larger distance means another stack.
const MOST_PAGES: u64 = 1 << 14;

#[cfg(not(feature = "injected"))]
unsafe extern "C" {
    /// The first word of the program's stack, set by the loader.
    static __libc_stack_end: *const u8;
}

/// The end of the main thread's stack.
fn main_stack_end() -> u64 {
    #[cfg(feature = "injected")]
    return crate::injected::header().stack_end;
    // SAFETY: set by the loader before anything else runs.
    #[cfg(not(feature = "injected"))]
    unsafe {
        __libc_stack_end as u64
    }
}

/// The readable part of a thread's own stack: `low .. top`.
pub struct StackWindow {
    low: Cell<u64>,
    top: u64,
    /// A page outside the window that was readable during this walk.
    other_page: Cell<u64>,
    /// Whether a word outside the window was read.
    left: Cell<bool>,
}

impl StackWindow {
    /// The window of the calling thread, empty for now.
    pub fn of_this_thread(is_main: bool) -> Self {
        let top = if is_main { main_stack_end() } else { tls::thread_pointer() } & !7;
        Self { low: Cell::new(top), top, other_page: Cell::new(0), left: Cell::new(false) }
    }

    /// The window of no thread yet.
    pub const fn unknown() -> Self {
        Self { low: Cell::new(0), top: 0, other_page: Cell::new(0), left: Cell::new(false) }
    }

    /// Whether it is no thread's yet.
    pub fn is_unknown(&self) -> bool {
        self.top == 0
    }

    /// A window over memory that can be read.
    #[cfg(test)]
    pub fn over(low: u64, top: u64) -> Self {
        Self { low: Cell::new(low), top, other_page: Cell::new(0), left: Cell::new(false) }
    }

    /// Whether the word at `address` can be read without asking the kernel.
    #[inline(always)]
    pub fn contains(&self, address: u64) -> bool {
        address >= self.low.get() && address < self.top
    }

    /// Whether all words from `low` up to `high` can be read without asking the kernel.
    #[inline(always)]
    pub fn spans(&self, low: u64, high: u64) -> bool {
        low >= self.low.get() && high <= self.top
    }

    /// Whether a frame with this stack pointer is the first of the thread's stack.
    pub fn is_beginning(&self, stack_pointer: u64) -> bool {
        stack_pointer >= self.top
    }

    /// Makes the window reach down to `stack_pointer`; false if that is another stack than the thread's own.
    #[inline(always)]
    pub fn reach(&self, stack_pointer: u64) -> bool {
        self.contains(stack_pointer) || self.extend(stack_pointer)
    }

    #[cold]
    fn extend(&self, stack_pointer: u64) -> bool {
        self.other_page.set(0);
        let low = self.low.get();
        let wanted = stack_pointer & !(PAGE - 1);
        if stack_pointer >= self.top || low - wanted > MOST_PAGES * PAGE {
            return false;
        }
        let mut page = low & !(PAGE - 1);
        while page > wanted {
            if page < low && !sys::is_readable(page) {
                return false;
            }
            page -= PAGE;
        }
        if !sys::is_readable(page) {
            return false;
        }
        self.low.set(wanted);
        true
    }

    /// Whether a word outside the window was read since the last call: it may not be readable later.
    #[inline(always)]
    pub fn was_left(&self) -> bool {
        self.left.replace(false)
    }

    /// The word at `address`, if it can be read.
    #[inline(always)]
    pub fn word(&self, address: u64) -> Option<u64> {
        if self.contains(address) && address & 7 == 0 {
            // SAFETY: found readable, and the stack of a running thread stays mapped.
            return Some(unsafe { (address as *const u64).read_volatile() });
        }
        self.word_elsewhere(address)
    }

    #[cold]
    fn word_elsewhere(&self, address: u64) -> Option<u64> {
        if address & 7 != 0 || address < PAGE {
            return None;
        }
        let page = address & !(PAGE - 1);
        if page != self.other_page.get() {
            if !sys::is_readable(page) {
                return None;
            }
            self.other_page.set(page);
        }
        self.left.set(true);
        // SAFETY: the kernel has just read from this page.
        Some(unsafe { (address as *const u64).read_volatile() })
    }
}
