//! The functions that a program may call by itself: `highwater.h` declares and documents them.
//!
//! Each returns 0 or an error number of the C library, and changes neither `errno` nor anything else that a program could notice.

use crate::kernel;
use crate::path_text::{Digits, PathText};
use crate::recorder_process;
use core::ffi::{CStr, c_char, c_int};
use highwater_agent as agent;
use highwater_agent::config::Config;

/// Error numbers: the words that `strerror` has for them fit.
pub mod error {
    use core::ffi::c_int;

    pub const NOT_PERMITTED: c_int = 1;
    pub const NO_SUCH_FILE: c_int = 2;
    pub const NO_MEMORY: c_int = 12;
    pub const BUSY: c_int = 16;
    pub const INVALID: c_int = 22;
    #[cfg(feature = "linked")]
    pub const NOT_IMPLEMENTED: c_int = 38;
    pub const NOT_SUPPORTED: c_int = 95;
    pub const NOT_CONNECTED: c_int = 107;
    pub const TIMED_OUT: c_int = 110;
}

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// A variable of the environment, if it is set, not empty, and chosen by a user with the same rights.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the C library's string, which stays unless the program changes its environment meanwhile.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value)).filter(|value| !value.is_empty())
    }
}

/// SAFETY: `text` is null or a C string.
unsafe fn named<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Why this library cannot begin now; `None` if it can.
fn refusal() -> Option<c_int> {
    #[cfg(feature = "linked")]
    if !crate::start::is_called() {
        return Some(error::NOT_IMPLEMENTED);
    }
    if agent::children::is_filtered() {
        return Some(error::NOT_PERMITTED);
    }
    agent::has_begun().then_some(error::BUSY)
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// What the library does now: 0 nothing, 1 records, 2 keeps a live table.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_state() -> c_int {
    match agent::mode() {
        agent::AgentMode::Exact | agent::AgentMode::Sampled => 1 + c_int::from(agent::is_live()),
        _ => 0,
    }
}

/// Settings of a live program, as in the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LiveOptions {
    size: usize,
    sample_bytes: u64,
    max_blocks: u64,
    allow_contents: c_int,
    socket: *const c_char,
}

/// Keeps a live table from now on.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_live() -> c_int {
    let size = size_of::<LiveOptions>();
    let options = LiveOptions { size, sample_bytes: 0, max_blocks: 0, allow_contents: 0, socket: core::ptr::null() };
    // SAFETY: the options are whole.
    unsafe { highwater_live_with(&raw const options) }
}

/// The same, with settings.
///
/// # Safety
/// `options` points to settings; their socket is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_live_with(options: *const LiveOptions) -> c_int {
    if agent::is_live() {
        return 0;
    }
    if let Some(refusal) = refusal() {
        return refusal;
    }
    // SAFETY: the caller's. A program that was compiled with another version of the header says so by the size.
    let options = unsafe {
        if options.is_null() || (&raw const (*options).size).read() != size_of::<LiveOptions>() {
            return error::INVALID;
        }
        options.read()
    };
    // SAFETY: the caller's.
    let socket = match unsafe { named(options.socket) } {
        Some(socket) => PathText::of(&[socket.to_bytes()]),
        None => default_socket(),
    };
    let no_arguments = variable(c"HIGHWATER_NO_ARGS").is_some();
    let contents = options.allow_contents != 0;
    let config = Config::for_live(counts_ticks(), options.sample_bytes, options.max_blocks, contents, socket.bytes());
    let config = config.with_usable_sizes();
    let config = if no_arguments { config.without_arguments() } else { config };
    if agent::begin_live(&config) { 0 } else { error::NO_MEMORY }
}

/// The collector's socket, as `highwater_session::socket_by` finds it.
fn default_socket() -> PathText {
    const NAME: &[u8] = b"/highwater.sock";
    const DIRECTORY: usize = 0o200_000;
    let absolute = |name| variable(name).filter(|path| path.to_bytes().starts_with(b"/"));
    if let Some(path) = absolute(c"HIGHWATER_SOCKET") {
        return PathText::of(&[path.to_bytes()]);
    }
    if let Some(folder) = absolute(c"XDG_RUNTIME_DIR")
        && let Some(open) = kernel::open(folder, DIRECTORY)
    {
        kernel::close(open);
        return PathText::of(&[folder.to_bytes(), NAME]);
    }
    PathText::of(&[b"/tmp/highwater-", Digits::of(kernel::user().into()).bytes(), NAME])
}

/// Whether the processor's counter can be trusted: the kernel keeps time by it only then.
fn counts_ticks() -> bool {
    const SOURCE: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut name = [0; 4];
    let Some(file) = kernel::open(SOURCE, 0) else { return false };
    let read = kernel::read(file, &mut name);
    kernel::close(file);
    read == name.len() && name == *b"tsc\n"
}

/// Records everything from now on into a file.
///
/// # Safety
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_record_to(path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let Some(path) = (unsafe { named(path) }).filter(|path| !path.is_empty()) else { return error::INVALID };
    match refusal() {
        Some(refusal) => refusal,
        None => recorder_process::start(path),
    }
}

/// Ends the recording that [`highwater_record_to`] began, and waits until its file is complete.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_stop_recording() -> c_int {
    recorder_process::stop()
}

/// Names this instant in the recording.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_mark(name: *const c_char) {
    // SAFETY: the caller's.
    if let Some(name) = unsafe { named(name) } {
        agent::mark(name.to_bytes());
    }
}

/// The number of the task with this name; 0, which is no task, for an empty name or if there is no memory.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_task(name: *const c_char) -> u32 {
    // SAFETY: the caller's.
    unsafe { named(name) }.map_or(0, |name| agent::task::number(name.to_bytes()))
}

/// The calling thread works for a task from now on. Returns the task that it worked for.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_task_enter(task: u32) -> u32 {
    agent::task::enter(task)
}

/// Has a snapshot of this process taken now, and kept by the collector under a name.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_take_named_snapshot(name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let Some(name) = (unsafe { named(name) }) else { return error::INVALID };
    if !agent::is_live() {
        return error::NOT_SUPPORTED;
    }
    if agent::take_named_snapshot(name.to_bytes()) { 0 } else { error::NOT_CONNECTED }
}

/// Writes the allocations and frees of the process since its table began.
///
/// # Safety
/// There is room for four numbers at `stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_global_stats(stats: *mut u64) -> c_int {
    // SAFETY: the caller's.
    unsafe { write_stats(agent::global_stats(), stats) }
}

/// The same for the calling thread.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_thread_stats(stats: *mut u64) -> c_int {
    // SAFETY: the caller's.
    unsafe { write_stats(agent::thread_stats(), stats) }
}

/// SAFETY: there is room for four numbers.
unsafe fn write_stats(stats: Option<agent::Stats>, target: *mut u64) -> c_int {
    if target.is_null() {
        return error::INVALID;
    }
    let Some(agent::Stats { allocations, allocated_bytes, frees, freed_bytes }) = stats else {
        return error::NOT_SUPPORTED;
    };
    for (index, number) in [allocations, allocated_bytes, frees, freed_bytes].into_iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { target.add(index).write(number) };
    }
    0
}
