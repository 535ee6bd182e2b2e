//! Reads the resident set of a process at intervals.
//!
//! It is read by the thread that reads the rings: that thread is never late, and knows the time up to which all events have been read. A value that waited
//! until the events before it were processed would belong to a later time than it says, or be missing.

use std::time::{Duration, Instant};

/// The minimum time between two readings.
const EVERY: Duration = Duration::from_millis(100);
const PAGE: u64 = 4096;

/// Reads the resident set of one process.
#[derive(Debug)]
pub struct Resident {
    statm: String,
    last: Option<Instant>,
}

impl Resident {
    /// For a process. The first reading is due at once.
    pub fn of(pid: u32) -> Self {
        Self { statm: format!("/proc/{pid}/statm"), last: None }
    }

    /// The resident bytes, if a reading is due.
    pub fn due(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return None;
        }
        self.last = Some(Instant::now());
        let text = std::fs::read_to_string(&self.statm).ok()?;
        let pages = text.split_whitespace().nth(1)?.parse::<u64>().ok().filter(|pages| *pages > 0)?;
        Some(pages * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reading_comes_at_once_and_the_next_one_is_not_due_yet() {
        let mut own = Resident::of(std::process::id());
        assert!(own.due().is_some_and(|bytes| bytes > PAGE));
        own.last = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(own.due(), None);
        assert_eq!(Resident::of(u32::MAX).due(), None);
    }
}
