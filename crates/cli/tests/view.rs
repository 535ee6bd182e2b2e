//! The viewer against the other commands: the same figures for the same instants and windows.

mod support;

use serde_json::Value;
use support::in_the_kitchen;
use support::viewer::Viewer;

const FIGURES: [&str; 9] = [
    "allocations",
    "frees",
    "reallocations",
    "allocated_bytes",
    "freed_bytes",
    "live_blocks",
    "live_bytes",
    "cross_thread_frees",
    "temporary_allocations",
];

fn assert_same_figures(shown: &Value, reported: &Value, what: &str) {
    for name in FIGURES {
        assert_eq!(shown[name], reported[name], "{what}: {name}");
    }
}

#[test]
fn windows_have_the_figures_of_report() {
    let place = in_the_kitchen();
    let viewer = Viewer::new(&place, "kitchen.hw");
    let seconds = |second: f64| (second * 1e9) as u64;
    for (from, to) in [(0.0, 10.0), (0.0, 3.0), (2.0, 6.0), (4.0, 4.0), (4.5, 4.6), (5.0, 10.0), (7.0, 9.5)] {
        let window = format!("from={}&to={}", seconds(from), seconds(to));
        let report =
            |by: &str| place.json(&format!("report kitchen.hw --from {from}s --to {to}s --metric allocated --by {by}"));
        let totals = report("site")["totals"].clone();
        let overview = viewer.ask(&format!("overview?{window}"));
        for name in ["allocations", "frees", "allocated_bytes", "freed_bytes", "live_bytes", "peak_bytes", "peak_at_ns"]
        {
            assert_eq!(overview["figures"][name], totals[name], "{from}..{to} {name}");
        }
        let rows = viewer.ask(&format!("rows?metric=allocated&{window}"));
        assert_same_figures(&rows["total"], &totals, &window);
        let reported = report("site");
        let sites = reported["sites"].as_array().unwrap();
        for row in rows["rows"].as_array().unwrap() {
            let site = sites.iter().find(|site| site["stack"] == row["stack"]).unwrap();
            assert_same_figures(row, site, &window);
        }
        let threads = viewer.ask(&format!("rows?metric=allocated&by=thread&{window}"));
        let reported = report("thread");
        for row in threads["rows"].as_array().unwrap() {
            let reported = reported["threads"].as_array().unwrap();
            assert_same_figures(row, reported.iter().find(|thread| thread["id"] == row["id"]).unwrap(), &window);
        }
    }
}

#[test]
fn instants_have_the_figures_of_report_and_comparisons_those_of_diff() {
    let place = in_the_kitchen();
    let viewer = Viewer::new(&place, "kitchen.hw");
    for at in ["1s", "2500ms", "mark:loaded", "peak", "5s", "end"] {
        let report = place.json(&format!("report kitchen.hw --at {at}"));
        let rows = viewer.ask(&format!("rows?at={at}"));
        assert_same_figures(&rows["total"], &report["totals"], at);
        let shown = rows["rows"].as_array().unwrap();
        let sites: Vec<&Value> =
            report["sites"].as_array().unwrap().iter().filter(|site| site["live_bytes"] != 0).collect();
        assert_eq!(shown.len(), sites.len());
        for (row, site) in shown.iter().zip(sites) {
            assert_same_figures(row, site, at);
            assert_eq!(row["stack"], site["stack"]);
        }
    }
    let diff = place.json("diff kitchen.hw@1s kitchen.hw@peak");
    let compared = viewer.ask("compare?a=0@1s&b=0@peak");
    assert_eq!(compared["change"]["bytes"], diff["live_bytes_delta"]);
    for (row, site) in compared["rows"].as_array().unwrap().iter().zip(diff["sites"].as_array().unwrap()) {
        assert_eq!((&row["change"], &row["what"]), (&site["live_bytes_delta"], &site["change"]));
    }
}

#[test]
fn any_kind_of_file_is_viewed_and_what_is_chosen_is_in_the_address() {
    let place = in_the_kitchen();
    place.write("lines.jsonl", support::as_lines(&support::kitchen()));
    let log = "@ ALLOCATE 10 a.rs:1 Node 1\n@ ALLOCATE 20 a.rs:2 Edge 2\n@ DROP 10 Node 1\n".repeat(3);
    place.write("console.log", log);
    place.write("empty.hw", "");
    let viewer = Viewer::new(&place, "kitchen.hw lines.jsonl console.log empty.hw --from 2s --filter size:1..");
    assert!(viewer.address.ends_with("#from=2000000000&filter=size:1.."), "{}", viewer.address);
    let sources = viewer.ask("sources")["sources"].as_array().unwrap().clone();
    let kinds: Vec<&Value> = sources.iter().map(|source| &source["kind"]).collect();
    assert_eq!(kinds, [&Value::from("recording"), &"recording".into(), &"objects".into(), &Value::Null]);
    assert!(sources[3]["problem"].as_str().unwrap().contains("empty"));
    assert_eq!(sources[0]["live_at_end"], sources[1]["live_at_end"]);
    let types = viewer.ask("types?source=2");
    assert_eq!(types["types"], place.json("objects console.log")["types"]);
    let live = viewer.ask("live");
    assert!(live["problem"].as_str().unwrap().contains("collector"), "{live}");
}

#[test]
fn a_page_is_saved_and_what_cannot_be_is_one_clear_line() {
    let place = in_the_kitchen();
    let saved = place.highwater("view kitchen.hw --from 2s --at peak --filter size:100.. --save page.html");
    assert_eq!((saved.code, saved.stderr.as_str()), (0, ""));
    let page = std::fs::read_to_string(place.file("page.html")).unwrap();
    let data = page.split_once("id=\"highwater-data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let total = &data["answers"]["rows?by=site&metric=live&source=0"]["total"];
    assert_eq!((&total["value"], &total["blocks"]), (&5500.into(), &3.into()));
    assert_eq!(data["choice"], "from=2000000000&at=4000000000&filter=size:100..");
    place.highwater("view nothing.hw --save page.html").is_one_clear_line_about(&["nothing.hw", "cannot read"]);
    assert_eq!(place.highwater("view kitchen.hw --filter colour:red --save page.html").code, 2);
    let strange = place.highwater("view kitchen.hw --no-open --filter colour:red");
    assert_eq!((strange.code, strange.stdout.as_str()), (2, ""));
    assert!(strange.stderr.contains("--filter 'colour:red'"), "{}", strange.stderr);
    assert_eq!(place.highwater("view kitchen.hw --from mark:never --save page.html").code, 2);
    assert_eq!(place.highwater("view").code, 2);
}
