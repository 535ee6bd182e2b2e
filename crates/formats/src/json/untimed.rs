//! Documents about sources without times: line numbers of the log replace times.

use serde_json::{Map, Value};

/// Members that are durations; all others are instants.
const LENGTHS: [&str; 8] =
    ["duration_ns", "oldest_age_ns", "lifetime_ns", "mean_ns", "median_ns", "p90_ns", "p99_ns", "up_to_ns"];

/// Whether an object is about a source without times.
pub fn is_untimed(members: &Map<String, Value>) -> bool {
    members.get("source").is_some_and(|source| source["timed"] == false)
}

/// The same document without invented times: `peak_at_ns` becomes null, and `peak_at_line` has the line; `duration_ns` becomes `duration_lines`.
/// `start_unix_ns` stays: it is not a time of the log's events. For an object with its own `source`, that source decides.
pub fn lines_for_times(value: Value, is_untimed_around: bool) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(|element| lines_for_times(element, is_untimed_around)).collect(),
        Value::Object(members) => {
            let has_source = members.get("source").is_some_and(Value::is_object);
            let is_untimed = if has_source { is_untimed(&members) } else { is_untimed_around };
            let mut converted = Map::new();
            for (name, value) in members {
                // For the members of the source, the source itself decides.
                let is_untimed = is_untimed && !(name == "source" && value["timed"] != false);
                match name.strip_suffix("_ns").filter(|_| is_untimed && name != "start_unix_ns") {
                    Some(stem) => {
                        let unit = if LENGTHS.contains(&name.as_str()) { "lines" } else { "line" };
                        converted.insert(format!("{stem}_{unit}"), value);
                        converted.insert(name, Value::Null);
                    }
                    None => drop(converted.insert(name, lines_for_times(value, is_untimed))),
                }
            }
            Value::Object(converted)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_stand_in_place_of_times_and_other_sources_keep_theirs() {
        let timed = json!({ "source": { "duration_ns": 9 }, "at_ns": 7 });
        let untimed = json!({ "source": { "timed": false, "duration_ns": 5, "start_unix_ns": null }, "at_ns": 3, "before": timed, "sites": [{ "oldest_age_ns": 2 }] });
        let expected = json!({
            "source": { "timed": false, "duration_ns": null, "duration_lines": 5, "start_unix_ns": null },
            "at_ns": null, "at_line": 3, "before": timed, "sites": [{ "oldest_age_ns": null, "oldest_age_lines": 2 }],
        });
        assert_eq!(lines_for_times(untimed, false), expected);
        assert_eq!(lines_for_times(timed.clone(), false), timed);
    }
}
