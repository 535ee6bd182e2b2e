//! A process that stops threads, and that can be killed at any instant.
//!
//! Threads of the target stay stopped as long as their tracer lives and does not release them. So the tracer is a process of its own that does nothing else, and its
//! parent kills it when it takes longer than its budget: the kernel then releases all threads. The worker dies with its parent.
//!
//! The worker has a session of its own. A SIGSTOP of the command's process group, as shells and job schedulers send it, would stop worker and watchdog at once, and all
//! threads of the target with them. Other signals of the terminal are for the parent: the worker blocks them.
//!
//! The worker is forked from a process that may have threads. glibc makes its own allocator usable in such a child; the worker takes no other lock: it prints nothing.

use crate::tracee::block_signals;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// How a worker ended.
#[derive(Debug)]
pub(crate) enum WorkerEnd {
    /// With this answer.
    Answer(Vec<u8>),
    /// It took longer than its budget and was killed.
    TooLong,
    /// It was killed by someone else, or failed.
    Died,
}

/// With what a worker says that the threads of the target go on.
pub(crate) struct ThreadsGoOn<'a> {
    to: &'a mut io::PipeWriter,
    is_said: bool,
}

impl ThreadsGoOn<'_> {
    /// What follows has the second budget.
    pub(crate) fn say(&mut self) {
        if !std::mem::replace(&mut self.is_said, true) {
            let _ = self.to.write_all(&[0]);
        }
    }
}

/// Runs `work` in a worker. What it changes in memory is lost, except for its answer.
pub(crate) fn run_in_worker(budget: Duration, work: impl FnOnce() -> Vec<u8>) -> io::Result<WorkerEnd> {
    run_in_stages([budget, budget], |_| work())
}

/// Runs `work` in a worker that may take the first budget until it says that threads go on, and the second one for the rest.
pub(crate) fn run_in_stages(
    budgets: [Duration; 2],
    work: impl FnOnce(&mut ThreadsGoOn<'_>) -> Vec<u8>,
) -> io::Result<WorkerEnd> {
    let (reader, mut writer) = io::pipe()?;
    let parent = std::process::id();
    // SAFETY: the child runs only `work` and leaves by `_exit`; see the module's text for what it may use.
    let worker = unsafe { libc::fork() };
    if worker < 0 {
        return Err(io::Error::last_os_error());
    }
    if worker == 0 {
        drop(reader);
        block_signals();
        // SAFETY: takes numbers only. Handlers of this program must not run here, and SIGCHLD must be queued: its default is both.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            libc::setsid();
        }
        // SAFETY: takes nothing. The parent may have died before the line above.
        if unsafe { libc::getppid() }.cast_unsigned() == parent {
            let mut go_on = ThreadsGoOn { to: &mut writer, is_said: false };
            // An unwinding panic would leave this function in the wrong process.
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut go_on)));
            if let Ok(answer) = answer {
                go_on.say();
                let _ = writer.write_all(&answer);
            }
        }
        // SAFETY: ends this process without running anything of the program's.
        unsafe { libc::_exit(0) }
    }
    drop(writer);
    let end = read_answer(reader, budgets);
    // SAFETY: the number is that of our child, which nobody has waited for.
    unsafe {
        libc::kill(worker, libc::SIGKILL);
        let mut status = 0;
        while libc::waitpid(worker, &raw mut status, 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    end
}

fn read_answer(mut reader: io::PipeReader, budgets: [Duration; 2]) -> io::Result<WorkerEnd> {
    let began = Instant::now();
    // The first byte only says that threads go on.
    let mut answer = Vec::new();
    loop {
        let deadline = began + if answer.is_empty() { budgets[0] } else { budgets[0] + budgets[1] };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(WorkerEnd::TooLong);
        }
        let time =
            rustix::event::Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let ready = {
            let mut polled = [rustix::event::PollFd::from_borrowed_fd(reader.as_fd(), rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut polled, Some(&time)) {
                Ok(count) => count > 0,
                Err(rustix::io::Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            }
        };
        if ready {
            let mut part = [0; 4096];
            match reader.read(&mut part)? {
                0 if answer.len() < 2 => return Ok(WorkerEnd::Died),
                0 => return Ok(WorkerEnd::Answer(answer.split_off(1))),
                read => answer.extend_from_slice(&part[..read]),
            }
        }
    }
}
