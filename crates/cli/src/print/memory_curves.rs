//! RSS and its parts over time, as a table: at the highest RSS, highest, last.

use crate::print::bytes::bytes;
use crate::print::table::{Align, Table};
use highwater_model::{GaugeReading, Nanos, Timeline, gauge};

/// A curve: its values at the highest RSS, its highest and its last value.
struct Curve {
    name: &'static str,
    at_rss_peak: Option<u64>,
    highest: u64,
    last: u64,
}

/// The curves of a timeline; `None` without RSS. The live bytes of its points are those of the whole process only if `is_whole`.
pub fn table(timeline: &Timeline, is_whole: bool) -> Option<Table> {
    let rss_peak = highest(&readings(timeline, gauge::RSS))?.time;
    let heap = if is_whole { heap(timeline, rss_peak) } else { None };
    let mut curves: Vec<Curve> = gauge::ALL.iter().filter_map(|name| curve(timeline, name, rss_peak)).collect();
    curves.splice(1..1, heap);
    let mut table = Table::default()
        .column(Align::Left, "")
        .column(Align::Right, "at highest RSS")
        .column(Align::Right, "highest")
        .column(Align::Right, "last");
    for Curve { name, at_rss_peak, highest, last } in curves {
        let then = at_rss_peak.map_or_else(String::new, bytes);
        table.row(vec![name.into(), then.into(), bytes(highest).into(), bytes(last).into()]);
    }
    Some(table)
}

fn readings<'a>(timeline: &'a Timeline, name: &str) -> Vec<&'a GaugeReading> {
    timeline.gauges.iter().filter(|reading| reading.name == name).collect()
}

/// The highest reading; the first of those that are equal.
fn highest<'a>(readings: &[&'a GaugeReading]) -> Option<&'a GaugeReading> {
    readings.iter().copied().reduce(|highest, reading| if reading.value > highest.value { reading } else { highest })
}

fn value_at(readings: &[&GaugeReading], time: Nanos) -> Option<u64> {
    readings.iter().take_while(|reading| reading.time <= time).last().map(|reading| reading.value)
}

/// The reading that is nearest in time: some are known a moment later than RSS.
fn value_near(readings: &[&GaugeReading], time: Nanos) -> Option<u64> {
    readings.iter().min_by_key(|reading| reading.time.0.abs_diff(time.0)).map(|reading| reading.value)
}

fn curve(timeline: &Timeline, name: &'static str, rss_peak: Nanos) -> Option<Curve> {
    let readings = readings(timeline, name);
    let (highest, last) = (highest(&readings)?.value, readings.last()?.value);
    Some(Curve { name, at_rss_peak: value_near(&readings, rss_peak), highest, last })
}

/// Live bytes without mappings, at the end of each span.
fn heap(timeline: &Timeline, rss_peak: Nanos) -> Option<Curve> {
    let mapped = readings(timeline, gauge::MAPPED);
    let at = |time: Nanos, live: u64| live.saturating_sub(value_at(&mapped, time).unwrap_or(0));
    let values: Vec<(Nanos, u64)> =
        timeline.points.iter().map(|point| (point.time, at(point.time, point.live_bytes))).collect();
    let (_, last) = *values.last()?;
    let highest = values.iter().map(|(_, value)| *value).max()?;
    let then = values.iter().find(|(time, _)| *time >= rss_peak).map(|(_, value)| *value);
    Some(Curve { name: "heap bytes", at_rss_peak: then, highest, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::TimelinePoint;

    fn timeline() -> Timeline {
        let reading = |time, name: &str, value| GaugeReading { time: Nanos(time), name: name.to_owned(), value };
        let point = |time, live_bytes| TimelinePoint { time: Nanos(time), live_bytes, ..TimelinePoint::default() };
        Timeline {
            points: vec![point(10, 5 << 20), point(20, 9 << 20), point(30, 2 << 20)],
            gauges: vec![
                reading(5, gauge::RSS, 4 << 20),
                reading(12, gauge::RSS, 12 << 20),
                reading(12, gauge::MAPPED, 1 << 20),
                reading(12, gauge::FREE_RESIDENT, 3 << 20),
                reading(29, gauge::RSS, 6 << 20),
                reading(29, "queue", 7),
            ],
            ..Timeline::default()
        }
    }

    #[test]
    fn curves_have_their_values_at_the_highest_rss() {
        let heap = heap(&timeline(), Nanos(12)).unwrap();
        assert_eq!((heap.at_rss_peak, heap.highest, heap.last), (Some(8 << 20), 8 << 20, 1 << 20));
        let rss = curve(&timeline(), gauge::RSS, Nanos(12)).unwrap();
        assert_eq!((rss.at_rss_peak, rss.highest, rss.last), (Some(12 << 20), 12 << 20, 6 << 20));
        assert!(curve(&timeline(), gauge::SLACK, Nanos(12)).is_none());
        assert!(table(&timeline(), true).is_some());
        assert!(table(&Timeline::default(), true).is_none());
    }
}
