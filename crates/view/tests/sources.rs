//! Files that are empty, damaged, growing or gone; live processes; saved pages.

mod support;

use highwater_model::{Event, EventKind, FrameText, Nanos, Placement, Source, ThreadId, When};
use highwater_store::{Recording, Writer, write_snapshot};
use highwater_view::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OwnSnapshot, ProcessKey, TakenLook};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use support::history::{history, written};
use support::{Place, Running};

#[test]
fn what_cannot_be_read_is_told_and_the_rest_goes_on() {
    let (catalog, events) = history(5, 300);
    let sound = written(&catalog, &events, 100, 50);
    let place = Place::new();
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 20].fill(0xff);
    let files = [
        place.write("empty.hw", b""),
        place.write("foreign.hw", b"this is no recording"),
        place.write("damaged.hw", &damaged),
        place.write("sound.hw", &sound),
    ];
    let server = Running::new(&files);
    let sources = server.plain("sources")["sources"].as_array().unwrap().clone();
    assert!(sources[0]["problem"].as_str().unwrap().contains("empty"), "{}", sources[0]);
    assert!(sources[1]["problem"].as_str().unwrap().contains("not a Highwater recording"), "{}", sources[1]);
    assert_eq!((&sources[1]["kind"], &sources[1]["has"]), (&Value::Null, &serde_json::json!([])));
    assert_eq!(sources[3]["problem"], Value::Null);
    assert_eq!(sources[3]["events"], Recording::from_bytes(sound.clone()).unwrap().stats().events);
    assert!(server.last_line("rows?source=0")["error"]["what"].as_str().unwrap().contains("empty"));
    // Damage is found when the damaged part is read.
    server.ask("rows?source=2&metric=allocated");
    server.ask("timeline?source=2");
    let damage = server.plain("sources")["sources"][2]["damage"].as_array().unwrap().clone();
    assert!(!damage.is_empty() && damage[0]["what"].is_string(), "{damage:?}");
    assert!(server.ask("overview?source=2")["notes"].to_string().contains("could not be read"));
}

#[test]
fn a_file_that_is_removed_stays_and_one_that_comes_back_is_read_again() {
    let (catalog, events) = history(6, 300);
    let place = Place::new();
    let path = place.write("growing.hw", &written(&catalog, &events[..100], 50, 50));
    let server = Running::new(std::slice::from_ref(&path));
    let about = || server.plain("sources")["sources"][0].clone();
    let before = about();
    assert_eq!(before["problem"], Value::Null);

    std::fs::remove_file(&path).unwrap();
    let gone = about();
    assert!(gone["problem"].as_str().unwrap().contains("cannot be read any more"), "{gone}");
    assert_eq!(gone["events"], before["events"]);
    assert!(server.ask("rows?metric=allocated&filter=size:100..")["count"].as_u64().unwrap() > 0);

    std::fs::write(&path, written(&catalog, &events, 50, 50)).unwrap();
    let back = about();
    assert_eq!(back["problem"], Value::Null);
    assert!(back["events"].as_u64() > before["events"].as_u64());

    std::fs::write(&path, b"").unwrap();
    about();
    let emptied = about();
    assert!(emptied["problem"].as_str().unwrap().contains("what was read before is shown"), "{emptied}");
    assert_eq!(emptied["events"], back["events"]);
}

#[test]
fn a_snapshot_answers_what_one_instant_knows() {
    let (catalog, events) = history(8, 300);
    let snapshot =
        Recording::from_bytes(written(&catalog, &events, 100, 50)).unwrap().snapshot(&When::Percent(60.0)).unwrap();
    let source = Source { snapshot: true, duration: snapshot.at, ..snapshot.source.clone() };
    let (bytes, _) = write_snapshot(Vec::new(), &source, &snapshot.catalog, &snapshot.accounts.to_state()).unwrap();
    let place = Place::new();
    let server = Running::new(&[place.write("one.hw", &bytes)]);
    let about = server.plain("sources")["sources"][0].clone();
    assert_eq!((&about["kind"], &about["duration_ns"]), (&"snapshot".into(), &snapshot.at.0.into()));
    assert!(!about["has"].to_string().contains("timeline"));
    let live = snapshot.accounts.totals().figures.live_bytes();
    for question in ["rows", "rows?by=thread", "rows?metric=live", "rows?filter=size:0.."] {
        assert_eq!(server.ask(question)["total"]["value"], live, "{question}");
    }
    // Nothing before the instant is known by site: neither a peak, nor allocations, nor frees.
    assert_eq!(about["metrics"], serde_json::json!(["live"]));
    for metric in ["peak", "allocated", "leaked", "temporary", "freed"] {
        for question in ["rows", "tree", "callers?function=main"] {
            let joint = if question.contains('?') { '&' } else { '?' };
            let error = server.last_line(&format!("{question}{joint}metric={metric}"))["error"].take();
            assert_eq!((&error["kind"], &error["metric"]), (&"no_metric".into(), &metric.into()), "{question}");
            assert_eq!(error["metrics"], serde_json::json!(["live"]));
            assert!(error["what"].as_str().unwrap().contains("one instant only"), "{error}");
        }
    }
    for instant in ["peak", "start", "50%25"] {
        let error = server.last_line(&format!("rows?at={instant}"))["error"]["what"].take();
        assert!(error.as_str().unwrap().contains("one instant only"), "{instant}: {error}");
    }
    let overview = server.ask("overview");
    let names: Vec<&str> = overview["figures"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["live_blocks", "live_bytes"]);
    let page = server.get("/api/1/save").text();
    assert!(page.contains("rows?by=site&metric=live") && !page.contains("metric=peak"));
    assert_eq!(server.ask("blocks")["count"], snapshot.accounts.totals().figures.live_blocks());
    assert!(server.last_line("timeline")["error"]["what"].as_str().unwrap().contains("one instant only"));
    assert!(server.ask("overview")["notes"].to_string().contains("One instant only"));
}

/// A collector that can disappear.
struct Fake(&'static AtomicBool);

impl LiveProcesses for Fake {
    fn place(&self) -> String {
        "/run/fake".to_owned()
    }

    fn processes(&self) -> Result<Vec<LiveProcess>, String> {
        match self.0.load(Ordering::Relaxed) {
            true => Err("no collector listens at /run/fake".to_owned()),
            false => {
                Ok(vec![LiveProcess { pid: 42, name: "server".to_owned(), live_bytes: 5, ..LiveProcess::default() }])
            }
        }
    }

    fn snapshot(&self, pid: u32) -> Result<LiveSnapshot, String> {
        self.processes()?;
        let (catalog, events) = history(pid.into(), 100);
        let recording = Recording::from_bytes(written(&catalog, &events, 100, 50)).unwrap();
        let mut snapshot = recording.snapshot(&When::End).unwrap();
        snapshot.source.snapshot = true;
        Ok(LiveSnapshot { snapshot, breakdown: None, name: String::new() })
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
fn live_processes_become_sources_and_a_collector_that_is_gone_is_told() {
    static IS_GONE: AtomicBool = AtomicBool::new(false);
    let server = Running::with(&[], Some(Box::new(Fake(&IS_GONE))));
    let live = server.plain("live");
    assert_eq!((&live["processes"][0]["pid"], &live["processes"][0]["timeline"]), (&42.into(), &Value::Null));
    assert_eq!((&live["no_timelines"], &live["problem"]), (&"an old collector".into(), &Value::Null));
    let take = || server.request("POST", "/api/1/live/snapshot?pid=42", "");
    let taken: Vec<u64> = (0..20)
        .map(|_| serde_json::from_str::<Value>(&take().text()).unwrap()["source"]["id"].as_u64().unwrap())
        .collect();
    assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
    let last = taken.last().unwrap();
    assert!(server.ask(&format!("rows?source={last}"))["count"].as_u64().unwrap() > 0);
    let compared = server.ask(&format!("compare?a={}@end&b={last}@end", taken[18]));
    assert_eq!(compared["change"]["bytes"], 0);
    // The oldest snapshot was dropped.
    assert_eq!(server.get("/api/1/rows?source=0").status, 404);
    IS_GONE.store(true, Ordering::Relaxed);
    assert_eq!(server.plain("live")["problem"], "no collector listens at /run/fake");
    assert_eq!((take().status, take().text().lines().count()), (500, 1));
    assert!(server.ask(&format!("rows?source={last}"))["count"].as_u64().unwrap() > 0);
}

/// A recording whose names contain HTML and scripts.
fn hostile() -> Vec<u8> {
    let mut catalog = highwater_model::Catalog::default();
    let frame = |function| FrameText { function, file: "</script><script>alert(1)</script>", ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame("<script>alert('x')</script>"), frame("<!-- highwater-data -->\u{2028}")]);
    catalog.name_thread(ThreadId(1), "<img src=x onerror=alert(1)>");
    let allocate = |at: u64| Event {
        time: Nanos(at),
        thread: ThreadId(1),
        kind: EventKind::Allocate(Placement { address: at * 16, size: 10, stack, ..Placement::default() }),
    };
    let source = Source { program: "</title><script>".to_owned(), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&(1..50).map(allocate).collect::<Vec<_>>(), &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap().1
}

#[test]
fn hostile_names_are_nothing_but_text_in_a_saved_page() {
    let place = Place::new();
    let server = Running::new(&[place.write("<b>.hw", &hostile())]);
    let saved = server.get("/api/1/save?view=source%3D0%26filter%3Dsize%3A1..");
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(saved.field("content-disposition"), Some("attachment; filename=\"_b_.html\""));
    let page = saved.text();
    let start = page.find(r#"<script type="application/json" id="highwater-data">"#).unwrap();
    let data = &page[start..];
    let data = &data[data.find('>').unwrap() + 1..data.find("</script>").unwrap()];
    assert!(!data.contains('<') && !data.contains('\u{2028}'));
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["choice"], "source=0&filter=size:1..");
    let row = &data["answers"]["rows?by=site&metric=live&source=0"]["rows"][0];
    assert_eq!((&row["key"], &row["value"]), (&"<script>alert('x')</script>".into(), &490.into()));
    for key in [
        "sources",
        "overview?source=0",
        "timeline?source=0",
        "growth?source=0",
        "still_live?source=0",
        "histograms?source=0",
        "tree?direction=up&metric=peak&source=0",
        "rows?by=function&metric=freed&source=0",
    ] {
        assert!(data["answers"][key].is_object(), "{key}");
    }
    // One script runs, and the policy names it.
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(
        page.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-")
    );
    assert!(!page.contains("src=\"assets") && !page.contains("href=\"assets"));
}

#[test]
fn a_saved_page_has_the_answers_of_several_instants() {
    let (catalog, events) = history(11, 3000);
    let place = Place::new();
    let server = Running::new(&[place.write("a.hw", &written(&catalog, &events, 500, 100))]);
    let saved = server.ask("saved_page?view=source%3D0");
    assert_eq!(saved["file"], "a.html");
    let page = saved["html"].as_str().unwrap();
    let data = page.split(r#"id="highwater-data">"#).nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let instants = data["instants"]["0"].as_array().unwrap();
    assert!((5..=9).contains(&instants.len()), "{instants:?}");
    assert!(instants.is_sorted_by_key(|instant| instant["at_ns"].as_u64()));
    let named = |name: &str| instants.iter().find(|instant| instant["name"] == name).unwrap();
    let source = &server.plain("sources")["sources"][0];
    assert_eq!((&named("peak")["at_ns"], &named("peak")["is_chosen"]), (&source["peak"]["at_ns"], &true.into()));
    assert_eq!(named("end")["at_ns"], source["duration_ns"]);
    let strings = data["strings"].as_array().unwrap();
    for instant in instants {
        let at = &instant["at_ns"];
        let (key, asked) = match instant["is_chosen"].as_bool() {
            Some(true) => (String::new(), "peak".to_owned()),
            _ => (format!("at={at}&"), at.to_string()),
        };
        let answer = |question: &str| {
            let (name, rest) = question.split_once('?').unwrap();
            &data["answers"][format!("{name}?{key}{rest}")]
        };
        let overview = server.ask(&format!("overview?source=0&at={asked}"));
        assert_eq!(answer("overview?source=0")["figures"], overview["figures"], "{at}");
        for by in ["site", "function", "thread", "heap"] {
            let rows = server.ask(&format!("rows?by={by}&metric=live&source=0&at={asked}&limit=60"));
            let kept = &answer(&format!("rows?by={by}&metric=live&source=0"))["rows"];
            let values = |rows: &Value| -> Vec<(Value, Value)> {
                let rows = rows.as_array().unwrap().iter().take(60);
                rows.map(|row| (row["key"].clone(), row["value"].clone())).collect()
            };
            assert_eq!(values(kept), values(&rows["rows"]), "{by} {at}");
        }
        for direction in ["down", "up"] {
            let tree = server.ask(&format!("tree?direction={direction}&metric=live&at={asked}&least=0.001"));
            let kept = answer(&format!("tree?direction={direction}&metric=live&source=0"));
            if instant["is_chosen"] == false {
                assert_eq!(kept["node_value"], tree["node_value"], "{at}");
                let names = kept["names"].as_array().unwrap().iter();
                let names: Vec<&Value> = names.map(|number| &strings[number.as_u64().unwrap() as usize]).collect();
                assert_eq!(names, tree["names"].as_array().unwrap().iter().collect::<Vec<_>>());
            }
        }
    }
    // A is at the peak: the answers of both metrics are the same, and each is what the server answers.
    for question in ["rows?by=site", "rows?by=function", "rows?by=type", "rows?by=thread"] {
        let kept = &data["answers"][format!("{question}&metric=peak&source=0")];
        let asked = server.ask(&format!("{question}&metric=peak&at=peak&limit=200"));
        for member in ["at_ns", "total", "count", "found"] {
            assert_eq!(kept[member], asked[member], "{question} {member}");
        }
        for (kept, asked) in kept["rows"].as_array().unwrap().iter().zip(asked["rows"].as_array().unwrap()) {
            let without_stack = |row: &Value| {
                let mut row = row.clone();
                row.as_object_mut().unwrap().remove("stack");
                row
            };
            assert_eq!(without_stack(kept), without_stack(asked), "{question}");
        }
    }
    for direction in ["down", "up"] {
        let kept = &data["answers"][format!("tree?direction={direction}&metric=peak&source=0")];
        let asked = server.ask(&format!("tree?direction={direction}&metric=peak"));
        for column in ["node_value", "node_self", "node_depth", "node_blocks", "at_ns", "total", "left_out"] {
            assert_eq!(kept[column], asked[column], "{direction} {column}");
        }
    }
    // A window has instants of its own.
    let end = source["duration_ns"].as_u64().unwrap();
    let (from, to) = (end / 5, end * 2 / 5);
    let saved = server.ask(&format!("saved_page?view=source%3D0%26from%3D{from}%26to%3D{to}"));
    let page = saved["html"].as_str().unwrap();
    let data = page.split(r#"id="highwater-data">"#).nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    for instant in data["instants"]["0"].as_array().unwrap() {
        let at = instant["at_ns"].as_u64().unwrap();
        assert!((from..=to).contains(&at), "{at} of {end}");
    }
}
