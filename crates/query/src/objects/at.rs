//! Names an instant of a log.

use highwater_model::{UnknownWhen, When};
use std::fmt;
use std::str::FromStr;

/// An instant of a log: one that any recording has, or a line.
#[derive(Clone, Debug, PartialEq)]
pub enum At {
    /// An instant that any recording has.
    When(When),
    /// After this number of lines.
    Line(u64),
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(number) = text.strip_prefix("line:") {
            return number.parse().map(Self::Line).map_err(|_| format!("'{number}' is no line number"));
        }
        text.parse().map(Self::When).map_err(|unknown: UnknownWhen| format!("{unknown}; or line:N"))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::When(when) => when.fmt(f),
            Self::Line(line) => write!(f, "line:{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_instant_as_any_other() {
        assert_eq!("line:12".parse(), Ok(At::Line(12)));
        assert_eq!("50%".parse(), Ok(At::When(When::Percent(50.0))));
        assert_eq!("mark:a".parse::<At>().unwrap().to_string(), "mark:a");
        for wrong in ["line:", "line:x", "line:-1", "soon"] {
            assert!(wrong.parse::<At>().is_err(), "{wrong}");
        }
    }
}
