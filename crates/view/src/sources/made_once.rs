//! Something that takes long to make, is made once, and is waited for meanwhile.

use crate::problem::Problem;
use crate::work::Work;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// See the module's text. Whoever makes it holds the lock.
pub struct MadeOnce<T> {
    made: Mutex<Option<Arc<T>>>,
    is_begun: AtomicBool,
    /// How far it is, in thousandths.
    done: AtomicU32,
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        Self { made: Mutex::default(), is_begun: AtomicBool::new(false), done: AtomicU32::new(0) }
    }
}

impl<T> MadeOnce<T> {
    /// Nothing while somebody makes it.
    fn look(&self) -> Option<MutexGuard<'_, Option<Arc<T>>>> {
        match self.made.try_lock() {
            Ok(made) => Some(made),
            // Whoever made it gave up; nothing is half done.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What was made already.
    pub fn known(&self) -> Option<Arc<T>> {
        self.look()?.clone()
    }

    /// True for the first who says that he will make it in the background.
    pub fn begins(&self) -> bool {
        !self.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Whoever makes it has got so far.
    pub fn is_at(&self, part: f64) {
        self.done.fetch_max((part * 1000.0) as u32, Ordering::Relaxed);
    }

    /// How far it is, while it is made in the background.
    pub fn reading(&self) -> Option<f64> {
        let is_made = self.is_begun.load(Ordering::Relaxed) && self.look().is_none();
        is_made.then(|| f64::from(self.done.load(Ordering::Relaxed)) / 1000.0)
    }

    /// What was made, or is made now. Others wait.
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
