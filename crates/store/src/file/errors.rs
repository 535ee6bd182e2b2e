//! Why a recording cannot be opened or a question to it has no answer: one line each, for people.

use super::frame;
use highwater_model::{Nanos, When};
use std::fmt;
use std::io;

/// Why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The system says no.
    Io(io::Error),
    /// There is nothing in it.
    Empty,
    /// It is not a recording.
    NotARecording,
    /// It was written by a later version of Highwater.
    TooNew(u16),
    /// It begins like a recording, but no block of it could be read.
    NothingUsable,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Empty => f.write_str("the file is empty"),
            Self::NotARecording => f.write_str("not a Highwater recording"),
            Self::TooNew(version) => write!(
                f,
                "format version {version} is newer than this program reads (up to {}); update highwater",
                frame::VERSION
            ),
            Self::NothingUsable => f.write_str("the recording is damaged from the start; nothing in it could be read"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a question to a recording has no answer.
#[derive(Debug)]
pub enum RecordingError {
    /// The system says no.
    Io(io::Error),
    /// Everything that could answer is damaged or missing.
    NothingUsable,
    /// The time asked for lies outside.
    TimeOutside {
        /// What was asked.
        asked: Nanos,
        /// How long the recording is.
        duration: Nanos,
    },
    /// The line asked for lies behind the last.
    LineOutside {
        /// What was asked.
        asked: u64,
        /// The last line that says something.
        last: u64,
    },
    /// A line was asked for, and the recording has times.
    NoLines,
    /// The time asked for lies before a stream was joined.
    TimeBefore {
        /// What was asked.
        asked: Nanos,
        /// When it was joined.
        begins_at: Nanos,
    },
    /// The peak was before a stream was joined, or among events that were left out of it.
    PeakOutside {
        /// When the peak was.
        at: Nanos,
        /// When the stream was joined.
        begins_at: Nanos,
    },
    /// There is no mark of this name.
    UnknownMark {
        /// What was asked.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It is a snapshot, of another instant than was asked for.
    OneInstant {
        /// What was asked.
        asked: When,
        /// The instant that it knows.
        at: Nanos,
    },
    /// It is a snapshot, and nothing of what led to it is known.
    NoCourse,
    /// It is a snapshot without single blocks, and figures of owners are not kept for each heap.
    NoHeapAlone,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NothingUsable => {
                f.write_str("nothing in it could be read: every block that could tell is damaged or missing")
            }
            Self::TimeOutside { asked, duration } => {
                write!(f, "{asked} lies outside the recording, which ends at {duration}")
            }
            Self::LineOutside { asked, last } => {
                write!(f, "line {asked} lies outside the log: the last line about objects is {last}")
            }
            Self::NoLines => {
                f.write_str("only instants of a log without times are lines; name a time, a part or a mark")
            }
            Self::TimeBefore { asked, begins_at } => {
                write!(
                    f,
                    "{asked} lies outside the recording, which begins at {begins_at}; what was live then is '--at start'"
                )
            }
            Self::PeakOutside { at, begins_at } if at <= begins_at => {
                write!(f, "the peak, at {at}, was before this recording begins at {begins_at}; ask for another instant")
            }
            Self::PeakOutside { at, .. } => {
                write!(f, "the peak, at {at}, was among events that were dropped; ask for another instant")
            }
            Self::UnknownMark { name, known } if known.is_empty() => {
                write!(f, "no mark is named '{name}': the recording has no marks")
            }
            Self::UnknownMark { name, known } => {
                write!(f, "no mark is named '{name}'; there are: {}", known.join(", "))
            }
            Self::OneInstant { asked, at } => {
                write!(f, "a snapshot knows one instant only, its end at {at}; it does not know '{asked}'")
            }
            Self::NoCourse => f.write_str("a snapshot knows one instant only; it has no course to show"),
            Self::NoHeapAlone => {
                f.write_str("a snapshot without single blocks does not know who holds how much of one heap")
            }
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
