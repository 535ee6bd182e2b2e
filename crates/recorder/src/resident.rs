//! Reads the resident set of a process at intervals.
//!
//! It is read by the thread that reads the rings: that thread is never late, and knows the time up to which all events have been read. A value that waited
//! until the events before it were processed would belong to a later time than it says, or be missing.

use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// When the second reading is due at the latest: a program that runs for a moment has one after its beginning too.
const SECOND_AFTER: Duration = Duration::from_millis(15);

/// How often the resident memory of a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssEvery(Option<Duration>);

impl RssEvery {
    /// Never.
    pub const NEVER: Self = Self(None);

    /// With this time between two readings. A time of 0 means never.
    pub fn interval(interval: Duration) -> Self {
        Self(Some(interval).filter(|interval| !interval.is_zero()))
    }

    /// The time between two readings; `None` if there are none.
    pub fn get(self) -> Option<Duration> {
        self.0
    }
}

impl Default for RssEvery {
    fn default() -> Self {
        Self::interval(Duration::from_millis(100))
    }
}

/// Reads the resident set of one process.
#[derive(Debug)]
pub struct Resident {
    statm: String,
    every: RssEvery,
    last: Option<Instant>,
    /// When the next reading is due after the last.
    wait: Duration,
}

impl Resident {
    /// For a process. The first reading is due at once.
    pub fn of(pid: u32, every: RssEvery) -> Self {
        let wait = every.get().unwrap_or_default().min(SECOND_AFTER);
        Self { statm: format!("/proc/{pid}/statm"), every, last: None, wait }
    }

    /// The resident bytes, if a reading is due.
    pub fn due(&mut self) -> Option<u64> {
        let every = self.every.get()?;
        if self.last.is_some_and(|last| last.elapsed() < self.wait) {
            return None;
        }
        if self.last.is_some() {
            self.wait = every;
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
        let mut own = Resident::of(std::process::id(), RssEvery::default());
        assert!(own.due().is_some_and(|bytes| bytes > PAGE));
        own.last = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(own.due(), None);
        assert_eq!(Resident::of(u32::MAX, RssEvery::default()).due(), None);
    }

    #[test]
    fn without_an_interval_nothing_is_read() {
        assert_eq!(Resident::of(std::process::id(), RssEvery::interval(Duration::ZERO)).due(), None);
    }
}
