//! The library that `highwater record` loads into a program. It hooks the malloc family: each call is passed on to the allocator
//! that the program would have without this library, and reported to the agent.
//!
//! The functions that a program calls are a few instructions of assembly ([`entry`]): they take the stack and frame
//! pointer as the caller left them, where unwinding starts, and jump to the Rust function that does the work.
//! [`heap`] has the functions for blocks, [`mappings`] those for `mmap` and its kin, [`exec`] starts programs, [`filter`] sees seccomp filters, [`others`] has
//! the rest, [`start`] runs at the program's start, [`real`] has the functions that would be called without this library.
//!
//! # Design
//!
//! **Seccomp** (`preload/filter.rs`). `prctl` and `syscall` are hooked for one purpose: before a filter is installed, recording ends for good, and no thread
//! is inside the agent any more. Continuing without any system call was rejected: stacks could not be read safely, a writer could not wait for its ring, and
//! figures would be wrong without notice.
//!
//! **The preload library is built by the command's build script**, with a cargo of its own: it needs a profile without unwinding and without the standard
//! library, which would load another library into every program. It has no dependency outside of the repository and takes a second.
//!
//! Rejected alternatives: *hiding our variables* from programs whose children are followed (they see `LD_PRELOAD` and `HIGHWATER_AGENT`); *frame
//! pointers* (the C library has none: walks end silently); *a helper thread in the program* (it would be seen, and die in forks).
#![cfg_attr(feature = "freestanding", no_std)]
#![allow(missing_docs, reason = "what is public here has C's documentation")]

mod entry;
mod exec;
mod filter;
mod heap;
mod mappings;
mod others;
mod real;
mod start;

/// Never called: nothing here panics, and after optimisation no code is left that could.
#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
