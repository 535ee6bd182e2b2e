//! A verdict for the services that run tests: JUnit's XML, annotations of GitHub Actions, GitLab's code quality report.

use super::incomplete::Incomplete;
use super::text::{figure, sentence, what};
use super::{JudgedLimit, JudgedProcess, Limits, Verdict};
use crate::print::bytes::counted;
use crate::print::text::printable;
use highwater_model::{Source, rfc3339};
use highwater_query::budget::{BudgetUnit, Outcome};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Value, json};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// `2023-11-14T22:13:20`, without the rest: as the Java tools that made the format write it.
const SECONDS_OF_RFC3339: usize = 19;

/// The most annotations of a kind that GitHub shows of one step.
const MOST_ANNOTATIONS: usize = 10;

/// What a check of a file itself found: the file, and why it is not sound.
pub struct FileVerdict<'a> {
    /// The file.
    pub path: &'a Path,
    /// What its recording says of the program.
    pub source: &'a Source,
    /// What is wrong with it, one line each; empty if it is sound. `None` if that was not checked.
    pub problems: Option<Vec<String>>,
}

/// A line of the project's sources: a path relative to the current folder, and a number.
struct SourceLocation {
    path: String,
    line: u32,
}

/// A path as services have it: relative to the current folder. Of a file elsewhere only the name is of any use to them.
fn relative_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let inside = path.strip_prefix(&here).unwrap_or(path);
    let is_inside = inside.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let shown = if is_inside { inside } else { Path::new(path.file_name().unwrap_or_default()) };
    let parts = shown.components().filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().display().to_string()
}

/// Where the first site of a limit is, if that is a file of the project.
fn source_location(one: &JudgedLimit) -> Option<SourceLocation> {
    let frame = one.checked.sites.first()?.frame.as_ref()?;
    let here = std::env::current_dir().ok()?;
    let file = PathBuf::from(frame.file.as_ref()?);
    let relative = if file.is_absolute() { file.strip_prefix(&here).ok()?.to_owned() } else { file };
    let is_inside = here.join(&relative).is_file() && !relative.components().any(|part| part.as_os_str() == "..");
    let path = relative.to_str().filter(|_| is_inside)?.to_owned();
    Some(SourceLocation { path, line: frame.line.filter(|line| *line > 0).unwrap_or(1) })
}

/// The whole story of a limit that is not kept, in several lines.
fn story(process: &JudgedProcess, one: &JudgedLimit) -> String {
    let mut text = format!("{}: {}", process.name(), sentence(&one.checked));
    for site in &one.checked.sites {
        let location = site.frame.as_ref().and_then(|frame| {
            let file = frame.file.as_ref()?;
            Some(frame.line.map_or_else(|| format!("  {file}"), |line| format!("  {file}:{line}")))
        });
        let unit = if one.checked.unit == BudgetUnit::Bytes { BudgetUnit::Bytes } else { BudgetUnit::Blocks };
        let _ = write!(text, "\n{}  {}{}", figure(unit, site.figure), site.key, location.unwrap_or_default());
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
        format!("\n      <{tag} type=\"highwater\" message=\"{}\">{}</{tag}>\n    ", xml(&message), xml(&story))
    });
    // All limits are measured together: single ones have no times.
    format!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\">{outcome}</testcase>\n")
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

    /// The suite of a process. Strict readers want its times and its machine.
    fn render(&self, name: &str, source: &Source, output: &str) -> String {
        let [tests, failures, errors] = self.counts;
        let began = rfc3339(source.start_unix_ns);
        let began = began.get(..SECONDS_OF_RFC3339).unwrap_or(&began);
        let host = xml(if source.host.is_empty() { "localhost" } else { &source.host });
        let time = Duration::from_nanos(source.duration.0).as_secs_f64();
        let (name, output) = (xml(name), xml(output));
        let output = if output.is_empty() { output } else { format!("    <system-out>{output}</system-out>\n") };
        format!(
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{time:.3}\" timestamp=\"{began}\" hostname=\"{host}\">\n{}{output}  </testsuite>\n",
            self.cases
        )
    }
}

/// JUnit's XML: a suite for each process, a test case for each limit. Names stay the same from run to run: they have no process ids and no figures.
pub fn junit(file: &FileVerdict<'_>, verdict: Option<&Verdict>) -> String {
    let mut own = Suite::default();
    if let Some(problems) = &file.problems {
        let problem = problems.first().map(|first| ("failure", first.clone(), problems.join("\n")));
        own.add("highwater", "the file is sound", problem);
    }
    let mut suites = Vec::new();
    let mut output = String::new();
    if let Some(verdict) = verdict {
        let lines: Vec<String> = verdict.incomplete.iter().map(Incomplete::sentence).collect();
        let missing = lines.first().map(|first| ("error", first.clone(), lines.join("\n")));
        own.add("highwater", "everything with a limit is recorded", missing);
        let unused = verdict.unused().map(|one| format!("unused suppression: {}", one.suppression));
        let not_judged = verdict.not_judged.iter().map(|one| format!("not judged: {one}"));
        output = verdict.taken().chain(unused).chain(not_judged).collect::<Vec<_>>().join("\n");
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
            suites.push((program, &process.source, suite));
        }
    }
    let path = file.path.display().to_string();
    let mut text = own.render(&path, file.source, &output);
    suites.iter().for_each(|(name, source, suite)| text.push_str(&suite.render(name, source, "")));
    let sum = |kind: usize| own.counts[kind] + suites.iter().map(|(.., suite)| suite.counts[kind]).sum::<usize>();
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

/// An error of GitHub Actions.
struct Annotation {
    location: Option<SourceLocation>,
    title: String,
    text: String,
}

impl Annotation {
    fn render(&self) -> String {
        let location = self.location.as_ref();
        let location = location.map(|one| format!("file={},line={},", escaped(&one.path, true), one.line));
        let (title, text) = (escaped(&self.title, true), escaped(&self.text, false));
        format!("::error {}title={}::{}\n", location.unwrap_or_default(), printable(&title), printable(&text))
    }
}

/// Annotations of GitHub Actions: one for each limit that is not kept. GitHub shows ten errors of a step, so the tenth has all that remain.
pub fn github(file: &FileVerdict<'_>, verdict: Option<&Verdict>) -> String {
    let mut errors = Vec::new();
    for problem in file.problems.iter().flatten() {
        let text = format!("{}: {problem}", file.path.display());
        errors.push(Annotation { location: None, title: "highwater check".to_owned(), text });
    }
    for (process, one) in verdict.iter().flat_map(|verdict| verdict.failed()) {
        let title = format!("highwater: {}", what(&one.checked));
        errors.push(Annotation { location: source_location(one), title, text: story(process, one) });
    }
    for one in verdict.iter().flat_map(|verdict| &verdict.incomplete) {
        let title = "highwater: incomplete".to_owned();
        errors.push(Annotation { location: None, title, text: one.sentence() });
    }
    if errors.len() > MOST_ANNOTATIONS {
        let rest = errors.split_off(MOST_ANNOTATIONS - 1);
        let title = format!("highwater: {} more problems", rest.len());
        let texts: Vec<&str> = rest.iter().map(|one| one.text.as_str()).collect();
        errors.push(Annotation { location: None, title, text: texts.join("\n\n") });
    }
    let mut lines: String = errors.iter().map(Annotation::render).collect();
    let Some(verdict) = verdict else { return lines };
    let taken = verdict.taken().collect();
    let not_judged = verdict.not_judged.iter().map(|one| format!("not judged: {one}")).collect();
    let unused = verdict.unused().map(|one| format!("unused suppression: {}", one.suppression)).collect();
    let all: [(&str, Vec<String>); 3] = [("notice", taken), ("warning", not_judged), ("warning", unused)];
    for (kind, texts) in all.iter().filter(|(_, texts)| !texts.is_empty()) {
        let _ = writeln!(lines, "::{kind} title=highwater::{}", printable(&escaped(&texts.join("\n"), false)));
    }
    if verdict.is_kept() {
        let _ = writeln!(lines, "::notice title=highwater::{} kept", counted(verdict.all().count() as u64, "limit"));
    }
    lines
}

/// GitLab's code quality report: a list of problems, each with a location and a fingerprint that stays the same from run to run.
pub fn gitlab(file: &FileVerdict<'_>, verdict: Option<&Verdict>, limits: Option<&Limits>) -> Value {
    let mut seen: FxHashMap<u64, u64> = FxHashMap::default();
    let mut entry = |name: &str, identity: &str, text: String, location: Option<SourceLocation>, other: &Path| {
        let mut hasher = FxHasher::default();
        (name, identity).hash(&mut hasher);
        let hash = hasher.finish();
        // Two processes of one program may break the same limit.
        let again = seen.entry(hash).and_modify(|again| *again += 1).or_default();
        let (path, line) = location.map_or_else(|| (relative_path(other), 1), |one| (one.path, one.line));
        json!({
            "description": text,
            "check_name": name,
            "fingerprint": format!("{hash:016x}{again:016x}"),
            "severity": if name == "highwater/not-judged" { "info" } else { "major" },
            "location": {"path": path, "lines": {"begin": line}},
        })
    };
    let mut entries: Vec<Value> = Vec::new();
    for problem in file.problems.iter().flatten() {
        // Its kind alone: the rest has offsets and numbers, which another run moves.
        let kind = problem.split(':').next().unwrap_or_default().trim_start_matches(|one: char| one.is_ascii_digit());
        entries.push(entry("highwater/sound", kind.trim(), problem.clone(), None, file.path));
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
        entries.push(entry(&name, &identity, story(process, one), source_location(one), other));
    }
    for one in verdict.iter().flat_map(|verdict| &verdict.not_judged) {
        let identity: String = one.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let other = of_budget.unwrap_or(file.path);
        entries.push(entry("highwater/not-judged", &identity, format!("not judged: {one}"), None, other));
    }
    entries.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative() {
        let here = std::env::current_dir().unwrap();
        for (path, shown) in [
            (here.join("a/b.hw"), "a/b.hw"),
            ("./a/b.hw".into(), "a/b.hw"),
            ("/elsewhere/b.hw".into(), "b.hw"),
            ("../b.hw".into(), "b.hw"),
        ] {
            assert_eq!(relative_path(&path), shown);
        }
    }

    #[test]
    fn texts_are_escaped_as_their_formats_say() {
        assert_eq!(xml("a<b> & \"c\"\u{1}\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}&#10;");
        assert_eq!(escaped("50%: a,b\r\n", false), "50%25: a,b%0D%0A");
        assert_eq!(escaped("50%: a,b\n", true), "50%25%3A a%2Cb%0A");
    }
}
