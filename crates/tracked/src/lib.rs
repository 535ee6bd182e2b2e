//! Objects that tell of their birth and their end: the part of Highwater that runs everywhere, WASM included.
//!
//! Programs use the crate `highwater`, which passes all of this on, with `#[derive(Tracked)]`. It needs nothing but the standard library, and builds for
//! `wasm32-unknown-unknown`.
//!
//! * [`Tracked<T>`] is a `T` that tells; [`Tag`] is a field that tells of whatever it is in; [`DeepSize`] is how large values are, heap included.
//! * [`to_stderr`], [`to_file`], [`to_writer`] and on WASM `to_console` write an object log (`docs/objlog.md`), which `highwater objects` reads;
//!   [`to_sink`] gives events to anything else; [`off`] ends it. In native programs `HIGHWATER_OBJECTS=objects.log` in the environment is the same
//!   as [`to_file`], and `HIGHWATER_OBJECTS=stderr` as [`to_stderr`], from the first object on.
//! * [`memory`] and [`mark`] divide iterations, and [`measure`] looks by itself how large the memory is.
//!
//! ```
//! use highwater_tracked::{Tracked, to_writer};
//! use std::sync::{Arc, Mutex};
//!
//! #[derive(Clone, Default)]
//! struct Shared(Arc<Mutex<Vec<u8>>>);
//!
//! impl std::io::Write for Shared {
//!     fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
//!         self.0.lock().unwrap().write(bytes)
//!     }
//!     fn flush(&mut self) -> std::io::Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! let log = Shared::default();
//! to_writer(log.clone());
//! let numbers = Tracked::new(vec![0u64; 800]);
//! drop(numbers);
//! highwater_tracked::off();
//!
//! let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
//! let lines: Vec<&str> = text.lines().collect();
//! assert!(lines[0].starts_with("@ ALLOCATE 6424 ") && lines[0].ends_with(" alloc::vec::Vec<u64> 0"));
//! assert_eq!(lines[1], "@ DROP 6424 alloc::vec::Vec<u64> 0");
//! ```
#![deny(unsafe_code)]

#[cfg(target_family = "wasm")]
mod console;
mod deep_size;
#[cfg(not(target_family = "wasm"))]
#[doc(hidden)]
pub mod environment;
mod event;
mod life;
mod line;
mod measured;
mod sink;
mod std_sizes;
mod switch;
mod tag;
mod tracked;

pub use deep_size::DeepSize;
pub use event::ObjectEvent;
pub use measured::measure;
pub use sink::{Sink, lost};
pub use tag::Tag;
pub use tracked::{Track, Tracked};

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Writes an object log to standard error, a line for each event.
pub fn to_stderr() {
    to_sink(Arc::new(sink::Stderr));
}

/// Writes an object log to a file, at its end if it exists; a line for each event, at once. A new file is for its owner alone.
pub fn to_file(path: impl AsRef<Path>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    to_writer(options.open(path)?);
    Ok(())
}

/// Writes an object log to any writer. Each event is one call of `write`.
pub fn to_writer(writer: impl Write + Send + 'static) {
    to_sink(Arc::new(sink::Writing(Mutex::new(writer))));
}

/// Writes an object log to the console of the module's host, through the import `highwater.console(pointer, length)`.
#[cfg(target_family = "wasm")]
pub fn to_console() {
    to_sink(Arc::new(console::Console));
}

/// Gives events to a sink. It takes the place of the one before.
pub fn to_sink(sink: Arc<dyn Sink>) {
    switch::set(Some(sink));
}

/// Nobody listens any more. Objects born from now on are not heard of, and of others no end.
pub fn off() {
    switch::set(None);
}

/// True if somebody listens.
pub fn is_on() -> bool {
    switch::is_heard()
}

/// Tells how large the program's memory is, and perhaps what this instant is called. Between two of these lies an iteration.
pub fn memory(bytes: u64, label: &str) {
    if switch::is_on() {
        switch::tell(&ObjectEvent::Memory { bytes, label });
    }
}

/// Tells what this instant is called. Between two of these lies an iteration.
pub fn mark(label: &str) {
    if switch::is_on() && !label.is_empty() {
        switch::tell(&ObjectEvent::Mark { label });
    }
}
