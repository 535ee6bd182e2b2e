//! The library that `highwater record` loads into a program. It hooks the malloc family: each call is passed on to the allocator
//! that the program would have without this library, and reported to the agent.
//!
//! The functions that a program calls are a few instructions of assembly ([`entry`]): they take the stack and frame
//! pointer as the caller left them, where unwinding starts, and jump to the Rust function that does the work.
//! [`heap`] has the functions for blocks, [`mappings`] those for `mmap` and its kin, [`program_break`] `brk` and `sbrk`, [`exec`] starts programs, [`filter`] sees seccomp filters, [`others`] has
//! the rest, [`start`] runs at the program's start, [`real`] has the functions that would be called without this library.
//!
//! [`api`] has the functions that a program may call by itself (`highwater.h`), [`recorder_process`] starts the recorder for one of them.
//!
//! The C library that programs link with is the same code, built with two features: `linked` for `libhighwater.so`, and `static` for `libhighwater.a`
//! (`archive`). It has no [`exec`]: the programs that a program starts are not its business.
//!
//! # Design
//!
//! **Two of these libraries in one program**: a program is linked with the C library, and `highwater record` loads this one. Only the library whose `malloc`
//! the program calls does anything. With `libhighwater.so` that is the preloaded library, which comes first; its functions of the same names are called as
//! well. With `libhighwater.a` it is the program's own, which the preloaded one recognizes by a note in the program's file (`agent/executable.rs`).
//!
//! **Statically linked programs** call the archive's functions because of the linker's option `--wrap`, which changes every reference in every object of
//! the program, those of the C library's archive included. Defining `malloc` instead would be an error at the link, since the C library's own is in the same
//! object as the allocator; permitting duplicates (`-z muldefs`) would hide the program's own mistakes. `--wrap` also keeps another allocator that the program
//! is linked with: it is the real one then. Such a program has no loader: addresses come from the linker, system calls are made directly.
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

mod api;
#[cfg(feature = "static")]
mod archive;
mod entry;
#[cfg(not(feature = "linked"))]
mod exec;
mod filter;
mod heap;
mod kernel;
mod mappings;
#[cfg(not(feature = "static"))]
mod others;
mod path_text;
mod program_break;
mod real;
mod recorder_process;
#[cfg_attr(feature = "linked", path = "start_linked.rs")]
mod start;

/// Never called: nothing here panics, and after optimisation no code is left that could.
#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
