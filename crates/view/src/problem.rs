//! Errors: why a request has no answer.

use highwater_store::RecordingError;
use serde_json::{Value, json};
use std::{fmt, io};

/// Why a request has no answer, as a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The request makes no sense.
    Bad(String),
    /// The request is about something that does not exist.
    Unknown(String),
    /// The source cannot answer, or cannot be read any more.
    Failed(String),
    /// The answer would exceed a limit.
    TooLarge(String),
    /// The source lacks a metric.
    NoMetric(NoMetric),
    /// The client has disconnected.
    Cancelled,
}

/// A metric that a source lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMetric {
    /// The metric.
    pub metric: &'static str,
    /// The metrics that the source has.
    pub metrics: Vec<&'static str>,
    /// A one-line message.
    pub line: String,
}

impl Problem {
    /// An error for a request that makes no sense.
    pub fn bad(line: impl ToString) -> Self {
        Self::Bad(line.to_string())
    }

    /// An error for a source that cannot answer.
    pub fn failed(line: impl ToString) -> Self {
        Self::Failed(line.to_string())
    }

    /// The one-line message.
    pub fn line(&self) -> &str {
        match self {
            Self::Bad(line) | Self::Unknown(line) | Self::Failed(line) | Self::TooLarge(line) => line,
            Self::NoMetric(lacking) => &lacking.line,
            Self::Cancelled => "nobody waits for the answer any more",
        }
    }

    /// True if the request is valid and the source has no answer. An answer in lines then ends with this error.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoMetric(_) | Self::TooLarge(_))
    }

    /// The last line of an answer in lines.
    pub fn to_json(&self) -> Value {
        match self {
            Self::NoMetric(NoMetric { metric, metrics, line }) => {
                json!({ "kind": "no_metric", "metric": metric, "metrics": metrics, "what": line })
            }
            Self::TooLarge(line) => json!({ "kind": "too_large", "what": line }),
            other => json!({ "kind": "failed", "what": other.line() }),
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line())
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> Self {
        Self::other(problem)
    }
}

impl From<io::Error> for Problem {
    /// A problem that passed through a reader as an I/O error is returned unchanged.
    fn from(error: io::Error) -> Self {
        if let Some(problem) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return problem.clone();
        }
        Self::Failed(format!("cannot read: {}", reason(&error)))
    }
}

/// The message of an error, without the number that Rust appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_file_cannot_be_read_is_said_once() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let problem = Problem::from(denied());
        assert_eq!(problem.line(), "cannot read: permission denied");
        let through_a_reader = RecordingError::Io(problem.clone().into());
        assert_eq!(Problem::from(through_a_reader), problem);
        assert_eq!(Problem::from(io::Error::from(Problem::Cancelled)), Problem::Cancelled);
    }
}
