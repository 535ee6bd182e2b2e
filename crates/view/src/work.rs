//! A question that is being answered: it tells how far it has got, and finds out that nobody waits any more.

use crate::problem::Problem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often progress is told.
const BETWEEN_LINES: Duration = Duration::from_millis(100);
/// How often it is looked whether somebody waits.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Who asked: is told how far things are where there is something to tell, and says whether he still waits.
pub type Asker<'a> = dyn FnMut(Option<(f64, &str)>) -> bool + Send + 'a;

/// See the module's text. Shared by all threads that work on one question.
pub struct Work<'a> {
    is_cancelled: AtomicBool,
    asker: Mutex<Option<Asking<'a>>>,
}

struct Asking<'a> {
    asker: &'a mut Asker<'a>,
    told: Instant,
    looked: Instant,
}

impl<'a> Work<'a> {
    /// For whoever waits to the end and need not be told anything.
    pub fn quiet() -> Self {
        Self { is_cancelled: AtomicBool::new(false), asker: Mutex::new(None) }
    }

    /// For somebody.
    pub fn asked_by(asker: &'a mut Asker<'a>) -> Self {
        let now = Instant::now();
        let asking = Asking { asker, told: now, looked: now };
        Self { is_cancelled: AtomicBool::new(false), asker: Mutex::new(Some(asking)) }
    }

    /// Tells how far it has got, from 0 to 1, and fails if nobody waits. Cheap enough for thousands of calls a second.
    pub fn progress(&self, part: f64, what: &str) -> Result<(), Problem> {
        self.look(Some((part, what)))
    }

    /// Fails if nobody waits.
    pub fn go_on(&self) -> Result<(), Problem> {
        self.look(None)
    }

    fn look(&self, progress: Option<(f64, &str)>) -> Result<(), Problem> {
        // Whoever finds the asker busy goes on: another thread is asking him.
        if !self.is_cancelled.load(Ordering::Relaxed)
            && let Ok(mut asking) = self.asker.try_lock()
            && let Some(asking) = asking.as_mut()
            && !asking.go_on(progress)
        {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        if self.is_cancelled.load(Ordering::Relaxed) { Err(Problem::Cancelled) } else { Ok(()) }
    }
}

impl Asking<'_> {
    fn go_on(&mut self, progress: Option<(f64, &str)>) -> bool {
        let now = Instant::now();
        let progress = progress.filter(|_| now - self.told >= BETWEEN_LINES);
        if progress.is_none() && now - self.looked < BETWEEN_LOOKS {
            return true;
        }
        self.looked = now;
        if progress.is_some() {
            self.told = now;
        }
        (self.asker)(progress)
    }
}
