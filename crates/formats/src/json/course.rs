//! A recording's course over time.

use super::{anomalies, head, totals};
use highwater_model::{Snapshot, Timeline};
use serde_json::{Map, Value, json};

/// A document about a recording's course: its head, `totals` and `anomalies` as of `end`, and the [`timeline`].
pub fn course(command: &str, end: &Snapshot, course: &Timeline) -> Value {
    let mut members = head(command, end);
    members.insert("totals".to_owned(), totals(end));
    members.insert("anomalies".to_owned(), anomalies(end.accounts.anomalies()));
    members.extend(timeline(course));
    members.into()
}

/// `points[]`, `marks[]` and `gauges[]`.
pub fn timeline(timeline: &Timeline) -> Map<String, Value> {
    let points: Value = timeline
        .points
        .iter()
        .map(|point| {
            json!({
                "time_ns": point.time.0,
                "live_bytes": point.live_bytes,
                "live_blocks": point.live_blocks,
                "highest_bytes": point.highest_bytes,
            })
        })
        .collect();
    let marks: Value = timeline.marks.iter().map(|mark| json!({ "time_ns": mark.time.0, "name": mark.name })).collect();
    let gauges: Value = timeline
        .gauges
        .iter()
        .map(|gauge| json!({ "time_ns": gauge.time.0, "name": gauge.name, "value": gauge.value }))
        .collect();
    super::members(json!({ "points": points, "marks": marks, "gauges": gauges }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::parser;
    use highwater_model::{GaugeReading, NamedInstant, Nanos, TimelinePoint};

    #[test]
    fn points_marks_and_gauges_are_told() {
        let lived = Timeline {
            start: Nanos(0),
            points: vec![TimelinePoint { time: Nanos(10), live_bytes: 5, live_blocks: 1, highest_bytes: 9 }],
            marks: vec![NamedInstant { time: Nanos(3), event: 1, name: "loaded".to_owned() }],
            gauges: vec![GaugeReading { time: Nanos(4), name: "rss".to_owned(), value: 4096 }],
        };
        let document = course("timeline", &parser().snapshot(), &lived);
        assert_eq!(document["schema"], 2);
        assert_eq!(document["points"], json!([{"time_ns": 10, "live_bytes": 5, "live_blocks": 1, "highest_bytes": 9}]));
        assert_eq!(document["marks"], json!([{"time_ns": 3, "name": "loaded"}]));
        assert_eq!(document["gauges"], json!([{"time_ns": 4, "name": "rss", "value": 4096}]));
    }
}
