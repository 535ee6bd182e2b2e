//! A verdict for the services that run tests: JUnit's XML, annotations of GitHub Actions, GitLab's code quality report.

use super::incomplete::Incomplete;
use super::text::{figure, sentence, what};
use super::{JudgedLimit, JudgedProcess, Limits, Verdict};
use crate::print::bytes::counted;
use crate::print::text::printable;
use highwater_query::budget::{BudgetUnit, Outcome};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Value, json};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// What a check of a file itself found: the file, and why it is not sound.
pub struct FileVerdict<'a> {
    /// The file.
    pub path: &'a Path,
    /// What is wrong with it, one line each; empty if it is sound.
    pub problems: Vec<String>,
}

/// A place in the sources of the project: a path relative to the current folder, and a line.
struct Place {
    path: String,
    line: u32,
}

/// Where the first site of a limit is, if that is a file of the project.
fn place_of(one: &JudgedLimit) -> Option<Place> {
    let frame = one.checked.sites.first()?.frame.as_ref()?;
    let here = std::env::current_dir().ok()?;
    let file = PathBuf::from(frame.file.as_ref()?);
    let relative = if file.is_absolute() { file.strip_prefix(&here).ok()?.to_owned() } else { file };
    let is_inside = here.join(&relative).is_file() && !relative.components().any(|part| part.as_os_str() == "..");
    let path = relative.to_str().filter(|_| is_inside)?.to_owned();
    Some(Place { path, line: frame.line.filter(|line| *line > 0).unwrap_or(1) })
}

/// The whole story of a limit that is not kept, in several lines.
fn story(process: &JudgedProcess, one: &JudgedLimit) -> String {
    let mut text = format!("{}: {}", process.name(), sentence(&one.checked));
    for site in &one.checked.sites {
        let place = site.frame.as_ref().and_then(|frame| {
            let file = frame.file.as_ref()?;
            Some(frame.line.map_or_else(|| format!("  {file}"), |line| format!("  {file}:{line}")))
        });
        let unit = if one.checked.unit == BudgetUnit::Bytes { BudgetUnit::Bytes } else { BudgetUnit::Blocks };
        let _ = write!(text, "\n{}  {}{}", figure(unit, site.figure), site.key, place.unwrap_or_default());
    }
    if one.checked.why.is_none() {
        let _ = write!(text, "\n{}", process.view(&one.checked));
    }
    text
}

/// Text and attributes of XML. Control characters are not allowed in XML 1.0, even escaped.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A name that is not used yet: the second process of a program, or the second limit of a kind, gets a number.
fn numbered(used: &mut FxHashMap<String, usize>, name: &str) -> String {
    let count = used.entry(name.to_owned()).or_default();
    *count += 1;
    if *count == 1 { name.to_owned() } else { format!("{name} ({count})") }
}

/// A test case: `outcome` is its failure or error.
fn test_case(class: &str, name: &str, outcome: Option<(&str, String, String)>) -> String {
    let (class, name) = (xml(class), xml(name));
    let outcome = outcome.map_or_else(String::new, |(tag, message, story)| {
        format!("\n      <{tag} message=\"{}\">{}</{tag}>\n    ", xml(&message), xml(&story))
    });
    format!("    <testcase classname=\"{class}\" name=\"{name}\">{outcome}</testcase>\n")
}

/// A suite of test cases, with the number of its tests, failures and errors.
#[derive(Default)]
struct Suite {
    cases: String,
    /// Tests, failures, errors.
    counts: [usize; 3],
}

impl Suite {
    fn add(&mut self, class: &str, name: &str, outcome: Option<(&str, String, String)>) {
        let kind = outcome.as_ref().map(|(tag, ..)| if *tag == "failure" { 1 } else { 2 });
        self.counts[0] += 1;
        kind.into_iter().for_each(|kind| self.counts[kind] += 1);
        self.cases.push_str(&test_case(class, name, outcome));
    }

    fn render(&self, name: &str, output: &str) -> String {
        let [tests, failures, errors] = self.counts;
        let (name, output) = (xml(name), xml(output));
        let output = if output.is_empty() { output } else { format!("    <system-out>{output}</system-out>\n") };
        format!(
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">\n{}{output}  </testsuite>\n",
            self.cases
        )
    }
}

/// JUnit's XML: a suite for each process, a test case for each limit. Names stay the same from run to run: they have no process ids and no figures.
pub fn junit(file: &FileVerdict<'_>, verdict: Option<&Verdict>) -> String {
    let mut own = Suite::default();
    let problem = file.problems.first().map(|first| ("failure", first.clone(), file.problems.join("\n")));
    own.add("highwater", "the file is sound", problem);
    let mut suites = Vec::new();
    let mut output = String::new();
    if let Some(verdict) = verdict {
        let lines: Vec<String> = verdict.incomplete.iter().map(Incomplete::sentence).collect();
        let missing = lines.first().map(|first| ("error", first.clone(), lines.join("\n")));
        own.add("highwater", "everything with a limit is recorded", missing);
        let unused = verdict.unused().map(|one| format!("unused suppression: {}", one.suppression));
        output = verdict.taken().chain(unused).collect::<Vec<_>>().join("\n");
        let mut programs = FxHashMap::default();
        for process in &verdict.processes {
            let program = numbered(&mut programs, &process.program);
            let (mut suite, mut names) = (Suite::default(), FxHashMap::default());
            for one in &process.checks {
                let tag = match one.checked.outcome {
                    Outcome::Kept => None,
                    Outcome::Broken => Some("failure"),
                    Outcome::NotKnown => Some("error"),
                };
                let outcome = tag.map(|tag| (tag, sentence(&one.checked), story(process, one)));
                suite.add(&format!("highwater.{program}"), &numbered(&mut names, &what(&one.checked)), outcome);
            }
            suites.push((program, suite));
        }
    }
    let path = file.path.display().to_string();
    let mut text = own.render(&path, &output);
    suites.iter().for_each(|(name, suite)| text.push_str(&suite.render(name, "")));
    let sum = |kind: usize| own.counts[kind] + suites.iter().map(|(_, suite)| suite.counts[kind]).sum::<usize>();
    let (tests, failures, errors) = (sum(0), sum(1), sum(2));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"highwater\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">\n{text}</testsuites>\n"
    )
}

/// The text of a GitHub command: its message, or with `is_property` the value of a property.
fn escaped(text: &str, is_property: bool) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if is_property { text.replace(':', "%3A").replace(',', "%2C") } else { text }
}

/// Annotations of GitHub Actions: one line for each limit that is not kept.
pub fn github(file: &FileVerdict<'_>, verdict: Option<&Verdict>) -> String {
    let mut lines = String::new();
    for problem in &file.problems {
        let text = format!("{}: {}", file.path.display(), printable(problem));
        let _ = writeln!(lines, "::error title={}::{}", escaped("highwater check", true), escaped(&text, false));
    }
    let Some(verdict) = verdict else { return lines };
    for (process, one) in verdict.failed() {
        let place = place_of(one);
        let place = place.map(|place| format!("file={},line={},", escaped(&place.path, true), place.line));
        let title = escaped(&format!("highwater: {}", what(&one.checked)), true);
        let text = escaped(&story(process, one), false);
        let _ =
            writeln!(lines, "::error {}title={}::{}", place.unwrap_or_default(), printable(&title), printable(&text));
    }
    for one in &verdict.incomplete {
        let (title, text) = (escaped("highwater: incomplete", true), escaped(&one.sentence(), false));
        let _ = writeln!(lines, "::error title={title}::{}", printable(&text));
    }
    // One annotation: GitHub shows ten of a kind.
    let taken: Vec<String> = verdict.taken().collect();
    if !taken.is_empty() {
        let _ = writeln!(lines, "::notice title=highwater::{}", printable(&escaped(&taken.join("\n"), false)));
    }
    for one in verdict.unused() {
        let text = printable(&format!("unused suppression: {}", one.suppression));
        let _ = writeln!(lines, "::warning title=highwater::{}", escaped(&text, false));
    }
    if verdict.is_kept() {
        let _ = writeln!(lines, "::notice title=highwater::{} kept", counted(verdict.all().count() as u64, "limit"));
    }
    lines
}

/// GitLab's code quality report: a list of problems, each with a place and a fingerprint that stays the same from run to run.
pub fn gitlab(file: &FileVerdict<'_>, verdict: Option<&Verdict>, limits: Option<&Limits>) -> Value {
    let mut seen: FxHashMap<u64, u64> = FxHashMap::default();
    let mut entry = |name: &str, identity: &str, text: String, place: Option<Place>, other: &Path| {
        let mut hasher = FxHasher::default();
        (name, identity).hash(&mut hasher);
        let hash = hasher.finish();
        // Two processes of one program may break the same limit.
        let again = seen.entry(hash).and_modify(|again| *again += 1).or_default();
        let (path, line) = place.map_or_else(|| (other.display().to_string(), 1), |place| (place.path, place.line));
        json!({
            "description": text,
            "check_name": name,
            "fingerprint": format!("{hash:016x}{again:016x}"),
            "severity": "major",
            "location": {"path": path, "lines": {"begin": line}},
        })
    };
    let mut entries: Vec<Value> = Vec::new();
    for problem in &file.problems {
        entries.push(entry("highwater/sound", problem, problem.clone(), None, file.path));
    }
    let of_budget = limits.and_then(|limits| limits.path.as_deref());
    for one in verdict.iter().flat_map(|verdict| &verdict.incomplete) {
        let other = one.path.as_deref().or(of_budget).unwrap_or(file.path);
        entries.push(entry("highwater/incomplete", &one.program, one.sentence(), None, other));
    }
    for (process, one) in verdict.iter().flat_map(|verdict| verdict.failed()) {
        let name = format!("highwater/{}", one.checked.limit.key());
        let site = one.checked.sites.first().map(|site| site.key.as_str()).unwrap_or_default();
        let identity = format!("{}\n{}\n{site}", process.program, one.checked.part);
        let other = of_budget.unwrap_or(&process.path);
        entries.push(entry(&name, &identity, story(process, one), place_of(one), other));
    }
    entries.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_their_formats_say() {
        assert_eq!(xml("a<b> & \"c\"\u{1}\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}&#10;");
        assert_eq!(escaped("50%: a,b\r\n", false), "50%25: a,b%0D%0A");
        assert_eq!(escaped("50%: a,b\n", true), "50%25%3A a%2Cb%0A");
    }
}
