//! The families of series, and how their values are found.

use crate::labels::ProcessLabels;
use crate::page::{Family, FamilyKind, MetricsPage};
use crate::sites::ShownSites;
use highwater_collector::{ProcessGauges, Survivors};
use highwater_resident::MemoryParts;
use std::time::Duration;

/// A process on the page.
#[derive(Clone, Debug)]
pub struct ProcessSeries {
    /// Its figures now.
    pub gauges: ProcessGauges,
    /// Its labels.
    pub labels: ProcessLabels,
    /// Its resident memory now.
    pub memory: MemoryParts,
    /// Its old blocks at the last scan, and how long ago that was.
    pub survivors: Option<(Survivors, Duration)>,
    /// Its largest sites, if they are shown.
    pub sites: Option<ShownSites>,
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, kind: FamilyKind::Gauge, unit, help }
}

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, kind: FamilyKind::Counter, unit, help }
}

/// A family with one series for each process: its value, if it is known.
type OfProcess = (Family, fn(&ProcessSeries) -> Option<u64>);

const OF_PROCESS: [OfProcess; 10] = [
    (gauge("highwater_process_live_bytes", "bytes", "Bytes in live blocks."), |one| Some(one.gauges.live_bytes)),
    (gauge("highwater_process_live_blocks", "blocks", "Live blocks."), |one| Some(one.gauges.live_blocks)),
    (counter("highwater_process_allocated_bytes", "bytes", "Bytes allocated, including growth by resizing."), |one| {
        Some(one.gauges.allocated_bytes)
    }),
    (counter("highwater_process_allocated_blocks", "blocks", "Blocks allocated."), |one| {
        Some(one.gauges.allocated_blocks)
    }),
    (
        counter(
            "highwater_process_untracked_blocks",
            "blocks",
            "Blocks that are not counted because the table was full.",
        ),
        |one| Some(one.gauges.untracked),
    ),
    (
        gauge(
            "highwater_process_sample_period_bytes",
            "bytes",
            "Mean bytes per sampled block; 0 if every block is counted.",
        ),
        |one| Some(one.gauges.sample_bytes),
    ),
    (gauge("highwater_process_resident_memory_bytes", "bytes", "Resident memory (RSS)."), |one| {
        Some(one.memory.resident)
    }),
    (gauge("highwater_process_swap_bytes", "bytes", "Memory that is swapped out."), |one| Some(one.memory.swap)),
    (gauge("highwater_process_memory_limit_bytes", "bytes", "The memory limit that the process meets first."), |one| {
        Some(one.memory.limit?.bytes)
    }),
    (
        gauge(
            "highwater_process_memory_limit_used_bytes",
            "bytes",
            "What counts against that limit: the whole control group.",
        ),
        |one| Some(one.memory.limit?.used),
    ),
];

const RESIDENT_PART: Family =
    gauge("highwater_process_resident_part_bytes", "bytes", "Resident memory by kind; the parts add up to RSS.");
const SURVIVORS: Family =
    gauge("highwater_process_survivor_bytes", "bytes", "Bytes in live blocks that are at least this old.");
const SNAPSHOT_AGE: Family =
    gauge("highwater_process_snapshot_age_seconds", "seconds", "How long ago the survivors were counted.");
const START: Family = gauge("highwater_process_start_time_seconds", "seconds", "When counting began, as Unix time.");
const SITES: Family = gauge(
    "highwater_site_live_bytes",
    "bytes",
    "Live bytes of the largest call sites of a process, and of all others.",
);
const PROCESSES: Family = gauge("highwater_processes", "", "Live processes.");
const SCAN: Family =
    gauge("highwater_scan_seconds", "seconds", "How long the last count of survivors took, for all processes.");

/// Writes all series. `processes` is the number of live processes, some of which may have no series.
pub fn write(page: &mut MetricsPage, shown: &[ProcessSeries], processes: usize, scan: Duration) {
    let texts: Vec<[String; 4]> = shown
        .iter()
        .map(|one| {
            let name = &one.gauges.name;
            // A title such as `nginx: worker process` begins with the program.
            let program = name.split(": ").next().unwrap_or(name);
            // A process that names no service is a service of its own, so that sums by service contain it.
            let service = if one.labels.service.is_empty() { program } else { &one.labels.service };
            [one.gauges.pid.to_string(), name.clone(), service.to_owned(), one.labels.version.clone()]
        })
        .collect();
    let labels =
        |at: usize| ["pid", "program", "service", "version"].into_iter().zip(texts[at].iter().map(String::as_str));
    for (family, value) in &OF_PROCESS {
        page.begin(family);
        for (at, one) in shown.iter().enumerate() {
            if let Some(value) = value(one) {
                page.sample(labels(at), value);
            }
        }
    }
    page.begin(&RESIDENT_PART);
    for (at, one) in shown.iter().enumerate() {
        let MemoryParts { anonymous, file, shared, .. } = one.memory;
        for (part, value) in [("anonymous", anonymous), ("file", file), ("shmem", shared)] {
            page.sample(labels(at).chain([("part", part)]), value);
        }
    }
    page.begin(&SURVIVORS);
    for (at, one) in shown.iter().enumerate() {
        if let Some((survivors, _)) = one.survivors {
            let age = age_text(Duration::from_nanos(survivors.age_ns));
            page.sample(labels(at).chain([("age", age.as_str())]), survivors.bytes);
        }
    }
    page.begin(&SNAPSHOT_AGE);
    for (at, one) in shown.iter().enumerate() {
        if let Some((_, age)) = one.survivors {
            page.sample(labels(at), seconds(age));
        }
    }
    page.begin(&START);
    for (at, one) in shown.iter().enumerate() {
        page.sample(labels(at), seconds(Duration::from_nanos(one.gauges.since_unix_ns)));
    }
    if shown.iter().any(|one| one.sites.is_some()) {
        page.begin(&SITES);
        for (at, one) in shown.iter().enumerate() {
            let Some(sites) = &one.sites else { continue };
            for site in &sites.largest {
                let number = site.site.to_string();
                let of_site = [("site", number.as_str()), ("function", site.function.as_str())];
                page.sample(labels(at).chain(of_site), site.live_bytes);
            }
            page.sample(labels(at).chain([("site", "other")]), sites.other);
        }
    }
    page.begin(&PROCESSES);
    page.sample([], processes);
    page.begin(&SCAN);
    page.sample([], seconds(scan));
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// An age as Prometheus writes durations: `30m`, `90s`, `1500ms`.
pub fn age_text(age: Duration) -> String {
    let ms = age.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ms != 0 && ms.is_multiple_of(*unit)).unwrap_or((1, "ms"));
    format!("{}{name}", ms / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_prometheus_writes_them() {
        let of = |ms| age_text(Duration::from_millis(ms));
        assert_eq!([of(1_800_000), of(3_600_000), of(90_000), of(1500), of(0)], ["30m", "1h", "90s", "1500ms", "0ms"]);
    }
}
