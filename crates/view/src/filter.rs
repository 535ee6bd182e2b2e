//! The language of filters: `size:1024..`, `!thread:7`, `inside:regex:^parse`.

use crate::problem::Problem;
use highwater_model::{Heap, Nanos};
use regex::{Regex, RegexBuilder};

/// Numbers from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

impl Range {
    /// True for a number inside the range.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }

    fn parse(text: &str) -> Option<Self> {
        let (least, most) = text.split_once("..")?;
        let bound = |text: &str, missing| if text.is_empty() { Some(missing) } else { text.parse().ok() };
        Some(Self { least: bound(least, 0)?, most: bound(most, u64::MAX)? })
    }
}

/// The most memory that one regular expression may need: a request may have many.
const LARGEST_PATTERN: usize = 2 << 20;

fn pattern(text: &str) -> Result<Regex, &'static str> {
    RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression is too large",
        _ => "not a regular expression",
    })
}

/// How the name of a function is compared.
#[derive(Clone, Debug)]
pub enum Name {
    /// The whole name is equal.
    Equal(String),
    /// The name contains this text.
    Contains(String),
    /// The pattern matches somewhere in the name.
    Matches(Regex),
}

impl Name {
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
pub enum Test {
    /// Born in this range of time.
    Allocated(Range),
    /// Died in this range of time.
    Freed(Range),
    /// Died at any time.
    FreedEver,
    /// Live at this time.
    LiveAt(Nanos),
    /// The size is in this range.
    Size(Range),
    /// Dead, and the lifetime is in this range.
    Lifetime(Range),
    /// Belongs to this thread.
    Thread(u64),
    /// Is of this type.
    Type(String),
    /// Lies in this heap.
    Heap(Heap),
    /// Some frame of its stack lies in this module.
    Module(String),
    /// Some frame of its stack is a function with a matching name.
    Inside(Name),
    /// Has this stack.
    Site(u32),
}

/// One filter.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The condition.
    pub test: Test,
    /// True if the filter selects the blocks that do not meet the condition.
    pub is_negated: bool,
}

impl Filter {
    /// Parses a filter.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let (rest, is_negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let malformed = |what: &str| Problem::Bad(format!("filter '{text}': {what}"));
        let (name, value) = rest.split_once(':').ok_or_else(|| malformed("there is no ':' in it"))?;
        let range = || Range::parse(value).ok_or_else(|| malformed("a range is FROM..TO, either end may be missing"));
        let number = || value.parse().map_err(|_| malformed("a number is wanted"));
        let mut is_negated = is_negated;
        let test = match name {
            "allocated" => Test::Allocated(range()?),
            "freed" => match value {
                "ever" => Test::FreedEver,
                "never" => {
                    is_negated = !is_negated;
                    Test::FreedEver
                }
                _ => Test::Freed(range()?),
            },
            "live" => Test::LiveAt(Nanos(number()?)),
            "size" => Test::Size(range()?),
            "lifetime" => Test::Lifetime(range()?),
            "thread" => Test::Thread(number()?),
            "type" => Test::Type(value.to_owned()),
            "heap" => Test::Heap(Heap::from_name(value).ok_or_else(|| {
                malformed(&format!("there is no such heap; there are: {}", Heap::ALL.map(Heap::name).join(", ")))
            })?),
            "module" => Test::Module(value.to_owned()),
            "inside" | "outside" => {
                is_negated ^= name == "outside";
                let (mode, wanted) = value
                    .split_once(':')
                    .ok_or_else(|| malformed("how to compare is missing: equal, contains or regex"))?;
                Test::Inside(match mode {
                    "equal" => Name::Equal(wanted.to_owned()),
                    "contains" => Name::Contains(wanted.to_owned()),
                    "regex" => Name::Matches(pattern(wanted).map_err(&malformed)?),
                    _ => return Err(malformed("names are compared as equal, contains or regex")),
                })
            }
            "site" => Test::Site(u32::try_from(number()?).map_err(|_| malformed("there is no such site"))?),
            _ => return Err(malformed("there is no such filter")),
        };
        Ok(Self { test, is_negated })
    }

    /// True if the stack alone decides whether a block passes.
    pub fn is_about_stacks(&self) -> bool {
        matches!(self.test, Test::Module(_) | Test::Inside(_) | Test::Site(_))
    }

    /// True if the filter needs to know when a block died.
    pub fn is_about_deaths(&self) -> bool {
        matches!(self.test, Test::Freed(_) | Test::FreedEver | Test::LiveAt(_) | Test::Lifetime(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_and_what_is_none_is_told_in_a_line() {
        let negated = |text: &str| Filter::parse(text).unwrap().is_negated;
        assert!(negated("freed:never") && !negated("!freed:never") && !negated("freed:ever"));
        assert!(negated("outside:equal:main") && !negated("!outside:equal:main") && negated("!inside:equal:main"));
        assert!(matches!(Filter::parse("size:10..").unwrap().test, Test::Size(Range { least: 10, most: u64::MAX })));
        assert!(matches!(Filter::parse("type:a:b").unwrap().test, Test::Type(name) if name == "a:b"));
        assert!(Filter::parse("inside:regex:a:b|c").unwrap().is_about_stacks());
        assert!(Filter::parse("lifetime:..5").unwrap().is_about_deaths());
        let bad = [
            "",
            "size",
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
        ];
        for text in bad {
            let Err(Problem::Bad(line)) = Filter::parse(text) else { panic!("{text}") };
            assert!(line.starts_with("filter '") && !line.contains('\n'), "{line}");
        }
    }
}
