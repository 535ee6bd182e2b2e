//! Questions about a part of a fleet, from the program's side: whom to ask, about what, and while the client waits.

use crate::protocol::EngineAnswer;
use crate::questions::filled;
use crate::scope::{FleetScope, ScopeOf};

/// Answers SQL texts over the views of a lake.
pub trait FleetSql: Send + Sync {
    /// The answer to a text that reads rows of a scope only. `go_on` is called now and then: once it is false, no one waits for the answer. An error is one line for
    /// people.
    fn answer(
        &self,
        sql: &str,
        scope: &FleetScope,
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<EngineAnswer, String>;
}

/// Why a question about a part of a fleet has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The engine has none.
    #[error("{0}")]
    Engine(String),
    /// No process has these labels in this time.
    #[error("the lake has no process with these labels in this time")]
    Empty,
    /// The answer would exceed a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The engine's answer has other columns or values than it was asked for.
    #[error("the engine's answer makes no sense")]
    BadAnswer,
    /// No one waits for the answer any more.
    #[error("cancelled")]
    Cancelled,
}

/// Reports progress from 0 to 1, or only asks; false once no one waits any more.
pub type PartProgress<'a> = dyn Fn(Option<(f64, &str)>) -> bool + 'a;

/// A part of a fleet that is asked about.
pub struct FleetPart<'a> {
    engine: &'a dyn FleetSql,
    scope: &'a FleetScope,
    progress: &'a PartProgress<'a>,
}

impl<'a> FleetPart<'a> {
    /// A part of the fleet whose lake an engine reads.
    pub fn new(engine: &'a dyn FleetSql, scope: &'a FleetScope, progress: &'a PartProgress<'a>) -> Self {
        Self { engine, scope, progress }
    }

    /// Reports progress, and fails once no one waits any more.
    pub(crate) fn progress(&self, part: f64, what: &str) -> Result<(), PartError> {
        if (self.progress)(Some((part, what))) { Ok(()) } else { Err(PartError::Cancelled) }
    }

    /// The answer to one of our texts, with its places filled. `{processes}` and `{sites}` are the conditions of the scope.
    pub(crate) fn ask(&self, text: &str, places: &[(&str, &str)], max_rows: u64) -> Result<EngineAnswer, PartError> {
        let (processes, sites) = (self.scope.sql(ScopeOf::Processes), self.scope.sql(ScopeOf::Sites));
        let mut all = vec![("processes", processes.as_str()), ("sites", sites.as_str())];
        all.extend_from_slice(places);
        self.answer(&filled(text, &all), max_rows)
    }

    /// The answer to a text.
    pub fn answer(&self, sql: &str, max_rows: u64) -> Result<EngineAnswer, PartError> {
        let go_on = || (self.progress)(None);
        let answer = self.engine.answer(sql, self.scope, max_rows, &go_on);
        match answer {
            _ if !go_on() => Err(PartError::Cancelled),
            Ok(EngineAnswer { error: Some(line), .. }) | Err(line) => Err(PartError::Engine(line)),
            Ok(answer) => Ok(answer),
        }
    }
}
