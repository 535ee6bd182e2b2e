//! A value that takes long to make. It is made once, and other threads wait for it.

use crate::problem::Problem;
use crate::work::Work;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// A value that takes long to make and is made once. The thread that makes it holds the lock.
pub struct MadeOnce<T> {
    made: Mutex<Option<Arc<T>>>,
    is_begun: AtomicBool,
    /// The progress, in thousandths.
    done: AtomicU32,
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        Self { made: Mutex::default(), is_begun: AtomicBool::new(false), done: AtomicU32::new(0) }
    }
}

impl<T> MadeOnce<T> {
    /// The value if it is made; `None` while a thread makes it.
    fn look(&self) -> Option<MutexGuard<'_, Option<Arc<T>>>> {
        match self.made.try_lock() {
            Ok(made) => Some(made),
            // The thread that made it panicked; the value is either complete or absent.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, if it is made already.
    pub fn known(&self) -> Option<Arc<T>> {
        self.look()?.clone()
    }

    /// True for the first caller, which then makes the value in the background.
    pub fn begins(&self) -> bool {
        !self.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Notes the progress, from 0 to 1.
    pub fn is_at(&self, part: f64) {
        self.done.fetch_max((part * 1000.0) as u32, Ordering::Relaxed);
    }

    /// The progress, while the value is made in the background.
    pub fn reading(&self) -> Option<f64> {
        let is_made = self.is_begun.load(Ordering::Relaxed) && self.look().is_none();
        is_made.then(|| f64::from(self.done.load(Ordering::Relaxed)) / 1000.0)
    }

    /// The value. The first caller makes it; others wait.
    pub fn get(&self, work: &Work<'_>, make: impl FnOnce() -> Result<Arc<T>, Problem>) -> Result<Arc<T>, Problem> {
        loop {
            if let Some(mut made) = self.look() {
                if let Some(made) = &*made {
                    return Ok(Arc::clone(made));
                }
                return Ok(Arc::clone(made.insert(make()?)));
            }
            work.progress(f64::from(self.done.load(Ordering::Relaxed)) / 1000.0, "reading the recording")?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
