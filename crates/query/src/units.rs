//! Figures as people read them: `12.4 MiB`, `1,204`, `52.3 %`.

/// Bytes in binary units, three digits or so: `512 B`, `1.5 KiB`, `12.4 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would print as "1024.0".
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// From one number of bytes to another: `11.9–12.9 MiB`, `960.0 KiB–1.2 MiB`.
pub fn range_of_bytes(low: u64, high: u64) -> String {
    let (low, high) = (bytes(low), bytes(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// A change in bytes, always with its sign: `+1.5 KiB`, `-12 B`, `0 B`.
pub fn signed_bytes(change: i128) -> String {
    format!("{}{}", sign(change), bytes(magnitude(change)))
}

/// A count with thousands separators: `1,204,331`.
pub use highwater_model::grouped as count;

/// A change of a count, always with its sign.
pub fn signed_count(change: i128) -> String {
    format!("{}{}", sign(change), count(magnitude(change)))
}

/// A count with its noun, singular for 1: `1 block`, `3 blocks`.
pub fn counted(number: u64, singular: &str) -> String {
    let plural = match number {
        1 => "",
        _ if singular.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {singular}{plural}", count(number))
}

/// A part of a whole in percent: `52.3%`; empty if the whole is zero.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.1}%", part as f64 * 100.0 / whole as f64)
}

fn sign(change: i128) -> &'static str {
    match change {
        0 => "",
        1.. => "+",
        _ => "-",
    }
}

fn magnitude(change: i128) -> u64 {
    u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_decimal_and_never_four_digits_before_it() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (13_002_342, "12.4 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_204_331, "1,204,331")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "block"), "1 block");
        assert_eq!(counted(2_000, "block"), "2,000 blocks");
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(
            (signed_bytes(1536), signed_bytes(-12), signed_bytes(0)),
            ("+1.5 KiB".into(), "-12 B".into(), "0 B".into())
        );
        assert_eq!(signed_count(-1_000), "-1,000");
        assert_eq!(signed_bytes(i128::from(u64::MAX) * -2), "-16.0 EiB");
    }

    #[test]
    fn a_share_of_nothing_is_not_shown() {
        assert_eq!(share(1, 0), "");
        assert_eq!(share(1, 3), "33.3%");
    }
}
