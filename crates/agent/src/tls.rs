//! Three words per thread.
//!
//! Rust's own thread locals would do in a program, but in a library that is loaded first of all they go through the
//! loader, which may allocate. These words are reached relative to the thread register ("initial exec"): two loads, no call.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.highwater_thread,\"awT\",@nobits",
    ".hidden highwater_thread",
    ".globl highwater_thread",
    ".type highwater_thread,@object",
    ".size highwater_thread,8",
    ".balign 8",
    "highwater_thread:",
    ".zero 8",
    ".hidden highwater_countdown",
    ".globl highwater_countdown",
    ".type highwater_countdown,@object",
    ".size highwater_countdown,8",
    "highwater_countdown:",
    ".zero 8",
    ".hidden highwater_looking_up",
    ".globl highwater_looking_up",
    ".type highwater_looking_up,@object",
    ".size highwater_looking_up,8",
    "highwater_looking_up:",
    ".zero 8",
    ".popsection",
);

/// The calling thread's word; 0 until it is set.
#[inline(always)]
pub fn get() -> u64 {
    let word: u64;
    // SAFETY: reads the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + highwater_thread@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly)
        );
    }
    word
}

/// Sets the calling thread's word.
#[inline]
pub fn set(word: u64) {
    // SAFETY: writes the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + highwater_thread@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {word}",
            place = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags)
        );
    }
}

/// The calling thread's countdown; 0 until it is set. The preload library's entries count it down themselves.
#[inline(always)]
pub fn countdown() -> i64 {
    let word: i64;
    // SAFETY: reads the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + highwater_countdown@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly)
        );
    }
    word
}

/// Sets the calling thread's countdown.
#[inline]
pub fn set_countdown(word: i64) {
    // SAFETY: writes the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + highwater_countdown@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {word}",
            place = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags)
        );
    }
}

/// Whether the calling thread is looking a function up.
pub fn is_looking_up() -> bool {
    let word: u64;
    // SAFETY: reads the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + highwater_looking_up@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly)
        );
    }
    word != 0
}

/// Says whether the calling thread is looking a function up.
pub fn set_looking_up(looking_up: bool) {
    // SAFETY: writes the thread's own eight bytes.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + highwater_looking_up@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {word}",
            place = out(reg) _,
            word = in(reg) u64::from(looking_up),
            options(nostack, preserves_flags)
        );
    }
}

/// The thread register: in glibc the address of the thread's own block, which lies at the upper end of its stack.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of the thread's block is its own address.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}
