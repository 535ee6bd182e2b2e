//! The results of calls.

use super::MOST_MESSAGES;
use crate::engine::RunError;
use crate::system::CanisterResponse;
use std::fmt;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    /// The response; none if only time passed.
    pub response: Option<CanisterResponse>,
    /// Lines that the canister printed.
    pub printed: Vec<String>,
    /// Errors besides that of the call itself: traps in timers and callbacks.
    pub troubles: Vec<String>,
}

/// Why a call could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such method; the methods that exist.
    NoMethod(String, Vec<String>),
    /// The canister does not accept this call from outside.
    Refused(String),
    /// The call caused more messages than the limit.
    Endless,
    /// The host itself failed.
    Host(RunError),
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

impl From<RunError> for CallError {
    fn from(stop: RunError) -> Self {
        Self::Host(stop)
    }
}
