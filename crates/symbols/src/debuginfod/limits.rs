//! Limits of time and size, with the variables of elfutils.

use highwater_http::client::{LateTexts, Pace};
use std::time::{Duration, Instant};

/// The amount of data that a server has to send in the time of [`DownloadLimits::stall`].
const LEAST_BYTES: u64 = 100 << 10;

const DEFAULT_STALL: Duration = Duration::from_secs(10);
const DEFAULT_RUN: Duration = Duration::from_secs(120);
const DEFAULT_LARGEST_FILE: u64 = 4 << 30;
/// Stands for "no limit".
const DAY: Duration = Duration::from_secs(86_400);

/// The limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DownloadLimits {
    /// A server that sends less than 100 KiB in this time is given up.
    pub(super) stall: Duration,
    /// The time for all requests together.
    pub(super) run: Duration,
    /// The largest file, in bytes.
    pub(super) largest_file: u64,
}

impl DownloadLimits {
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

/// The pace of a connection of a run that ends then.
pub(super) fn pace(stall: Duration, run_ends: Instant) -> Pace {
    let texts = LateTexts {
        run: "the time limit for all downloads has passed (DEBUGINFOD_MAXTIME)",
        stall_setting: " (DEBUGINFOD_TIMEOUT)",
    };
    Pace::new(stall, LEAST_BYTES, run_ends, texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_elfutils_are_the_limits() {
        let defaults = DownloadLimits::from_variables(|_| None);
        assert_eq!(
            (defaults.stall, defaults.run, defaults.largest_file),
            (DEFAULT_STALL, DEFAULT_RUN, DEFAULT_LARGEST_FILE)
        );
        let set = |text: &'static str| DownloadLimits::from_variables(move |_| Some(text.to_owned()));
        let all = |seconds, bytes| DownloadLimits {
            stall: Duration::from_secs(seconds),
            run: Duration::from_secs(seconds),
            largest_file: bytes,
        };
        assert_eq!(set("7"), all(7, 7));
        assert_eq!(set("0"), all(86_400, DEFAULT_LARGEST_FILE));
        assert_eq!(set("-1"), all(86_400, DEFAULT_LARGEST_FILE));
        assert_eq!(set("soon"), defaults);
    }
}
