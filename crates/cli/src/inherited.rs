//! The signal state at our start, which is passed on unchanged to the program that we start.
//!
//! `nohup` and shells ignore or block signals for the processes that they start. We catch some signals ourselves, and the standard library ignores
//! one and resets others for its children. So the state is saved before any of our code runs.
#![allow(unsafe_code, reason = "C functions for signals, and a function that runs before main")]

use libc::{SIG_DFL, SIG_IGN, SIG_SETMASK};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The highest signal number; the lowest is 1.
const LAST: i32 = 64;

/// A bit for each signal that was ignored, or blocked.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The action of a signal, in the kernel's layout. The C library's own form hides two signals that it reserves for itself.
#[repr(C)]
struct SignalAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// SAFETY: each pointer is null or points to a valid action.
unsafe fn sigaction(signal: i32, new: *const SignalAction, old: *mut SignalAction) -> bool {
    // SAFETY: guaranteed by the caller; masks have eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>()) == 0 }
}

/// SAFETY: each pointer is null or points to a valid mask.
unsafe fn sigprocmask(new: *const u64, old: *mut u64) -> bool {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, SIG_SETMASK, new, old, size_of::<u64>()) == 0 }
}

extern "C" fn note() {
    let (mut ignored, mut blocked) = (0, 0);
    // SAFETY: both calls only query.
    unsafe {
        for signal in 1..=LAST {
            let mut action = SignalAction { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };
            if sigaction(signal, std::ptr::null(), &raw mut action) && action.handler == SIG_IGN {
                ignored |= bit(signal);
            }
        }
        sigprocmask(std::ptr::null(), &raw mut blocked);
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Whether this signal was ignored when we were started.
pub fn is_ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & bit(signal) != 0
}

/// Makes it possible to wait for children. A process that ignores `SIGCHLD` never gets their exit status.
pub fn wait_for_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: this replaces no handler.
        unsafe { libc::signal(libc::SIGCHLD, SIG_DFL) };
    }
}

/// Makes the program start with the signal state that we inherited.
pub fn pass_on_to(command: &mut Command) {
    let (ignored, blocked) = (IGNORED.load(Ordering::Relaxed), BLOCKED.load(Ordering::Relaxed));
    // SAFETY: the closure runs between fork and exec; it only makes system calls and touches nothing else.
    unsafe { command.pre_exec(move || restore(ignored, blocked)) };
}

/// Makes the process end with us, however we end: the kernel asks it to (`SIGTERM`) when the thread that starts it is gone.
pub fn end_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
        // We may have ended in between.
        if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
    };
    // SAFETY: the closure runs between fork and exec; it only makes system calls and touches nothing else.
    unsafe { command.pre_exec(ask) };
}

fn restore(ignored: u64, blocked: u64) -> io::Result<()> {
    // SAFETY: the actions and the mask are complete; only the state of this process changes.
    unsafe {
        for signal in 1..=LAST {
            let handler = if ignored & bit(signal) == 0 { SIG_DFL } else { SIG_IGN };
            // Fails for the two signals whose action cannot be changed; they are as they were.
            sigaction(signal, &SignalAction { handler, flags: 0, restorer: 0, mask: 0 }, std::ptr::null_mut());
        }
        if sigprocmask(&raw const blocked, std::ptr::null_mut()) { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
