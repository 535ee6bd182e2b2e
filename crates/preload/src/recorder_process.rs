//! A program that records itself: the command `highwater` is started as the recorder, in a session of its own, and writes the file.
//!
//! The program must not notice the recorder. It is no child of the program (`wait` does not see it, and no signal announces its end), gets none of
//! the program's descriptors but standard error, and stays when the program is interrupted from its terminal. It ends with the program, or before it, by
//! [`stop`].

use crate::api::{error, variable};
use crate::kernel::{self, call, number};
use crate::path_text::{Digits, PathText};
use crate::real::{CText, CTextArray};
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicU32, Ordering};
use highwater_agent as agent;
use highwater_agent::config::Config;

/// Names the command, if it is not `highwater` in `PATH`.
const COMMAND_VARIABLE: &CStr = c"HIGHWATER_COMMAND";
/// How long the recorder may take to start, and to complete its file.
const START_MILLISECONDS: u32 = 10_000;
const STOP_MILLISECONDS: u32 = 60_000;
const LONGEST_ANSWER: usize = 256;

/// The process whose recorder was started; 0 if there is none.
static RECORDED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    static environ: CTextArray;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn getauxval(kind: u64) -> u64;
}

/// Starts a recorder that writes to `path`, and begins to record.
pub fn start(path: &CStr) -> c_int {
    const SECURE: u64 = 23;
    // SAFETY: reads what the kernel gave the process at its start.
    if unsafe { getauxval(SECURE) } != 0 {
        return error::NOT_PERMITTED;
    }
    let mut answer = [0; LONGEST_ANSWER];
    let config = match launch(path, &mut answer) {
        Ok(length) => answer.get(..length).and_then(parse),
        Err(error) => return error,
    };
    match config {
        Some(Ok(config)) if agent::begin_recorded(&config) => {}
        Some(Ok(_)) => return error::NO_MEMORY,
        Some(Err(error)) => return error,
        None => return error::NO_SUCH_FILE,
    }
    // A forked child records nothing and must not stop its parent's recorder.
    if RECORDED.swap(kernel::process_id(), Ordering::Relaxed) == 0 {
        // SAFETY: a plain function.
        unsafe { atexit(at_exit) };
    }
    0
}

/// The recorder's answer: `ok` and its configuration, or `error` and a number. `None` if it is neither.
fn parse(answer: &[u8]) -> Option<Result<Config, c_int>> {
    let line = answer.strip_suffix(b"\n")?;
    if let Some(value) = line.strip_prefix(b"ok ") {
        return Config::from_value(value).map(Ok);
    }
    let digits = line.strip_prefix(b"error ")?;
    let number = digits.iter().try_fold(0 as c_int, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    });
    number.filter(|&number| number > 0).map(Err)
}

/// Starts the command and reads its answer; returns the answer's length.
fn launch(path: &CStr, answer: &mut [u8]) -> Result<usize, c_int> {
    const CLOSE_ON_EXEC: usize = 0o2_000_000;
    let process = Digits::of(kernel::process_id().into());
    let process = PathText::of(&[process.bytes()]);
    let arguments: [CText; 7] = [
        c"highwater".as_ptr(),
        c"recorder".as_ptr(),
        c"--pid".as_ptr(),
        process.text().as_ptr(),
        c"--output".as_ptr(),
        path.as_ptr(),
        core::ptr::null(),
    ];
    let mut pipe = [0i32; 2];
    // SAFETY: the kernel writes two numbers.
    let piped = unsafe { call(number::PIPE2, [pipe.as_mut_ptr() as usize, CLOSE_ON_EXEC, 0, 0, 0, 0]) };
    if piped != 0 {
        return Err(-piped as c_int);
    }
    let [from, to] = pipe.map(|descriptor| descriptor as usize);
    let (command, search) = (variable(COMMAND_VARIABLE), variable(c"PATH").unwrap_or(c"/usr/local/bin:/usr/bin:/bin"));
    // SAFETY: as for fork. The child makes system calls only, until it runs another program or exits.
    let child = unsafe { fork() };
    if child == 0 {
        become_recorder(command, search, &arguments, to);
    }
    kernel::close(to);
    if child > 0 {
        // SAFETY: only waits.
        unsafe { call(number::WAIT4, [child as usize, 0, ANY_CHILD, 0, 0, 0]) };
    }
    let mut length = 0;
    while let Some(rest) = answer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let read = if kernel::wait_for(from, START_MILLISECONDS) { kernel::read(from, rest) } else { 0 };
        length += read;
        if read == 0 || answer.get(..length).is_some_and(|answer| answer.ends_with(b"\n")) {
            break;
        }
    }
    kernel::close(from);
    if child < 0 { Err(-child as c_int) } else { Ok(length) }
}

/// Waits also for children that announce their end by no signal.
const ANY_CHILD: usize = 0x4000_0000;

/// Forks, without a signal when the child ends.
///
/// # Safety
/// The child must not call the C library, which was not prepared for this.
unsafe fn fork() -> isize {
    // SAFETY: no flags, no stack: a copy of this process.
    unsafe { call(number::CLONE, [0; 6]) }
}

/// In the child: starts the command in a grandchild, which no longer belongs to the program.
fn become_recorder(command: Option<&CStr>, search: &CStr, arguments: &[CText; 7], answer: usize) -> ! {
    const READ_WRITE: usize = 2;
    // SAFETY: system calls of a process that has no other thread, and nothing to lose.
    unsafe {
        call(number::SETSID, [0; 6]);
        if fork() == 0 {
            call(number::DUP2, [answer, 1, 0, 0, 0, 0]);
            if let Some(nothing) = kernel::open(c"/dev/null", READ_WRITE) {
                call(number::DUP2, [nothing, 0, 0, 0, 0, 0]);
            }
            close_others();
            match command {
                Some(command) => run(command, arguments),
                None => search_and_run(search.to_bytes(), arguments),
            }
        }
    }
    exit()
}

/// Closes all descriptors but the standard ones: a program that waits for the end of a pipe must not wait for the recorder.
fn close_others() {
    const FIRST: usize = 3;
    /// Where the kernel cannot close all at once: the number of descriptors that a program may have by default.
    const MOST: usize = 1024;
    // SAFETY: this process uses none of them.
    if unsafe { call(number::CLOSE_RANGE, [FIRST, u32::MAX as usize, 0, 0, 0, 0]) } != 0 {
        (FIRST..MOST).for_each(kernel::close);
    }
}

fn search_and_run(search: &[u8], arguments: &[CText; 7]) {
    for folder in search.split(|&byte| byte == b':').filter(|folder| !folder.is_empty()) {
        run(PathText::of(&[folder, b"/highwater"]).text(), arguments);
    }
}

/// Returns only if the program cannot be run.
fn run(program: &CStr, arguments: &[CText; 7]) {
    // SAFETY: C strings, and lists of them that end with a null pointer.
    unsafe {
        call(number::EXECVE, [program.as_ptr() as usize, arguments.as_ptr() as usize, environ as usize, 0, 0, 0])
    };
}

fn exit() -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { call(number::EXIT, [0; 6]) };
    }
}

/// Ends the recording, and waits until the recorder has completed the file.
pub fn stop() -> c_int {
    const TERMINATE: usize = 15;
    if RECORDED.load(Ordering::Relaxed) != kernel::process_id() {
        return error::NOT_SUPPORTED;
    }
    RECORDED.store(0, Ordering::Relaxed);
    agent::end();
    let Some(recorder) = agent::session::session().reader_process() else { return error::NOT_CONNECTED };
    // SAFETY: only names a process.
    let process = unsafe { call(number::PIDFD_OPEN, [recorder as usize, 0, 0, 0, 0, 0]) };
    let Ok(process) = usize::try_from(process) else { return error::NOT_CONNECTED };
    // SAFETY: the recorder handles this signal.
    unsafe { call(number::PIDFD_SEND_SIGNAL, [process, TERMINATE, 0, 0, 0, 0]) };
    let is_over = kernel::wait_for(process, STOP_MILLISECONDS);
    kernel::close(process);
    if is_over { 0 } else { error::TIMED_OUT }
}

extern "C" fn at_exit() {
    stop();
}
