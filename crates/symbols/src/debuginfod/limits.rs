//! Limits of time and size, with the variables of elfutils.

use std::io;
use std::time::{Duration, Instant};

/// The amount of data that a server has to send in the time of [`Limits::stall`].
const LEAST_BYTES: u64 = 100 << 10;

const DEFAULT_STALL: Duration = Duration::from_secs(10);
const DEFAULT_RUN: Duration = Duration::from_secs(120);
const DEFAULT_LARGEST_FILE: u64 = 4 << 30;
/// Stands for "no limit".
const DAY: Duration = Duration::from_secs(86_400);

/// The limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// A server that sends less than 100 KiB in this time is given up.
    pub(super) stall: Duration,
    /// The time for all requests together.
    pub(super) run: Duration,
    /// The largest file, in bytes.
    pub(super) largest_file: u64,
}

impl Limits {
    /// `DEBUGINFOD_TIMEOUT`, `DEBUGINFOD_MAXTIME` and `DEBUGINFOD_MAXSIZE`. The first two are in seconds; 0 means no limit. The defaults are lower
    /// than those of elfutils: a user who waits for a report must not wait minutes for a dead server.
    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<i64>().ok());
        let time = |name: &str, default: Duration| match number(name) {
            None => default,
            Some(seconds) if seconds <= 0 => DAY,
            Some(seconds) => Duration::from_secs(seconds.unsigned_abs()).min(DAY),
        };
        let largest = number("DEBUGINFOD_MAXSIZE").filter(|bytes| *bytes > 0).map(i64::unsigned_abs);
        Self {
            stall: time("DEBUGINFOD_TIMEOUT", DEFAULT_STALL),
            run: time("DEBUGINFOD_MAXTIME", DEFAULT_RUN),
            largest_file: largest.unwrap_or(DEFAULT_LARGEST_FILE),
        }
    }
}

/// How long a connection may still take.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    stall: Duration,
    run_ends: Instant,
    /// The span in which the next [`LEAST_BYTES`] have to arrive.
    span_ends: Instant,
    span_bytes: u64,
}

impl Pace {
    pub(super) fn new(stall: Duration, run_ends: Instant) -> Self {
        Self { stall, run_ends, span_ends: Instant::now() + stall, span_bytes: 0 }
    }

    /// The time left for the next step; an error if there is none.
    pub(super) fn left(&self) -> io::Result<Duration> {
        let now = Instant::now();
        let late = |text: String| io::Error::new(io::ErrorKind::TimedOut, text);
        if now >= self.run_ends {
            return Err(late("the time limit for all downloads has passed (DEBUGINFOD_MAXTIME)".to_owned()));
        }
        if now >= self.span_ends {
            let seconds = self.stall.as_secs();
            return Err(late(format!("it sent less than 100 KB in {seconds} seconds (DEBUGINFOD_TIMEOUT)")));
        }
        Ok(self.span_ends.min(self.run_ends) - now)
    }

    /// Counts bytes that arrived.
    pub(super) fn count(&mut self, bytes: usize) {
        self.span_bytes += bytes as u64;
        if self.span_bytes >= LEAST_BYTES {
            (self.span_ends, self.span_bytes) = (Instant::now() + self.stall, 0);
        }
    }

    /// The limits for a program that keeps them itself: the time without progress, bytes per second, and the time in all, in seconds.
    pub(super) fn as_seconds(&self) -> (u64, u64, u64) {
        let stall = self.stall.as_secs().max(1);
        let run = self.run_ends.saturating_duration_since(Instant::now());
        (stall, (LEAST_BYTES / stall).max(1), run.as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_elfutils_are_the_limits() {
        let defaults = Limits::from_variables(|_| None);
        assert_eq!(
            (defaults.stall, defaults.run, defaults.largest_file),
            (DEFAULT_STALL, DEFAULT_RUN, DEFAULT_LARGEST_FILE)
        );
        let set = |text: &'static str| Limits::from_variables(move |_| Some(text.to_owned()));
        let all = |seconds, bytes| Limits {
            stall: Duration::from_secs(seconds),
            run: Duration::from_secs(seconds),
            largest_file: bytes,
        };
        assert_eq!(set("7"), all(7, 7));
        assert_eq!(set("0"), all(86_400, DEFAULT_LARGEST_FILE));
        assert_eq!(set("-1"), all(86_400, DEFAULT_LARGEST_FILE));
        assert_eq!(set("soon"), defaults);
    }

    #[test]
    fn a_server_that_sends_enough_gets_more_time() {
        let run_ends = Instant::now() + Duration::from_secs(3600);
        let mut pace = Pace::new(Duration::ZERO, run_ends);
        assert_eq!(pace.left().unwrap_err().kind(), io::ErrorKind::TimedOut);
        pace.stall = Duration::from_secs(60);
        pace.count(LEAST_BYTES as usize - 1);
        assert!(pace.left().is_err());
        pace.count(1);
        assert!(pace.left().is_ok());
        pace.run_ends = Instant::now();
        assert!(pace.left().is_err());
    }
}
