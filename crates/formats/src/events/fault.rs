//! Faults of a line.

use super::lines::MAX_LINE_BYTES;
use std::{error, fmt, io};

/// A line that was not understood. Reading continues with the next line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEventLine {
    /// The line number from 1, skipped lines included.
    pub line: u64,
    /// The fault of the line.
    pub why: EventLineFault,
}

/// The kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventLineFault {
    /// It is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// It is not UTF-8.
    NotUtf8,
    /// It is not JSON.
    NotJson {
        /// The column from 1; 0 if it is not known.
        column: usize,
        /// The problem at that column.
        problem: String,
    },
    /// It is JSON, but not an object.
    NotAnObject,
    /// Its `event` is unknown.
    UnknownEvent(String),
    /// A required field is missing.
    Missing(&'static str),
    /// A field has a value of the wrong kind.
    Not(&'static str, ExpectedValue),
    /// A field is below zero.
    Negative(&'static str),
    /// A field is not a whole number.
    Fractional(&'static str),
    /// A field is a number that is too large.
    TooLarge(&'static str),
    /// A frame is neither a text nor an object.
    NotAFrame,
    /// A line refers to a block that is not live.
    UnknownBlock(u64),
    /// A line refers to a number that no line before it has defined.
    Undefined(&'static str, u64),
    /// A number is not larger than the ones before it.
    NotIncreasing(&'static str),
    /// The line is not allowed here.
    Misplaced(&'static str),
    /// A frame of the stack has a fault.
    Frame {
        /// The index of the frame, from 0 at the innermost.
        index: usize,
        /// The fault of the frame.
        why: Box<EventLineFault>,
    },
}

/// The expected kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedValue {
    /// A number.
    Number,
    /// A number above zero.
    PositiveNumber,
    /// A number or a text such as `"0x7f00"`.
    Address,
    /// A text.
    Text,
    /// A boolean: `true` or `false`.
    Truth,
    /// The name of a heap.
    Heap,
    /// A number of 1 or more, possibly with a fraction.
    Weight,
    /// A probability, and words of 4 or 8 bytes.
    Probability,
    /// A list of frames.
    Frames,
    /// A list of texts.
    Texts,
    /// The unit of a clock.
    Clock,
    /// The key of a kind of source.
    SourceKind,
    /// The name of an anomaly.
    Anomaly,
    /// The owner of figures.
    Owner,
}

impl fmt::Display for BadEventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl error::Error for BadEventLine {}

impl fmt::Display for EventLineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {MAX_LINE_BYTES} bytes"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::NotJson { column: 0, problem } => write!(f, "not JSON: {problem}"),
            Self::NotJson { column, problem } => write!(f, "not JSON: {problem} at column {column}"),
            Self::NotAnObject => f.write_str("not a JSON object"),
            Self::UnknownEvent(event) => write!(f, "{event:?} is not a known event"),
            Self::Missing(field) => write!(f, "\"{field}\" is missing"),
            Self::Not(field, expected) => write!(f, "\"{field}\" must be {expected}"),
            Self::Negative(field) => write!(f, "\"{field}\" must not be negative"),
            Self::Fractional(field) => {
                write!(f, "\"{field}\" must be a whole number, written without point or exponent")
            }
            Self::TooLarge(field) => write!(f, "\"{field}\" is too large"),
            Self::UnknownBlock(number) => write!(f, "block {number} is not live"),
            Self::Undefined(field, number) => write!(f, "\"{field}\" {number} was not defined before"),
            Self::NotIncreasing(field) => write!(f, "\"{field}\" must be larger than in the lines before"),
            Self::Misplaced(why) => f.write_str(why),
            Self::NotAFrame => f.write_str("must be a function's name or an object"),
            Self::Frame { index, why } => write!(f, "frame {index} of \"stack\": {why}"),
        }
    }
}

impl fmt::Display for ExpectedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a number",
            Self::PositiveNumber => "a number above zero",
            Self::Address => "a number or a text like \"0x7f00\"",
            Self::Text => "a text",
            Self::Truth => "true or false",
            Self::Heap => "malloc, mmap, minor, major or external",
            Self::Weight => "a number of 1 or more",
            Self::Probability => "a number above 0 and at most 1, with \"word_bytes\" 4 or 8",
            Self::Frames => "a list of frames, innermost first",
            Self::Texts => "a list of texts",
            Self::SourceKind => "lower-case letters, digits, - and _",
            Self::Anomaly => "the name of a counter, such as repaired_times",
            Self::Owner => "all, thread, stack, tag or promotions",
            Self::Clock => "ns, lines, instructions or bytes",
        })
    }
}

/// Why no line was returned.
#[derive(Debug)]
pub enum EventLinesError {
    /// The line is bad; the next one may be valid.
    Bad(BadEventLine),
    /// The input failed; there is no next line.
    Io(io::Error),
}

impl fmt::Display for EventLinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(bad) => bad.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl error::Error for EventLinesError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Bad(_) => None,
            Self::Io(error) => error.source(),
        }
    }
}
