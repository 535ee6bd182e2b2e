//! What comes of calls.

use super::MOST_MESSAGES;
use crate::engine::Stop;
use crate::system::Response;
use std::fmt;

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The answer; none where only time passed.
    pub response: Option<Response>,
    /// What the canister printed.
    pub printed: Vec<String>,
    /// What went wrong beside the call itself: traps in timers and callbacks.
    pub troubles: Vec<String>,
}

/// Why a call could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such method; those that are there.
    NoMethod(String, Vec<String>),
    /// It is not to be called from outside.
    Refused(String),
    /// Messages follow each other without end.
    Endless,
    /// The host itself failed.
    Host(Stop),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMethod(name, there) if there.is_empty() => {
                write!(f, "no method is called '{name}'; there are none")
            }
            Self::NoMethod(name, there) => write!(f, "no method is called '{name}'; there are: {}", there.join(", ")),
            Self::Refused(name) => write!(f, "'{name}' was refused by canister_inspect_message"),
            Self::Endless => write!(f, "the canister did not come to rest within {MOST_MESSAGES} messages"),
            Self::Host(stop) => stop.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<Stop> for CallError {
    fn from(stop: Stop) -> Self {
        Self::Host(stop)
    }
}
