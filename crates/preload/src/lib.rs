//! The library that `highwater record` loads into a program: the malloc family, each call passed on to the allocator
//! that the program would have had without us, and reported to the agent.
//!
//! The functions that a program calls are a few instructions of assembly ([`entry`]): they note the stack and frame
//! pointer as the caller left them, which is where unwinding starts, and jump to the Rust function that does the work.
//! [`heap`] has those for blocks, [`mappings`] those for `mmap` and its kin, [`exec`] starts programs, [`filter`] sees seccomp filters, [`others`] has
//! the rest, [`start`] what happens at the program's start, [`real`] the functions that would be called without us.
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

/// Never called: nothing here panics, and the optimiser is left nothing that could.
#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
