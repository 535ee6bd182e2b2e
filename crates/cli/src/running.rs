//! A program that runs under us: its signals and its exit.

use crate::failure::Failure;
use crate::inherited;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signals for the program to handle. Those from a terminal reach it anyway; the others are passed on.
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    to_pass_on: Arc<AtomicUsize>,
}

impl Signals {
    /// Starts to catch them.
    pub fn catch() -> std::io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let to_pass_on = Arc::new(AtomicUsize::new(0));
        // Without a handler, writing beyond the file size limit would kill us; with one, the write fails.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        // Signals that were ignored when we started (by nohup or a shell) are also ignored by the program, so we leave them alone.
        let is_ours = |signal: &i32| !inherited::is_ignored(*signal);
        for signal in [SIGINT, SIGQUIT].into_iter().filter(is_ours) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        for signal in [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2].into_iter().filter(is_ours) {
            signal_hook::flag::register_usize(signal, Arc::clone(&to_pass_on), signal as usize)?;
        }
        Ok(Self { interrupted, to_pass_on })
    }

    /// Whether the user pressed Ctrl-C.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Whether the user pressed Ctrl-C, or another signal asks this command to end: for a program that is not ours to end.
    pub fn stop_requested(&self) -> bool {
        self.interrupted() || self.to_pass_on.load(Ordering::Relaxed) != 0
    }

    /// Passes signals that we received on to the program.
    pub fn pass_on(&self, child: &Child) {
        let signal = self.to_pass_on.swap(0, Ordering::Relaxed);
        if let (Some(pid), Some(signal)) = (pid_of(child), rustix::process::Signal::from_named_raw(signal as i32)) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// How long to wait for the program before checking for signals again, in case a signal did not interrupt the wait.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Waits until the program exits, and passes signals on meanwhile.
pub fn wait_for(child: &mut Child, signals: &Signals) -> std::io::Result<ExitStatus> {
    let process = pid_of(child).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        signals.pass_on(child);
        let mut ended: Vec<PollFd<'_>> = process.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
        let _ = rustix::event::poll(&mut ended, Some(&NAP));
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Exits as the program did: with its exit code, or by the signal that killed it.
pub fn end_like(status: ExitStatus) -> Result<(), Failure> {
    if let Some(signal) = status.signal() {
        // Disables our own core dump: the program's is the useful one.
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return Err(Failure::AsProgram((128 + signal) as u8));
    }
    match status.code().unwrap_or(0) {
        0 => Ok(()),
        code => Err(Failure::AsProgram(code as u8)),
    }
}
