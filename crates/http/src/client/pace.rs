//! Time limits of a connection.

use std::io;
use std::time::{Duration, Instant};

/// How long a connection may still take.
#[derive(Clone, Debug)]
pub struct Pace {
    stall: Duration,
    run_ends: Instant,
    /// The bytes that have to move in the time of `stall`.
    least_bytes: u64,
    /// The span in which the next `least_bytes` have to move.
    span_ends: Instant,
    span_bytes: u64,
    texts: LateTexts,
}

/// How a limit is called when it has passed.
#[derive(Clone, Copy, Debug)]
pub struct LateTexts {
    /// The whole line for the limit of the run.
    pub run: &'static str,
    /// What follows "in 10 seconds": the name of the setting, or nothing.
    pub stall_setting: &'static str,
}

impl Pace {
    /// A connection that has to move `least_bytes` in each span of `stall`, and is over at `run_ends`.
    pub fn new(stall: Duration, least_bytes: u64, run_ends: Instant, texts: LateTexts) -> Self {
        Self { stall, run_ends, least_bytes, span_ends: Instant::now() + stall, span_bytes: 0, texts }
    }

    /// The time left for the next step; an error if there is none.
    pub fn left(&self) -> io::Result<Duration> {
        let now = Instant::now();
        let late = |text: String| io::Error::new(io::ErrorKind::TimedOut, text);
        if now >= self.run_ends {
            return Err(late(self.texts.run.to_owned()));
        }
        if now >= self.span_ends {
            let (seconds, setting) = (self.stall.as_secs(), self.texts.stall_setting);
            let amount = match self.least_bytes >> 10 {
                0 => "no more bytes".to_owned(),
                kilobytes => format!("less than {kilobytes} KB"),
            };
            return Err(late(format!("it sent {amount} in {seconds} seconds{setting}")));
        }
        Ok(self.span_ends.min(self.run_ends) - now)
    }

    /// Counts bytes that were sent or received.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.span_bytes += bytes as u64;
        if self.span_bytes >= self.least_bytes {
            (self.span_ends, self.span_bytes) = (Instant::now() + self.stall, 0);
        }
    }

    /// The limits for a program that keeps them itself: the time without progress, bytes per second, and the time in all, in seconds.
    pub(crate) fn as_seconds(&self) -> (u64, u64, u64) {
        let stall = self.stall.as_secs().max(1);
        let run = self.run_ends.saturating_duration_since(Instant::now());
        (stall, (self.least_bytes / stall).max(1), run.as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_sends_enough_gets_more_time() {
        const LEAST: u64 = 100 << 10;
        let run_ends = Instant::now() + Duration::from_secs(3600);
        let texts = LateTexts { run: "too late", stall_setting: " (SETTING)" };
        let mut pace = Pace::new(Duration::ZERO, LEAST, run_ends, texts);
        let error = pace.left().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it sent less than 100 KB in 0 seconds (SETTING)");
        pace.stall = Duration::from_secs(60);
        pace.count(LEAST as usize - 1);
        assert!(pace.left().is_err());
        pace.count(1);
        assert!(pace.left().is_ok());
        pace.run_ends = Instant::now();
        assert_eq!(pace.left().unwrap_err().to_string(), "too late");
    }
}
