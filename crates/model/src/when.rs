//! Notation for an instant of a recording: `start`, `peak`, `rss-peak`, `end`, `12.5s`, `80%`, `mark:NAME`, in a log without times `line:1200`, in
//! a source that counts instructions or bytes `instruction:1200`, `byte:1200`.

use crate::clock::Clock;
use crate::ids::Nanos;
use std::fmt;
use std::str::FromStr;

/// An instant, as a user names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum When {
    /// Before the first event.
    Start,
    /// The instant at which the most bytes were live.
    Peak,
    /// The instant at which the most memory was in RAM, as far as that was measured.
    RssPeak,
    /// After the last event.
    #[default]
    End,
    /// After everything that happened up to and including this time.
    At(Nanos),
    /// This part of the duration, from 0 to 100.
    Percent(f64),
    /// The first mark of this name.
    Mark(String),
    /// After this line of a log that has no times, or after this number of other units of its [`Clock`].
    Line(u64),
}

/// A text that is not a valid instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWhen(String);

impl fmt::Display for UnknownWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' names no instant: use start, peak, rss-peak, end, a time (12.5s, 300ms, 1h30m), a part (80%) or mark:NAME",
            self.0
        )
    }
}

impl std::error::Error for UnknownWhen {}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Peak => f.write_str("peak"),
            Self::RssPeak => f.write_str("rss-peak"),
            Self::End => f.write_str("end"),
            Self::At(time) => write!(f, "{time}"),
            Self::Percent(part) => write!(f, "{part}%"),
            Self::Mark(name) => write!(f, "mark:{name}"),
            Self::Line(line) => write!(f, "line:{line}"),
        }
    }
}

impl FromStr for When {
    type Err = UnknownWhen;

    fn from_str(text: &str) -> Result<Self, UnknownWhen> {
        let unknown = || UnknownWhen(text.to_owned());
        match text {
            "start" => return Ok(Self::Start),
            "peak" => return Ok(Self::Peak),
            "rss-peak" => return Ok(Self::RssPeak),
            "end" => return Ok(Self::End),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("mark:") {
            return if name.is_empty() { Err(unknown()) } else { Ok(Self::Mark(name.to_owned())) };
        }
        if let Some((unit, number)) = text.split_once(':')
            && Clock::of_unit(unit).is_some_and(|clock| clock != Clock::Time)
        {
            return number.parse().map(Self::Line).map_err(|_| unknown());
        }
        if let Some(part) = text.strip_suffix('%') {
            let part: f64 = part.trim().parse().map_err(|_| unknown())?;
            return if (0.0..=100.0).contains(&part) { Ok(Self::Percent(part)) } else { Err(unknown()) };
        }
        parse_duration(text).map(Self::At).ok_or_else(unknown)
    }
}

/// A duration: `500ms`, `12.5s`, `10m`, `2h`, `1h30m`. Units are d, h, m (or min), s, ms, us (or µs) and ns; in a duration of several parts
/// each is smaller than the one before it. (The crate `humantime` knows no fractions, which instants have.)
pub fn parse_duration(text: &str) -> Option<Nanos> {
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    let mut last_scale = u64::MAX;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c))?);
        let after = after.trim_start();
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let scale = scale_of(unit).filter(|scale| *scale < last_scale)?;
        sum = sum.checked_add(scaled(number, scale)?)?;
        (last_scale, rest) = (scale, after.trim_start());
    }
    (last_scale != u64::MAX).then_some(Nanos(sum))
}

/// Nanoseconds in a unit of time.
fn scale_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

/// A decimal number of units, to the nearest nanosecond.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    // A day has less than 10^14 nanoseconds: further digits make no difference.
    let fraction = &fraction[..fraction.len().min(15)];
    let parts = 10u128.pow(fraction.len() as u32);
    let of_fraction = (u128::from(digits(fraction)?) * u128::from(scale) + parts / 2) / parts;
    digits(whole)?.checked_mul(scale)?.checked_add(of_fraction as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_and_refuses_others() {
        let cases = [
            ("start", When::Start),
            ("peak", When::Peak),
            ("rss-peak", When::RssPeak),
            ("end", When::End),
            ("12.5s", When::At(Nanos(12_500_000_000))),
            ("300ms", When::At(Nanos(300_000_000))),
            ("7us", When::At(Nanos(7_000))),
            ("42ns", When::At(Nanos(42))),
            ("2min", When::At(Nanos(120_000_000_000))),
            ("10m", When::At(Nanos(600_000_000_000))),
            ("1h30m", When::At(Nanos(5_400_000_000_000))),
            ("1h 30min 0.5s", When::At(Nanos(5_400_500_000_000))),
            ("1d", When::At(Nanos(86_400_000_000_000))),
            (".5s", When::At(Nanos(500_000_000))),
            ("0.1234567891s", When::At(Nanos(123_456_789))),
            ("1.00000000000000000000000000000001us", When::At(Nanos(1_000))),
            ("18446744073709551615ns", When::At(Nanos(u64::MAX))),
            ("5 µs", When::At(Nanos(5_000))),
            ("80%", When::Percent(80.0)),
            ("line:1200", When::Line(1200)),
            ("mark:after load", When::Mark("after load".to_owned())),
        ];
        for (text, when) in cases {
            assert_eq!(text.parse(), Ok(when), "{text}");
        }
        let none = ["", " ", "12", "-3s", "101%", "-1%", "NaNs", "infs", "mark:", "soon", "99999999999999999999s", "%"];
        let no_durations =
            ["s", ".s", "1.2.3s", "1h30", "30m1h", "5m5m", "1x", "10M", "1e3s", "18446744073709551615ns1", "600000d"];
        for text in none.iter().chain(&no_durations) {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
