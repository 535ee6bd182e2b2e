//! Instants and days as people and programs write them: `2023-11-14T22:13:20.000000000Z`.

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// RFC 3339, in UTC, to the nanosecond.
pub fn rfc3339(unix_ns: u64) -> String {
    let (seconds, nanos) = (unix_ns / NANOS_PER_SECOND, unix_ns % NANOS_PER_SECOND);
    let date = utc_date((seconds / SECONDS_PER_DAY).cast_signed());
    let second_of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// The Gregorian date of a day counted from 1970-01-01: `2023-11-14`. Years are counted from March, so that a leap day comes last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
pub fn utc_date(days_since_1970: i64) -> String {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year_of_era + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_before_1970_have_dates() {
        for (day, expected) in
            [(0, "1970-01-01"), (-1, "1969-12-31"), (-719_468, "0000-03-01"), (-719_529, "-001-12-31")]
        {
            assert_eq!(utc_date(day), expected);
        }
    }

    #[test]
    fn writes_instants_that_are_easy_to_get_wrong() {
        for (unix_seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000000Z"),
            (1_700_000_000, "2023-11-14T22:13:20.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(rfc3339(unix_seconds * NANOS_PER_SECOND), expected);
        }
        assert_eq!(rfc3339(u64::MAX), "2554-07-21T23:34:33.709551615Z");
    }
}
