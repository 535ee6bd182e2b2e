//! Names of files after who sent them.

/// The longest part of a name.
const LONGEST: usize = 48;

/// `HOST-PROGRAM-TIME.ENDING`, with nothing in it that a file's name should not have.
pub fn file_name(host: &str, program: &str, unix_ns: u64, ending: &str) -> String {
    format!("{}-{}-{}.{ending}", harmless(host, "host"), harmless(program, "program"), date(unix_ns / 1_000_000_000))
}

/// What a sender calls itself, without what could do harm: it may call itself anything.
fn harmless(text: &str, otherwise: &str) -> String {
    let last = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+".contains(c) { c } else { '_' };
    let name: String = last.chars().map(plain).take(LONGEST).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

/// A time as `20260131T235959Z`.
fn date(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Days since the first of March of the year 0: leap days are then the last of their year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_whatever_the_sender_says() {
        let name = |host, program| file_name(host, program, 0, "hw");
        assert_eq!(name("web1", "/usr/bin/server"), "web1-server-19700101T000000Z.hw");
        assert_eq!(name("../../etc", "..\\x\n$(rm)"), "etc-_x___rm_-19700101T000000Z.hw");
        assert_eq!(name("", "..."), "host-program-19700101T000000Z.hw");
        assert_eq!(name(&"a".repeat(500), "x").len(), LONGEST + "-x-19700101T000000Z.hw".len());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_200, "20240301T000000Z"),
            (1_767_225_599, "20251231T235959Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
