//! Where events go.

use crate::event::ObjectEvent;
use crate::line::Line;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Takes what happens to objects, from any thread.
pub trait Sink: Send + Sync {
    /// Takes an event. What this makes or drops of tracked objects itself is not told.
    fn record(&self, event: &ObjectEvent<'_>);
}

/// Events that could not be written, or happened inside of a sink.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many events could not be told: writing failed, or they happened inside of a sink.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

pub(crate) fn lose() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Lines to a writer: each event is one call of `write`, so that lines stay whole whoever else writes there.
pub(crate) struct Writing<W>(pub Mutex<W>);

impl<W: Write + Send> Sink for Writing<W> {
    fn record(&self, event: &ObjectEvent<'_>) {
        let line = Line::of(event);
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if write_once(&mut *writer, line.bytes()).is_err() {
            lose();
        }
    }
}

/// Lines to standard error.
pub(crate) struct Stderr;

impl Sink for Stderr {
    fn record(&self, event: &ObjectEvent<'_>) {
        if write_once(&mut io::stderr().lock(), Line::of(event).bytes()).is_err() {
            lose();
        }
    }
}

/// One call, unless the system takes less than it was given; then what is buffered is passed on.
fn write_once(writer: &mut impl Write, line: &[u8]) -> io::Result<()> {
    writer.write_all(line)?;
    writer.flush()
}
