//! A command's output: standard output, whose reader may close it at any time.

use crate::failure::Failure;
use crate::print::colour::Paint;
use crate::print::text::{line_limit, printable, printable_lines};
use highwater_formats::json::{DocumentStacks, DocumentWriter};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, PoisonError};

/// Standard output, its colours and its line width.
pub struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    /// Whether colours are shown.
    pub paint: Paint,
    /// The maximum width of a line; `None` if the output is not a terminal.
    pub width: Option<usize>,
}

fn failed(error: io::Error) -> Failure {
    Failure::writing("to standard output", &error)
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Self { stdout: BufWriter::new(io::stdout().lock()), paint: Paint::for_stdout(), width: line_limit() }
    }

    /// Prints a text that we have laid out. Its line breaks and colours are ours; names in it may come from any file.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(printable_lines(text).as_bytes())
    }

    /// Prints one line with arbitrary content.
    pub fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(&format!("{}\n", printable(line)))
    }

    /// Prints bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.write_all(bytes).map_err(failed)
    }

    /// Prints a JSON document.
    pub fn json(&mut self, document: Value) -> Result<(), Failure> {
        self.json_with_list(document, None::<(&str, [Value; 0])>, None)
    }

    /// Prints a JSON document with the stacks of its list's elements. The list may be long, so it is produced while it is printed.
    pub fn json_with_list(
        &mut self,
        document: Value,
        list: Option<(&str, impl IntoIterator<Item = Value>)>,
        stacks: Option<&DocumentStacks<'_>>,
    ) -> Result<(), Failure> {
        let mut members = match document {
            Value::Object(members) => members,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        if let Some((name, _)) = &list {
            members.remove(*name);
        }
        let write = || -> io::Result<()> {
            let mut writer = DocumentWriter::begin(&mut self.stdout)?;
            writer.members(&members)?;
            if let Some(stacks) = stacks {
                writer.stacks(stacks)?;
            }
            if let Some((name, elements)) = list {
                writer.list(name, elements)?;
            }
            writer.end().map(drop)
        };
        write().map_err(failed)
    }

    /// The underlying stream, for writers of other formats.
    pub fn stream(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Writes out everything printed so far.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(failed)
    }

    /// Flushes everything and reports errors: a full disk may show only then.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(failed)
    }
}

/// Prints a line on standard error. Errors are ignored: standard error may be closed.
pub fn say(line: &str) {
    let line = printable(line);
    match &mut *held() {
        Some(lines) => {
            if lines.len() == MOST_HELD {
                lines.pop_front();
            }
            lines.push_back(line);
        }
        None => _ = writeln!(io::stderr(), "highwater: {line}"),
    }
}

/// Erases a status line on standard error.
pub fn erase_status_line() {
    if io::stderr().is_terminal() && held().is_none() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// At most this many lines are held; older ones are dropped.
const MOST_HELD: usize = 20;
static HELD: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

fn held() -> std::sync::MutexGuard<'static, Option<VecDeque<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the lines for standard error back while the terminal shows a full-screen view, which they would disturb. They are printed when it is dropped.
pub struct HeldLines(());

impl HeldLines {
    /// Holds lines back from now on.
    pub fn new() -> Self {
        *held() = Some(VecDeque::new());
        Self(())
    }

    /// The latest line.
    pub fn latest(&self) -> Option<String> {
        held().as_ref().and_then(|lines| lines.back().cloned())
    }
}

impl Drop for HeldLines {
    fn drop(&mut self) {
        let lines = held().take();
        lines.iter().flatten().for_each(|line| say(line));
    }
}

/// Warns on standard error.
pub fn warn(line: &str) {
    say(&format!("warning: {line}"));
}
