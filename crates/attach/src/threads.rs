//! All threads of the target, stopped for a short while.

use crate::elf::u64_at;
use crate::look::{TaskStatus, threads_of};
use crate::mappings::AddressSpace;
use crate::steps::Steps;
use crate::target_memory::TargetMemory;
use crate::tracee::{Registers, StopKind, Tracee};
use crate::worker::ThreadsGoOn;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long threads are waited for that did not stop in time.
pub(crate) const LATE_BUDGET: Duration = Duration::from_secs(1);
/// What stopping one more thread takes on a quiet machine, and half as much again.
const STOP_PER_THREAD: Duration = Duration::from_micros(10);
/// How much of a stack is searched, from its top. A signal frame that lies deeper belongs to a handler that uses more stack than this.
const STACK_SEARCHED: u64 = 1 << 20;
/// The bytes below the stack pointer that a function may use.
const RED_ZONE: u64 = 128;
/// How many bytes are read at once.
const BATCH: usize = 4 << 20;
/// `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Why the threads could not be stopped.
#[derive(Debug)]
pub(crate) enum StopFailure {
    /// A thread does not stop within the budget: it waits in the kernel, as in `vfork`.
    TooLong {
        /// Its state.
        state: char,
    },
    /// The kernel said no.
    Failed(io::Error),
}

struct StoppedThread {
    tracee: Tracee,
    is_interrupted: bool,
    stop: Option<(StopKind, Registers)>,
}

impl StoppedThread {
    fn interrupt(&mut self) {
        self.is_interrupted = true;
        let _ = self.tracee.interrupt();
    }
}

/// All threads of a process, none of which runs until this is released.
pub(crate) struct StoppedThreads<'a> {
    pid: i32,
    memory: &'a TargetMemory,
    threads: Vec<StoppedThread>,
    /// When the first one was interrupted.
    began: Instant,
    /// System calls that were begun again.
    pub mended: u32,
}

impl<'a> StoppedThreads<'a> {
    /// Stops all threads, those that are created meanwhile included.
    pub(crate) fn stop(
        pid: i32,
        memory: &'a TargetMemory,
        budget: Duration,
        steps: &Steps,
        go_on: &mut ThreadsGoOn<'_>,
    ) -> Result<Self, StopFailure> {
        let mut all = Self { pid, memory, threads: Vec::new(), began: Instant::now(), mended: 0 };
        match all.stop_within(budget, steps) {
            Ok(()) => Ok(all),
            Err(failure) => {
                all.release(go_on);
                Err(failure)
            }
        }
    }

    fn stop_within(&mut self, budget: Duration, steps: &Steps) -> Result<(), StopFailure> {
        let mut known: HashSet<i32> = HashSet::new();
        // No thread waits while all are seized.
        for _ in 0..3 {
            if self.seize_new(&mut known)? == 0 {
                break;
            }
        }
        steps.at("all threads are seized");
        // A thread in `vfork` waits in the kernel and cannot stop: the others would wait for it in vain.
        for thread in &self.threads {
            if let Ok(status) = TaskStatus::of_thread(self.pid, thread.tracee.thread)
                && status.state() == 'D'
            {
                let deadline = Instant::now() + Duration::from_millis(1);
                while Instant::now() < deadline {
                    std::thread::yield_now();
                }
                if TaskStatus::of_thread(self.pid, thread.tracee.thread).is_ok_and(|status| status.state() == 'D') {
                    return Err(StopFailure::TooLong { state: 'D' });
                }
            }
        }
        self.began = Instant::now();
        let deadline = self.began + budget + STOP_PER_THREAD * self.threads.len() as u32;
        self.threads.iter_mut().for_each(StoppedThread::interrupt);
        self.wait_for_all(&mut known, deadline)?;
        steps.at("all threads are stopped");
        self.mend();
        Ok(())
    }

    /// Waits until all have stopped, those that are created meanwhile included. All that are known are interrupted.
    fn wait_for_all(&mut self, known: &mut HashSet<i32>, deadline: Instant) -> Result<(), StopFailure> {
        loop {
            for index in 0..self.threads.len() {
                self.wait_for(index, deadline)?;
            }
            let first_new = self.threads.len();
            if self.seize_new(known)? == 0 {
                break;
            }
            self.threads[first_new..].iter_mut().for_each(StoppedThread::interrupt);
        }
        self.threads.retain(|thread| thread.stop.is_some());
        if self.threads.is_empty() {
            return Err(StopFailure::Failed(io::Error::from_raw_os_error(libc::ESRCH)));
        }
        Ok(())
    }

    /// Lets threads run, one after the other, until `is_inside` holds for none. The others stay stopped. An error if that does not succeed until the deadline: one of
    /// them may wait for what a stopped thread holds.
    pub(crate) fn let_out(
        &mut self,
        deadline: Instant,
        steps: &Steps,
        is_inside: impl Fn(&Registers) -> bool,
    ) -> Result<(), StopFailure> {
        /// How long one thread runs at most: longer than any call that does not wait.
        const TURN: Duration = Duration::from_micros(300);
        let mut known: HashSet<i32> = self.threads.iter().map(|thread| thread.tracee.thread).collect();
        loop {
            let mut any_inside = false;
            for index in 0..self.threads.len() {
                let thread = &mut self.threads[index];
                let Some((kind, registers)) = thread.stop.filter(|(_, registers)| is_inside(registers)) else {
                    continue;
                };
                any_inside = true;
                if Instant::now() > deadline {
                    return Err(StopFailure::TooLong { state: 'R' });
                }
                if kind == StopKind::GroupStop {
                    return Err(StopFailure::TooLong { state: 'T' });
                }
                thread.tracee.go_on(kind).map_err(StopFailure::Failed)?;
                thread.stop = None;
                steps.at("a thread is let out of a hook");
                let until = Instant::now() + TURN;
                while is_inside(&registers) && Instant::now() < until {
                    std::hint::spin_loop();
                }
                thread.interrupt();
                self.wait_for(index, deadline)?;
            }
            // A thread that ran may have created another one.
            self.wait_for_all(&mut known, deadline)?;
            self.mend();
            if !any_inside {
                return Ok(());
            }
        }
    }

    /// Seizes threads that are not known yet, and says how many there were.
    fn seize_new(&mut self, known: &mut HashSet<i32>) -> Result<usize, StopFailure> {
        let mut new = 0;
        for thread in threads_of(self.pid).map_err(StopFailure::Failed)? {
            if known.contains(&thread) {
                continue;
            }
            match Tracee::seize(thread) {
                Ok(tracee) => {
                    known.insert(thread);
                    self.threads.push(StoppedThread { tracee, is_interrupted: false, stop: None });
                    new += 1;
                }
                Err(error) => {
                    let has_ended = error.raw_os_error() == Some(libc::ESRCH)
                        || TaskStatus::of_thread(self.pid, thread)
                            .map_or(true, |status| matches!(status.state(), 'Z' | 'X'));
                    if !has_ended {
                        return Err(StopFailure::Failed(error));
                    }
                }
            }
        }
        Ok(new)
    }

    fn wait_for(&mut self, index: usize, deadline: Instant) -> Result<(), StopFailure> {
        let Some(thread) = self.threads.get_mut(index) else { return Ok(()) };
        if thread.stop.is_some() {
            return Ok(());
        }
        match thread.tracee.wait(deadline) {
            // One that has ended is left out later.
            Err(_) => (),
            Ok(Some(kind)) => {
                if let Ok(registers) = thread.tracee.registers() {
                    thread.stop = Some((kind, registers));
                }
            }
            Ok(None) => {
                let state = TaskStatus::of_thread(self.pid, thread.tracee.thread).map_or('?', |status| status.state());
                return Err(StopFailure::TooLong { state });
            }
        }
        Ok(())
    }

    /// Begins system calls again that failed only because we stopped the thread: some kinds of waiting are not restarted by the kernel.
    fn mend(&mut self) {
        for thread in &mut self.threads {
            if let Some((kind, registers)) = &mut thread.stop
                && let Some(again) = begin_again(&thread.tracee, *kind, registers, self.memory)
            {
                *registers = again;
                self.mended += 1;
            }
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }

    /// All of them.
    pub(crate) fn tracees(&self) -> impl Iterator<Item = &Tracee> {
        self.threads.iter().map(|thread| &thread.tracee)
    }

    /// The registers of all.
    pub(crate) fn registers(&self) -> impl Iterator<Item = &Registers> {
        self.threads.iter().filter_map(|thread| thread.stop.as_ref().map(|(_, registers)| registers))
    }

    /// Whether an instruction pointer, or any word of a stack from its top on, lies in one of the ranges. An address on a stack may be where a signal handler returns
    /// to, or a function; or an old word that means nothing, so the answer may be too careful.
    pub(crate) fn any_in(
        &self,
        memory: &TargetMemory,
        space: &AddressSpace,
        ranges: &[Range<u64>],
    ) -> io::Result<bool> {
        let lowest = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let highest = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let within = |word: u64| word >= lowest && word < highest && ranges.iter().any(|range| range.contains(&word));
        if self.registers().any(|registers| within(registers.rip)) {
            return Ok(true);
        }
        // A thread that was created since has a stack that was not there.
        let read_again = self
            .registers()
            .any(|registers| space.at(registers.rsp).is_none())
            .then(|| AddressSpace::read(self.pid))
            .transpose()?;
        let space = read_again.as_ref().unwrap_or(space);
        let stacks: Vec<Range<u64>> = self
            .registers()
            .filter_map(|registers| {
                let mapping = space.at(registers.rsp)?;
                let start = registers.rsp.saturating_sub(RED_ZONE).max(mapping.start).next_multiple_of(8);
                Some(start..mapping.end.min(start + STACK_SEARCHED))
            })
            .filter(|stack| !stack.is_empty())
            .collect();
        let mut buffer = vec![0; BATCH];
        let mut waiting: Vec<Range<u64>> = Vec::new();
        let mut bytes = 0;
        for stack in stacks {
            let length = (stack.end - stack.start) as usize;
            if bytes + length > BATCH || waiting.len() == 512 {
                if self.any_word(memory, &waiting, &mut buffer, &within)? {
                    return Ok(true);
                }
                waiting.clear();
                bytes = 0;
            }
            bytes += length;
            waiting.push(stack);
        }
        self.any_word(memory, &waiting, &mut buffer, &within)
    }

    fn any_word(
        &self,
        memory: &TargetMemory,
        stacks: &[Range<u64>],
        buffer: &mut [u8],
        within: &impl Fn(u64) -> bool,
    ) -> io::Result<bool> {
        let wanted: usize = stacks.iter().map(|stack| (stack.end - stack.start) as usize).sum();
        if wanted == 0 {
            return Ok(false);
        }
        let words_of = |bytes: &[u8]| bytes.chunks_exact(8).any(|word| u64_at(word, 0).is_some_and(within));
        // By a thread that lives: the first one may have ended.
        let living = self.threads.first().map_or(self.pid, |thread| thread.tracee.thread);
        if read_many(living, stacks, &mut buffer[..wanted]).is_ok_and(|read| read == wanted) {
            return Ok(words_of(&buffer[..wanted]));
        }
        // One of the stacks cannot be read whole: each by itself, and a page at a time.
        for stack in stacks {
            let mut at = stack.start;
            while at < stack.end {
                let end = ((at | 4095) + 1).min(stack.end);
                let part = &mut buffer[..(end - at) as usize];
                if memory.read(at, part).is_ok() && words_of(part) {
                    return Ok(true);
                }
                at = end;
            }
        }
        Ok(false)
    }

    /// Lets all go: those that were in the program first, then those in system calls. Returns how long the last was stopped.
    ///
    /// Threads that did not stop in time will do so in a moment, when no other thread is held up any more: they are waited for, since their system calls may fail then.
    pub(crate) fn release(&mut self, go_on: &mut ThreadsGoOn<'_>) -> Duration {
        // If not all could be stopped, this was not yet done.
        self.mend();
        let (program, system): (Vec<_>, Vec<_>) = self.threads.drain(..).partition(|thread| {
            thread.stop.as_ref().is_some_and(|(_, registers)| registers.orig_rax.cast_signed() < 0)
        });
        let mut late = Vec::new();
        for thread in program.into_iter().chain(system) {
            match thread.stop {
                Some((kind, _)) => thread.tracee.release(kind),
                None if thread.is_interrupted => late.push(thread.tracee),
                // The end of this process lets it go, without any stop.
                None => (),
            }
        }
        let pause = self.began.elapsed();
        go_on.say();
        let deadline = Instant::now() + LATE_BUDGET;
        late.into_iter().for_each(|tracee| tracee.release_late(self.memory, deadline));
        pause
    }
}

impl Tracee {
    /// Waits for a thread that was interrupted and has not stopped yet, and lets it go at once.
    pub(crate) fn release_late(self, memory: &TargetMemory, deadline: Instant) {
        if let Ok(Some(kind)) = self.wait(deadline) {
            if let Ok(registers) = self.registers() {
                begin_again(&self, kind, &registers, memory);
            }
            self.release(kind);
        }
    }
}

/// Makes a stopped thread begin its system call again, if that failed because of our stop alone. Returns its new registers then.
///
/// The kernel decides when the thread goes on, with the result that stands for "restart, unless a handler runs": a signal that has arrived by then, during the stop too,
/// is handled, and the call fails with EINTR, as it would without us. Setting the instruction pointer back would lose that EINTR, and the program would wait on.
pub(crate) fn begin_again(
    tracee: &Tracee,
    stop: StopKind,
    registers: &Registers,
    memory: &TargetMemory,
) -> Option<Registers> {
    const ERESTARTNOHAND: i64 = 514;
    if stop == StopKind::GroupStop || !was_cut_short(registers, memory) {
        return None;
    }
    let again = Registers { rax: (-ERESTARTNOHAND).cast_unsigned(), ..*registers };
    tracee.set_registers(&again).is_ok().then_some(again)
}

/// Whether a thread stopped in a system call that fails with EINTR when a thread is stopped.
pub(crate) fn was_cut_short(registers: &Registers, memory: &TargetMemory) -> bool {
    let number = registers.orig_rax.cast_signed();
    number >= 0
        && registers.rax.cast_signed() == -i64::from(libc::EINTR)
        && fails_with_eintr(number)
        && registers.rip.checked_sub(2).is_some_and(|call| memory.holds(call, &SYSCALL))
}

/// System calls that the kernel does not restart after a stop: some always, some only with a time-out on their socket, and those on files only where a file system in user
/// space (FUSE) answers them with EINTR. `close` is not among them: its descriptor is free again whatever it returns.
fn fails_with_eintr(number: i64) -> bool {
    const IO_PGETEVENTS: i64 = 333;
    const EPOLL_PWAIT2: i64 = 441;
    matches!(
        number,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | EPOLL_PWAIT2
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_io_getevents
            | IO_PGETEVENTS
            | libc::SYS_msgrcv
            | libc::SYS_msgsnd
            | libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_tee
            | libc::SYS_vmsplice
            | libc::SYS_copy_file_range
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_io_uring_enter
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
            | libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_fstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_statfs
            | libc::SYS_fstatfs
            | libc::SYS_access
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlink
            | libc::SYS_readlinkat
            | libc::SYS_getdents64
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_syncfs
            | libc::SYS_sync_file_range
    )
}

/// Reads several ranges into one buffer, in their order, through a thread that has not ended.
pub(crate) fn read_many(thread: i32, ranges: &[Range<u64>], into: &mut [u8]) -> io::Result<usize> {
    let remote: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: range.start as *mut libc::c_void,
            iov_len: (range.end - range.start) as usize,
        })
        .collect();
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the kernel writes into `into` at most; the remote addresses are those of another process.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, remote.as_ptr(), remote.len() as u64, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
