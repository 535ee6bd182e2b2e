//! One thread of the target under `ptrace`, and no more of `ptrace` than is harmless.
//!
//! `SEIZE` and `INTERRUPT` send no signal. A tracer that dies releases its threads: `PTRACE_O_EXITKILL` is never set. All requests must come from the operating
//! system's thread that seized.

use std::io;
use std::time::{Duration, Instant};

/// The type of `ptrace`'s first argument, which is not the same in all C libraries.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;
#[cfg(target_env = "musl")]
type Request = libc::c_int;

const PTRACE_SECCOMP_GET_FILTER: Request = 0x420c;

/// Registers of a stopped thread.
pub(crate) type Registers = libc::user_regs_struct;

/// How a thread was found when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    /// Because we interrupted it.
    Interrupted,
    /// It was about to be delivered this signal, which the detach must hand on.
    Signal(i32),
    /// The whole process is stopped by a signal, and stays so.
    GroupStop,
}

impl StopKind {
    /// The signal that is handed on when the thread goes on.
    fn signal(self) -> u64 {
        if let Self::Signal(signal) = self { signal as u64 } else { 0 }
    }
}

/// A thread that this thread has seized. Dropped without [`release`](Self::release), it stays seized until this process ends.
#[derive(Debug)]
pub(crate) struct Tracee {
    pub thread: i32,
}

/// One request that takes numbers only, or none.
fn request(request: Request, thread: i32, data: u64) -> io::Result<()> {
    // SAFETY: the requests that are passed here read and write no memory of this process.
    match unsafe { libc::ptrace(request, thread, 0_u64, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Tracee {
    pub(crate) fn seize(thread: i32) -> io::Result<Self> {
        request(libc::PTRACE_SEIZE, thread, libc::PTRACE_O_TRACESYSGOOD as u64)?;
        Ok(Self { thread })
    }

    pub(crate) fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.thread, 0)
    }

    /// Waits until the thread has stopped. `Ok(None)`: not until the deadline; an error: it has ended.
    ///
    /// SIGCHLD must be blocked: its arrival ends the pauses.
    pub(crate) fn wait(&self, deadline: Instant) -> io::Result<Option<StopKind>> {
        loop {
            let mut status = 0;
            // SAFETY: `status` is writable. By its number: waiting for any child is quadratic in the number of threads.
            let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if waited == self.thread {
                if !libc::WIFSTOPPED(status) {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                let signal = libc::WSTOPSIG(status);
                return Ok(Some(match status >> 16 {
                    libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => StopKind::Interrupted,
                    libc::PTRACE_EVENT_STOP => StopKind::GroupStop,
                    _ => StopKind::Signal(signal),
                }));
            }
            if waited < 0 {
                return Err(io::Error::last_os_error());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            wait_for_child(left.min(Duration::from_millis(5)));
        }
    }

    pub(crate) fn registers(&self) -> io::Result<Registers> {
        let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
        let mut vector = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<Registers>() };
        // SAFETY: the vector describes `registers`, which the kernel fills at most.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.thread, libc::NT_PRSTATUS as u64, &raw mut vector) };
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
        // A process of 32 bits has fewer registers.
        if vector.iov_len != size_of::<Registers>() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // SAFETY: all bytes are initialized, and every pattern of them is a value.
        Ok(unsafe { registers.assume_init() })
    }

    pub(crate) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut copy = *registers;
        let mut vector = libc::iovec { iov_base: (&raw mut copy).cast(), iov_len: size_of::<Registers>() };
        // SAFETY: the vector describes `copy`, which the kernel reads.
        match unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.thread, libc::NT_PRSTATUS as u64, &raw mut vector) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Where the thread's area for restartable sequences is; `None` if it has none, or the kernel cannot say.
    pub(crate) fn rseq_area(&self) -> Option<u64> {
        const PTRACE_GET_RSEQ_CONFIGURATION: Request = 0x420f;
        #[repr(C)]
        #[derive(Default)]
        struct Configuration {
            pointer: u64,
            size: u32,
            signature: u32,
            flags: u32,
            padding: u32,
        }
        let mut configuration = Configuration::default();
        // SAFETY: the kernel writes at most as many bytes as the third argument says.
        let written = unsafe {
            libc::ptrace(
                PTRACE_GET_RSEQ_CONFIGURATION,
                self.thread,
                size_of::<Configuration>() as u64,
                &raw mut configuration,
            )
        };
        (written > 0 && configuration.pointer != 0).then_some(configuration.pointer)
    }

    /// A filter of the thread, in the order of its filters: `ENOENT` after all of them.
    pub(crate) fn seccomp_filter(&self, index: u64) -> io::Result<Vec<libc::sock_filter>> {
        // SAFETY: with a null pointer, the kernel only says how many instructions there are.
        let count = unsafe { libc::ptrace(PTRACE_SECCOMP_GET_FILTER, self.thread, index, 0_u64) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut filter = vec![libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 }; count];
        // SAFETY: there is room for as many instructions as the kernel said; filters of a stopped thread do not change.
        let result = unsafe { libc::ptrace(PTRACE_SECCOMP_GET_FILTER, self.thread, index, filter.as_mut_ptr()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(filter) }
    }

    /// Lets the stopped thread run; it stays seized.
    pub(crate) fn go_on(&self, stop: StopKind) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.thread, stop.signal())
    }

    /// Lets the stopped thread go. A thread that has ended in the meantime is no error.
    pub(crate) fn release(self, stop: StopKind) {
        let _ = request(libc::PTRACE_DETACH, self.thread, stop.signal());
    }
}

/// Blocks all signals that can be blocked in this thread: a tracer that is stopped by Ctrl-Z would keep its threads stopped.
pub(crate) fn block_signals() {
    // SAFETY: both sets are local.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Pauses until a traced thread stops or ends, or for some time.
fn wait_for_child(longest: Duration) {
    let time = libc::timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
    // SAFETY: the set and the time are local; no information about the signal is asked for.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &raw const time);
    }
}
