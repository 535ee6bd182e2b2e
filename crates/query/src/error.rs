//! Errors: why a question has no answer.

use highwater_formats::json::StacksTooLarge;
use highwater_model::TooManyCalls;
use highwater_store::RecordingError;
use highwater_store::history::{Cancelled, HistoryError};
use std::io;

/// Why a question has no answer, as a line for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The question makes no sense.
    #[error("{0}")]
    Bad(String),
    /// The question is about something that does not exist.
    #[error("{0}")]
    Unknown(String),
    /// The source cannot answer, or cannot be read any more.
    #[error("{0}")]
    Failed(String),
    /// The answer would exceed a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The source lacks a metric.
    #[error("{}", .0.line)]
    NoMetric(NoMetric),
    /// The client has disconnected.
    #[error("the client has disconnected")]
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

impl QueryError {
    /// An error for a question that makes no sense.
    pub fn bad(line: impl ToString) -> Self {
        Self::Bad(line.to_string())
    }

    /// An error for a source that cannot answer.
    pub fn failed(line: impl ToString) -> Self {
        Self::Failed(line.to_string())
    }

    /// True if the question is valid and the source has no answer.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoMetric(_) | Self::TooLarge(_))
    }
}

impl From<HistoryError> for QueryError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Cancelled => Self::Cancelled,
            other => Self::failed(other),
        }
    }
}

impl From<RecordingError> for QueryError {
    fn from(error: RecordingError) -> Self {
        HistoryError::from(error).into()
    }
}

impl From<io::Error> for QueryError {
    fn from(error: io::Error) -> Self {
        HistoryError::from(error).into()
    }
}

impl From<Cancelled> for QueryError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<StacksTooLarge> for QueryError {
    fn from(large: StacksTooLarge) -> Self {
        Self::TooLarge(format!("{large}; ask for fewer rows"))
    }
}

impl From<TooManyCalls> for QueryError {
    fn from(calls: TooManyCalls) -> Self {
        Self::TooLarge(format!("{calls}; filter them"))
    }
}
