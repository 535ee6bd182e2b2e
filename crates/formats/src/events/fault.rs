//! What can be wrong with a line.

use super::lines::MAX_LINE_BYTES;
use std::{error, fmt, io};

/// A line that could not be understood. The reader goes on with the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which line, counted from 1, skipped ones included.
    pub line: u64,
    /// What is wrong with it.
    pub why: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// It is not UTF-8.
    NotUtf8,
    /// It is not JSON.
    NotJson {
        /// Where, counted from 1; 0 where that is not known.
        column: usize,
        /// What was wrong there.
        problem: String,
    },
    /// It is something else than a JSON object.
    NotAnObject,
    /// Its `event` is none that is known.
    UnknownEvent(String),
    /// A field that must be there is not.
    Missing(&'static str),
    /// A field holds something of the wrong kind.
    Not(&'static str, Expected),
    /// A field is below zero.
    Negative(&'static str),
    /// A field is no whole number.
    Fractional(&'static str),
    /// A field holds a number larger than fits.
    TooLarge(&'static str),
    /// A frame is neither a text nor an object.
    NotAFrame,
    /// A frame of the stack is wrong.
    Frame {
        /// Which, counted from 0 at the innermost.
        index: usize,
        /// How.
        why: Box<Fault>,
    },
}

/// What a field should have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A number.
    Number,
    /// A number above zero.
    PositiveNumber,
    /// A number or a text such as `"0x7f00"`.
    Address,
    /// A text.
    Text,
    /// `true` or `false`.
    Truth,
    /// The name of a heap.
    Heap,
    /// A number of 1 or more, perhaps with a point.
    Weight,
    /// A probability, and words of 4 or 8 bytes.
    Probability,
    /// A list of frames.
    Frames,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl error::Error for BadLine {}

impl fmt::Display for Fault {
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
            Self::NotAFrame => f.write_str("must be a function's name or an object"),
            Self::Frame { index, why } => write!(f, "frame {index} of \"stack\": {why}"),
        }
    }
}

impl fmt::Display for Expected {
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
        })
    }
}

/// Why a line could not be given.
#[derive(Debug)]
pub enum ReadError {
    /// The line is bad; the next one may be good.
    Bad(BadLine),
    /// The input failed; there is no next line.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(bad) => bad.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Bad(_) => None,
            Self::Io(error) => error.source(),
        }
    }
}
