//! How long ago something was.

use std::time::{SystemTime, UNIX_EPOCH};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time since an instant in nanoseconds since the Unix epoch, in one unit: `12 s`, `3 min`, `5 h`, `2 d`.
pub fn age(unix_ns: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    in_one_unit(now.saturating_sub(unix_ns / 1_000_000_000))
}

/// Seconds in one unit.
pub fn in_one_unit(seconds: u64) -> String {
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => format!("{} h", seconds / HOUR),
        _ => format!("{} d", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let shown = [0, 59, 60, 3599, 3600, 86_399, 86_400].map(in_one_unit);
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 d"]);
    }
}
