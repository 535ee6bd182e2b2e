//! `highwater timeline --by`: who holds the memory over time. The kitchen's story is in `support/mod.rs`.

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Place, in_the_kitchen};

#[test]
fn bands_are_the_rows_of_reports() {
    let place = in_the_kitchen();
    for by in ["site", "function", "line", "file", "module", "thread", "type", "heap"] {
        for filter in ["", "--filter thread:1", "--filter size:600..", "--filter freed:never"] {
            let bands = place.json(&format!("timeline kitchen.hw --by {by} --top 20 --points 9 {filter}"));
            assert_eq!(bands["by"], by);
            let instants = bands["at"].as_array().unwrap();
            assert!(instants.len() > 3);
            for (bin, at) in instants.iter().enumerate() {
                let report = place.json(&format!("report kitchen.hw --by {by} --top 0 --at {at}ns {filter}"));
                let list = report.as_object().unwrap().iter().find(|(name, _)| **name == format!("{by}s")).unwrap().1;
                let mut expected: Vec<u64> =
                    list.as_array().unwrap().iter().map(live_bytes).filter(|n| *n > 0).collect();
                let mut found: Vec<u64> = bands["bands"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|band| band["bytes"][bin].as_u64().unwrap())
                    .filter(|bytes| *bytes > 0)
                    .collect();
                expected.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, expected, "{by} {filter} at {at}");
                let total = bands["total"]["bytes"][bin].as_u64().unwrap();
                let rest = bands["rest"]["bytes"][bin].as_i64().unwrap();
                assert_eq!(report["totals"]["live_bytes"], total, "{by} {filter} at {at}");
                assert_eq!(found.iter().sum::<u64>() as i64 + rest, total as i64);
            }
        }
    }
}

fn live_bytes(row: &Value) -> u64 {
    row["live_bytes"].as_u64().unwrap()
}

#[test]
fn the_chart_is_read_without_colour_at_80_columns() {
    let place = in_the_kitchen();
    let run = place.highwater("timeline kitchen.hw --by function --top 1 --width 80");
    run.stdout_has(&["live bytes by function", "at most", "at the peak", "bake", "· ", "the rest: "]);
    let chart: Vec<&str> = run.stdout.lines().filter(|line| line.contains('┤') || line.contains('│')).collect();
    assert_eq!(chart.len(), 12);
    assert!(chart.iter().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert!(
        chart.iter().any(|line| line.contains('1')) && chart.iter().any(|line| line.contains('·')),
        "{}",
        run.stdout
    );
}

/// Sources whose instants are no times: what a band holds is what a report at that instant has.
#[test]
fn profiles_and_logs_without_times_have_bands_and_a_snapshot_has_none() {
    let place = Place::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (fixture, name, by, unit) in [
        ("input/tests/fixtures/massif/instructions.out", "massif.out", "function", "instruction"),
        ("formats/tests/fixtures/objlog/leaky_c.log.zst", "objects.log", "type", "line"),
    ] {
        let bytes = std::fs::read(crates.join(fixture)).expect("the fixture is there");
        place.write(name, if fixture.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes });
        let bands = place.json(&format!("timeline {name} --by {by} --top 100 --points 7"));
        let instants = bands["at"].as_array().unwrap();
        assert!(instants.len() > 3 && bands["bands"].as_array().unwrap().len() > 1, "{name}");
        for (bin, at) in instants.iter().enumerate() {
            let total = bands["total"]["bytes"][bin].as_u64().unwrap();
            let shown = bands["bands"].as_array().unwrap().iter().map(|band| band["bytes"][bin].as_u64().unwrap());
            let shown: Vec<u64> = shown.collect();
            assert_eq!(shown.iter().sum::<u64>() as i64 + bands["rest"]["bytes"][bin].as_i64().unwrap(), total as i64);
            if at.as_u64() == Some(0) {
                continue;
            }
            let report = place.json(&format!("report {name} --at {unit}:{at} --by {by} --top 0"));
            assert_eq!(report["totals"]["live_bytes"], total, "{name} at {at}");
            let list = report[format!("{by}s")].as_array().unwrap();
            let sorted = |values: &mut dyn Iterator<Item = u64>| {
                let mut sorted: Vec<u64> = values.filter(|bytes| *bytes > 0).collect();
                sorted.sort_unstable();
                sorted
            };
            assert_eq!(sorted(&mut shown.into_iter()), sorted(&mut list.iter().map(live_bytes)), "{name} at {at}");
        }
    }
    let place = in_the_kitchen();
    place.highwater("export kitchen.hw --at 3s -o snapshot.hw");
    let refused = place.highwater("timeline snapshot.hw --by function");
    assert_eq!(
        refused.stderr,
        "highwater: snapshot.hw: a snapshot knows one instant only; it has no memory over time\n"
    );
}
