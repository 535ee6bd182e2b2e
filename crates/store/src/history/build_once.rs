//! A value that takes long to build. It is built once, and other threads wait for it.

use super::history::HistoryError;
use super::work::Work;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// A value that takes long to build and is built once. The thread that builds it holds the lock.
pub struct BuildOnce<T> {
    built: Mutex<Option<Arc<T>>>,
    is_begun: AtomicBool,
    /// The progress, in thousandths.
    done: AtomicU32,
}

impl<T> Default for BuildOnce<T> {
    fn default() -> Self {
        Self { built: Mutex::default(), is_begun: AtomicBool::new(false), done: AtomicU32::new(0) }
    }
}

impl<T> BuildOnce<T> {
    /// The value if it is built; `None` while a thread builds it.
    fn look(&self) -> Option<MutexGuard<'_, Option<Arc<T>>>> {
        match self.built.try_lock() {
            Ok(built) => Some(built),
            // The thread that built it panicked; the value is either complete or absent.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, if it is built already.
    pub fn known(&self) -> Option<Arc<T>> {
        self.look()?.clone()
    }

    /// True for the first caller, which then builds the value in the background.
    pub fn begins(&self) -> bool {
        !self.is_begun.swap(true, Ordering::Relaxed)
    }

    /// Notes the progress, from 0 to 1.
    pub fn is_at(&self, part: f64) {
        self.done.fetch_max((part * 1000.0) as u32, Ordering::Relaxed);
    }

    /// The progress, while the value is built in the background.
    pub fn progress(&self) -> Option<f64> {
        let is_building = self.is_begun.load(Ordering::Relaxed) && self.look().is_none();
        is_building.then(|| f64::from(self.done.load(Ordering::Relaxed)) / 1000.0)
    }

    /// The value. The first caller builds it; others wait.
    pub fn get(
        &self,
        work: &Work<'_>,
        build: impl FnOnce() -> Result<Arc<T>, HistoryError>,
    ) -> Result<Arc<T>, HistoryError> {
        loop {
            if let Some(mut built) = self.look() {
                if let Some(built) = &*built {
                    return Ok(Arc::clone(built));
                }
                return Ok(Arc::clone(built.insert(build()?)));
            }
            work.progress(f64::from(self.done.load(Ordering::Relaxed)) / 1000.0, "reading the recording")?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
