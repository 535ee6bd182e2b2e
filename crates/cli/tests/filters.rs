//! One language of filters in every command; `leaks` and `growth`; every metric. The kitchen's story is in `support/mod.rs`.

mod support;

use serde_json::{Value, json};
use support::viewer::Viewer;
use support::{Place, in_the_kitchen};

/// The totals of a report: live bytes and blocks, allocated and freed bytes.
fn totals(place: &Place, options: &str) -> [u64; 4] {
    let report = place.json(&format!("report kitchen.hw {options}"));
    ["live_bytes", "live_blocks", "allocated_bytes", "freed_bytes"].map(|name| report["totals"][name].as_u64().unwrap())
}

#[test]
fn all_figures_are_those_of_the_selected_blocks() {
    let place = in_the_kitchen();
    // Bread 1000, Salad 500 that grows to 800, and 4000 that die at once.
    assert_eq!(totals(&place, "--filter size:600.."), [800, 1, 5800, 5000]);
    assert_eq!(totals(&place, "--filter size:1KiB.."), [0, 0, 4000, 4000]);
    assert_eq!(totals(&place, "--at peak --filter thread:1"), [5000, 2, 5000, 0]);
    assert_eq!(totals(&place, "--at peak --filter !thread:1"), [500, 1, 500, 0]);
    assert_eq!(totals(&place, "--filter lifetime:..2s"), [0, 0, 4000, 4000]);
    assert_eq!(totals(&place, "--filter freed:never"), [800, 1, 1300, 500]);
    assert_eq!(totals(&place, "--at 3s --filter live:6500ms"), [1500, 2, 1500, 0]);
    assert_eq!(totals(&place, "--filter allocated:..1500ms --filter type:Bread"), [0, 0, 1000, 1000]);
    assert_eq!(totals(&place, "--filter inside:equal:chop"), [800, 1, 1300, 500]);
    assert_eq!(totals(&place, "--filter outside:regex:^ch --at 3s"), [1000, 1, 1000, 0]);
    // A bare regular expression chooses rows, and leaves totals.
    assert_eq!(totals(&place, "--filter chop"), [800, 1, 6300, 5500]);
    let sites = place.json("report kitchen.hw --filter bake --filter size:600.. --at peak")["sites"].clone();
    assert_eq!(sites.as_array().unwrap().len(), 1);
    place
        .highwater("report kitchen.hw --filter size:600.. --filter thread:2")
        .stdout_has(&["only", "size:600.. and thread:2"]);
}

#[test]
fn every_command_takes_them() {
    let place = in_the_kitchen();
    let points = place.json("timeline kitchen.hw --points 10 --filter type:Bread")["points"].clone();
    let highest = points.as_array().unwrap().iter().map(|point| point["highest_bytes"].as_u64().unwrap()).max();
    assert_eq!(highest, Some(1000));
    let diff = place.json("diff kitchen.hw@3s kitchen.hw --filter thread:2");
    assert_eq!((&diff["live_bytes_delta"], &diff["live_blocks_delta"]), (&json!(300), &json!(0)));
    let folded = place.highwater("export kitchen.hw --to folded --at peak --filter size:4000.. -o -");
    assert_eq!(folded.stdout, "main;cook;bake 4000\n");
    let leaks = place.json("leaks kitchen.hw --filter !size:..100");
    assert_eq!(leaks["totals"]["live_bytes"], 800);
    assert_eq!(place.json("growth kitchen.hw --filter thread:1")["count"], 0);
}

#[test]
fn a_window_is_filtered_too_and_has_every_metric() {
    let place = in_the_kitchen();
    let window = place.json("report kitchen.hw --from 3s --to 6s --filter thread:1");
    let figure = |name: &str| window["totals"][name].clone();
    assert_eq!((figure("allocated_bytes"), figure("freed_bytes")), (json!(4000), json!(4000)));
    assert_eq!(
        (figure("live_bytes"), figure("peak_bytes"), figure("peak_at_ns")),
        (json!(1000), json!(5000), json!(4_000_000_000u64))
    );
    let rows = |options: &str| -> Vec<u64> {
        let sites = place.json(&format!("report kitchen.hw --from 0% --to 3s {options}"))["sites"].clone();
        sites.as_array().unwrap().iter().map(|site| site["live_bytes"].as_u64().unwrap()).collect()
    };
    assert_eq!(rows("--metric live"), [1000, 500]);
    place.highwater("report kitchen.hw --from 0% --to 3s --metric leaked").stdout_has(&[
        "never freed",
        "800 B",
        "chop",
    ]);
    place.highwater("report kitchen.hw --from 3s --metric peak").stdout_has(&["4.9 KiB", "bake"]);
    place.highwater("report kitchen.hw --metric freed").stdout_has(&["4.9 KiB", "500 B"]);
    place.highwater("report kitchen.hw --metric own-peak --by thread").stdout_has(&["own peak", "4.9 KiB", "800 B"]);
    assert_eq!(place.highwater("report kitchen.hw --from 3s --metric own-peak").code, 2);
}

#[test]
fn peak_is_the_same_instant_as_a_metric_and_as_an_instant() {
    let place = in_the_kitchen();
    let sites = |options: &str| -> Value { place.json(&format!("report kitchen.hw {options}"))["sites"].clone() };
    assert_eq!(sites("--metric peak"), sites("--at peak"));
}

#[test]
fn leaks_are_live_at_an_instant_and_growth_is_steady() {
    let place = Place::new();
    // One site leaks 100 bytes each second, another one builds 5000 bytes at once.
    let mut lines = vec![json!({"event": "source", "program": "grower", "pid": 1})];
    for second in 0..60u64 {
        let (address, size, function) = match second {
            0 => ("0x10".to_owned(), 5000, "build"),
            _ => (format!("{:#x}", 0x1000 + second * 256), 100, "leak"),
        };
        lines.push(json!({"event": "allocate", "address": address, "size": size, "thread": 1, "time_ns": second * 1_000_000_000, "stack": [function, "main"]}));
    }
    place.import("grower.hw", &lines);
    let growth = place.json("growth grower.hw");
    assert_eq!(growth["sites"][0]["key"], "leak");
    let rate = growth["sites"][0]["growth_per_s"].as_f64().unwrap();
    assert!((rate - 100.0).abs() < 5.0, "{rate}");
    assert!(growth["sites"][0]["steadiness"].as_f64().unwrap() > 0.99);
    let shown = place.highwater("growth grower.hw");
    shown.stdout_has(&["per second", "100 %", "leak"]);
    assert!(!shown.stdout.contains("build"), "{}", shown.stdout);
    place.highwater("growth grower.hw --top 0").stdout_has(&["build"]);
    let leaks = place.json("leaks grower.hw --at 30s");
    assert_eq!(leaks["totals"]["live_bytes"], 5000 + 30 * 100);
    assert_eq!(leaks["sites"][0]["oldest_age_ns"], 30_000_000_000u64);
    place.highwater("leaks grower.hw").stdout_has(&["10.6 KiB in 60 blocks at end"]);
}

/// The command replays the part of the recording that passes; the viewer looks at the blocks of one instant.
#[test]
fn the_viewer_and_the_command_list_the_same_live_sites() {
    let place = in_the_kitchen();
    let viewer = Viewer::new(&place, "kitchen.hw");
    for filter in
        ["size:1..", "size:600..", "thread:2", "freed:never", "!type:Bread", "inside:equal:bake", "lifetime:..1s"]
    {
        let answer = viewer.ask(&format!("still_live?at=4000000000&filter={filter}"));
        let printed = place.json(&format!("leaks kitchen.hw --at 4s --filter {filter}"));
        assert_eq!(answer["live_bytes"], printed["totals"]["live_bytes"], "{filter}");
        assert_eq!(answer["live_blocks"], printed["totals"]["live_blocks"], "{filter}");
        let sites = |list: &Value| -> Vec<(Value, Value, Value)> {
            let sites = list.as_array().unwrap().iter();
            sites
                .map(|site| (site["live_bytes"].clone(), site["oldest_at_ns"].clone(), site["oldest_age_ns"].clone()))
                .collect()
        };
        assert_eq!(sites(&answer["sites"]), sites(&printed["sites"]), "{filter}");
    }
}
