//! The recorder's own threads, which may run inside the recorded program.

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;
use std::thread::JoinHandle;

static BEGINNING: OnceLock<fn()> = OnceLock::new();

/// Sets the function that each of these threads calls first: a program that records itself leaves them out of its recording.
pub fn set_beginning_of_threads(beginning: fn()) {
    let _ = BEGINNING.set(beginning);
}

/// Starts such a thread. It gets its name only when it runs: before, the standard library would allocate for the name.
pub(crate) fn spawn(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(move || {
        if let Some(beginning) = BEGINNING.get() {
            beginning();
        }
        let _ = rustix::thread::set_name(name);
        work();
    })
}
