//! The timeline of a recording.

use super::{DocumentWriter, anomalies, head, totals};
use highwater_model::{Snapshot, Timeline};
use serde_json::json;
use std::io::{self, Write};

/// Writes a document about the timeline of a recording: its head, `totals` and `anomalies` as of `end`, `points[]`, `marks[]` and `gauges[]`. One
/// JSON element is in memory at a time: a recording may have millions of gauges.
pub fn write_timeline(command: &str, end: &Snapshot, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let mut writer = DocumentWriter::begin(out)?;
    writer.members(&head(command, end))?;
    writer.member("totals", &totals(end))?;
    writer.member("anomalies", &anomalies(end.accounts.anomalies()))?;
    writer.list(
        "points",
        timeline.points.iter().map(|point| {
            json!({
                "time_ns": point.time.0,
                "live_bytes": point.live_bytes,
                "live_blocks": point.live_blocks,
                "highest_bytes": point.highest_bytes,
            })
        }),
    )?;
    writer.list("marks", timeline.marks.iter().map(|mark| json!({ "time_ns": mark.time.0, "name": mark.name })))?;
    let gauges = timeline.gauges.iter();
    writer.list(
        "gauges",
        gauges.map(|gauge| json!({ "time_ns": gauge.time.0, "name": gauge.name, "value": gauge.value })),
    )?;
    writer.end().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::parser;
    use highwater_model::{GaugeReading, NamedInstant, Nanos, TimelinePoint};
    use serde_json::Value;

    #[test]
    fn points_marks_and_gauges_are_written() {
        let lived = Timeline {
            start: Nanos(0),
            points: vec![TimelinePoint { time: Nanos(10), live_bytes: 5, live_blocks: 1, highest_bytes: 9 }],
            marks: vec![NamedInstant { time: Nanos(3), event: 1, name: "loaded".to_owned() }],
            gauges: vec![GaugeReading { time: Nanos(4), name: "rss".to_owned(), value: 4096 }],
        };
        let mut text = Vec::new();
        write_timeline("timeline", &parser().snapshot(), &lived, &mut text).unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&document["schema"], &document["totals"]["live_bytes"]), (&json!(2), &json!(308)));
        assert_eq!(document["points"], json!([{"time_ns": 10, "live_bytes": 5, "live_blocks": 1, "highest_bytes": 9}]));
        assert_eq!(document["marks"], json!([{"time_ns": 3, "name": "loaded"}]));
        assert_eq!(document["gauges"], json!([{"time_ns": 4, "name": "rss", "value": 4096}]));
    }
}
