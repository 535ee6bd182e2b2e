//! Where the resident memory was: of recordings at their instants, of snapshots, of live processes, in saved pages.

mod support;

use highwater_model::{BreakdownReason, Event, EventKind, Nanos, Snapshot, ThreadId, When, gauge};
use highwater_store::{Recording, Writer, write_snapshot_with_breakdown};
use highwater_view::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OwnSnapshot, ProcessKey, TakenLook};
use serde_json::{Value, json};
use support::rss::Known;
use support::{Place, Running};

const MIB: u64 = 1 << 20;

/// A recording with two breakdowns, whose RSS was highest at 2 µs.
fn recorded() -> Vec<u8> {
    let mut known = Known::new();
    let name = known.catalog.strings.intern(gauge::RSS);
    for (time, value) in [(1000, 9), (2000, 21), (4000, 20)] {
        let kind = EventKind::Gauge { name, value: value * MIB };
        known.events.push(Event { time: Nanos(time), thread: ThreadId(1), kind });
    }
    known.events.sort_by_key(|event| event.time);
    let mut peak = known.breakdown(2000, BreakdownReason::RssPeak);
    peak.process.rss = 21 * MIB;
    let end = known.breakdown(4000, BreakdownReason::End);
    let mut writer = Writer::new(Vec::new(), &Known::source()).unwrap();
    writer.append(&known.events, &known.catalog).unwrap();
    for breakdown in [&peak, &end] {
        assert!(writer.add_breakdown(breakdown, &known.catalog).unwrap());
    }
    writer.finish(&known.catalog, &Known::source()).unwrap().1
}

/// The state of that recording at its end, without its breakdowns.
fn state() -> Snapshot {
    let recording = Recording::from_bytes(recorded()).unwrap();
    let mut snapshot = recording.snapshot(&When::End).unwrap();
    snapshot.source.snapshot = true;
    snapshot
}

fn row<'a>(answer: &'a Value, key: &str) -> &'a Value {
    answer["rows"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap()
}

#[test]
fn rows_add_up_to_the_resident_memory_at_the_instant_that_is_asked_for() {
    let place = Place::new();
    let server = Running::new(&[place.write("server.hw", &recorded())]);
    let about = server.plain("sources")["sources"][0].clone();
    assert!(about["has"].as_array().unwrap().contains(&"rss".into()), "{about}");
    assert_eq!(about["rss_peak"], json!({ "at_ns": 2000, "bytes": 21 * MIB }));

    let answer = server.ask("rss");
    assert_eq!((&answer["at_ns"], &answer["reason"]), (&2000.into(), &"rss-peak".into()), "nothing was asked for");
    let sum: u64 = answer["rows"].as_array().unwrap().iter().map(|row| row["resident_bytes"].as_u64().unwrap()).sum();
    assert_eq!((sum, &answer["sum_bytes"]), (20 * MIB, &(20 * MIB).into()));
    assert_eq!(answer["without_agent_bytes"], 18 * MIB);
    assert_eq!(row(&answer, "mappings")["size_bytes"], 8 * MIB);
    assert_eq!(answer["beside"]["limit"]["left_bytes"], 16 * MIB);
    let instants: Vec<&Value> = answer["instants"].as_array().unwrap().iter().map(|each| &each["reason"]).collect();
    assert_eq!(instants, ["rss-peak", "end"]);

    for (instant, at) in [("4000", 4000), ("3999", 2000), ("end", 4000), ("rss-peak", 2000)] {
        assert_eq!(server.ask(&format!("rss?at={instant}"))["at_ns"], at, "{instant}");
    }
    let early = server.get("/api/1/rss?at=1000");
    assert_eq!(early.status, 400, "{}", early.text());
    assert!(early.text().contains("is known from"), "{}", early.text());
}

#[test]
fn sites_show_what_they_pin_and_are_sorted_by_it() {
    let place = Place::new();
    let server = Running::new(&[place.write("server.hw", &recorded())]);
    let names = |question: &str| -> Vec<String> {
        let answer = server.ask(question);
        answer["sites"].as_array().unwrap().iter().map(|site| site["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("rss"), ["index_add", "grow_arena", "open_session"]);
    assert_eq!(names("rss?sort=pinned&limit=1"), ["open_session"]);
    let answer = server.ask("rss?sort=pinned");
    let site = &answer["sites"][0];
    assert_eq!((&site["blocks"], &site["slack_bytes"]), (&40.into(), &320.into()));
    assert_eq!(site["pinned_bytes"], 6 * MIB);
    assert_eq!(site["stack"][1]["function"], "main", "stacks are frames unless a table is asked for");
    assert_eq!((&answer["site_count"], &answer["sites"][2]["is_mapping"]), (&3.into(), &true.into()));
    assert_eq!(server.ask("rss?by=heap")["groups"][0]["key"], "malloc");
    assert_eq!(server.get("/api/1/rss?sort=colour").status, 400);
}

#[test]
fn the_heap_is_a_picture_of_cells_that_can_be_zoomed() {
    let place = Place::new();
    let server = Running::new(&[place.write("server.hw", &recorded())]);
    let whole = server.ask("rss/map?cells=100");
    assert_eq!((&whole["pages"], &whole["cell_pages"]), (&3200.into(), &32.into()));
    assert_eq!(whole["cells"].as_array().unwrap().len(), 100);
    let owners = |map: &Value| -> Vec<String> {
        let mut owners: Vec<String> =
            map["cells"].as_array().unwrap().iter().map(|cell| cell["owner"].as_str().unwrap().to_owned()).collect();
        owners.dedup();
        owners
    };
    assert_eq!(owners(&whole), ["site", "free", "site", "several", "absent"]);
    assert_eq!(whole["areas"][1]["kind"], "arena");
    assert_eq!(whole["sites"][0]["key"], "open_session", "most cells are pinned by it");
    // Pages are counted through all heaps; `from` and `to` are times.
    let part = server.ask("rss/map?first=2816&end=2880&cells=64");
    assert_eq!((&part["from"], &part["to"], &part["cell_pages"]), (&2816.into(), &2880.into(), &1.into()));
    assert_eq!(owners(&part), ["several"]);
    assert_eq!(part["cells"][0]["address"], 0x7f00_0000_0000_u64);
    assert_eq!(part["cells"][0]["live_bytes"], 90);
    assert_eq!(server.get("/api/1/rss/map?cells=100000").status, 400);
    assert_eq!(server.ask("rss/map?first=99999&end=3")["cells"], json!([]));
}

#[test]
fn a_snapshot_has_its_breakdown_and_a_file_without_one_says_so() {
    let known = Known::new();
    let snapshot = state();
    let breakdown = known.breakdown(4000, BreakdownReason::Request);
    let write = |breakdown| {
        let state = snapshot.accounts.to_state();
        write_snapshot_with_breakdown(Vec::new(), &snapshot.source, &snapshot.catalog, &state, breakdown).unwrap().0
    };
    let place = Place::new();
    let files = [place.write("with.hw", &write(Some(&breakdown))), place.write("without.hw", &write(None))];
    let server = Running::new(&files);
    assert_eq!(server.ask("rss?source=0")["sum_bytes"], 20 * MIB);
    let sources = server.plain("sources")["sources"].clone();
    assert_eq!(sources[0]["rss_peak"], Value::Null, "one instant has no peak");
    assert!(!sources[1]["has"].to_string().contains("rss"));
    let error = server.last_line("rss?source=1")["error"]["what"].take();
    assert!(error.as_str().unwrap().contains("does not say where the resident memory was"), "{error}");
}

/// A process whose pages were read.
struct Read;

impl LiveProcesses for Read {
    fn place(&self) -> String {
        "/run/fake".to_owned()
    }

    fn processes(&self) -> Result<Vec<LiveProcess>, String> {
        Ok(Vec::new())
    }

    fn snapshot(&self, _: u32) -> Result<LiveSnapshot, String> {
        let breakdown = Known::new().breakdown(4000, BreakdownReason::Request);
        Ok(LiveSnapshot { snapshot: state(), breakdown: Some(breakdown), name: String::new() })
    }

    fn latest(&self, pid: u32) -> Result<Option<ProcessKey>, String> {
        Ok(Some(ProcessKey { pid, since_unix_ns: 0 }))
    }

    fn timelines(&self, _: Option<u32>, _: u64, _: Option<u64>) -> Result<Vec<LiveTimeline>, String> {
        Err("an old collector".to_owned())
    }

    fn look(&self, _: ProcessKey) -> Result<TakenLook, String> {
        Err("no looks".to_owned())
    }

    fn open_look(&self, _: ProcessKey, _: &[u8]) -> Result<LiveSnapshot, String> {
        Err("no looks".to_owned())
    }

    fn own_snapshots(&self) -> Result<Vec<OwnSnapshot>, String> {
        Ok(Vec::new())
    }

    fn own_snapshot(&self, id: u64) -> Result<LiveSnapshot, String> {
        Err(format!("there is no kept snapshot {id}"))
    }
}

#[test]
fn a_live_snapshot_shows_where_the_resident_memory_is() {
    let server = Running::with(&[], Some(Box::new(Read)));
    let taken: Value = serde_json::from_str(&server.request("POST", "/api/1/live/snapshot?pid=7", "").text()).unwrap();
    assert!(taken["source"]["has"].to_string().contains("rss"), "{taken}");
    assert_eq!(server.ask("rss?sort=pinned")["sites"][0]["key"], "open_session");
}

#[test]
fn a_saved_page_has_the_rows_and_the_picture_of_its_instant() {
    let place = Place::new();
    let server = Running::new(&[place.write("server.hw", &recorded())]);
    let answers = |choice: &str| -> Value {
        let page = server.get(&format!("/api/1/save?view={choice}")).text();
        let data = page.split(r#"id="highwater-data">"#).nth(1).unwrap().split("</script>").next().unwrap();
        serde_json::from_str::<Value>(data).unwrap()["answers"].take()
    };
    let saved = answers("view%3Drss");
    assert_eq!(saved["rss?by=type&source=0"]["at_ns"], 2000);
    assert_eq!(saved["rss/map?source=0"]["cells"].as_array().unwrap().len(), 3200);
    // Neither a window nor a filter applies to the whole process.
    let saved = answers("at%3D4000%26from%3D100%26filter%3Dsize:1..");
    assert_eq!(saved["rss?by=type&source=0"]["at_ns"], 4000);
}
