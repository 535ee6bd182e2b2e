//! The answers of the reading commands about a recording whose figures are known.

mod support;

use serde_json::{Value, json};
use support::{Place, as_lines, document, in_the_kitchen, kitchen};

fn live_bytes(document: &Value) -> u64 {
    document["totals"]["live_bytes"].as_u64().unwrap()
}

#[test]
fn report_tells_the_totals_of_the_story() {
    let report = in_the_kitchen().json("report kitchen.hw");
    let totals = &report["totals"];
    let expected = [
        ("allocations", 3),
        ("frees", 2),
        ("reallocations", 1),
        ("allocated_bytes", 6300),
        ("freed_bytes", 5500),
        ("live_blocks", 1),
        ("live_bytes", 800),
        ("peak_blocks", 3),
        ("peak_bytes", 5500),
        ("peak_at_ns", 4_000_000_000u64),
        ("temporary_allocations", 1),
    ];
    for (name, value) in expected {
        assert_eq!(totals[name], json!(value), "{name}");
    }
    assert_eq!(report["source"]["program"], "kitchen");
    assert_eq!(report["source"]["duration_ns"], 10_000_000_000u64);
    assert_eq!(report["source"]["sample_rate"], Value::Null);
    assert_eq!(report["anomalies"]["unmatched_frees"], 0);
}

#[test]
fn every_form_of_when_names_its_instant() {
    let place = in_the_kitchen();
    let cases = [
        ("start", 0),
        ("1s", 1000),
        ("2500ms", 1500),
        ("mark:loaded", 1500),
        ("peak", 5500),
        ("45%", 5500),
        ("5s", 1500),
        ("80%", 800),
        ("end", 800),
    ];
    for (when, live) in cases {
        assert_eq!(live_bytes(&place.json(&format!("report kitchen.hw --at {when}"))), live, "{when}");
    }
    let spaced = place.run(["report", "kitchen.hw", "--json", "--at", "mark:all done"]);
    assert_eq!(live_bytes(&serde_json::from_str(&spaced.stdout).unwrap()), 800);
    assert_eq!(live_bytes(&place.json("report kitchen.hw")), 800, "the end is the default");
}

#[test]
fn rows_are_what_by_says() {
    let place = in_the_kitchen();
    let rows = |by: &str, list: &str| {
        let report = place.json(&format!("report kitchen.hw --at peak --by {by}"));
        let named = |row: &Value| {
            let name = row.get("name").or(row.get("type")).cloned();
            (name.unwrap_or_else(|| row["stack"][0]["function"].clone()), row["live_bytes"].as_u64().unwrap())
        };
        report[list].as_array().unwrap().iter().map(named).collect::<Vec<(Value, u64)>>()
    };
    let named = |name: &str, bytes| (json!(name), bytes);
    assert_eq!(rows("site", "sites"), [named("bake", 5000), named("chop", 500)]);
    let functions = rows("function", "functions");
    assert_eq!(functions, [named("bake", 5000), named("chop", 500), named("cook", 0), named("main", 0)]);
    assert_eq!(rows("file", "files")[0], named("/src/bake.rs", 5000));
    assert_eq!(rows("module", "modules"), [named("/bin/kitchen", 5500)]);
    assert_eq!(rows("thread", "threads"), [named("main", 5000), named("worker", 500)]);
    assert_eq!(rows("type", "types"), [named("Bread", 1000), named("Salad", 500)]);
}

#[test]
fn the_metric_ranks_the_rows() {
    let place = in_the_kitchen();
    let first = |metric: &str| {
        let report = place.json(&format!("report kitchen.hw --metric {metric}"));
        report["sites"][0]["stack"][0]["function"].clone()
    };
    assert_eq!(first("live"), "chop");
    for metric in ["peak", "allocated", "allocations", "temporary"] {
        assert_eq!(first(metric), "bake", "{metric}");
    }
}

#[test]
fn top_and_filter_choose_rows() {
    let place = in_the_kitchen();
    let count = |options: &str| {
        let report = place.json(&format!("report kitchen.hw --at peak {options}"));
        report["sites"].as_array().unwrap().len()
    };
    assert_eq!(count("--top 1"), 1);
    assert_eq!(count("--top 0"), 2);
    assert_eq!(count("--filter ^ch"), 1);
    assert_eq!(count("--filter cook"), 2);
    assert_eq!(count("--filter /bin/kitchen"), 2);
    assert_eq!(count("--filter nobody"), 0);
    place.highwater("report kitchen.hw --at peak --top 1").stdout_has(&["1 more site with 500 B live"]);
    place.highwater("report kitchen.hw --filter nobody").stdout_has(&["Nothing matches 'nobody'."]);
}

#[test]
fn the_text_of_a_report_has_head_table_and_callers() {
    let text = in_the_kitchen().highwater("report kitchen.hw --at peak").stdout;
    let expected = "\
program    kitchen (pid 7 on home)
recorded   9 events in 10.00s
peak       5.4 KiB at 4.00s
live       5.4 KiB in 3 blocks at peak (4.00s)
allocated  5.4 KiB in 3 allocations

share     live  blocks  site
90.9%  4.9 KiB       2  bake  src/bake.rs:1
                          ← cook  src/cook.rs:2
                          ← main  src/main.rs:3
 9.1%    500 B       1  chop  src/chop.rs:1
                          ← cook  src/cook.rs:2
                          ← main  src/main.rs:3
";
    assert_eq!(text, expected);
}

#[test]
fn a_report_of_nothing_live_points_at_the_peak() {
    let place = Place::new();
    let mut story = kitchen();
    story.push(json!({"event": "deallocate", "address": "0x4000", "thread": 2, "time_ns": 11_000_000_000u64}));
    place.import("clean.hw", &story);
    place.highwater("report clean.hw").stdout_has(&[
        "peak       5.4 KiB at 4.00s",
        "Nothing is live at end.",
        "'--at peak'",
    ]);
    place.highwater("leaks clean.hw").stdout_has(&["no leaks"]);
    assert_eq!(place.json("leaks clean.hw")["sites"], json!([]));
    place.highwater("report clean.hw --at start").stdout_has(&["Nothing had happened yet at start."]);
}

#[test]
fn oddities_are_told_in_plain_words() {
    let place = Place::new();
    let mut story = kitchen();
    story.push(json!({"event": "deallocate", "address": "0xdead", "time_ns": 11_000_000_000u64}));
    place.import("odd.hw", &story);
    place.highwater("report odd.hw").stdout_has(&["Oddities:\n  1  frees of addresses where nothing was live"]);
    assert_eq!(place.json("report odd.hw")["anomalies"]["unmatched_frees"], 1);
    let clean = in_the_kitchen().highwater("report kitchen.hw").stdout;
    assert!(!clean.contains("Oddities"), "{clean}");
}

#[test]
fn figures_of_a_sampled_source_are_marked_as_estimates() {
    let place = Place::new();
    let mut story = kitchen();
    story[0]["sample_rate"] = json!(512 * 1024);
    place.import("sampled.hw", &story);
    let run = place.highwater("report sampled.hw");
    run.stdout_has(&[
        "~800 B (0 B–2.3 MiB) in ~1 block",
        "figures are estimates: one sample for each 512.0 KiB",
        "4 samples",
    ]);
    run.stdout_has(&["estimates  from 4 samples, one per 512.0 KiB allocated"]);
    assert_eq!(place.json("report sampled.hw")["source"]["sample_rate"], 512 * 1024);
}

#[test]
fn leaks_are_live_at_the_end_with_their_age() {
    let place = in_the_kitchen();
    let leaks = place.json("leaks kitchen.hw");
    let sites = leaks["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 1);
    assert_eq!(sites[0]["stack"][0]["function"], "chop");
    assert_eq!((&sites[0]["live_bytes"], &sites[0]["live_blocks"]), (&json!(800), &json!(1)));
    assert_eq!(sites[0]["oldest_at_ns"], 2_000_000_000u64);
    assert_eq!(sites[0]["oldest_age_ns"], 8_000_000_000u64);
    place.highwater("leaks kitchen.hw").stdout_has(&["100.0%  800 B       1   8.00s  chop  src/chop.rs:1"]);
}

#[test]
fn diff_between_a_mark_and_the_end_tells_what_went_and_grew() {
    let place = in_the_kitchen();
    let diff = place.json("diff kitchen.hw@mark:loaded kitchen.hw");
    assert_eq!((&diff["live_bytes_delta"], &diff["live_blocks_delta"]), (&json!(-700), &json!(-1)));
    let rows: Vec<(&Value, &Value, &Value)> = diff["sites"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["stack"][0]["function"], &row["change"], &row["live_bytes_delta"]))
        .collect();
    assert_eq!(rows, [(&json!("bake"), &json!("went"), &json!(-1000)), (&json!("chop"), &json!("grew"), &json!(300))]);
    assert_eq!(diff["before"]["when"], "mark:loaded");

    let text = place.highwater("diff kitchen.hw@mark:loaded kitchen.hw");
    text.stdout_has(&["change  -700 B, -1 blocks", "-1000 B", "went  bake", "+300 B", "grew  chop"]);
    let by_thread = place.json("diff kitchen.hw@start kitchen.hw@peak --by thread");
    assert_eq!(by_thread["threads"][0]["live_bytes_delta"], 5000);
    place.highwater("diff kitchen.hw kitchen.hw").stdout_has(&["Nothing changed."]);
}

#[test]
fn diff_compares_two_files_and_one_whose_name_has_an_at_sign() {
    let place = in_the_kitchen();
    let longer: Vec<Value> = kitchen()
        .into_iter()
        .chain([json!({"event": "allocate", "address": "0x9000", "size": 50, "time_ns": 12_000_000_000u64, "stack": ["wash"]})])
        .collect();
    place.import("me@peak", &longer);
    let diff = place.json("diff kitchen.hw me@peak");
    assert_eq!(diff["live_bytes_delta"], 50, "a file named me@peak, not the peak of a file named me");
    assert_eq!(diff["sites"][0]["change"], "came");
    assert_eq!(place.json("diff kitchen.hw me@peak@peak")["live_bytes_delta"], 5500 - 800);
}

#[test]
fn the_timeline_has_points_marks_and_gauges() {
    let place = in_the_kitchen();
    let timeline = place.json("timeline kitchen.hw --points 10");
    let points = timeline["points"].as_array().unwrap();
    let highest = points.iter().map(|point| point["highest_bytes"].as_u64().unwrap()).max();
    assert_eq!(highest, Some(5500));
    assert_eq!(points.last().unwrap()["live_bytes"], 800);
    assert_eq!(
        timeline["marks"],
        json!([
            {"time_ns": 3_000_000_000u64, "name": "loaded"},
            {"time_ns": 8_000_000_000u64, "name": "all done"},
        ])
    );
    assert_eq!(timeline["gauges"][0]["value"], 4096);
}

#[test]
fn the_chart_shows_peak_marks_and_axes_within_its_width() {
    let run = in_the_kitchen().highwater("timeline kitchen.hw --width 60 --height 6");
    run.stdout_has(&[
        "▼ peak 5.4 KiB at 4.00s",
        "5.4 KiB ┤",
        "0 B └",
        "10.00s",
        "a  3.00s  loaded",
        "b  8.00s  all done",
    ]);
    let too_wide = run.stdout.lines().find(|line| line.chars().count() > 60);
    assert_eq!(too_wide, None);
    let axis = run.stdout.lines().find(|line| line.contains("0 B └")).unwrap();
    let column_of = |sign| axis.chars().position(|c| c == sign).unwrap() as f64;
    let (start, width) = (column_of('└') + 1.0, 60.0 - column_of('└') - 1.0);
    assert!((column_of('a') - start - 0.3 * width).abs() <= 1.0, "{axis}");
    assert!((column_of('b') - start - 0.8 * width).abs() <= 1.0, "{axis}");
}

#[test]
fn info_tells_what_the_file_is() {
    let place = in_the_kitchen();
    let info = place.json("info kitchen.hw");
    assert_eq!((&info["file"]["kind"], &info["file"]["events"]), (&json!("recording"), &json!(9)));
    assert_eq!(info["file"]["complete"], true);
    let length = std::fs::metadata(place.file("kitchen.hw")).unwrap().len();
    assert_eq!(info["file"]["bytes"], length);
    assert_eq!(info["file"]["bytes_per_event"], length as f64 / 9.0);
    assert_eq!(info["marks"][1]["name"], "all done");
    assert_eq!(info["gauges"], json!([{"name": "rss", "readings": 1, "last": 4096, "highest": 4096}]));
    assert_eq!(info["modules"][0]["path"], "/bin/kitchen");
    assert_eq!(info["damage"], json!([]));
    place.highwater("info kitchen.hw").stdout_has(&["Highwater recording, format", "complete", "9, ", "loaded", "rss"]);
}

#[test]
fn a_sound_file_passes_the_check() {
    let place = in_the_kitchen();
    place.highwater("check kitchen.hw").stdout_has(&["kitchen.hw: sound (9 events"]);
    let check = place.json("check kitchen.hw");
    assert_eq!((&check["sound"], &check["violations"], &check["events"]), (&json!(true), &json!([]), &json!(9)));
}

#[test]
fn event_lines_are_read_like_a_recording_from_a_file_and_from_a_pipe() {
    let place = in_the_kitchen();
    let lines = as_lines(&kitchen());
    place.write("named_like_nothing", &lines);
    let from_recording = place.json("report kitchen.hw --at peak");
    assert_eq!(place.json("report named_like_nothing --at peak"), from_recording);
    let piped = place.run_with_input("report - --at peak --json", lines.as_bytes());
    assert_eq!(document(&piped.stdout), from_recording);
    let recording = std::fs::read(place.file("kitchen.hw")).unwrap();
    let piped = place.run_with_input("report - --at peak --json", &recording);
    assert_eq!(document(&piped.stdout), from_recording);

    let info = place.json("info named_like_nothing");
    assert_eq!((&info["file"]["kind"], &info["file"]["bytes"]), (&json!("event_lines"), &json!(lines.len())));
}

/// A native program's memory: a block and a mapping at one address, a block that was sampled, plumbing in the stacks.
fn native() -> Vec<Value> {
    let stack = json!(["malloc", "operator new(unsigned long)", "load", "main"]);
    vec![
        json!({"event": "source", "program": "native", "usable_sizes": true, "parent_pid": 7}),
        json!({"event": "allocate", "address": "0x10000", "size": 100, "usable": 112, "stack": stack, "time_ns": 1}),
        json!({"event": "allocate", "address": "0x10000", "size": 8192, "heap": "mmap", "stack": ["mmap", "reserve", "main"],
               "time_ns": 2}),
        json!({"event": "allocate", "address": "0x20000", "size": 4096, "heap": "mmap", "stack": stack, "time_ns": 3}),
        json!({"event": "deallocate", "address": "0x20000", "size": 4096, "heap": "mmap", "time_ns": 4}),
    ]
}

#[test]
fn heaps_are_told_apart() {
    let place = Place::new();
    place.import("native.hw", &native());
    place
        .highwater("report native.hw --by heap")
        .stdout_has(&["98.8%  8.0 KiB       1  mmap", "1.2%    100 B       1  malloc"]);
    let heaps = place.json("report native.hw --by heap");
    assert_eq!((&heaps["heaps"][0]["name"], &heaps["heaps"][0]["frees"]), (&json!("mmap"), &json!(1)));
    assert_eq!(heaps["anomalies"]["duplicate_allocations"], 0);
    let live = |options: &str| live_bytes(&place.json(options));
    assert_eq!((live("report native.hw"), live("report native.hw --filter heap:malloc")), (8292, 100));
    assert_eq!(live("leaks native.hw --filter heap:mmap"), 8192);
    // Exact for freed blocks, too, though both heaps have blocks of one stack.
    let mapped = place.json("report native.hw --filter heap:mmap --metric allocated");
    let allocated = |site: &Value| (site["stack"][2]["function"].clone(), site["allocated_bytes"].clone());
    let sites: Vec<_> = mapped["sites"].as_array().unwrap().iter().map(allocated).collect();
    assert_eq!(sites, [(json!("main"), json!(8192)), (json!("load"), json!(4096))]);
    assert_eq!(mapped["recording"]["peak_bytes"], 12_288);
    place.highwater("report native.hw --filter heap:mmap").stdout_has(&["only       heap:mmap", "8.0 KiB in 1 block"]);
    let changed = place.highwater("diff native.hw@start native.hw --filter heap:malloc");
    changed.stdout_has(&["+100 B, +1 blocks"]);
    let exported = place.highwater("export native.hw --to json -o - --filter heap:mmap");
    let document: Value = serde_json::from_str(&exported.stdout).unwrap();
    assert_eq!(
        (&document["blocks"][0]["address"], &document["blocks"][0]["heap"]),
        (&json!("0x10000"), &json!("mmap"))
    );
}

#[test]
fn what_the_allocator_gave_beyond_what_was_asked_for_is_told() {
    let place = Place::new();
    place.import("native.hw", &native());
    place.highwater("report native.hw").stdout_has(&["usable     112 B in 100 B of blocks (slack 12 B)"]);
    assert_eq!(place.json("report native.hw")["totals"]["usable_bytes"], 112);
    assert_eq!(place.json("report native.hw")["source"]["parent_pid"], 7);
    let unknown = in_the_kitchen();
    assert_eq!(unknown.json("report kitchen.hw")["totals"]["usable_bytes"], Value::Null);
    assert!(!unknown.highwater("report kitchen.hw").stdout.contains("usable"));
}

#[test]
fn sites_and_functions_are_named_after_the_first_that_is_no_plumbing() {
    let place = Place::new();
    place.import("native.hw", &native());
    place.highwater("report native.hw").stdout_has(&["reserve\n", "load\n"]);
    place.highwater("leaks native.hw --stacks full").stdout_has(&["load\n", "→ operator new\n", "← main"]);
    let functions = place.json("report native.hw --by function");
    let own = |name: &str| {
        let rows = functions["functions"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["live_bytes"].clone()
    };
    assert_eq!(
        (own("load"), own("reserve"), own("malloc"), own("mmap")),
        (json!(100), json!(8192), json!(0), json!(0))
    );
    let report = place.json("report native.hw");
    assert_eq!(report["sites"][1]["stack"][0]["function"], "malloc", "JSON keeps whole stacks");
}

#[test]
fn samples_count_as_what_they_stand_for() {
    let place = Place::new();
    let story = [
        json!({"event": "source", "program": "sampled", "sample_rate": 65536}),
        json!({"event": "allocate", "address": 16, "size": 1024, "weight": 64, "stack": ["load"], "time_ns": 1}),
        json!({"event": "allocate", "address": 32, "size": 1024, "weight": 64, "stack": ["load"], "time_ns": 2}),
        json!({"event": "deallocate", "address": 32, "time_ns": 3}),
    ];
    place.import("sampled.hw", &story);
    place.highwater("report sampled.hw").stdout_has(&[
        "estimates  from 2 samples, one per 64.0 KiB allocated",
        "live       ~64.0 KiB (1.6–356.6 KiB) in ~64 blocks",
        "share       live      95% range  samples  blocks  site",
        "100.0%  ~64.0 KiB  1.6–356.6 KiB        1     ~64  load",
        "ranges hold in 95 of 100 cases",
    ]);
    place.highwater("leaks sampled.hw").stdout_has(&["~64.0 KiB", "from 2 samples"]);
    place.highwater("timeline sampled.hw").stdout_has(&["~128.0 KiB ┤", "peak ~128.0 KiB"]);
    place.highwater("diff sampled.hw@start sampled.hw").stdout_has(&["~+64.0 KiB"]);
    place.highwater("export sampled.hw --to folded -o -").stdout_has(&["load 65536\n"]);
    let report = place.json("report sampled.hw");
    for figures in [&report["totals"], &report["sites"][0], &report["threads"][0]] {
        assert_eq!((&figures["live_bytes"], &figures["live_blocks"]), (&json!(65536), &json!(64)));
        assert_eq!((&figures["samples"], &figures["live_samples"]), (&json!(2), &json!(1)));
        assert_eq!(figures["interval_95"]["live_bytes"], json!([1659, 365_143]));
    }
    place.highwater("check sampled.hw").stdout_has(&["sound"]);
}

/// Blocks from before a window that had no events in it are live at its end, and have a row.
#[test]
fn rows_of_a_window_sum_up_to_what_is_live_at_its_end() {
    let place = in_the_kitchen();
    let mut idle = 0;
    for (from, to) in [("start", "end"), ("20%", "60%"), ("50%", "80%"), ("90%", "end"), ("end", "end")] {
        for by in ["site", "thread", "heap"] {
            let report = place.json(&format!("report kitchen.hw --from {from} --to {to} --by {by}"));
            let rows = report[format!("{by}s")].as_array().unwrap();
            let sum = |figure: &str| rows.iter().map(|row| row[figure].as_u64().unwrap()).sum::<u64>();
            for figure in ["live_bytes", "live_blocks", "allocated_bytes", "frees"] {
                assert_eq!(report["totals"][figure], sum(figure), "{figure} by {by} from {from} to {to}");
            }
            idle += rows.iter().filter(|row| row["live_blocks"] != 0 && row["allocations"] == 0).count();
        }
    }
    assert!(idle > 0, "no window had such blocks");
}
