//! Why a command could not do its job, and the exit code that says so.

use highwater_query::QueryError;
use std::fmt;
use std::io;
use std::path::Path;

/// The reason why a command ended early. There is no conversion from a system error: the message must say what was being done, and to which file.
#[derive(Debug)]
pub enum Failure {
    /// The input or the target is at fault: one line for the user, exit code 1.
    Fault(String),
    /// The command line is at fault: one line for the user, exit code 2.
    Usage(String),
    /// The reader of our output closed the pipe (`| head`): no message, exit code 0.
    ClosedPipe,
    /// Everything was already reported (a check that found something): exit code 1.
    Found,
    /// The program succeeded, but its stream was not kept, which was already reported: exit code 125, as for failures of `timeout` or `env`
    /// themselves.
    StreamNotKept,
    /// The program that was run ended with this exit code: no message, the same exit code.
    AsProgram(u8),
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Bad(line) => Self::Usage(line),
            other => Self::fault(other),
        }
    }
}

impl Failure {
    /// The input or the target is at fault.
    pub fn fault(line: impl fmt::Display) -> Self {
        Self::Fault(line.to_string())
    }

    /// A file, named first, is at fault.
    pub fn in_file(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Fault(format!("{}: {problem}", path.display()))
    }

    /// A write to `target` went wrong.
    pub fn writing(target: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Fault(format!("cannot write {target}: {}", reason(error))),
        }
    }

    /// A write to a file went wrong.
    pub fn writing_file(path: &Path, error: &io::Error) -> Self {
        Self::writing(&path.display().to_string(), error)
    }

    /// The exit code for this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Fault(_) | Self::Found => 1,
            Self::Usage(_) => 2,
            Self::ClosedPipe => 0,
            Self::StreamNotKept => 125,
            Self::AsProgram(code) => *code,
        }
    }

    /// The message for the user; `None` if everything was already reported.
    pub fn line(&self) -> Option<&str> {
        match self {
            Self::Fault(line) | Self::Usage(line) => Some(line),
            Self::ClosedPipe | Self::Found | Self::StreamNotKept | Self::AsProgram(_) => None,
        }
    }
}

/// The message of the error, without the number that Rust appends (`(os error 28)`).
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
