//! Why a call did not finish.

use std::fmt;
use std::io;
use wasmi::errors::HostError;

/// Why a call did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The module trapped, or did something that is not allowed: the reason.
    Trapped(String),
    /// It reached the instruction limit.
    TooLong(u64),
    /// It was ended for another reason: which.
    Failed(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trapped(why) => write!(f, "trapped: {why}"),
            Self::TooLong(limit) => write!(f, "did not end within {limit} instructions"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("its memory cannot be kept: {error}"))
    }
}

/// A trap that a function of the host raises.
#[derive(Debug)]
pub struct Trap(pub String);

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostError for Trap {}
