//! Four words per thread.
//!
//! Rust's own thread locals would do in a program. In a library that is loaded before all others, accessing them calls the
//! loader, which may allocate. These words are reached relative to the thread register ("initial exec"): two loads, no call.

pub use super::thread_pointer::thread_pointer;
use core::arch::{asm, global_asm};

/// A word of each thread under this symbol, zero at first, with a function that reads it and one that writes it.
macro_rules! word {
    ($symbol:literal, $(#[$about_get:meta])* $get:ident, $(#[$about_set:meta])* $set:ident) => {
        global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            concat!(".hidden ", $symbol),
            concat!(".globl ", $symbol),
            concat!(".type ", $symbol, ",@object"),
            concat!(".size ", $symbol, ",8"),
            ".balign 8",
            concat!($symbol, ":"),
            ".zero 8",
            ".popsection",
        );

        $(#[$about_get])*
        #[inline(always)]
        pub fn $get() -> u64 {
            let word: u64;
            // SAFETY: reads the thread's own eight bytes.
            unsafe {
                asm!(
                    concat!("mov {word}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov {word}, qword ptr fs:[{word}]",
                    word = out(reg) word,
                    options(nostack, preserves_flags, readonly)
                );
            }
            word
        }

        $(#[$about_set])*
        #[inline]
        pub fn $set(word: u64) {
            // SAFETY: writes the thread's own eight bytes.
            unsafe {
                asm!(
                    concat!("mov {offset}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{offset}], {word}",
                    offset = out(reg) _,
                    word = in(reg) word,
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

word!(
    "highwater_thread",
    /// The address of the calling thread's data; 0 until it has some.
    get,
    /// Sets the address of the calling thread's data.
    set
);

word!(
    "highwater_countdown",
    /// The calling thread's countdown, a signed number. The preload library's entries count it down themselves.
    countdown,
    /// Sets the calling thread's countdown.
    set_countdown
);

word!(
    "highwater_looking_up",
    /// Not 0 while the calling thread is looking a function up.
    looking_up,
    /// Sets whether the calling thread is looking a function up.
    set_looking_up
);

word!(
    "highwater_current_task",
    /// The number of the task that the calling thread works for; 0 for none.
    task,
    /// Sets the task that the calling thread works for.
    set_task
);
