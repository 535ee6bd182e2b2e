//! The names of a lake's files: days, hours, services and hosts in paths.

use crate::table::Table;

pub(crate) const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// 9999-12-31T23:59:59Z: later slots have no date of four digits.
pub(crate) const LAST_SLOT: i64 = 253_402_300_799;
/// File systems allow 255 bytes for a part of a path.
const MAX_ENCODED: usize = 200;
const NO_SERVICE: &str = "unknown";

/// A day in UTC, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(i64);

impl Day {
    /// The day of a slot.
    pub const fn of(slot: i64) -> Self {
        Self(slot.div_euclid(DAY))
    }

    /// Its first slot.
    pub const fn start(self) -> i64 {
        self.0 * DAY
    }

    /// `2026-11-18`, as in paths.
    pub fn text(self) -> String {
        highwater_model::utc_date(self.0)
    }

    /// The day that a path names. Only the text that [`Day::text`] writes is one.
    ///
    /// Years are counted from March, so that a leap day comes last (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`).
    pub fn parse(text: &str) -> Option<Self> {
        let is_date = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_date {
            return None;
        }
        let [year, month, day]: [i64; 3] = [text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?];
        if !(1..=12).contains(&month) {
            return None;
        }
        let year = year - i64::from(month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
        Some(Self(days)).filter(|parsed| parsed.text() == text)
    }
}

/// Slots from `from` on, before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot, in seconds since the Unix epoch.
    pub from: i64,
    /// The first slot after the range.
    pub until: i64,
}

impl SlotRange {
    /// All slots.
    pub const ALL: Self = Self { from: i64::MIN, until: i64::MAX };

    /// True if some slot of an hour is in the range.
    pub const fn meets_hour(self, hour: i64) -> bool {
        self.from < hour.saturating_add(HOUR) && hour < self.until && self.from < self.until
    }
}

/// Where a file lies, as its path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LakeKey {
    /// Its table.
    pub table: Table,
    /// Its hour: the slot at which it begins.
    pub hour: i64,
    /// Incoming, or compacted.
    pub state: FileState,
}

/// Which kind of file one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// From a host; `service` is a column.
    Incoming,
    /// Compacted: of one service.
    Compacted {
        /// The service.
        service: String,
        /// Names the inputs from which it was made.
        inputs: String,
    },
}

impl LakeKey {
    /// What a path in a lake says. `None` for anything that Highwater does not write.
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split('/').collect();
        match *parts.as_slice() {
            ["incoming", table, day, file] => {
                let day = Day::parse(day.strip_prefix("day=")?)?;
                let mut name = file.strip_suffix(".parquet")?.rsplitn(3, '-');
                let (_suffix, minute, _host) = (name.next()?, name.next()?, name.next()?);
                let table = Table::by_name(table).filter(|table| Table::INCOMING.contains(table))?;
                let of_day = two_digits(minute.get(..2)?)?;
                (minute.len() == 4 && two_digits(minute.get(2..)?)? < 60).then_some(())?;
                Some(Self { table, hour: hour_of(day, of_day)?, state: FileState::Incoming })
            }
            [table, day, service, file] => {
                let table = Table::by_name(table)?;
                let day = Day::parse(day.strip_prefix("day=")?)?;
                let service = decoded(service.strip_prefix("service=")?)?;
                let (of_day, inputs) = file.strip_suffix(".parquet")?.split_once('-')?;
                let hour = hour_of(day, two_digits(of_day)?)?;
                Some(Self { table, hour, state: FileState::Compacted { service, inputs: inputs.to_owned() } })
            }
            _ => None,
        }
    }

    /// The day of its folder.
    pub const fn day(&self) -> Day {
        Day::of(self.hour)
    }
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn hour_of(day: Day, of_day: i64) -> Option<i64> {
    (of_day < 24).then(|| day.start() + of_day * HOUR)
}

pub(crate) fn incoming_key(table: Table, host: &str, slot: i64, suffix: &str) -> String {
    let second = slot.rem_euclid(DAY);
    let (hour, minute) = (second / HOUR, second / 60 % 60);
    // Spark skips files whose names begin with a dot or an underscore.
    let host = encoded(shortened(if host.is_empty() { NO_SERVICE } else { host }));
    let host = match host.as_bytes()[0] {
        first @ (b'.' | b'_') => format!("%{first:02X}{}", &host[1..]),
        _ => host,
    };
    let day = Day::of(slot).text();
    format!("incoming/{table}/day={day}/{host}-{hour:02}{minute:02}-{suffix}.parquet")
}

pub(crate) fn compacted_key(table: Table, hour: i64, service: &str, inputs: &str) -> String {
    let of_day = hour.rem_euclid(DAY) / HOUR;
    let (day, service) = (Day::of(hour).text(), partition_value(service));
    format!("{table}/day={day}/service={service}/{of_day:02}-{inputs}.parquet")
}

/// A text as the value of a partition. DuckDB reads `null`, in upper or lower case, as no value, and all engines do so with Hive's name for one: their first letters are escaped.
fn partition_value(text: &str) -> String {
    let encoded = encoded(text);
    let is_no_value = ["null", "__HIVE_DEFAULT_PARTITION__"].iter().any(|name| encoded.eq_ignore_ascii_case(name));
    if is_no_value { format!("%{:02X}{}", encoded.as_bytes()[0], &encoded[1..]) } else { encoded }
}

pub(crate) fn record_prefix(table: Table, hour: i64) -> String {
    format!("compaction/{table}/day={}/{:02}-", Day::of(hour).text(), hour.rem_euclid(DAY) / HOUR)
}

/// The service under which rows are kept: never empty, which engines would read as null, and short enough for a path.
pub(crate) fn kept_service(service: &str) -> &str {
    if service.is_empty() { NO_SERVICE } else { shortened(service) }
}

fn shortened(text: &str) -> &str {
    let mut length = 0;
    for (at, char) in text.char_indices() {
        length += if is_plain(char) { 1 } else { 3 * char.len_utf8() };
        if length > MAX_ENCODED {
            return &text[..at];
        }
    }
    text
}

const fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '.' | '_')
}

/// Percent-encoded for a part of a path.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_plain(char) {
            out.push(char);
        } else {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// The text that was percent-encoded; `None` if it is none.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(
                digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())??,
            );
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_that_are_easy_to_get_wrong() {
        for (slot, text) in [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (4_107_542_400, "2100-03-01")] {
            assert_eq!(Day::of(slot).text(), text);
            assert_eq!(Day::parse(text), Some(Day::of(slot)));
        }
        for text in ["2026-02-30", "2026-13-01", "2026-1-01", "2026-01-00", "+026-01-01", "2026-01-01x"] {
            assert_eq!(Day::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_service_is_one_that_engines_take_for_no_value() {
        for (service, part) in [
            ("null", "service=%6Eull"),
            ("NuLL", "service=%4EuLL"),
            ("__HIVE_DEFAULT_PARTITION__", "service=%5F_HIVE_DEFAULT_PARTITION__"),
            ("nullable", "service=nullable"),
        ] {
            let key = compacted_key(Table::Sites, 0, service, "00ff");
            assert_eq!(key.split('/').nth(2), Some(part));
            let state = FileState::Compacted { service: service.to_owned(), inputs: "00ff".to_owned() };
            assert_eq!(LakeKey::parse(&key), Some(LakeKey { table: Table::Sites, hour: 0, state }));
        }
    }

    proptest! {
        #[test]
        fn keys_say_what_they_were_made_of(slot in 0..=LAST_SLOT, name in ".{0,80}", table in 0..4usize) {
            let table = Table::INCOMING[table];
            let hour = slot - slot % HOUR;
            let parsed = LakeKey::parse(&incoming_key(table, &name, slot, "00ff"));
            prop_assert_eq!(parsed, Some(LakeKey { table, hour, state: FileState::Incoming }));
            let service = kept_service(&name).to_owned();
            let key = compacted_key(table, hour, &service, "00ff");
            prop_assert!(key.split('/').all(|part| part.len() <= 255));
            let state = FileState::Compacted { service, inputs: "00ff".to_owned() };
            prop_assert_eq!(LakeKey::parse(&key), Some(LakeKey { table, hour, state }));
        }
    }
}
