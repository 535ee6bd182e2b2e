//! Suppressions: sites whose leaks are known and accepted.
//!
//! A line is a filter on call stacks, in the [language of filters](crate::filter), or `leak:PATTERN` as LeakSanitizer has it: the pattern is looked for in
//! the function, the source file and the module of each frame; `*` stands for any text, `^` at its start and `$` at its end for the ends of the name.

use crate::compiled_filter::CompiledFilter;
use crate::filter::{Filter, pattern};
use crate::measure::Amount;
use highwater_model::{Catalog, Naming, StackId};
use serde::Serialize;
use std::fmt;

/// More of them are a mistake, and would cost memory for each call of the program.
pub(super) const MOST_SUPPRESSIONS: usize = 1_000;
/// The longest line, in bytes.
const LONGEST: usize = 1_000;

/// A line that is no suppression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadSuppression {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// More suppressions than a budget may have, all its files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {MOST_SUPPRESSIONS} suppressions")]
pub struct TooManySuppressions;

/// Sites whose leaks are accepted.
#[derive(Clone, Debug)]
pub struct Suppression {
    text: String,
    filter: Filter,
}

impl fmt::Display for Suppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Suppression {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a suppression has at most {LONGEST} bytes"));
        }
        let filter = match text.strip_prefix("leak:") {
            Some(template) => Filter::of_text(of_leak_sanitizer(template)?),
            None => {
                let filter: Filter = text.parse().map_err(|error| format!("{error}"))?;
                if !filter.is_about_stacks() {
                    return Err(format!(
                        "'{text}' selects single blocks; a suppression is about call stacks: leak:PATTERN, inside:, outside:, module: or a regular expression"
                    ));
                }
                filter
            }
        };
        Ok(Self { text: text.to_owned(), filter })
    }
}

/// A template of LeakSanitizer as a regular expression.
fn of_leak_sanitizer(template: &str) -> Result<regex::Regex, String> {
    let (begin, rest) = template.strip_prefix('^').map_or(("", template), |rest| ("^", rest));
    // As in LeakSanitizer, the first '$' ends the pattern.
    let (rest, end) = rest.split_once('$').map_or((rest, ""), |(rest, _)| (rest, "$"));
    if rest.is_empty() {
        return Err("the pattern after 'leak:' is empty".to_owned());
    }
    let texts: Vec<String> = rest.split('*').map(regex::escape).collect();
    pattern(&format!("{begin}{}{end}", texts.join(".*")))
}

/// Reads a file of suppressions: one in each line; lines that begin with `#` are comments.
pub fn parse_suppressions(text: &str) -> Result<Vec<Suppression>, BadSuppression> {
    let mut all = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if all.len() == MOST_SUPPRESSIONS {
            return Err(BadSuppression { line, what: TooManySuppressions.to_string() });
        }
        all.push(Suppression::parse(text).map_err(|what| BadSuppression { line, what })?);
    }
    Ok(all)
}

/// What a suppression took out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Suppressed {
    /// The suppression as it was written.
    pub suppression: String,
    /// Bytes: of each process, the most that it took out of one figure.
    pub bytes: u64,
    /// Blocks, in the same way.
    pub blocks: u64,
    /// True if it took anything out of any figure.
    pub used: bool,
}

/// All suppressions of a run, and what each took out.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    all: Vec<Suppression>,
    taken: Vec<Suppressed>,
    /// What each took out of figures of the process that is judged now.
    of_process: Vec<Amount>,
}

impl Suppressions {
    /// Adds suppressions; each text counts once.
    pub fn add(&mut self, suppressions: impl IntoIterator<Item = Suppression>) -> Result<(), TooManySuppressions> {
        for suppression in suppressions {
            if self.all.iter().any(|known| known.text == suppression.text) {
                continue;
            }
            if self.all.len() == MOST_SUPPRESSIONS {
                return Err(TooManySuppressions);
            }
            self.taken.push(Suppressed { suppression: suppression.text.clone(), ..Suppressed::default() });
            self.of_process.push(Amount::default());
            self.all.push(suppression);
        }
        Ok(())
    }

    /// What each took out.
    pub fn taken(&self) -> &[Suppressed] {
        &self.taken
    }

    /// For each stack the first suppression that it matches.
    pub(super) fn by_stack(&self, catalog: &Catalog, naming: &Naming) -> SuppressedStacks {
        let mut first: Vec<Option<u16>> = Vec::new();
        for (number, suppression) in self.all.iter().enumerate() {
            let filter = CompiledFilter::new(std::slice::from_ref(&suppression.filter), catalog, naming);
            first.resize(catalog.stacks.nodes().len(), None);
            for (stack, first) in first.iter_mut().enumerate().filter(|(_, first)| first.is_none()) {
                *first = filter.passes_stack(StackId(stack as u32)).then_some(number as u16);
            }
        }
        SuppressedStacks(first)
    }

    /// Notes that a suppression took something out of a figure. A process has several figures of the same blocks: the largest counts.
    pub(super) fn took(&mut self, number: u16, amount: Amount) {
        let number = usize::from(number);
        if let (Some(taken), Some(most)) = (self.taken.get_mut(number), self.of_process.get_mut(number)) {
            taken.used = true;
            most.value = most.value.max(amount.value);
            most.blocks = most.blocks.max(amount.blocks);
        }
    }

    /// Adds up what was taken out of the process that was judged.
    pub fn end_process(&mut self) {
        for (taken, most) in self.taken.iter_mut().zip(&mut self.of_process) {
            let most = std::mem::take(most);
            taken.bytes = taken.bytes.saturating_add(most.value);
            taken.blocks = taken.blocks.saturating_add(most.blocks);
        }
    }
}

/// The suppression of each stack of a catalog.
pub(super) struct SuppressedStacks(Vec<Option<u16>>);

impl SuppressedStacks {
    /// The number of the suppression that a stack matches.
    pub(super) fn of(&self, stack: StackId) -> Option<u16> {
        self.0.get(stack.0 as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::FrameText;

    #[test]
    fn patterns_match_as_in_leak_sanitizer() {
        let matches = |template: &str, name: &str| of_leak_sanitizer(template).unwrap().is_match(name);
        for (template, name, is_it) in [
            ("foo", "barfoobaz", true),
            ("^foo", "barfoo", false),
            ("^foo", "foobar", true),
            ("foo$", "barfoo", true),
            ("foo$", "foobar", false),
            ("^foo$", "foo", true),
            ("a*c", "xabcx", true),
            ("^a*c$", "abbbc", true),
            ("^a*c$", "abbbcd", false),
            ("a.c", "abc", false),
            ("operator()", "x::operator()(int)", true),
            ("*", "anything", true),
            ("std::vec*(push", "std::vector(push_back)", true),
        ] {
            assert_eq!(matches(template, name), is_it, "{template} {name}");
        }
        assert!(of_leak_sanitizer("^$").is_err() && of_leak_sanitizer("").is_err());
    }

    #[test]
    fn a_file_has_one_suppression_in_each_line() {
        let text = "# known\nleak:libfontconfig\n\n  inside:regex:^init_  \nparse|lex\n";
        let texts: Vec<String> = parse_suppressions(text).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["leak:libfontconfig", "inside:regex:^init_", "parse|lex"]);
        for (text, line, part) in [
            ("leak:\n", 1, "empty"),
            ("\n\nsize:1..\n", 3, "single blocks"),
            ("leak:a\nrace:b\n", 2, "no such filter"),
            ("inside:regex:(\n", 1, "regular expression"),
        ] {
            let bad = parse_suppressions(text).unwrap_err();
            assert!(bad.line == line && bad.what.contains(part), "{text}: {bad}");
        }
    }

    #[test]
    fn the_first_suppression_that_matches_counts() {
        let mut catalog = Catalog::default();
        let frame = |function, module| FrameText { function, module, ..FrameText::default() };
        let one = catalog.intern_stack(&[frame("alloc", "/lib/libx.so"), frame("main", "/bin/app")]);
        let other = catalog.intern_stack(&[frame("other", "/bin/app")]);
        let mut all = Suppressions::default();
        all.add(parse_suppressions("leak:libx\nleak:alloc\nleak:libx\n").unwrap()).unwrap();
        assert_eq!(all.taken().len(), 2, "the same text counts once");
        let stacks = all.by_stack(&catalog, &Naming::default());
        assert_eq!((stacks.of(one), stacks.of(other)), (Some(0), None));
        let many = (0..MOST_SUPPRESSIONS).map(|number| Suppression::parse(&format!("leak:{number}")).unwrap());
        assert_eq!(all.add(many), Err(TooManySuppressions));
        assert_eq!(all.taken().len(), MOST_SUPPRESSIONS);
    }
}
