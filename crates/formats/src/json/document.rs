//! A whole document.

use super::{anomalies, source, threads, totals, types};
use highwater_model::Snapshot;
use serde_json::{Map, Value, json};

/// The version of the schema. New names may be added without a new version; no name is removed or changes its meaning.
///
/// Schema 2: a row's `stack` is the index of a stack in `stacks`. In schema 1 it was the list of its frames.
pub const SCHEMA: u32 = 2;

/// The first members of every document: `schema`, `command`, `source`, `at_ns`.
pub fn head(command: &str, snapshot: &Snapshot) -> Map<String, Value> {
    super::members(json!({
        "schema": SCHEMA,
        "command": command,
        "source": source(&snapshot.source),
        "at_ns": snapshot.at.0,
    }))
}

/// A document about one snapshot: its head, `totals`, `anomalies`, `threads` and `types`. The caller adds the requested rows, one at a time:
/// [`DocumentWriter`](super::DocumentWriter) writes them, and their stacks.
pub fn document(command: &str, snapshot: &Snapshot) -> Map<String, Value> {
    let mut members = head(command, snapshot);
    members.insert("totals".to_owned(), totals(snapshot));
    members.insert("anomalies".to_owned(), anomalies(snapshot.accounts.anomalies()));
    members.insert("threads".to_owned(), threads(snapshot));
    members.insert("types".to_owned(), types(snapshot));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::parser;

    #[test]
    fn a_document_says_what_it_is() {
        let document: Value = document("report", &parser().snapshot()).into();
        assert_eq!((&document["schema"], &document["command"]), (&json!(2), &json!("report")));
        assert_eq!(document["at_ns"], 50);
        assert_eq!(document["source"]["pid"], 42);
        assert_eq!(document["totals"]["live_bytes"], 308);
        assert!(document["anomalies"].is_object());
        assert_eq!(document["threads"].as_array().unwrap().len(), 2);
    }
}
