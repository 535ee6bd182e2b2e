//! The text form of a call: `open(100)`, `+5s`, `+5s tick()`.

use std::fmt;
use std::str::FromStr;

/// A call: time passes, then a method is called, or only one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCall {
    /// Time that passes first, in nanoseconds.
    pub after_ns: u64,
    /// The method and its arguments, `(…)`.
    pub method: Option<(String, String)>,
}

impl FromStr for ProgramCall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut after_ns = 0;
        if let Some(time) = rest.strip_prefix('+') {
            let end = time.find(char::is_whitespace).unwrap_or(time.len());
            after_ns = duration(&time[..end])?;
            rest = time[end..].trim_start();
            if rest.is_empty() {
                return Ok(Self { after_ns, method: None });
            }
        }
        let (name, arguments) = rest.split_at(rest.find('(').unwrap_or(rest.len()));
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("'{text}' is no call; write it as METHOD(ARGUMENTS)"));
        }
        let arguments = if arguments.is_empty() { "()" } else { arguments };
        Ok(Self { after_ns, method: Some((name.to_owned(), arguments.to_owned())) })
    }
}

impl fmt::Display for ProgramCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.after_ns > 0 {
            write!(f, "+{}ns", self.after_ns)?;
        }
        if let Some((name, arguments)) = &self.method {
            let space = if self.after_ns > 0 { " " } else { "" };
            write!(f, "{space}{name}{arguments}")?;
        }
        Ok(())
    }
}

/// A duration in nanoseconds: `5s`, `300ms`, `2h`, `1h30m`.
pub fn duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no duration; write it as 5s, 300ms, 2h or 1h30m");
    let (mut sum, mut rest): (u64, &str) = (0, text);
    loop {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let unit: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(wrong()),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
        if after.is_empty() {
            return Ok(sum);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_people_write_them() {
        let call = |text: &str| text.parse::<ProgramCall>();
        let of = |after_ns, name: &str, arguments: &str| {
            Ok(ProgramCall { after_ns, method: Some((name.to_owned(), arguments.to_owned())) })
        };
        assert_eq!(call("open(100)"), of(0, "open", "(100)"));
        assert_eq!(call(" stat "), of(0, "stat", "()"));
        assert_eq!(call("put (\"a (b)\", 1)"), of(0, "put", "(\"a (b)\", 1)"));
        assert_eq!(call("+5s tick()"), of(5_000_000_000, "tick", "()"));
        assert_eq!(call("+1h30m tick()"), of(5_400_000_000_000, "tick", "()"));
        assert_eq!(call("+300ms"), Ok(ProgramCall { after_ns: 300_000_000, method: None }));
        for wrong in ["", "(1)", "+5", "+s", "two words(1)", "+99999999999999999999s"] {
            assert!(call(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["open(100)", "+5s", "+5s tick()"] {
            let call: ProgramCall = text.parse().unwrap();
            assert_eq!(call.to_string().parse(), Ok(call));
        }
    }
}
