//! The work on one request: it reports progress, and finds out when the client has disconnected.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The least time between two reports of progress.
const BETWEEN_LINES: Duration = Duration::from_millis(100);
/// The least time between two checks whether the client is still connected.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The client has disconnected, and the work was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Progress callback. Receives the progress if there is some to report. Returns `false` once the client has disconnected.
pub type Asker<'a> = dyn FnMut(Option<(f64, &str)>) -> bool + Send + 'a;

/// The work on one request, shared by all threads that take part in it. Reports progress, and fails once the client has disconnected.
pub struct Work<'a> {
    is_cancelled: AtomicBool,
    asker: Mutex<Option<ProgressReports<'a>>>,
}

struct ProgressReports<'a> {
    asker: &'a mut Asker<'a>,
    reported: Instant,
    looked: Instant,
}

impl<'a> Work<'a> {
    /// Without a callback: for a caller that waits to the end and needs no progress.
    pub fn quiet() -> Self {
        Self { is_cancelled: AtomicBool::new(false), asker: Mutex::new(None) }
    }

    /// With a progress callback.
    pub fn asked_by(asker: &'a mut Asker<'a>) -> Self {
        let now = Instant::now();
        let reports = ProgressReports { asker, reported: now, looked: now };
        Self { is_cancelled: AtomicBool::new(false), asker: Mutex::new(Some(reports)) }
    }

    /// Reports progress from 0 to 1, and fails if the client has disconnected. Cheap enough for thousands of calls a second.
    pub fn progress(&self, part: f64, what: &str) -> Result<(), Cancelled> {
        self.look(Some((part, what)))
    }

    /// Fails if the client has disconnected.
    pub fn go_on(&self) -> Result<(), Cancelled> {
        self.look(None)
    }

    fn look(&self, progress: Option<(f64, &str)>) -> Result<(), Cancelled> {
        // A thread that finds the lock taken goes on: another thread is calling the callback.
        if !self.is_cancelled.load(Ordering::Relaxed)
            && let Ok(mut asking) = self.asker.try_lock()
            && let Some(asking) = asking.as_mut()
            && !asking.go_on(progress)
        {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        if self.is_cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }
}

impl ProgressReports<'_> {
    fn go_on(&mut self, progress: Option<(f64, &str)>) -> bool {
        let now = Instant::now();
        let progress = progress.filter(|_| now - self.reported >= BETWEEN_LINES);
        if progress.is_none() && now - self.looked < BETWEEN_LOOKS {
            return true;
        }
        self.looked = now;
        if progress.is_some() {
            self.reported = now;
        }
        (self.asker)(progress)
    }
}
