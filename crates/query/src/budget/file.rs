//! The file of budgets: the tables `[budget]` and `[budget.programs.NAME]` of a `highwater.toml`.
//!
//! ```toml
//! [budget]
//! max-peak = "64 MiB"
//! suppress = ["leak:libfontconfig"]
//!
//! [[budget.part]]
//! filter = "inside:regex:^parser::"
//! max-leaked = 0
//!
//! [budget.programs.worker]
//! max-peak = "8 MiB"
//! ```

use super::limits::{BudgetPart, LimitKind, PartSpan};
use super::suppressions::{MOST_SUPPRESSIONS, Suppression, TooManySuppressions};
use crate::filter::Filter;
use crate::toml::{BadToml, parse_toml};
use highwater_model::{When, without_cargo_hash};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A longer file is no budget.
pub const MOST_BUDGET_BYTES: u64 = 1 << 20;
/// More parts are a mistake.
const MOST_PARTS: usize = 1_000;
/// The most files of suppressions.
const MOST_FILES: usize = 100;
/// How many iterations warm up unless the file says so.
const WARM_UP: u64 = 1;

/// A file that is no budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBudget(String);

/// The limits of a project's programs.
#[derive(Clone, Debug, Default)]
pub struct BudgetFile {
    /// The limits of every program that has none of its own.
    pub parts: Vec<BudgetPart>,
    /// The limits of programs by name.
    pub programs: BTreeMap<String, Vec<BudgetPart>>,
    /// Programs that need not run in each run: they may have no earlier run to be compared with, and no later one.
    pub optional: BTreeSet<String>,
    /// Sites whose leaks are accepted.
    pub suppressions: Vec<Suppression>,
    /// Files of further suppressions, relative to this file.
    pub suppression_files: Vec<String>,
}

impl BudgetFile {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self, BadBudget> {
        if text.len() as u64 > MOST_BUDGET_BYTES {
            return Err(BadBudget("it is longer than a budget is".to_owned()));
        }
        let contents: Contents = parse_toml(text).map_err(|error| BadBudget(explained(text, &error)))?;
        let budget = contents.budget.ok_or_else(|| BadBudget("it has no table [budget]".to_owned()))?;
        let file = Self {
            parts: budget.limits.parts(),
            programs: budget.programs.into_iter().map(|(name, limits)| (name, limits.0.parts())).collect(),
            optional: budget.optional,
            suppressions: budget.suppress,
            suppression_files: budget.suppressions,
        };
        if file.suppression_files.len() > MOST_FILES {
            return Err(BadBudget(format!("it names more than {MOST_FILES} files of suppressions")));
        }
        let count = file.parts.len() + file.programs.values().map(Vec::len).sum::<usize>();
        match count {
            0 => Err(BadBudget(format!("it has no limit; such as {} = \"64 MiB\" in [budget]", LimitKind::Peak.key()))),
            1..=MOST_PARTS => Ok(file),
            _ => Err(BadBudget(format!("it has {count} parts, and the limit is {MOST_PARTS}"))),
        }
    }

    /// The name under which a program has limits of its own: that of its recording, with or without the hash that cargo adds.
    pub fn own_name<'a>(&self, program: &'a str) -> Option<&'a str> {
        [program, without_cargo_hash(program)].into_iter().find(|name| self.programs.contains_key(*name))
    }

    /// The limits of a program.
    pub fn of(&self, program: &str) -> &[BudgetPart] {
        self.own_name(program).and_then(|name| self.programs.get(name)).unwrap_or(&self.parts)
    }
}

/// The whole file. Other commands read what a project knows about its own functions: the table of names.
struct Contents {
    budget: Option<BudgetTable>,
}

/// The values of limits, in the order of the file.
#[derive(Default)]
struct LimitTable {
    /// The limits outside of parts.
    own: Option<BudgetPart>,
    parts: Vec<BudgetPart>,
}

impl LimitTable {
    fn parts(self) -> Vec<BudgetPart> {
        self.own.into_iter().chain(self.parts).collect()
    }
}

#[derive(Default)]
struct BudgetTable {
    limits: LimitTable,
    programs: BTreeMap<String, ProgramTable>,
    optional: BTreeSet<String>,
    suppress: Vec<Suppression>,
    suppressions: Vec<String>,
}

struct ProgramTable(LimitTable);

struct PartTable(BudgetPart);

/// One limit's value: a text or a number.
struct LimitValue(String);

impl<'de> Deserialize<'de> for LimitValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = LimitValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, a count or a share: \"64 MiB\", 1000, \"30%\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<LimitValue, E> {
                Ok(LimitValue(text.to_owned()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<LimitValue, E> {
                Ok(LimitValue(number.to_string()))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<LimitValue, E> {
                Ok(LimitValue(number.to_string()))
            }
        }
        deserializer.deserialize_any(Value)
    }
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// The keys of a table that are not limits.
const BUDGET_KEYS: [&str; 5] = ["part", "programs", "optional", "suppress", "suppressions"];
const PROGRAM_KEYS: [&str; 1] = ["part"];
const PART_KEYS: [&str; 7] = ["name", "filter", "from", "to", "measure", "each", "skip"];

/// The tables of the file.
const TABLES: [&str; 2] = ["budget", "names"];

fn limit_kind(key: &str) -> Option<LimitKind> {
    LimitKind::ALL.into_iter().find(|kind| kind.key() == key)
}

fn limit<'de, A: MapAccess<'de>>(map: &mut A, kind: LimitKind) -> Result<(LimitKind, u64), A::Error> {
    let value: LimitValue = map.next_value()?;
    let limit =
        kind.parse(&value.0).map_err(|why| A::Error::custom(format!("{} = '{}': {why}", kind.key(), value.0)))?;
    Ok((kind, limit))
}

fn unknown<'a, E: Error>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> E {
    match nearest(key, known.clone()) {
        Some(name) => E::custom(format!("unknown key '{key}'; did you mean '{name}'?")),
        None => E::custom(format!("unknown key '{key}'; there are {}", known.collect::<Vec<_>>().join(", "))),
    }
}

/// The name that a mistyped one may mean.
pub fn nearest<'a>(mistyped: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|name| (distance(mistyped, name), name)).min();
    near.filter(|(far, _)| *far <= mistyped.len().max(3) / 3).map(|(_, name)| name)
}

/// How many letters must be added, removed, replaced or swapped with the next.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(100).collect(), b.chars().take(100).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(from != to)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// Reads a table of limits; `other` takes the keys that are not limits, and says whether it knows them.
fn table<'de, A: MapAccess<'de>>(
    map: &mut A,
    known: &[&str],
    mut other: impl FnMut(&mut A, &str) -> Result<(), A::Error>,
) -> Result<Vec<(LimitKind, u64)>, A::Error> {
    let mut limits = Vec::new();
    while let Some(key) = map.next_key::<String>()? {
        match limit_kind(&key) {
            Some(kind) => limits.push(limit(map, kind)?),
            None if known.contains(&key.as_str()) => other(map, &key)?,
            None => {
                let limits = LimitKind::ALL.map(LimitKind::key).into_iter();
                return Err(unknown(&key, limits.chain(known.iter().copied())));
            }
        }
    }
    Ok(limits)
}

fn own_part<E: Error>(limits: Vec<(LimitKind, u64)>) -> Result<Option<BudgetPart>, E> {
    if limits.is_empty() {
        return Ok(None);
    }
    BudgetPart::new(String::new(), Vec::new(), PartSpan::Whole, limits).map(Some).map_err(E::custom)
}

macro_rules! from_map {
    ($type:ty, $what:literal, |$map:ident| $body:block) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Table;
                impl<'de> Visitor<'de> for Table {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<$type, A::Error> $body
                }
                deserializer.deserialize_map(Table)
            }
        }
    };
}

from_map!(Contents, "tables", |map| {
    let mut budget = None;
    while let Some(key) = map.next_key::<String>()? {
        match key.as_str() {
            "budget" => budget = Some(map.next_value()?),
            "names" => _ = map.next_value::<IgnoredAny>()?,
            _ => return Err(unknown(&key, TABLES.into_iter())),
        }
    }
    Ok(Contents { budget })
});

from_map!(BudgetTable, "a table of limits", |map| {
    let mut own = BudgetTable::default();
    let limits = table(&mut map, &BUDGET_KEYS, |map, key| {
        match key {
            "part" => own.limits.parts = map.next_value::<Vec<PartTable>>()?.into_iter().map(|part| part.0).collect(),
            "programs" => own.programs = map.next_value()?,
            "optional" => own.optional = map.next_value()?,
            "suppressions" => own.suppressions = map.next_value()?,
            _ => {
                let texts = map.next_value::<Vec<String>>()?;
                if texts.len() > MOST_SUPPRESSIONS {
                    return Err(A::Error::custom(TooManySuppressions));
                }
                let parsed = texts.iter().map(|text| Suppression::parse(text));
                own.suppress = parsed.collect::<Result<_, _>>().map_err(A::Error::custom)?;
            }
        }
        Ok(())
    })?;
    own.limits.own = own_part(limits)?;
    Ok(own)
});

from_map!(ProgramTable, "a table of limits", |map| {
    let mut own = LimitTable::default();
    let limits = table(&mut map, &PROGRAM_KEYS, |map, _| {
        own.parts = map.next_value::<Vec<PartTable>>()?.into_iter().map(|part| part.0).collect();
        Ok(())
    })?;
    own.own = own_part(limits)?;
    Ok(ProgramTable(own))
});

from_map!(PartTable, "a table of limits", |map| {
    let (mut name, mut filters) = (String::new(), Vec::new());
    let (mut from, mut to, mut measure, mut each, mut skip) = (None, None, None, None, None);
    let limits = table(&mut map, &PART_KEYS, |map, key| {
        match key {
            "name" => name = map.next_value()?,
            "filter" => {
                let texts = match map.next_value()? {
                    OneOrMore::One(text) => vec![text],
                    OneOrMore::More(texts) => texts,
                };
                let parsed = texts.iter().map(|text| text.parse());
                filters = parsed.collect::<Result<Vec<Filter>, _>>().map_err(A::Error::custom)?;
            }
            "from" | "to" => {
                let when: When = map.next_value::<String>()?.parse().map_err(A::Error::custom)?;
                *(if key == "from" { &mut from } else { &mut to }) = Some(when);
            }
            "measure" => measure = Some(map.next_value::<String>()?),
            "each" => each = Some(map.next_value::<String>()?),
            _ => skip = Some(map.next_value::<u64>()?),
        }
        Ok(())
    })?;
    if skip.is_some() && each.is_none() {
        return Err(A::Error::custom("'skip' is the number of iterations that warm up, and 'each' names no mark"));
    }
    let span = match (from.is_some() || to.is_some(), measure, each) {
        (false, None, None) => PartSpan::Whole,
        (true, None, None) => PartSpan::Window { from, to },
        (false, Some(name), None) => PartSpan::Measure(name),
        (false, None, Some(mark)) => PartSpan::Each { mark, skip: skip.unwrap_or(WARM_UP) },
        _ => return Err(A::Error::custom(super::limits::ImpossibleLimit::TwoSpans)),
    };
    BudgetPart::new(name, filters, span, limits).map(PartTable).map_err(A::Error::custom)
});

/// An error with the line of the key that it is about. The parser names the line of the table.
fn explained(text: &str, error: &BadToml) -> String {
    let BadToml::Refused(refused) = error else { return error.to_string() };
    let Some((at, _)) = refused.line_col() else { return error.to_string() };
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let message = message.split(" for key `").next().unwrap_or(message);
    let quoted = message.split('\'').nth(1).filter(|_| message.starts_with("unknown key '"));
    let key = quoted.or_else(|| message.split(" = '").next().filter(|key| limit_kind(key).is_some()));
    let value = message.split('\'').nth(1).filter(|_| quoted.is_none()).unwrap_or_default();
    let is_about = |line: &str, key: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(key).map(|rest| rest.trim_start_matches('"'));
        rest.is_some_and(|rest| rest.trim_start().starts_with('=') && rest.contains(value))
            || line.trim().starts_with('[') && line.trim().trim_matches(['[', ']']).rsplit('.').next() == Some(key)
    };
    // The parser may be past the table's own keys, at the tables inside it.
    let lines = || text.lines().enumerate();
    let find = |key: &str, from: usize| lines().skip(from).find(|(_, line)| is_about(line, key));
    let found = key.and_then(|key| find(key, at).or_else(|| find(key, 0)));
    let line = found.map_or(at, |(line, _)| line) + 1;
    format!("line {line}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
[names]
allocators = ["my_alloc"]

[budget]
max-peak = "64 MiB"
max-leaked = 0
max-allocations = 100_000
max-temporary = "30%"
suppress = ["leak:libfontconfig", "inside:regex:^init_"]
suppressions = ["lsan.supp"]

[[budget.part]]
name = "the parser leaks nothing"
filter = "inside:regex:^parser::"
max-leaked = 0

[[budget.part]]
each = "round"
max-growth = "100 B"
max-growth-blocks = 0

[budget.programs.worker]
max-peak = "8 MiB"

[[budget.programs.worker.part]]
measure = "parse"
filter = ["size:1KiB..", "heap:malloc"]
max-allocations = 0
"#;

    #[test]
    fn a_file_has_limits_for_every_program_and_for_some_by_name() {
        let file = BudgetFile::parse(WHOLE).unwrap();
        let words = |parts: &[BudgetPart]| parts.iter().map(BudgetPart::in_words).collect::<Vec<_>>();
        assert_eq!(words(file.of("app")), ["", "the parser leaks nothing", "from 'round' to 'round'"]);
        assert_eq!(file.own_name("worker-0123456789abcdef"), Some("worker"), "cargo's hash is no part of the name");
        assert_eq!((file.own_name("worker-2"), file.own_name("worker-0123456789abcdeg")), (None, None));
        assert_eq!(words(file.of("worker")), ["", "in 'size:1KiB..' in 'heap:malloc' in each 'parse'"]);
        assert_eq!(
            file.parts[0].limits,
            [
                (LimitKind::Peak, 64 << 20),
                (LimitKind::Leaked, 0),
                (LimitKind::Allocations, 100_000),
                (LimitKind::Temporary, 3000)
            ]
        );
        assert_eq!(file.parts[2].span, PartSpan::Each { mark: "round".into(), skip: 1 });
        assert_eq!((file.suppressions.len(), file.suppression_files.as_slice()), (2, &["lsan.supp".to_owned()][..]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_a_suggestion() {
        for (text, line, part) in [
            ("[budget]\nmax-leaked = 0\nmax-paek = 1\n", 3, "unknown key 'max-paek'; did you mean 'max-peak'?"),
            (
                "[budget]\nmax-peak = 1\n\n[[budget.part]]\nfitler = \"x\"\nmax-leaked = 0\n",
                5,
                "did you mean 'filter'?",
            ),
            ("[budget]\nmax-peak = 1\n[budget.programs.w]\nmax_peak = 2\n", 4, "did you mean 'max-peak'?"),
            ("[budget]\nmax-peak = 1\ncolour = 2\n", 3, "unknown key 'colour'; there are max-peak, "),
            ("[budget]\nmax-rss = \"1G\"\nmax-peak = -5\n", 3, "max-peak = '-5': not a size"),
            ("[budget]\nmax-temporary = \"130%\"\n", 2, "at most 100%"),
            ("[budget]\nmax-peak = \"1 M\"\nmax-peak = 2\n", 3, "duplicate"),
            ("[budget]\nmax-peak = 1.5\n", 2, "a size, a count or a share"),
            ("[budget]\nmax-paek = 1\n[[budget.part]]\nmax-leaked = 0\n", 2, "did you mean 'max-peak'?"),
            ("[budget\n", 1, "expected"),
            ("[names]\n[bugdet]\nmax-peak = 1\n", 2, "unknown key 'bugdet'; did you mean 'budget'?"),
            ("[colours]\nred = 1\n", 1, "unknown key 'colours'; there are budget, names"),
            (format!("[budget]\nmax-peak = {}", "[".repeat(100_000)).as_str(), 2, "nested more than"),
        ] {
            let bad = BudgetFile::parse(text).unwrap_err().to_string();
            assert!(bad.starts_with(&format!("line {line}: ")) && bad.contains(part), "{text}: {bad}");
        }
        for (text, part) in [
            ("", "no table [budget]"),
            ("[budget]\n", "no limit"),
            ("[budget]\nmax-peak = 0\n", "max-allocations = 0"),
            ("[budget]\nmax-growth = 0\n", "'each' names the mark"),
            ("[budget]\nmax-peak = 5\nmax-leaked = 6\n", "can never be broken"),
            ("[[budget.part]]\nfilter = \"x\"\n", "no limit in it"),
            ("[[budget.part]]\nfilter = \"x\"\nmax-rss = 5\n", "whole process"),
            ("[[budget.part]]\nfilter = \"size:x\"\nmax-peak = 5\n", "range"),
            ("[[budget.part]]\nfrom = \"soon\"\nmax-peak = 5\n", "names no instant"),
            ("[[budget.part]]\nfrom = \"start\"\nmeasure = \"x\"\nmax-peak = 5\n", "either"),
            ("[[budget.part]]\nskip = 5\nmax-peak = 5\n", "'each' names no mark"),
            ("[budget]\nmax-peak = 5\nsuppress = [\"leak:\"]\n", "empty"),
            (
                format!("[budget]\nmax-peak = 5\nsuppress = [{}]\n", "\"leak:a\", ".repeat(70_000)).as_str(),
                "more than 1000",
            ),
            (
                format!("[budget]\nmax-peak = 5\nsuppressions = [{}]\n", "\"a\", ".repeat(101)).as_str(),
                "more than 100 files",
            ),
        ] {
            let bad = BudgetFile::parse(text).unwrap_err().to_string();
            assert!(bad.contains(part), "{text}: {bad}");
        }
    }

    #[test]
    fn near_keys_are_suggested_and_far_ones_are_not() {
        assert_eq!(distance("max-paek", "max-peak"), 1, "two letters swapped");
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("max_leaked_blocks", "max-leaked-blocks"), 2);
    }
}
