//! `sources`: the list of sources, with facts about each.

use super::Answered;
use super::stacks::saturated;
use crate::http::request::Request;
use crate::sources::{FileKind, Loaded, Sources, ViewedSource};
use highwater_formats::json;
use highwater_model::groups::{self, GroupBy, GroupKey, Metric};
use highwater_model::{Heap, Snapshot, gauge, grouped};
use highwater_query::{QueryError, metrics_of};
use highwater_store::history::{Moment, Work};
use serde_json::{Map, Value, json};

/// The version of the API. Names may be added; none is removed or changes its meaning.
const SCHEMA: u32 = 1;
/// The maximum number of tasks that a filter offers.
const MOST_TASKS: usize = 200;

/// The answer. Checks all open files for changes first, and opens the process that `open=` names.
pub fn answer(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    sources.look_again(work)?;
    // A process that does not exist is not in the list: the page sees that.
    if let Some(id) = request.parameter("open").and_then(|id| id.parse().ok()) {
        let _ = sources.get(id);
    }
    let mut list = Vec::new();
    for source in sources.all() {
        work.go_on()?;
        list.push(about(&source));
    }
    let processes = json!({ "count": sources.process_files().len(), "is_tree": sources.is_tree() });
    Ok(json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "sources": list, "processes": processes }))
}

/// All about one source.
pub fn about(source: &ViewedSource) -> Value {
    let (loaded, problem) = source.now();
    let path = source.path.as_ref().map(|path| path.display().to_string());
    let mut about = json!({ "id": source.id, "path": path, "name": path, "problem": problem });
    if let Some(loaded) = loaded {
        match facts(&loaded) {
            Ok(facts) => about.as_object_mut().unwrap_or(&mut Map::new()).extend(facts),
            Err(found) => about["problem"] = problem.unwrap_or_else(|| found.to_string()).into(),
        }
    }
    // If a source cannot be read, its facts are unknown, but every name is present.
    for name in [
        "kind",
        "name",
        "program",
        "pid",
        "host",
        "started",
        "snapshot_name",
        "begins_ns",
        "duration_ns",
        "events",
        "reading",
        "estimated",
        "sampling",
        "certainty",
        "timed",
        "clock",
        "peak",
        "rss_peak",
        "live_at_end",
        "anomalies",
    ] {
        if about.get(name).is_none() {
            about[name] = Value::Null;
        }
    }
    for name in ["threads", "heaps", "tasks", "has", "metrics", "damage"] {
        if about.get(name).is_none() {
            about[name] = json!([]);
        }
    }
    saturated(about)
}

fn facts(loaded: &Loaded) -> Result<Map<String, Value>, QueryError> {
    let history = &loaded.history;
    let about = json::source(history.source());
    let last = history.figures(Moment::End)?;
    let totals = history.totals()?;
    let has_timeline = history.recording().is_some();
    let threads = last.accounts.threads().iter().map(|thread| {
        let name = history.catalog().thread_name(thread.id);
        json!({ "id": thread.id.0, "name": (!name.is_empty()).then_some(name) })
    });
    let peak = has_timeline.then(|| json!({ "at_ns": totals.peak_at.0, "bytes": totals.figures.peak_bytes }));
    let damage = loaded
        .damage()
        .into_iter()
        .map(|damage| json!({ "offset": damage.offset, "length": damage.length, "what": damage.what }));
    let facts = json!({
        "kind": loaded.kind.key(),
        "name": name(loaded),
        "program": about["program"],
        "pid": about["pid"],
        "host": about["host"],
        "started": about["start"],
        "snapshot_name": loaded.snapshot_name,
        "begins_ns": history.whole().from.0,
        "duration_ns": history.whole().to.0,
        "events": last.accounts.events(),
        "reading": history.indexing(),
        "estimated": is_estimated(&last),
        "sampling": sampling(&last),
        "certainty": certainty(&last),
        "timed": !history.source().is_untimed(),
        "clock": history.source().clock.unit().0,
        "peak": peak,
        "rss_peak": rss_peak(loaded)?,
        "live_at_end": { "bytes": totals.figures.live_bytes(), "blocks": totals.figures.live_blocks() },
        "threads": threads.collect::<Value>(),
        "heaps": heaps(&last),
        "tasks": tasks(&last),
        "has": has(loaded, &last)?,
        "metrics": metrics_of(history).iter().map(|metric| metric.key()).collect::<Value>(),
        "anomalies": json::anomalies(last.accounts.anomalies()),
        "damage": damage.collect::<Value>(),
    });
    Ok(match facts {
        Value::Object(members) => members,
        _ => Map::new(),
    })
}

/// Where RSS was highest, as far as it was measured. A single instant has no peak.
fn rss_peak(loaded: &Loaded) -> Result<Option<Value>, QueryError> {
    let history = &loaded.history;
    if history.recording().is_none() {
        return Ok(None);
    }
    let readings = history.gauges()?.iter().filter(|reading| reading.name == gauge::RSS);
    // The first of equal ones.
    let highest = readings.rev().max_by_key(|reading| reading.value);
    Ok(highest.map(|reading| json!({ "at_ns": reading.time.0, "bytes": reading.value })))
}

fn name(loaded: &Loaded) -> String {
    let source = loaded.history.source();
    let program = if source.program.is_empty() { "a program" } else { &source.program };
    let short = program.rsplit('/').next().unwrap_or(program);
    match (source.pid as i64, source.host.as_str()) {
        (..=0, "") => short.to_owned(),
        (..=0, host) => format!("{short} (on {host})"),
        (pid, "") => format!("{short} (pid {pid})"),
        (pid, host) => format!("{short} (pid {pid} on {host})"),
    }
}

/// Whether figures are estimates. If every word is a sample, they are exact.
fn is_estimated(snapshot: &Snapshot) -> bool {
    snapshot.is_estimate() && !snapshot.certainty().is_some_and(|certainty| certainty.is_exact())
}

/// What the 95 % interval of an estimate in bytes follows from; null if figures are exact, or it is not known how they were sampled.
fn certainty(snapshot: &Snapshot) -> Option<Value> {
    let certainty = snapshot.certainty().filter(|_| is_estimated(snapshot))?;
    Some(json!({ "bytes_per_sample": certainty.bytes_per_sample(), "spread": certainty.spread() }))
}

fn sampling(snapshot: &Snapshot) -> Option<String> {
    let source = &snapshot.source;
    if let Some(words) = source.word_sampling {
        return Some(format!("one sample per {} bytes", grouped(words.bytes_per_sample().round() as u64)));
    }
    source.sample_rate.map(|rate| match (rate >> 20, rate >> 10) {
        (1.., _) if rate.is_multiple_of(1 << 20) => format!("one sample per {} MiB", rate >> 20),
        (_, 1..) if rate.is_multiple_of(1 << 10) => format!("one sample per {} KiB", rate >> 10),
        _ => format!("one sample per {} bytes", grouped(rate)),
    })
}

fn heaps(snapshot: &Snapshot) -> Vec<&'static str> {
    let figures = snapshot.figures_by_heap();
    let ever = |heap: &Heap| figures.get(heap).is_some_and(|figures| !figures.is_empty());
    Heap::ALL.into_iter().filter(ever).map(Heap::name).collect()
}

/// The tasks, those that hold most first.
fn tasks(snapshot: &Snapshot) -> Vec<String> {
    let rows = groups::rows(snapshot, GroupBy::Task, Metric::Live, None);
    let names = rows.into_iter().filter_map(|row| match row.key {
        GroupKey::Name(name) => Some(name),
        _ => None,
    });
    names.take(MOST_TASKS).collect()
}

fn has(loaded: &Loaded, last: &Snapshot) -> Result<Vec<&'static str>, QueryError> {
    let mut has = Vec::new();
    let mut add = |is_there: bool, what| has.extend(is_there.then_some(what));
    add(loaded.history.recording().is_some(), "timeline");
    add(!last.source.aggregated, "blocks");
    add(last.source.knows_live_blocks(), "counts");
    add(last.source.is_states(), "states");
    add(last.catalog.has_named_types() || last.has_site_types(), "types");
    add(loaded.kind == FileKind::Objects, "trust");
    add(loaded.kind == FileKind::Image, "image");
    add(loaded.special.fleet().is_some(), "fleet");
    add(!loaded.history.marks()?.is_empty(), "marks");
    add(!loaded.history.gauges()?.is_empty(), "gauges");
    add(!loaded.history.breakdowns()?.is_empty(), "rss");
    Ok(has)
}
