//! Why a question has no answer.

use highwater_lake::LakeError;
use std::io;

/// Why a question has no answer. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The lake cannot be read.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The engine's program cannot be started.
    #[error("{program}: cannot be started: {error}")]
    Start {
        /// The program.
        program: String,
        /// The error.
        error: io::Error,
    },
    /// The engine's program was killed, or crashed.
    #[error("the engine was ended by signal {0}{why}", why = if *.0 == 9 { ": perhaps this machine ran out of memory" } else { "" })]
    Killed(i32),
    /// The engine ended without an answer.
    #[error("the engine ended without an answer{0}")]
    Silent(String),
    /// The engine says why it has no answer.
    #[error("{0}")]
    Engine(String),
    /// The engine's answer does not have the columns or types of the question.
    #[error("the engine's answer cannot be read")]
    BadAnswer,
    /// More than can be shown.
    #[error("{0}")]
    TooLarge(String),
    /// There are no rows: of the whole lake, or of a part of it.
    #[error("{}", nothing(days.as_ref()))]
    Empty {
        /// The first and the last day of which the lake has rows.
        days: Option<(String, String)>,
    },
    /// The slots of a part of the lake are known, and the call sites that held memory then are not.
    #[error(
        "the lake keeps no call sites of this time by slot: days of sites expire first; 'highwater fleet growth' and 'leaks' answer from sums by hour"
    )]
    SitesExpired,
    /// The client went away.
    #[error("the question was cancelled")]
    Cancelled,
    /// A folder for links to local copies cannot be made.
    #[error("{path}: {error}")]
    Links {
        /// The folder or link.
        path: String,
        /// The error.
        error: io::Error,
    },
}

fn nothing(days: Option<&(String, String)>) -> String {
    match days {
        None => "the lake has no rows yet; 'highwater ship --to LAKE' on each host sends some every minute".to_owned(),
        Some((first, last)) if first == last => {
            format!("no process passes the filters in this time; the lake has the day {first}")
        }
        Some((first, last)) => {
            format!("no process passes the filters in this time; the lake has the days {first} to {last}")
        }
    }
}
