//! Naming an instant of a recording: `start`, `peak`, `end`, `12.5s`, `80%`, `mark:NAME`, of a log without times `line:1200`.

use crate::ids::Nanos;
use std::fmt;
use std::str::FromStr;

/// An instant, as a user names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum When {
    /// Before the first event.
    Start,
    /// Where the most bytes were live.
    Peak,
    /// After the last event.
    #[default]
    End,
    /// After everything that happened up to and including this time.
    At(Nanos),
    /// This part of the duration, from 0 to 100.
    Percent(f64),
    /// The first mark of this name.
    Mark(String),
    /// After this line of a log that tells no times ([`Source::untimed`](crate::Source::untimed)).
    Line(u64),
}

/// A text that names no instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWhen(String);

impl fmt::Display for UnknownWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' names no instant: use start, peak, end, a time (12.5s, 300ms), a part (80%) or mark:NAME",
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
            "end" => return Ok(Self::End),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("mark:") {
            return if name.is_empty() { Err(unknown()) } else { Ok(Self::Mark(name.to_owned())) };
        }
        if let Some(line) = text.strip_prefix("line:") {
            return line.parse().map(Self::Line).map_err(|_| unknown());
        }
        if let Some(part) = text.strip_suffix('%') {
            let part: f64 = part.trim().parse().map_err(|_| unknown())?;
            return if (0.0..=100.0).contains(&part) { Ok(Self::Percent(part)) } else { Err(unknown()) };
        }
        parse_duration(text).map(Self::At).ok_or_else(unknown)
    }
}

/// A duration with its unit: `12.5s`, `300ms`, `7us`, `42ns`, `2min`, `1h`.
pub fn parse_duration(text: &str) -> Option<Nanos> {
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (number, scale) = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    let number = number.trim();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).map(Nanos);
    }
    let value: f64 = number.parse().ok()?;
    let nanos = (value * scale as f64).round();
    (nanos.is_finite() && (0.0..1.8e19).contains(&nanos)).then_some(Nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_and_refuses_others() {
        let cases = [
            ("start", When::Start),
            ("peak", When::Peak),
            ("end", When::End),
            ("12.5s", When::At(Nanos(12_500_000_000))),
            ("300ms", When::At(Nanos(300_000_000))),
            ("7us", When::At(Nanos(7_000))),
            ("42ns", When::At(Nanos(42))),
            ("2min", When::At(Nanos(120_000_000_000))),
            ("80%", When::Percent(80.0)),
            ("line:1200", When::Line(1200)),
            ("mark:after load", When::Mark("after load".to_owned())),
        ];
        for (text, when) in cases {
            assert_eq!(text.parse(), Ok(when), "{text}");
        }
        for text in ["", "12", "-3s", "101%", "-1%", "NaNs", "infs", "mark:", "soon", "99999999999999999999s", "%"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
