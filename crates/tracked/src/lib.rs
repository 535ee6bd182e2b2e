//! Objects that report their creation and their drop: the part of Highwater that runs everywhere, WASM included.
//!
//! Programs use the crate `highwater`, which re-exports all of this and adds `#[derive(Tracked)]`. This crate needs nothing but the standard
//! library, and builds for `wasm32-unknown-unknown`. Modules that wasm-bindgen processes need the feature `wasm-bindgen` for `to_console`.
//!
//! * [`Tracked<T>`] is a `T` that reports its creation and drop. [`Tag`] is a field that does so for the value that contains it. [`DeepSize`] is
//!   the size of a value, heap included.
//! * [`track!`] tracks a value with the name of its variable. [`Shared`] counts the owners of an `Arc` or `Rc`.
//! * [`to_stderr`], [`to_file`], [`to_writer`] and on WASM `to_console` write an object log (`docs/objlog.md`), which `highwater objects` reads.
//!   [`to_sink`] passes events to any other sink; [`off`] stops reporting. In native programs `HIGHWATER_OBJECTS=objects.log` in the environment is
//!   the same as [`to_file`], and `HIGHWATER_OBJECTS=stderr` the same as [`to_stderr`], from the first object on.
//! * [`memory`] and [`mark`] separate iterations; [`measure`] finds out the size of the memory by itself.
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
mod shared;
mod sink;
mod std_sizes;
mod switch;
#[doc(hidden)]
pub mod track;
mod tracked;
mod tracked_field;

pub use deep_size::DeepSize;
#[doc(hidden)]
pub use deep_size::PointerKind;
pub use event::ObjectEvent;
pub use measured::measure;
pub use shared::{Shared, SharedPointer};
pub use sink::{Sink, lost};
pub use tracked::{Track, Tracked};
pub use tracked_field::Tag;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Writes an object log to standard error, a line for each event.
pub fn to_stderr() {
    to_sink(Arc::new(sink::Stderr));
}

/// Writes an object log to a file, one line per event, each written at once. Appends if the file exists. A new file is accessible to its owner
/// only.
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

/// Writes an object log to the console of the module's host, one call for each line, from any thread.
///
/// With the feature `wasm-bindgen` the glue that wasm-bindgen makes calls `console.log`: nothing else is needed, for any of its targets, with or without
/// shared memory. Without the feature, the host provides the import `highwater.console(pointer, length)`.
#[cfg(target_family = "wasm")]
pub fn to_console() {
    to_sink(Arc::new(console::ConsoleSink));
}

/// Passes events to a sink, which replaces the previous one.
pub fn to_sink(sink: Arc<dyn Sink>) {
    switch::set(Some(sink));
}

/// Removes the sink. Objects created while there is no sink are never reported; drops that happen while there is none are not reported either.
pub fn off() {
    switch::set(None);
}

/// True if there is a sink and the caller is not inside it.
pub fn is_on() -> bool {
    switch::is_receiving()
}

/// Reports the size of the program's memory, with an optional name for this instant. An iteration is the time between two such reports.
pub fn memory(bytes: u64, label: &str) {
    if switch::is_on() {
        switch::report(&ObjectEvent::Memory { bytes, label });
    }
}

/// Reports a name for this instant. An iteration is the time between two such reports.
pub fn mark(label: &str) {
    if switch::is_on() && !label.is_empty() {
        switch::report(&ObjectEvent::Mark { label });
    }
}
