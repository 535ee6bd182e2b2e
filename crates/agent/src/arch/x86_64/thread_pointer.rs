//! The thread register.

use core::arch::asm;

/// The thread register: in glibc the address of the thread's own block, which lies at the upper end of its stack.
#[inline(always)]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of the thread's block is its own address.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// The four bytes at an offset from the thread pointer.
///
/// # Safety
/// They lie in the C library's block of the thread.
#[cfg(feature = "injected")]
#[inline(always)]
pub unsafe fn half_word_at(offset: u64) -> u32 {
    let word: u32;
    // SAFETY: the caller's.
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) word, in(reg) offset, options(nostack, preserves_flags, readonly));
    }
    word
}
