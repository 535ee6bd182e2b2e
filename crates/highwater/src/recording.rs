//! A program that records itself: a separate thread reads the records of the other threads, and writes the file.
//!
//! The allocations of that thread are not recorded. If the program is killed, the file holds everything up to some tens of milliseconds before.
//! When the program exits, the file is completed with the names of functions.
#![allow(unsafe_code, reason = "hooks at the program's start and end, and C functions")]

use crate::c_library::find_function;
use highwater_agent::config::Config;
use highwater_agent::{self as agent, AgentMode};
use highwater_clock::Counter;
use highwater_recorder::stream::Streaming;
use highwater_recorder::{Outputs, ProcessRecording, RecordedProcess};
use highwater_session::SessionMemory;
use highwater_store::open_or_replace;
use highwater_symbols::Symbolizer;
use highwater_tracked::environment;
use std::ffi::{CString, c_char, c_int};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Names the file to record into, from the program's start. Ignored in a program with more rights than the user who started it.
const VARIABLE: &str = "HIGHWATER_RECORD";
/// Leaves the program's arguments out, if it is set and not empty.
const NO_ARGUMENTS_VARIABLE: &str = "HIGHWATER_NO_ARGS";
/// The time span that may be missing if the program is killed.
const FLUSH_EVERY: Duration = Duration::from_millis(50);
const NAP: Duration = Duration::from_millis(5);

static STOP: AtomicBool = AtomicBool::new(false);
static NO_ARGUMENTS: AtomicBool = AtomicBool::new(false);
static WRITER: Mutex<Option<JoinHandle<io::Result<()>>>> = Mutex::new(None);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Records every allocation from now on into a file, until the program ends or [`stop_recording`] is called. Once per program.
///
/// # Errors
/// If the file cannot be written, if the program was or is being recorded, or if [`Alloc`](crate::Alloc) is not its global allocator.
pub fn record_to(path: impl AsRef<Path>) -> io::Result<()> {
    // Relative to the current directory, which may change later.
    let path = std::path::absolute(path)?;
    if agent::has_begun() {
        return Err(once());
    }
    // The allocator's first call decides that nothing is recorded for now.
    drop(std::hint::black_box(Box::new(1u8)));
    if agent::mode() == AgentMode::New {
        return Err(io::Error::other("highwater::Alloc is not the global allocator of this program"));
    }
    // Checked before recording begins, which cannot be undone; the file is created after that.
    check_writable(&path)?;
    start(move || {
        let counter = Counter::trusted();
        let config = Config::for_ourselves(counter.is_some(), 0);
        begin(&config, about_ourselves(), Some(path), None, counter)
    })
}

/// Whether a file can be written there, without creating or changing it.
fn check_writable(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
        }
        opened => opened.map(drop),
    }
}

/// Starts a recording in a separate thread. That thread does all the work, so that none of it appears in the recording.
pub(crate) fn start(begin: impl FnOnce() -> io::Result<ProcessRecording> + Send + 'static) -> io::Result<()> {
    let mut writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    if agent::has_begun() {
        return Err(once());
    }
    highwater_recorder::stream::set_beginning_of_threads(agent::leave_this_thread_out);
    let (begun, has_begun) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("highwater".into()).spawn(move || {
        agent::leave_this_thread_out();
        let mut recording = match begin() {
            Ok(recording) => recording,
            Err(error) => return begun.send(Err(error)).map_err(io::Error::other),
        };
        let _ = begun.send(Ok(()));
        write(&mut recording);
        let finished = recording.finish(&mut Symbolizer::new(), false);
        let not_kept = finished.sent.not_kept.map(|reason| format!("the stream was not kept: {reason}"));
        finished.written.and_then(|_| not_kept.map_or(Ok(()), |line| Err(io::Error::other(line))))
    })?;
    has_begun.recv().map_err(io::Error::other)??;
    *writer = Some(thread);
    drop(writer);
    // SAFETY: a plain function.
    unsafe { atexit(at_exit) };
    Ok(())
}

/// Begins to record this process, and creates the file once that has succeeded.
pub(crate) fn begin(
    config: &Config,
    about: RecordedProcess,
    file: Option<PathBuf>,
    streaming: Option<Streaming>,
    counter: Option<Counter>,
) -> io::Result<ProcessRecording> {
    let (base, bytes) = agent::begin_for_ourselves(config).ok_or_else(once)?;
    // SAFETY: the agent never unmaps this memory.
    let shared = unsafe { SessionMemory::of_ourselves(base, bytes) }
        .ok_or_else(|| io::Error::other("the agent shares nothing"))?;
    let file = file.map(|path| open_or_replace(&path).map(|file| (path, file))).transpose();
    let file = file.inspect_err(|_| agent::end())?;
    ProcessRecording::begin(shared, about, Outputs { file, streaming, breakdown_worker: None }, counter)
}

/// Ends the recording, and completes its file or its streams. Does nothing if there is no recording.
///
/// # Errors
/// If the file could not be written, or the receiver did not keep the stream that the program sent to it.
pub fn stop_recording() -> io::Result<()> {
    agent::end();
    STOP.store(true, Ordering::Release);
    let thread = WRITER.lock().unwrap_or_else(PoisonError::into_inner).take();
    match thread.map(JoinHandle::join) {
        Some(Ok(written)) => written,
        Some(Err(_)) => Err(io::Error::other("the recording thread failed")),
        None => Ok(()),
    }
}

/// Names this instant in the recording, whether the program records itself or `highwater record` records it.
pub fn mark(name: &str) {
    if matches!(agent::mode(), AgentMode::Exact | AgentMode::Sampled) && !agent::is_live() {
        return agent::mark(name.as_bytes());
    }
    // SAFETY: the function of this name takes a C string.
    unsafe {
        let found = find_function::<unsafe extern "C" fn(*const c_char)>(c"highwater_mark");
        if let (Some(mark), Ok(name)) = (found, CString::new(name)) {
            mark(name.as_ptr());
        }
    }
}

fn once() -> io::Error {
    io::Error::other("this program is being recorded, or was: once is all it can be")
}

pub(crate) fn about_ourselves() -> RecordedProcess {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    RecordedProcess {
        executable: std::env::current_exe().map(text).unwrap_or_default(),
        command: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .take(if leaves_out_arguments() { 1 } else { usize::MAX })
            .collect(),
        pid: std::process::id(),
        parent: std::os::unix::process::parent_id(),
        usable_sizes: false,
        flush_every: FLUSH_EVERY,
        ..RecordedProcess::default()
    }
}

/// Leaves the program's arguments out of recordings, streams and live tables that begin after this call: only the program's name is kept. The same
/// as `HIGHWATER_NO_ARGS=1` in the environment. By default the arguments are included; see `docs/what-a-recording-contains.md`.
pub fn leave_out_arguments() {
    NO_ARGUMENTS.store(true, Ordering::Relaxed);
}

pub(crate) fn leaves_out_arguments() -> bool {
    NO_ARGUMENTS.load(Ordering::Relaxed) || environment::variable(NO_ARGUMENTS_VARIABLE).is_some()
}

/// Reads the records of the other threads until `STOP` is set.
fn write(recording: &mut ProcessRecording) {
    while !STOP.load(Ordering::Acquire) {
        let bytes = recording.round(false);
        agent::follow_reader();
        if bytes == 0 {
            std::thread::sleep(NAP);
        }
    }
    // A thread may be writing its last record at this moment.
    std::thread::sleep(Duration::from_millis(1));
    recording.round(false);
}

extern "C" fn at_exit() {
    if let Err(error) = stop_recording() {
        eprintln!("highwater: the recording is not complete: {error}");
    }
}

/// Starts a recording with the program, if its environment asks for one.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = at_start;

extern "C" fn at_start() {
    let Some(path) = environment::variable(VARIABLE) else { return };
    if let Err(error) = record_to(&path) {
        eprintln!("highwater: cannot record into {}: {error}", Path::new(&path).display());
    }
}
