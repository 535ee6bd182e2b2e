//! `highwater objects`: which types were made, dropped and leaked, and how reliable the answer is.
//!
//! * [`input`] reads a log up to an instant, or a recording as if it were a log; [`follow`] reads one that grows.
//! * [`findings`] holds the results; [`text`] and [`document`] show them, [`sentences`] puts the conclusions into words.

mod at;
mod document;
mod findings;
mod follow;
mod input;
mod recorded;
mod sentences;
mod text;

use crate::args::Reading;
use crate::failure::Failure;
use crate::output::Output;
use at::At;
use clap::{Args, ValueEnum};
use findings::Findings;
use highwater_formats::objlog;
use highwater_model::When;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The arguments of `highwater objects`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater objects console.log               which types leak, and how sure
  node app.mjs | highwater objects            the same of what a program writes
  highwater objects app.log --by place        the places that made what leaks
  highwater objects app.log --at mark:warm    what was live then
  highwater objects app.log --follow          while the log grows
  highwater objects app.log --show-bad        lines that could not be used
  highwater objects app.log --json | jq '.types[0]'

A log has one line for each object, on a console full of other lines:
  @ ALLOCATE <bytes> <file>:<line> <type> <id>
  @ DROP <bytes> <type> <id>
  @ MEMORY <bytes> <label>
docs/objlog.md has the whole format. A .hw recording will do, too.")]
pub struct Objects {
    /// The log, or a recording; standard input where none is given, or '-'
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    path: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: By,
    /// The instant: start, peak, end, a part (80%), line:N, mark:NAME, and a time (12.5s) where the log has times
    #[arg(long, value_name = "WHEN", default_value = "end")]
    at: At,
    /// How many rows; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Go on while the log grows, until Ctrl-C or the end of the pipe
    #[arg(long)]
    follow: bool,
    /// Show the lines that could not be used, with their numbers
    #[arg(long)]
    show_bad: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What the rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// Types
    #[default]
    Type,
    /// Places that made them: file:line
    Place,
    /// Types, each at each place
    Both,
}

impl By {
    fn rows(self) -> objlog::By {
        match self {
            Self::Type => objlog::By::Type,
            Self::Place => objlog::By::Place,
            Self::Both => objlog::By::Both,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Place => "place",
            Self::Both => "both",
        }
    }
}

const DEFAULT_ROWS: usize = 10;

impl Objects {
    /// The JSON document about the types of a log.
    pub fn document_of(path: &Path) -> Result<Value, Failure> {
        let reading = Reading { json: true, strict: false };
        let (by, at) = (By::Type, At::When(When::End));
        let objects = Self { path: path.to_owned(), by, at, top: None, follow: false, show_bad: false, reading };
        Ok(objects.document(&Findings::of(&input::read(path, &objects.at)?)))
    }

    /// Prints the findings.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.follow {
            return self.follow(output);
        }
        let reader = input::read(&self.path, &self.at)?;
        if let (Some(first), true) = (reader.counts().bad().first(), self.reading.strict) {
            let why = format_args!("line {}: {}; nothing was done, as --strict was given", first.number, first.fault);
            return Err(Failure::in_file(&self.path, why));
        }
        self.print(&Findings::of(&reader), output)
    }

    fn print(&self, findings: &Findings<'_>, output: &mut Output) -> Result<(), Failure> {
        if self.reading.json {
            return output.json(self.document(findings));
        }
        let text = self.text(findings, output);
        output.text(&text)
    }

    fn table_rows(&self) -> usize {
        limit(self.top.unwrap_or(DEFAULT_ROWS))
    }

    fn json_rows(&self) -> usize {
        limit(self.top.unwrap_or(0))
    }
}

fn limit(top: usize) -> usize {
    if top == 0 { usize::MAX } else { top }
}
