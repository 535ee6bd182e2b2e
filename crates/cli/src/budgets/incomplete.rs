//! What a verdict does not cover. A budget must not pass because a recording lacks something.

use crate::failure::Failure;
use crate::open::Opened;
use crate::print::bytes::{count, counted};
use highwater_model::{Anomaly, ENDED_EARLY, When};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The most names in a sentence.
const MOST_NAMES: usize = 8;

/// A recording that lacks something, or a program without a recording.
#[derive(Clone, Debug)]
pub struct Incomplete {
    /// The program; empty if it is not known.
    pub program: String,
    /// The recording, if there is one.
    pub path: Option<PathBuf>,
    /// What is missing.
    pub why: String,
}

impl Incomplete {
    /// A recording that lacks something.
    pub fn recording(program: &str, path: &Path, why: String) -> Self {
        Self { program: program.to_owned(), path: Some(path.to_owned()), why }
    }

    /// A program that has limits and did not run.
    pub fn program(name: &str, ran: &[&str]) -> Self {
        let mut why = format!("the budget has limits for '{name}', and no recorded process has this name");
        match highwater_query::budget::nearest(name, ran.iter().copied()) {
            Some(near) => why.push_str(&format!("; did you mean '{near}'?")),
            None => {
                let more = if ran.len() > MOST_NAMES { " and others" } else { "" };
                let ran: Vec<&str> = ran.iter().take(MOST_NAMES).copied().collect();
                why.push_str(&format!("; there are {}{more}", ran.join(", ")));
            }
        }
        Self { program: name.to_owned(), path: None, why }
    }

    /// A program that cannot be judged, or not compared.
    pub fn not_compared(name: &str, why: String) -> Self {
        Self { program: name.to_owned(), path: None, why }
    }

    /// The whole sentence.
    pub fn sentence(&self) -> String {
        match &self.path {
            Some(path) => format!("{}: {}", path.display(), self.why),
            None => self.why.clone(),
        }
    }

    /// The same as a JSON value.
    pub fn document(&self) -> Value {
        json!({
            "program": self.program,
            "file": self.path.as_ref().map(|path| path.display().to_string()),
            "why": self.why,
        })
    }
}

/// What a recording lacks, as far as it has been read; empty if it is whole.
pub fn missing_in(opened: &Opened) -> Result<Vec<String>, Failure> {
    let mut missing = Vec::new();
    if !opened.stats().complete {
        missing.push("the recording was cut before its end, as by a crash".to_owned());
    }
    if opened.bad_lines() > 0 {
        missing.push(format!("{} skipped", counted(opened.bad_lines(), "bad line")));
    }
    let end = opened.snapshot(&When::End)?;
    for anomaly in [Anomaly::DroppedEvent, Anomaly::LostToDamage] {
        let lost = end.accounts.anomalies().get(anomaly);
        if lost > 0 {
            missing.push(format!("{} {}", count(lost), anomaly.explanation()));
        }
    }
    missing.extend(opened.source().notes.iter().filter(|note| note.starts_with(ENDED_EARLY)).cloned());
    let damage = opened.damage();
    match damage.as_slice() {
        [] => {}
        [one] => missing.push(format!("damage: {one}")),
        [first, rest @ ..] => missing.push(format!("damage: {first}, and {} more", rest.len())),
    }
    Ok(missing)
}
