//! A whole document.

use super::{anomalies, list_name, rows, source, threads, totals, types};
use highwater_model::Snapshot;
use highwater_model::groups::{GroupBy, Row};
use serde_json::{Map, Value, json};

/// The version of the names. A new name may come without a new version; none goes or changes its meaning.
pub const SCHEMA: u32 = 1;

/// What every document begins with: `schema`, `command`, `source`, `at_ns`.
pub fn head(command: &str, snapshot: &Snapshot) -> Map<String, Value> {
    super::members(json!({
        "schema": SCHEMA,
        "command": command,
        "source": source(&snapshot.source),
        "at_ns": snapshot.at.0,
    }))
}

/// A document about one snapshot: its head, `totals`, `anomalies`, `threads`, `types`, and the rows chosen.
///
/// Holds every row in memory at once; for all sites of a large program use [`write_full`](super::write_full) or a
/// [`DocumentWriter`](super::DocumentWriter).
pub fn document(command: &str, snapshot: &Snapshot, by: GroupBy, chosen: &[Row]) -> Value {
    let mut members = head(command, snapshot);
    members.insert("totals".to_owned(), totals(snapshot));
    members.insert("anomalies".to_owned(), anomalies(snapshot.accounts.anomalies()));
    members.insert("threads".to_owned(), threads(snapshot));
    members.insert("types".to_owned(), types(snapshot));
    // Last: rows chosen by thread or type take the place of the complete lists.
    members.insert(list_name(by).to_owned(), rows(snapshot, by, chosen));
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::parser;
    use highwater_model::groups::{Metric, rows};

    #[test]
    fn a_document_says_what_it_is_and_holds_the_rows_under_their_name() {
        let snapshot = parser().snapshot();
        for (by, name) in [
            (GroupBy::Site, "sites"),
            (GroupBy::Function, "functions"),
            (GroupBy::File, "files"),
            (GroupBy::Module, "modules"),
            (GroupBy::Thread, "threads"),
            (GroupBy::Type, "types"),
            (GroupBy::Heap, "heaps"),
        ] {
            let rows = rows(&snapshot, by, Metric::Live, None);
            let document = document("report", &snapshot, by, &rows);
            assert_eq!((&document["schema"], &document["command"]), (&json!(1), &json!("report")));
            assert_eq!(document["at_ns"], 50);
            assert_eq!(document["source"]["pid"], 42);
            assert_eq!(document["totals"]["live_bytes"], 308);
            assert!(document["anomalies"].is_object());
            assert_eq!(document[name].as_array().unwrap().len(), rows.len());
            assert_eq!(document["threads"].as_array().unwrap().len(), 2);
        }
    }
}
