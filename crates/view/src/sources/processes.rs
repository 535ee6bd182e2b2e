//! The latest answers about all processes together: they are asked for again whenever the user comes back from one process, and each reads every file.

use super::stamp::Stamp;
use highwater_query::{ProcessFile, QueryError};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// How many answers are kept.
const MOST_KEPT: usize = 8;

/// The latest answers, with the questions that they answer.
#[derive(Default)]
pub struct ProcessAnswers(Mutex<Vec<(KeptQuestion, Value)>>);

/// A question, and the versions of the files that it was about.
#[derive(PartialEq, Eq)]
struct KeptQuestion {
    text: String,
    versions: Vec<Option<Stamp>>,
}

impl ProcessAnswers {
    /// The answer to a question about these files: a kept one if no file has changed.
    pub fn get(
        &self,
        text: String,
        files: &[ProcessFile],
        answer: impl FnOnce() -> Result<Value, QueryError>,
    ) -> Result<Value, QueryError> {
        let versions = files.iter().map(|file| Stamp::of(&file.path).ok()).collect();
        let question = KeptQuestion { text, versions };
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = kept().iter().find(|(kept, _)| *kept == question) {
            return Ok(answer.clone());
        }
        let answer = answer()?;
        let mut kept = kept();
        kept.retain(|(kept, _)| kept.text != question.text);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push((question, answer.clone()));
        Ok(answer)
    }
}
