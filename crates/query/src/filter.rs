//! The language of filters: `size:1KiB..`, `!thread:7`, `inside:regex:^parse`, or a bare regular expression.

use crate::error::QueryError;
use highwater_model::{Heap, Nanos, parse_duration};
use regex::{Regex, RegexBuilder};
use std::fmt;
use std::str::FromStr;

/// Numbers from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The least.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

impl NumberRange {
    /// True for a number inside the range.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    fn parse(text: &str, number: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let (least, most) = text.split_once("..")?;
        let bound = |text: &str, missing| if text.is_empty() { Some(missing) } else { number(text) };
        Some(Self { least: bound(least, 0)?, most: bound(most, u64::MAX)? })
    }
}

/// Bytes with or without a unit. `KiB`, `MiB` and `GiB` are powers of 1,024, as is the letter alone (`K`, `M`, `G`); `KB`, `MB` and `GB` are
/// powers of 1,000. Upper and lower case mean the same.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// A time or a duration: nanoseconds, or with a unit as in `--at`: `12.5s`, `300ms`.
fn nanoseconds(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| parse_duration(text).map(|time| time.0))
}

/// The most memory that one regular expression may need: a request may have many.
const LARGEST_PATTERN: usize = 2 << 20;

pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    if text.chars().any(char::is_control) {
        return Err("a regular expression has no control characters".to_owned());
    }
    RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression is too large".to_owned(),
        error => {
            // Only the last line is used: the regex crate draws a picture above it.
            let picture = error.to_string();
            let last = picture.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("not a regular expression: {}", last.trim_start_matches("error: "))
        }
    })
}

/// How the name of a function is compared.
#[derive(Clone, Debug)]
pub enum NameTest {
    /// The whole name is equal.
    Equal(String),
    /// The name contains this text.
    Contains(String),
    /// The pattern matches somewhere in the name.
    Matches(Regex),
}

impl NameTest {
    /// True for a name that matches.
    pub fn is_met_by(&self, name: &str) -> bool {
        match self {
            Self::Equal(text) => name == text,
            Self::Contains(text) => name.contains(text.as_str()),
            Self::Matches(pattern) => pattern.is_match(name),
        }
    }
}

/// The condition that a filter checks.
#[derive(Clone, Debug)]
pub enum BlockTest {
    /// Born in this range of time.
    Allocated(NumberRange),
    /// Died in this range of time.
    Freed(NumberRange),
    /// Died at any time.
    FreedEver,
    /// Live at this time.
    LiveAt(Nanos),
    /// The size is in this range.
    Size(NumberRange),
    /// Dead, and the lifetime is in this range.
    Lifetime(NumberRange),
    /// Belongs to this thread.
    Thread(u64),
    /// Is of this type.
    Type(String),
    /// Lies in this heap.
    Heap(Heap),
    /// Belongs to this task.
    Task(String),
    /// Some frame of its stack lies in this module.
    Module(String),
    /// Some frame of its stack lies in this source file.
    File(String),
    /// Some frame of its stack is at this source line, as tables by line name it: `src/main.rs:7`.
    Line(String),
    /// Some frame of its stack is a function with a matching name.
    Inside(NameTest),
    /// Some function, file or module of its stack matches: a bare regular expression.
    Text(Regex),
    /// Has this stack.
    Site(u32),
    /// Has one of these stacks, in ascending order: what a site of another source is called here.
    Sites(Vec<u32>),
}

/// One filter.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The condition.
    pub test: BlockTest,
    /// True if the filter selects the blocks that do not meet the condition.
    pub is_negated: bool,
    /// The filter as it was written.
    text: String,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Filter {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let (rest, is_negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let shown = text.replace(char::is_control, "?");
        let malformed = |what: &str| QueryError::Bad(format!("filter '{shown}': {what}"));
        // `std::vec` is a pattern, `size:5..` is not; no value begins with a colon.
        let (name, value) = rest.split_once(':').filter(|(_, value)| !value.starts_with(':')).unwrap_or(("", rest));
        let range = |number: fn(&str) -> Option<u64>| {
            NumberRange::parse(value, number).ok_or_else(|| malformed("a range is FROM..TO, either end may be missing"))
        };
        let number = || value.parse().map_err(|_| malformed("a number is wanted"));
        let mut is_negated = is_negated;
        let test = match name {
            "allocated" => BlockTest::Allocated(range(nanoseconds)?),
            "freed" => match value {
                "ever" => BlockTest::FreedEver,
                "never" => {
                    is_negated = !is_negated;
                    BlockTest::FreedEver
                }
                _ => BlockTest::Freed(range(nanoseconds)?),
            },
            "live" => BlockTest::LiveAt(Nanos(nanoseconds(value).ok_or_else(|| malformed("a time is wanted: 12.5s"))?)),
            "size" => BlockTest::Size(range(parse_bytes)?),
            "lifetime" => BlockTest::Lifetime(range(nanoseconds)?),
            "thread" => BlockTest::Thread(number()?),
            "type" => BlockTest::Type(value.to_owned()),
            "heap" => BlockTest::Heap(Heap::from_name(value).ok_or_else(|| {
                malformed(&format!("there is no such heap; there are: {}", Heap::ALL.map(Heap::name).join(", ")))
            })?),
            "task" => BlockTest::Task(value.to_owned()),
            "module" => BlockTest::Module(value.to_owned()),
            "file" => BlockTest::File(value.to_owned()),
            "line" => BlockTest::Line(value.to_owned()),
            "inside" | "outside" => {
                is_negated ^= name == "outside";
                let (mode, wanted) = value
                    .split_once(':')
                    .ok_or_else(|| malformed("how to compare is missing: equal, contains or regex"))?;
                BlockTest::Inside(match mode {
                    "equal" => NameTest::Equal(wanted.to_owned()),
                    "contains" => NameTest::Contains(wanted.to_owned()),
                    "regex" => NameTest::Matches(pattern(wanted).map_err(|why| malformed(&why))?),
                    _ => return Err(malformed("names are compared as equal, contains or regex")),
                })
            }
            "site" => BlockTest::Site(u32::try_from(number()?).map_err(|_| malformed("there is no such site"))?),
            // A misspelt filter must not become a pattern that finds nothing.
            name if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                return Err(malformed(
                    "there is no such filter; a regular expression with a colon after its first word is written '(word):'",
                ));
            }
            _ => BlockTest::Text(pattern(rest).map_err(|why| malformed(&why))?),
        };
        Ok(Self { test, is_negated, text: text.to_owned() })
    }
}

impl Filter {
    /// A filter on the functions, files and modules of stacks.
    pub(crate) fn of_text(pattern: Regex) -> Self {
        let text = pattern.as_str().to_owned();
        Self { test: BlockTest::Text(pattern), is_negated: false, text }
    }

    /// A filter on stacks that have a function of this name.
    pub(crate) fn of_function(name: &str) -> Self {
        let (test, text) = (BlockTest::Inside(NameTest::Equal(name.to_owned())), format!("inside:equal:{name}"));
        Self { test, is_negated: false, text }
    }

    /// True if the stack alone decides whether a block passes.
    pub fn is_about_stacks(&self) -> bool {
        use BlockTest::{File, Inside, Line, Module, Site, Sites, Text};
        matches!(self.test, Module(_) | File(_) | Line(_) | Inside(_) | Text(_) | Site(_) | Sites(_))
    }

    /// The same filter with another test: it is negated as this one, and has its text.
    pub(crate) fn testing(&self, test: BlockTest) -> Self {
        Self { test, ..self.clone() }
    }

    /// True if the filter needs to know when a block died.
    pub fn is_about_deaths(&self) -> bool {
        matches!(self.test, BlockTest::Freed(_) | BlockTest::FreedEver | BlockTest::LiveAt(_) | BlockTest::Lifetime(_))
    }

    /// The pattern of a bare regular expression.
    pub fn pattern(&self) -> Option<&Regex> {
        match &self.test {
            BlockTest::Text(pattern) if !self.is_negated => Some(pattern),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Filter {
        text.parse().unwrap()
    }

    #[test]
    fn filters_are_parsed_and_errors_are_one_line() {
        let negated = |text: &str| parse(text).is_negated;
        assert!(negated("freed:never") && !negated("!freed:never") && !negated("freed:ever"));
        assert!(negated("outside:equal:main") && !negated("!outside:equal:main") && negated("!inside:equal:main"));
        let range = |least, most| NumberRange { least, most };
        assert!(matches!(parse("size:10..").test, BlockTest::Size(found) if found == range(10, u64::MAX)));
        assert!(matches!(parse("size:4KiB..2MB").test, BlockTest::Size(found) if found == range(4096, 2_000_000)));
        let span = range(1_500_000, 2_000_000_000);
        assert!(matches!(parse("lifetime:1.5ms..2s").test, BlockTest::Lifetime(found) if found == span));
        assert!(matches!(parse("type:a:b").test, BlockTest::Type(name) if name == "a:b"));
        assert!(parse("inside:regex:a:b|c").is_about_stacks());
        assert!(matches!(parse("!line:src/a.rs:7").test, BlockTest::Line(name) if name == "src/a.rs:7"));
        assert!(matches!(parse("file:C:a.c").test, BlockTest::File(name) if name == "C:a.c"));
        assert!(parse("file:a.c").is_about_stacks() && parse("line:a.c:1").is_about_stacks());
        assert!(parse("lifetime:..5").is_about_deaths());
        assert_eq!(parse("!size:1K..").to_string(), "!size:1K..");
        let bad = [
            "size:",
            "size:5",
            "size:a..b",
            "size:-1..",
            "freed:sometimes",
            "live:now",
            "heap:none",
            "inside:main",
            "inside:like:main",
            "inside:regex:(",
            "inside:regex:(a{999}){999}",
            "site:4294967296",
            "thread:x",
            "colour:red",
            "(",
            "a\r\nb",
        ];
        for text in bad {
            let Err(QueryError::Bad(line)) = text.parse::<Filter>() else { panic!("{text}") };
            assert!(line.starts_with("filter '") && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn everything_else_is_a_regular_expression() {
        for text in ["parse|lex", "std::vec", "live::table", "(a):b", "a.rs:7", "C:\\\\src", "^main$"] {
            assert!(parse(text).pattern().is_some(), "{text}");
        }
        assert!(parse("!parse").is_negated && parse("!parse").is_about_stacks());
    }
}
