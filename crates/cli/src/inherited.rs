//! Signals as we found them when we were started: the program that we start finds them the same.
//!
//! `nohup` and shells ignore or block signals for what they start. We catch some signals ourselves, and the standard library ignores one and resets
//! others for its children, so all of it is noted before anything of ours runs.
#![allow(unsafe_code, reason = "C functions for signals, and a function that runs before main")]

use libc::{SIG_DFL, SIG_IGN, SIG_SETMASK};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals are numbered from 1 up to here.
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

/// What a signal does, as the kernel has it. The C library's own form leaves out two signals, which it keeps for itself.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// SAFETY: each action is one, or null.
unsafe fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> bool {
    // SAFETY: the caller's; masks have eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>()) == 0 }
}

/// SAFETY: each mask is one, or null.
unsafe fn sigprocmask(new: *const u64, old: *mut u64) -> bool {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, SIG_SETMASK, new, old, size_of::<u64>()) == 0 }
}

extern "C" fn note() {
    let (mut ignored, mut blocked) = (0, 0);
    // SAFETY: both only ask.
    unsafe {
        for signal in 1..=LAST {
            let mut action = Action { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };
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

/// Lets us wait for what we start. A process that ignores this signal is never told how its children ended.
pub fn wait_for_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: no handler of anyone's is replaced.
        unsafe { libc::signal(libc::SIGCHLD, SIG_DFL) };
    }
}

/// The program begins with the signals as we found them.
pub fn pass_on_to(command: &mut Command) {
    let (ignored, blocked) = (IGNORED.load(Ordering::Relaxed), BLOCKED.load(Ordering::Relaxed));
    // SAFETY: the closure runs between fork and exec: it makes system calls, and touches nothing else.
    unsafe { command.pre_exec(move || restore(ignored, blocked)) };
}

fn restore(ignored: u64, blocked: u64) -> io::Result<()> {
    // SAFETY: whole actions and a whole mask; what is changed is this process's own.
    unsafe {
        for signal in 1..=LAST {
            let handler = if ignored & bit(signal) == 0 { SIG_DFL } else { SIG_IGN };
            // Fails for the two that nobody may change, which are as they were.
            sigaction(signal, &Action { handler, flags: 0, restorer: 0, mask: 0 }, std::ptr::null_mut());
        }
        if sigprocmask(&raw const blocked, std::ptr::null_mut()) { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
