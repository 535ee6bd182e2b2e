//! `Retry-After`: seconds, or a date such as `Wed, 21 Oct 2015 07:28:00 GMT`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A store that asks for more is asked again after this time.
const LONGEST: Duration = Duration::from_secs(3600);

/// The time to wait from `now` on.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let wait = match value.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds(value.trim())?))?;
            at.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST))
}

/// The date that HTTP prescribes. Two older ones, which no server should write, are not understood.
fn unix_seconds(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = date.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_valid =
        (1..=31).contains(&day) && (1970..10_000).contains(&year) && hour < 24 && minute < 60 && second <= 60;
    // Years are counted from March, so that a leap day comes last (Howard Hinnant, `days_from_civil`).
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    is_valid.then(|| days.checked_sub(719_468).map(|days| days * 86_400 + hour * 3600 + minute * 60 + second))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let now = UNIX_EPOCH + Duration::from_secs(1_445_412_480 - 90);
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(retry_after("Tue, 20 Oct 2015 07:28:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("99999999999", now), Some(LONGEST));
        assert_eq!(unix_seconds("Tue, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
        for text in ["", "soon", "-1", "1.5", "Wed, 21 Foo 2015 07:28:00 GMT", "Wed, 0 Oct 2015 07:28:00 GMT"] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
    }
}
