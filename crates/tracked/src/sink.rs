//! Receivers of events.

use crate::event::ObjectEvent;
use crate::line::ObjectLine;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Receives events of objects, from any thread.
pub trait Sink: Send + Sync {
    /// Receives an event. Tracked objects that this function creates or drops itself are not reported.
    fn record(&self, event: &ObjectEvent<'_>);
}

/// Events that could not be written, or happened inside a sink.
static LOST: AtomicU64 = AtomicU64::new(0);

/// The number of events that could not be reported: writing failed, or they happened inside a sink.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

pub(crate) fn lose() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Writes lines to a writer. Each event is one call of `write`, so lines stay whole even if others write to the same place.
pub(crate) struct Writing<W>(pub Mutex<W>);

impl<W: Write + Send> Sink for Writing<W> {
    fn record(&self, event: &ObjectEvent<'_>) {
        let line = ObjectLine::of(event);
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if write_once(&mut *writer, line.bytes()).is_err() {
            lose();
        }
    }
}

/// Writes lines to standard error.
pub(crate) struct Stderr;

impl Sink for Stderr {
    fn record(&self, event: &ObjectEvent<'_>) {
        if write_once(&mut io::stderr().lock(), ObjectLine::of(event).bytes()).is_err() {
            lose();
        }
    }
}

/// One call of `write`, unless the system takes only a part; then flushes buffered bytes.
fn write_once(writer: &mut impl Write, line: &[u8]) -> io::Result<()> {
    writer.write_all(line)?;
    writer.flush()
}
