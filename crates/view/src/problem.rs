//! Why a question has no answer.

use highwater_store::RecordingError;
use std::io;

/// Why a question has no answer: each a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The question makes no sense.
    Bad(String),
    /// It is about something that is not there.
    Unknown(String),
    /// The source does not know, or cannot be read any more.
    Failed(String),
    /// Nobody waits for the answer.
    Cancelled,
}

impl Problem {
    /// The question makes no sense.
    pub fn bad(line: impl ToString) -> Self {
        Self::Bad(line.to_string())
    }

    /// The source does not know.
    pub fn failed(line: impl ToString) -> Self {
        Self::Failed(line.to_string())
    }

    /// The line.
    pub fn line(&self) -> &str {
        match self {
            Self::Bad(line) | Self::Unknown(line) | Self::Failed(line) => line,
            Self::Cancelled => "nobody waits for the answer any more",
        }
    }
}

impl From<RecordingError> for Problem {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::Io(error) => error.into(),
            other => Self::failed(other),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("cannot read: {}", reason(&error)))
    }
}

/// What went wrong, without the number that Rust appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
