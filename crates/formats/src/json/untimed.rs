//! Documents about sources without times: line numbers of the log, or whatever else the source counts, replace times.

use highwater_model::Clock;
use serde_json::{Map, Value};

/// Members that are durations; all others are instants.
const LENGTHS: [&str; 8] =
    ["duration_ns", "oldest_age_ns", "lifetime_ns", "mean_ns", "median_ns", "p90_ns", "p99_ns", "up_to_ns"];

/// What the times of an object with a `source` count.
pub fn clock_of(members: &Map<String, Value>) -> Clock {
    members.get("source").map_or(Clock::Time, clock_of_source)
}

/// What the times of a source count, as its object says.
pub fn clock_of_source(source: &Value) -> Clock {
    match (&source["timed"], &source["clock"]) {
        (Value::Bool(false), Value::String(unit)) => Clock::of_unit(unit).unwrap_or(Clock::Lines),
        (Value::Bool(false), _) => Clock::Lines,
        _ => Clock::Time,
    }
}

/// The same document without invented times: `peak_at_ns` becomes null, and `peak_at_line` has the line; `duration_ns` becomes `duration_lines`.
/// `start_unix_ns` stays: it is not a time of the log's events. For an object with its own `source`, that source decides.
pub fn lines_for_times(value: Value, around: Clock) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(|element| lines_for_times(element, around)).collect(),
        Value::Object(members) => {
            let has_source = members.get("source").is_some_and(Value::is_object);
            let clock = if has_source { clock_of(&members) } else { around };
            let mut converted = Map::new();
            for (name, value) in members {
                // For the members of the source, the source itself decides.
                let clock = if name == "source" { clock_of_source(&value) } else { clock };
                match name.strip_suffix("_ns").filter(|_| clock != Clock::Time && name != "start_unix_ns") {
                    Some(stem) => {
                        let (one, several) = clock.unit();
                        let unit = if LENGTHS.contains(&name.as_str()) { several } else { one };
                        converted.insert(format!("{stem}_{unit}"), value);
                        converted.insert(name, Value::Null);
                    }
                    None => drop(converted.insert(name, lines_for_times(value, clock))),
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
        assert_eq!(lines_for_times(untimed, Clock::Time), expected);
        let counted = json!({ "source": { "timed": false, "clock": "instructions", "duration_ns": 5 }, "at_ns": 3 });
        let expected = json!({
            "source": { "timed": false, "clock": "instructions", "duration_ns": null, "duration_instructions": 5 },
            "at_ns": null, "at_instruction": 3,
        });
        assert_eq!(lines_for_times(counted, Clock::Time), expected);
        assert_eq!(lines_for_times(timed.clone(), Clock::Time), timed);
    }
}
