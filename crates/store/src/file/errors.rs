//! Errors of opening and querying a recording: one readable line each.

use super::frame;
use highwater_model::{Nanos, When};
use std::fmt;
use std::io;

/// Why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// An I/O error of the system.
    Io(io::Error),
    /// The file is empty.
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

/// Why a query of a recording has no answer.
#[derive(Debug)]
pub enum RecordingError {
    /// An I/O error of the system.
    Io(io::Error),
    /// All data that could answer is damaged or missing.
    NothingUsable,
    /// The requested time is outside of the recording.
    TimeOutside {
        /// The requested time.
        asked: Nanos,
        /// How long the recording is.
        duration: Nanos,
    },
    /// The requested line is after the last.
    LineOutside {
        /// The requested line.
        asked: u64,
        /// The last line that has an event.
        last: u64,
    },
    /// A line was requested, but the recording has times.
    NoLines,
    /// The requested time is before a stream was joined.
    TimeBefore {
        /// The requested time.
        asked: Nanos,
        /// When it was joined.
        begins_at: Nanos,
    },
    /// The peak was before a stream was joined, or among events that were left out of the stream.
    PeakOutside {
        /// When the peak was.
        at: Nanos,
        /// When the stream was joined.
        begins_at: Nanos,
    },
    /// There is no mark of this name.
    UnknownMark {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The highest RSS was requested, but RSS was not recorded.
    NoRss,
    /// It is a snapshot of another instant than the requested one.
    OneInstant {
        /// The requested instant.
        asked: When,
        /// The instant of the snapshot.
        at: Nanos,
    },
    /// It is a snapshot, and its history is not known.
    NoHistory,
    /// It is a snapshot without single blocks, so a part of them cannot be selected.
    NoBlocks,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NothingUsable => {
                f.write_str("nothing in it could be read: every block that could answer is damaged or missing")
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
            Self::NoRss => f.write_str(
                "it has no RSS, so its highest is not known: 'highwater record' measures it unless --rss-every is off",
            ),
            Self::OneInstant { asked, at: Nanos(0) } => {
                write!(f, "the file knows one instant only; it does not know '{asked}'")
            }
            Self::OneInstant { asked, at } => {
                write!(f, "a snapshot knows one instant only, its end at {at}; it does not know '{asked}'")
            }
            Self::NoHistory => f.write_str("a snapshot knows one instant only; it has no history"),
            Self::NoBlocks => f.write_str("the snapshot has no single blocks, only figures: it cannot be filtered by heap, size, thread, type or time"),
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
