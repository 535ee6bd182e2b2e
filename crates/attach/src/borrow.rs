//! Sends one thread of the target through a script.

use crate::elf::u64_at;
use crate::look::{TaskStatus, living_thread, threads_of};
use crate::mappings::{AddressMapping, AddressSpace};
use crate::modules::TargetModule;
use crate::script::{
    MOST_SCRIPT_BYTES, MappingRequest, ResumePoint, SCRIPT_MAGIC, Script, cleaning_script, mapping_script,
};
use crate::seccomp::{FilterVerdict, check_filters};
use crate::steps::Steps;
use crate::target_memory::TargetMemory;
use crate::threads::{LATE_BUDGET, begin_again, was_cut_short};
use crate::tracee::{Registers, StopKind, Tracee};
use crate::worker::{WorkerEnd, run_in_worker};
use std::fs;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a thread may take to stop.
const STOP_BUDGET: Duration = Duration::from_millis(50);
/// How long the search for a thread that can be borrowed may take.
const SEARCH_BUDGET: Duration = Duration::from_secs(3);
/// When the worker is killed.
const WORKER_BUDGET: Duration = Duration::from_secs(5);
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const USER_CODE_SEGMENT: u64 = 0x33;

/// What a thread is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand<'a> {
    /// Map image, islands and object.
    Map(&'a MappingRequest),
    /// Only unmap.
    Clean,
}

/// Why no thread could be borrowed.
#[derive(Debug)]
pub(crate) enum BorrowFailure {
    /// A filter forbids a call.
    Filter(FilterVerdict),
    /// No area for the code.
    NoArea,
    /// Every thread was at a moment at which it cannot be borrowed, for a while.
    NotNow,
    /// The kernel said no.
    Failed(io::Error),
}

/// Unused rests of executable pages, each with nothing in it yet or with the script of an attacher that died.
pub(crate) fn script_areas(memory: &TargetMemory, modules: &[TargetModule]) -> Vec<Range<u64>> {
    let has_room = |module: &&TargetModule| (module.slack.end - module.slack.start) as usize >= MOST_SCRIPT_BYTES;
    // Some files have something after their segments: the vDSO its section headers.
    let is_free = |area: &Range<u64>| {
        is_unused(memory, area.start).unwrap_or(false) || !left_scripts(memory, std::slice::from_ref(area)).is_empty()
    };
    let mut areas: Vec<&TargetModule> = modules.iter().filter(|module| stays_loaded(module)).filter(has_room).collect();
    // The vDSO's page belongs to all processes until it is written to; the program itself is where others look first.
    areas.sort_by_key(|module| (module.is_vdso, module.is_program));
    let areas = areas.into_iter().map(|module| module.slack.start..module.slack.start + MOST_SCRIPT_BYTES as u64);
    areas.filter(is_free).collect()
}

/// Whether a module stays where it is: another library may be unloaded while a thread runs a script in its page. An allocator's cannot, or the program has worse to fear.
fn stays_loaded(module: &TargetModule) -> bool {
    module.is_program
        || module.is_vdso
        || module.is_loader
        || ["malloc", "free"].iter().all(|name| !module.symbols.find(0, &[*name]).is_empty())
}

/// Those areas that have a script now.
pub(crate) fn left_scripts(memory: &TargetMemory, areas: &[Range<u64>]) -> Vec<Range<u64>> {
    areas.iter().filter(|area| memory.read_u64(area.start).is_ok_and(|word| word == SCRIPT_MAGIC)).cloned().collect()
}

/// Borrows a thread in a worker, and says which.
pub(crate) fn borrow_thread(
    pid: i32,
    memory: &TargetMemory,
    areas: &[Range<u64>],
    errand: Errand<'_>,
    unmapped: &[Range<u64>],
    steps: &Steps,
) -> Result<i32, BorrowFailure> {
    let mut found = None;
    for area in areas {
        if is_unused(memory, area.start).map_err(BorrowFailure::Failed)? {
            found = Some(area.start);
            break;
        }
    }
    let area = found.ok_or(BorrowFailure::NoArea)?;
    let borrower = Borrower { pid, memory, area, errand, unmapped, steps };
    let end = run_in_worker(WORKER_BUDGET, || encode(borrower.search())).map_err(BorrowFailure::Failed)?;
    match end {
        WorkerEnd::Answer(answer) => decode(&answer),
        WorkerEnd::TooLong | WorkerEnd::Died => Err(BorrowFailure::NotNow),
    }
}

fn encode(result: Result<i32, BorrowFailure>) -> Vec<u8> {
    let words: [u64; 3] = match result {
        Ok(thread) => [0, thread as u64, 0],
        Err(BorrowFailure::Filter(FilterVerdict::Unreadable)) => [1, 0, 0],
        Err(BorrowFailure::Filter(FilterVerdict::Forbidden { call, answer })) => [2, call.into(), answer.into()],
        Err(BorrowFailure::NoArea | BorrowFailure::NotNow) => [3, 0, 0],
        Err(BorrowFailure::Failed(error)) => [4, error.raw_os_error().unwrap_or(libc::EIO) as u64, 0],
    };
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(answer: &[u8]) -> Result<i32, BorrowFailure> {
    let word = |index: usize| u64_at(answer, index * 8).unwrap_or(u64::MAX);
    match word(0) {
        0 => Ok(word(1) as i32),
        1 => Err(BorrowFailure::Filter(FilterVerdict::Unreadable)),
        2 => Err(BorrowFailure::Filter(FilterVerdict::Forbidden { call: word(1) as u32, answer: word(2) as u32 })),
        4 => Err(BorrowFailure::Failed(io::Error::from_raw_os_error(word(1) as i32))),
        _ => Err(BorrowFailure::NotNow),
    }
}

/// How willingly a thread is borrowed: one that runs rather than one that waits for a signal, whose arrival it could then miss.
fn reluctance(pid: i32, thread: i32) -> Option<u8> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
    let status = TaskStatus::of_thread(pid, thread).ok()?;
    // In `vfork`, or on its way out.
    if matches!(status.state(), 'D' | 'Z' | 'X' | 'T' | 't') {
        return None;
    }
    if status.number("Seccomp") == 1 {
        return None;
    }
    Some(match text.split_whitespace().next().and_then(|word| word.parse::<i64>().ok()) {
        None | Some(-1) => 0,
        Some(libc::SYS_futex) => 1,
        Some(
            libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait | libc::SYS_wait4 | libc::SYS_waitid,
        ) => 4,
        Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep) => 3,
        Some(_) => 2,
    })
}

/// What a worker needs to borrow a thread.
struct Borrower<'a> {
    pid: i32,
    memory: &'a TargetMemory,
    /// Where the script goes.
    area: u64,
    errand: Errand<'a>,
    unmapped: &'a [Range<u64>],
    steps: &'a Steps,
}

impl Borrower<'_> {
    /// Tries thread after thread.
    fn search(&self) -> Result<i32, BorrowFailure> {
        let until = Instant::now() + SEARCH_BUDGET;
        let mut failures = 0;
        while Instant::now() < until {
            let mut threads: Vec<(u8, i32)> = threads_of(self.pid)
                .map_err(BorrowFailure::Failed)?
                .into_iter()
                .filter_map(|thread| Some((reluctance(self.pid, thread)?, thread)))
                .collect();
            threads.sort_unstable();
            for (_, thread) in threads.into_iter().take(16) {
                match self.try_thread(thread) {
                    Ok(true) => return Ok(thread),
                    Ok(false) => (),
                    Err(BorrowFailure::Failed(error)) if error.raw_os_error() == Some(libc::ESRCH) => (),
                    // Another tracer came first, perhaps for a moment.
                    Err(BorrowFailure::Failed(error)) if failures < 20 && error.raw_os_error() == Some(libc::EPERM) => {
                        failures += 1
                    }
                    Err(failure) => return Err(failure),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(BorrowFailure::NotNow)
    }

    /// `Ok(false)`: this is not the moment.
    fn try_thread(&self, thread: i32) -> Result<bool, BorrowFailure> {
        let tracee = Tracee::seize(thread).map_err(BorrowFailure::Failed)?;
        self.steps.at("a thread is seized");
        tracee.interrupt().map_err(BorrowFailure::Failed)?;
        let Some(stop) = tracee.wait(Instant::now() + STOP_BUDGET).map_err(BorrowFailure::Failed)? else {
            // It will stop in a moment, and its system call may fail then.
            tracee.release_late(self.memory, Instant::now() + LATE_BUDGET);
            return Err(BorrowFailure::NotNow);
        };
        self.steps.at("the thread is stopped");
        let result = self.prepare(&tracee, stop);
        // It goes on as if it had not been stopped.
        if !matches!(result, Ok(true))
            && let Ok(registers) = tracee.registers()
        {
            begin_again(&tracee, stop, &registers, self.memory);
        }
        tracee.release(stop);
        if matches!(result, Ok(true)) {
            self.steps.at("the thread runs the script");
        }
        result
    }

    /// Writes the script for a stopped thread, and sends it there.
    fn prepare(&self, tracee: &Tracee, stop: StopKind) -> Result<bool, BorrowFailure> {
        if stop != StopKind::Interrupted {
            return Ok(false);
        }
        let (pid, memory, area, unmapped) = (self.pid, self.memory, self.area, self.unmapped);
        let registers = tracee.registers().map_err(BorrowFailure::Failed)?;
        let Some(resume) = resume_point(pid, memory, tracee, &registers) else { return Ok(false) };
        if unmapped.iter().any(|range| range.contains(&resume.rip) || range.contains(&registers.rip)) {
            return Ok(false);
        }
        // Threads of io_uring run in the kernel only, and their registers are a copy of another thread's, or 0.
        let space = AddressSpace::read(pid).map_err(BorrowFailure::Failed)?;
        if !space.at(registers.rip).is_some_and(|mapping| mapping.executable) {
            return Ok(false);
        }
        let is_area = |mapping: &AddressMapping| {
            mapping.executable && !mapping.shared && mapping.end >= area + MOST_SCRIPT_BYTES as u64
        };
        if !space.at(area).is_some_and(is_area) {
            return Err(BorrowFailure::NotNow);
        }
        let request = if let Errand::Map(request) = self.errand { Some(request) } else { None };
        if TaskStatus::of_thread(pid, tracee.thread).map_err(BorrowFailure::Failed)?.number("Seccomp") != 0 {
            check_filters(tracee, request, unmapped).map_err(BorrowFailure::Filter)?;
        }
        let script = match self.errand {
            Errand::Map(request) => mapping_script(area, request, unmapped, &registers, &resume),
            Errand::Clean => cleaning_script(area, unmapped, &registers, &resume),
        };
        let Some(_lock) = WriteLock::take(pid, tracee) else { return Ok(false) };
        // Another attacher may have written a script since the area was chosen.
        if !is_unused(memory, area).map_err(BorrowFailure::Failed)? {
            return Err(BorrowFailure::NotNow);
        }
        self.run(tracee, &registers, &script).map_err(BorrowFailure::Failed)?;
        Ok(true)
    }

    fn run(&self, tracee: &Tracee, registers: &Registers, script: &Script) -> io::Result<()> {
        if script.bytes.len() > MOST_SCRIPT_BYTES {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.memory.write(self.area, &script.bytes)?;
        self.steps.at("the script is written");
        let borrowed = Registers { rip: script.entry, orig_rax: u64::MAX, ..*registers };
        // From here on the thread finds its own way back.
        tracee.set_registers(&borrowed)?;
        self.steps.at("the registers lead to the script");
        Ok(())
    }
}

/// Keeps other attachers from writing a script, also those that another mount of `/proc` hides from the lock on its folder: a thread has one tracer, and the thread that all
/// seize for it is the first that lives. It is not stopped; the end of this worker lets it go.
struct WriteLock {
    _first: Option<Tracee>,
}

impl WriteLock {
    fn take(pid: i32, stopped: &Tracee) -> Option<Self> {
        let first = living_thread(pid);
        if first == stopped.thread {
            return Some(Self { _first: None });
        }
        Tracee::seize(first).ok().map(|first| Self { _first: Some(first) })
    }
}

fn is_unused(memory: &TargetMemory, area: u64) -> io::Result<bool> {
    memory.read_vec(area, MOST_SCRIPT_BYTES).map(|content| content.iter().all(|&byte| byte == 0))
}

/// Where a stopped thread would go on: what the kernel does on its way out to the program. `None`: it must not be borrowed now.
fn resume_point(pid: i32, memory: &TargetMemory, tracee: &Tracee, registers: &Registers) -> Option<ResumePoint> {
    const ERESTARTSYS: i64 = -512;
    const ERESTARTNOINTR: i64 = -513;
    const ERESTARTNOHAND: i64 = -514;
    const ERESTART_RESTARTBLOCK: i64 = -516;
    if registers.cs != USER_CODE_SEGMENT {
        return None;
    }
    // A signal that is about to arrive must find the system call that it interrupts.
    let status = TaskStatus::of_thread(pid, tracee.thread).ok()?;
    if (status.signals("SigPnd") | status.signals("ShdPnd")) & !status.signals("SigBlk") != 0 {
        return None;
    }
    let mut resume = ResumePoint { rip: registers.rip, rax: registers.rax };
    if registers.orig_rax.cast_signed() >= 0 {
        let again = match registers.rax.cast_signed() {
            ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => Some(registers.orig_rax),
            ERESTART_RESTARTBLOCK => Some(libc::SYS_restart_syscall as u64),
            _ => was_cut_short(registers, memory).then_some(registers.orig_rax),
        };
        if let Some(rax) = again {
            resume = ResumePoint { rip: registers.rip.checked_sub(2)?, rax };
            if !memory.holds(resume.rip, &SYSCALL) {
                return None;
            }
        }
    }
    (!in_restartable_sequence(memory, tracee, registers)).then_some(resume)
}

/// Whether the thread is inside a restartable sequence: the kernel would abort it at the entry of the script.
fn in_restartable_sequence(memory: &TargetMemory, tracee: &Tracee, registers: &Registers) -> bool {
    let Some(area) = tracee.rseq_area() else { return false };
    let Ok(descriptor) = memory.read_u64(area.wrapping_add(8)) else { return true };
    if descriptor == 0 {
        return false;
    }
    let Ok(words) = memory.read_vec(descriptor, 32) else { return true };
    let (start, length) = (u64_at(&words, 8).unwrap_or(0), u64_at(&words, 16).unwrap_or(0));
    registers.rip.wrapping_sub(start) < length
}
