//! File names for received streams, made from the names of their senders.

use highwater_model::rfc3339;

/// The maximum length of one part of a name.
const LONGEST: usize = 48;

/// `HOST-PROGRAM-TIME.ENDING`, without characters that a file name should not have.
pub fn file_name(host: &str, program: &str, unix_ns: u64, ending: &str) -> String {
    format!("{}-{}-{}.{ending}", harmless(host, "host"), harmless(program, "program"), date(unix_ns))
}

/// The sender's name for itself, without harmful characters: the sender may choose any name.
fn harmless(text: &str, otherwise: &str) -> String {
    let last = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+".contains(c) { c } else { '_' };
    let name: String = last.chars().map(plain).take(LONGEST).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

/// A time as `20260131T235959Z`.
fn date(unix_ns: u64) -> String {
    const TO_SECONDS: usize = "2026-01-31T23:59:59".len();
    let text = rfc3339(unix_ns);
    format!("{}Z", text[..TO_SECONDS].replace(['-', ':'], ""))
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
    fn times_sort_as_they_come() {
        assert_eq!(date(951_782_399_999_999_999), "20000228T235959Z");
        assert_eq!(date(1_767_225_599_000_000_000), "20251231T235959Z");
    }
}
