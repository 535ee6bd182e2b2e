//! Threads of ours, which may be in the very program that is recorded.

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;
use std::thread::JoinHandle;

static BEGINNING: OnceLock<fn()> = OnceLock::new();

/// Says what each thread of ours does first: a program that records itself leaves them out of its recording.
pub fn set_beginning_of_threads(beginning: fn()) {
    let _ = BEGINNING.set(beginning);
}

/// Starts a thread of ours. It gets its name only when it has begun: the standard library would allocate for it before.
pub(crate) fn spawn(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(move || {
        if let Some(beginning) = BEGINNING.get() {
            beginning();
        }
        let _ = rustix::thread::set_name(name);
        work();
    })
}
