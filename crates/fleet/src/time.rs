//! Times on the command line: `2h`, `2026-11-18`, `2026-11-18T09:00:00Z`.

use highwater_lake::Day;

/// The forms that a time has.
pub const TIME_FORMS: &str = "a time is 90m, 2h or 7d (before now), 2026-11-18, or 2026-11-18T09:30:00Z";

/// Seconds since the Unix epoch. `now` is what ages count from.
pub fn parse_time(text: &str, now: i64) -> Option<i64> {
    if let Some(seconds) = parse_age(text) {
        return now.checked_sub(seconds);
    }
    let day = Day::parse(text.get(..10)?)?.start();
    let rest = &text[10..];
    if rest.is_empty() {
        return Some(day);
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    // Slots are whole seconds.
    let clock = clock.split_once('.').map_or(clock, |(seconds, _)| seconds);
    let (hours, minutes) = clock.split_once(':')?;
    let (minutes, seconds) = minutes.split_once(':').unwrap_or((minutes, "00"));
    let time = two_digits(hours, 23)? * 3600 + two_digits(minutes, 59)? * 60 + two_digits(seconds, 59)?;
    Some(day + time - offset(zone)?)
}

/// `2h`, `90m`, `7d`: seconds.
pub fn parse_age(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse::<i64>().ok()?.checked_mul(seconds))?
}

fn two_digits(text: &str, most: i64) -> Option<i64> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|number| *number <= most)
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone[1..].split_once(':').or_else(|| zone[1..].split_at_checked(2))?;
    Some(sign * (two_digits(hours, 23)? * 3600 + two_digits(minutes, 59)? * 60))
}

/// A slot for people: `2026-11-18 09:30 UTC`.
pub fn slot_in_words(slot: i64) -> String {
    let of_day = slot.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let seconds = if second == 0 { String::new() } else { format!(":{second:02}") };
    format!("{} {hour:02}:{minute:02}{seconds} UTC", Day::of(slot).text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let day = 1_794_960_000;
        for (text, expected) in [
            ("2026-11-18", Some(day)),
            ("2026-11-18T09:30", Some(day + 34_200)),
            ("2026-11-18 09:30:15", Some(day + 34_215)),
            ("2026-11-18T09:30:15.25Z", Some(day + 34_215)),
            ("2026-11-18T09:30:00+02:00", Some(day + 27_000)),
            ("2026-11-18T09:30:00-0130", Some(day + 39_600)),
            ("2h", Some(92_800)),
            ("1w", Some(100_000 - 604_800)),
            ("2026-11-31", None),
            ("2026-11-18T24:00", None),
            ("2026-11-18T9:30", None),
            ("2026-11-18T09:30x", None),
            ("yesterday", None),
            ("ü", None),
            ("-2h", None),
            ("h", None),
            ("99999999999999999h", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text, 100_000), expected, "{text}");
        }
        assert_eq!(slot_in_words(day + 34_200), "2026-11-18 09:30 UTC");
    }
}
