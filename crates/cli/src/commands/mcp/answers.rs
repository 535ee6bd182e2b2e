//! Answers calls of tools: runs the command, cuts its text, and adds the calls that may come next.

use super::folders::{Folders, PermittedFile};
use super::question::{ASKED_TO_END, Answered, KEPT_OF_STDERR, KILLED, Question, ask};
use super::tools::{AFTER_A_SNAPSHOT, LISTED, NextCall, OPEN, SECONDS, Subject, Tool};
use crate::failure::{Failure, reason};
use crate::print::age::in_one_unit;
use crate::print::bytes::{bytes, counted};
use highwater_model::When;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

/// The most bytes of a command's output in an answer. With its warnings they are 16 KiB.
const MOST_BYTES: usize = (16 << 10) - KEPT_OF_STDERR;
/// The most bytes of a program's own output in the answer of `record`.
const MOST_OF_PROGRAM: usize = 4 << 10;
/// The most bytes of a document that we read ourselves.
const MOST_OF_DOCUMENT: usize = 8 << 20;
/// The longest time for a question.
const LIMIT: Duration = Duration::from_secs(300);

/// A call of a tool.
#[derive(Debug)]
pub struct Call {
    /// The id of the request.
    pub id: Value,
    /// The tool.
    pub tool: &'static Tool,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Set when the client no longer wants an answer.
    pub cancelled: Arc<AtomicBool>,
}

/// Answers calls.
pub struct Answerer {
    folders: Folders,
}

/// The answer of a tool.
struct Answer {
    text: String,
    document: Option<Value>,
    next: Vec<String>,
}

/// Why there is no answer.
enum NoAnswer {
    Cancelled,
    Failed(String),
}

impl From<Failure> for NoAnswer {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.line().unwrap_or_default().to_owned())
    }
}

impl Answerer {
    /// Answers about files below these folders.
    pub fn new(folders: Folders) -> Self {
        Self { folders }
    }

    /// The result of a call, as the protocol has it; `None` if it was cancelled. What went wrong is a result, too: the assistant can do better then.
    pub fn answer(&self, call: &Call) -> Option<Value> {
        let answer = match call.tool.subject {
            Subject::Folders => self.list(call),
            Subject::Overview => self.overview(call),
            Subject::File | Subject::Budget => self.about_file(call),
            Subject::TwoFiles => self.about_two(call),
            Subject::Program => self.record(call),
        };
        match answer {
            Ok(answer) => Some(answer.result()),
            Err(NoAnswer::Failed(line)) => {
                Some(json!({ "content": [{ "type": "text", "text": cut(&line, MOST_BYTES) }], "isError": true }))
            }
            Err(NoAnswer::Cancelled) => None,
        }
    }

    fn list(&self, call: &Call) -> Result<Answer, NoAnswer> {
        call.tool.words(&call.arguments)?;
        let name = text_of(&call.arguments, "name")?.unwrap_or_default();
        let all = match call.arguments.get("all") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(all)) => *all,
            Some(_) => return Err(Failure::fault("'all' must be true or false").into()),
        };
        let top = number_of(&call.arguments, "top")?.unwrap_or(LISTED).max(1);
        let wanted = |path: &Path| {
            (all || path.extension().is_some_and(|ending| ending == "hw")) && self.folders.shown(path).contains(name)
        };
        let listing = self.folders.list(wanted);
        let count = listing.files.len();
        let mut text = match count {
            0 => format!("no recordings below {}", self.folders.names()),
            _ => format!("{} below {}, latest first", counted(count as u64, "file"), self.folders.names()),
        };
        text.push('\n');
        let mut files = Vec::new();
        for file in listing.files.iter().take(usize::try_from(top).unwrap_or(usize::MAX)) {
            let path = self.folders.shown(&file.path);
            let age = file.modified.elapsed().unwrap_or_default();
            let line = format!("{:>10}  {:>8} old  {path}\n", bytes(file.bytes), in_one_unit(age.as_secs()));
            if text.len() + line.len() > MOST_BYTES {
                break;
            }
            text.push_str(&line);
            let modified = file.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            files.push(json!({ "path": path, "bytes": file.bytes, "modified_unix_s": modified }));
        }
        if files.len() < count {
            let left = counted((count - files.len()) as u64, "more file");
            text.push_str(&format!("… {left}: choose some by 'name', or ask for more with 'top'\n"));
        }
        match (listing.is_whole, count, all) {
            (false, ..) => text.push_str("not everything was looked at: the folders have too many files\n"),
            (true, 0, false) => text.push_str("files of other tools can be opened, too: 'all' lists every file\n"),
            _ => {}
        }
        let next = files.first().and_then(|file| file["path"].as_str()).map(|path| next_call(&OPEN, path));
        let document = Some(json!({ "files": files, "count": count }));
        Ok(Answer { text, document, next: next.into_iter().collect() })
    }

    fn about_file(&self, call: &Call) -> Result<Answer, NoAnswer> {
        let named = required(&call.arguments, "file")?;
        let file = self.folders.file(named)?;
        let mut words = call.tool.words(&call.arguments)?;
        if call.tool.subject == Subject::Budget {
            words.extend(self.files_of_budget(call, &file)?);
        }
        words.push("--".into());
        words.push(self.word(&file));
        let answered = self.ask(call, &words, &file, MOST_BYTES)?;
        let is_json = call.arguments.get("json").and_then(Value::as_bool).unwrap_or_default();
        let next = call.tool.next.iter().map(|next| next_call(next, named)).collect();
        Ok(answer_of(&answered, is_json, next))
    }

    /// The options of a budget that name files, which must be permitted as the recording is.
    fn files_of_budget(&self, call: &Call, recording: &PermittedFile) -> Result<Vec<OsString>, Failure> {
        let budget = text_of(&call.arguments, "budget_file")?.into_iter().map(|name| ("--budget=", name));
        let baselines = texts_of(&call.arguments, "baseline")?.into_iter().map(|name| ("--baseline=", name));
        let suppressions = texts_of(&call.arguments, "suppressions")?.into_iter().map(|name| ("--suppressions=", name));
        let option = |(option, name): (&str, &str)| {
            let file = self.folders.file(name)?;
            let mut word = OsString::from(option);
            word.push(if file.folder == recording.folder { self.word(&file) } else { file.path.into_os_string() });
            Ok(word)
        };
        budget.chain(baselines).chain(suppressions).map(option).collect()
    }

    fn overview(&self, call: &Call) -> Result<Answer, NoAnswer> {
        call.tool.words(&call.arguments)?;
        let named = required(&call.arguments, "file")?;
        let file = self.folders.file(named)?;
        let info: Vec<OsString> = ["info".into(), "--".into(), self.word(&file)].into();
        let about = self.ask(call, &info, &file, MOST_BYTES / 2)?;
        let info: Vec<OsString> = ["info".into(), "--json".into(), "--".into(), self.word(&file)].into();
        let document = self.ask(call, &info, &file, MOST_OF_DOCUMENT)?;
        let document: Value = serde_json::from_str(&document.stdout.text()).unwrap_or_default();
        let is_snapshot = document["source"]["snapshot"] == true;
        let mut words = call.tool.words(&Map::new())?;
        if !is_snapshot {
            words.push("--at=peak".into());
        }
        words.extend(["--".into(), self.word(&file)]);
        let held = self.ask(call, &words, &file, MOST_BYTES / 2)?;
        let title = if is_snapshot { "report" } else { "report at the peak" };
        let text = format!("{}\n{title}\n{}", shown(&about), shown(&held));
        let next = if is_snapshot { AFTER_A_SNAPSHOT } else { call.tool.next };
        Ok(Answer { text, document: None, next: next.iter().map(|next| next_call(next, named)).collect() })
    }

    fn about_two(&self, call: &Call) -> Result<Answer, NoAnswer> {
        let mut words = call.tool.words(&call.arguments)?;
        words.push("--".into());
        let before = self.folders.file(required(&call.arguments, "before")?)?;
        let after = self.folders.file(required(&call.arguments, "after")?)?;
        for (file, when) in [(&before, "before_at"), (&after, "after_at")] {
            let mut word = match before.folder == after.folder {
                true => self.word(file),
                false => file.path.clone().into_os_string(),
            };
            if let Some(when) = text_of(&call.arguments, when)? {
                when.parse::<When>().map_err(Failure::fault)?;
                word.push("@");
                word.push(when);
                // 'diff' would take the whole for the name of a file, or another part of it.
                if when.contains('@') || before.folder.join(&word).symlink_metadata().is_ok() {
                    return Err(Failure::fault(format_args!("'{when}' cannot be told from a file's name here")).into());
                }
            }
            words.push(word);
        }
        let answered = self.ask(call, &words, &before, MOST_BYTES)?;
        let is_json = call.arguments.get("json").and_then(Value::as_bool).unwrap_or_default();
        let named = required(&call.arguments, "after")?;
        Ok(answer_of(&answered, is_json, call.tool.next.iter().map(|next| next_call(next, named)).collect()))
    }

    fn record(&self, call: &Call) -> Result<Answer, NoAnswer> {
        let named = required(&call.arguments, "output")?;
        let file = self.folders.new_recording(named)?;
        let program = required(&call.arguments, "program")?;
        let seconds = number_of(&call.arguments, "seconds")?.unwrap_or(SECONDS.1);
        if !(1..=SECONDS.0).contains(&seconds) {
            return Err(Failure::fault(format_args!("'seconds' must be 1 to {}", SECONDS.0)).into());
        }
        let mut words = call.tool.words(&call.arguments)?;
        words.extend(["-o".into(), file.path.clone().into_os_string(), "--".into(), program.into()]);
        words.extend(texts_of(&call.arguments, "arguments")?.into_iter().map(OsString::from));
        let limit = Duration::from_secs(seconds);
        let only_below = &self.folders.only_below();
        let folder = &file.folder;
        let question = Question {
            words: &words,
            folder,
            only_below,
            runs_program: true,
            limit,
            ending: ASKED_TO_END,
            kept: MOST_OF_PROGRAM,
        };
        let answered = asked(&question, &call.cancelled)?;
        let mut text = answered.stderr.text();
        if answered.is_late {
            text.push_str(&format!("the program was asked to end after {seconds} s\n"));
        } else if let Some(code) = answered.status.code().filter(|code| *code != 0) {
            text.push_str(&format!("the exit code is {code}\n"));
        } else if let Some(signal) = answered.status.signal() {
            text.push_str(&format!("the program was killed by signal {signal}\n"));
        }
        if answered.stdout.total() > 0 {
            text.push_str(&format!("\noutput of the program\n{}", shown_stdout(&answered)));
        }
        if !file.path.metadata().is_ok_and(|about| about.len() > 0) {
            return Err(NoAnswer::Failed(text));
        }
        Ok(Answer { text, document: None, next: vec![next_call(&OPEN, named)] })
    }

    /// Runs a reading command. If it fails, what it says is the reason.
    fn ask(&self, call: &Call, words: &[OsString], file: &PermittedFile, kept: usize) -> Result<Answered, NoAnswer> {
        let only_below = &self.folders.only_below();
        let folder = &file.folder;
        let question = Question { words, folder, only_below, runs_program: false, limit: LIMIT, ending: KILLED, kept };
        let answered = asked(&question, &call.cancelled)?;
        if answered.is_late {
            let why = format!(
                "there was no answer within {} s; ask for a part: a window (from, to) or a filter",
                LIMIT.as_secs()
            );
            return Err(NoAnswer::Failed(why));
        }
        // 'check' ends with 1 if it found something, and says on standard output what.
        let has_answered =
            answered.status.success() || answered.status.code() == Some(1) && answered.stdout.total() > 0;
        match (has_answered, answered.stderr.total()) {
            (true, _) => Ok(answered),
            (false, 0) => Err(NoAnswer::Failed(format!("the command ended with {}", answered.status))),
            (false, _) => Err(NoAnswer::Failed(answered.stderr.text())),
        }
    }

    /// A file as a word for a command that runs in its permitted folder: as answers call it.
    fn word(&self, file: &PermittedFile) -> OsString {
        let below = file.path.strip_prefix(&file.folder).unwrap_or(&file.path);
        // '-' alone is standard input.
        if below.as_os_str() == "-" { file.path.clone().into_os_string() } else { below.as_os_str().to_owned() }
    }
}

fn asked(question: &Question<'_>, cancelled: &AtomicBool) -> Result<Answered, NoAnswer> {
    ask(question, cancelled)
        .map_err(|error| NoAnswer::Failed(format!("cannot run the command: {}", reason(&error))))?
        .ok_or(NoAnswer::Cancelled)
}

fn required<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, Failure> {
    text_of(arguments, name)?.ok_or_else(|| Failure::fault(format_args!("'{name}' is missing")))
}

fn text_of<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Failure::fault(format_args!("'{name}' must be a text"))),
    }
}

fn texts_of<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<Vec<&'a str>, Failure> {
    let texts: Option<Vec<&str>> = match arguments.get(name) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(texts)) => texts.iter().map(Value::as_str).collect(),
        Some(_) => None,
    };
    texts.ok_or_else(|| Failure::fault(format_args!("'{name}' must be a list of texts")))
}

fn number_of(arguments: &Map<String, Value>, name: &str) -> Result<Option<u64>, Failure> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().map(Some);
            number.ok_or_else(|| Failure::fault(format_args!("'{name}' must be a whole number")))
        }
    }
}

/// A call that may come next, as a line: `growth {"file":"app.hw"}  what grows steadily`.
fn next_call(next: &NextCall, file: &str) -> String {
    let mut arguments = Map::new();
    arguments.insert("file".to_owned(), file.into());
    arguments.extend(next.arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    format!("{} {}  {}", next.tool, Value::from(arguments), next.why)
}

/// The answer that a command has printed.
fn answer_of(answered: &Answered, is_json: bool, next: Vec<String>) -> Answer {
    if is_json
        && !answered.stdout.is_cut()
        && let Ok(document) = serde_json::from_str(&answered.stdout.text())
    {
        // A text that follows would not be JSON any more.
        return Answer { text: answered.stdout.text(), document: Some(document), next: Vec::new() };
    }
    Answer { text: shown(answered), document: None, next }
}

/// What a command printed: its output, cut with a hint, and its warnings.
fn shown(answered: &Answered) -> String {
    let mut text = shown_stdout(answered);
    text.push_str(&answered.stderr.text());
    text
}

fn shown_stdout(answered: &Answered) -> String {
    let kept = answered.stdout.text();
    if !answered.stdout.is_cut() {
        return kept;
    }
    let text = cut(&kept, kept.len().saturating_sub(1));
    format!(
        "{text}\n… cut: {} of {}. Ask for fewer rows (top), shorter stacks (stacks), a part (filter), or another instant or window (at, from, to).\n",
        bytes(text.len() as u64),
        bytes(answered.stdout.total())
    )
}

/// The first lines of a text, up to a number of bytes; a single longer line is cut.
fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let whole = &text[..text.floor_char_boundary(most)];
    whole.rsplit_once('\n').map_or(whole, |(lines, _)| lines)
}

impl Answer {
    /// The result, as the protocol has it.
    fn result(self) -> Value {
        let mut text = self.text;
        if !self.next.is_empty() {
            text.push_str(&format!(
                "\nnext\n{}\n",
                self.next.iter().map(|call| format!("  {call}")).collect::<Vec<_>>().join("\n")
            ));
        }
        let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
        if let Some(document) = self.document {
            result["structuredContent"] = document;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_lines() {
        assert_eq!(cut("one\ntwo\nthree", 100), "one\ntwo\nthree");
        assert_eq!(cut("one\ntwo\nthree", 9), "one\ntwo");
        assert_eq!(cut("äöü", 3), "ä");
    }

    #[test]
    fn a_next_call_names_the_file_as_the_client_did() {
        let line = next_call(&OPEN, "a \"b\".hw");
        assert!(line.starts_with(r#"open {"file":"a \"b\".hw"}  "#), "{line}");
    }
}
