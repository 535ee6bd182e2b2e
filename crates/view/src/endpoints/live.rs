//! `live`: the processes of the collector, their timelines, looks at them, and snapshots of them.

use super::{Answered, MOST_ROWS, grouping, is_ascending, json, number, search, sources, tree_options, word};
use crate::api::Api;
use crate::choice::naming_of;
use crate::http::request::Request;
use crate::look_timers::LookOutcome;
use crate::looks::{Look, Looks, RECENT};
use crate::sources::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, Loaded, ProcessKey};
use highwater_query::{self as query, CompareOptions, GroupBy, Query, QueryError, SiteGrowthOptions, SiteGrowthOrder};
use highwater_store::history::Work;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The bins of the small timeline beside each process.
const SMALL_BINS: u64 = 90;
/// The most bins of a timeline.
const MOST_BINS: u64 = 2048;
/// The longest time, in seconds, for which a timeline can be requested.
const LONGEST_S: u64 = 10 * 365 * 86_400;

fn collector(api: &Api) -> Result<&dyn LiveProcesses, QueryError> {
    api.collector.as_deref().ok_or_else(|| QueryError::failed("live processes are not looked at here"))
}

/// The process that a request names.
fn process_of(request: &Request) -> Result<ProcessKey, QueryError> {
    request.parameter("process").ok_or_else(|| QueryError::bad("process= is missing"))?.parse()
}

fn process_json(process: &LiveProcess, timelines: &[LiveTimeline]) -> Value {
    let timeline = timelines.iter().find(|timeline| timeline.process == process.key());
    json!({
        "key": process.key().to_string(),
        "pid": process.pid,
        "name": process.name,
        "since_unix_ns": process.since_unix_ns,
        "exited_unix_ns": (process.exited_unix_ns != 0).then_some(process.exited_unix_ns),
        "live_bytes": process.live_bytes,
        "live_blocks": process.live_blocks,
        "is_estimate": process.is_estimate,
        "mode": process.mode,
        "problem": (!process.problem.is_empty()).then_some(&process.problem),
        "timeline": timeline.map(|timeline| &timeline.bins),
    })
}

/// `live`: the processes. A collector that is gone is reported as a `problem`, not as an error: it may come back.
pub fn processes(api: &Api) -> Value {
    let Some(collector) = api.collector.as_deref() else {
        return json!({ "collector": null, "processes": [], "ended": [], "refused": [], "problem": null });
    };
    // Without timelines, because the collector is of an older version, the processes are still listed.
    let timelines = collector.timelines(None, SMALL_BINS, None);
    let (list, problem) = match collector.processes() {
        Ok(list) => (list, None),
        Err(line) => (Vec::new(), Some(line)),
    };
    let (no_timelines, timelines) = match timelines {
        Ok(timelines) => (None, timelines),
        Err(line) => (problem.is_none().then_some(line), Vec::new()),
    };
    let part = |is_wanted: &dyn Fn(&LiveProcess) -> bool| {
        list.iter().filter(|process| is_wanted(process)).map(|process| process_json(process, &timelines)).collect()
    };
    let (live, ended, refused): (Value, Value, Value) = (
        part(&|process| process.exited_unix_ns == 0 && process.problem.is_empty()),
        part(&|process| process.exited_unix_ns != 0),
        part(&|process| process.exited_unix_ns == 0 && !process.problem.is_empty()),
    );
    json!({
        "collector": collector.place(),
        "processes": live,
        "ended": ended,
        "refused": refused,
        "problem": problem,
        "no_timelines": no_timelines,
        "now_unix_ns": SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
    })
}

/// `live/timeline`: the memory of one process over time.
pub fn timeline(request: &Request, api: &Api) -> Answered {
    let process = process_of(request)?;
    let bins = number(request, "bins", 600, MOST_BINS)?;
    let last_s = number(request, "last_s", 0, LONGEST_S)?;
    let last_ns = (last_s > 0).then(|| last_s * 1_000_000_000);
    let all = collector(api)?.timelines(Some(process.pid), bins, last_ns).map_err(QueryError::Failed)?;
    let found = all.into_iter().find(|timeline| timeline.process == process);
    found.map(|timeline| timeline.bins).ok_or_else(|| unknown(process))
}

fn unknown(process: ProcessKey) -> QueryError {
    QueryError::Unknown(format!("the collector does not know process {} any more", process.pid))
}

/// `live/snapshot`: takes a snapshot and adds it as a source. `process=` says which of the processes that had the pid is meant.
pub fn snapshot(request: &Request, api: &Api) -> Answered {
    let process = request.parameter("process").map(str::parse::<ProcessKey>).transpose()?;
    let pid = match &process {
        Some(process) => process.pid,
        None => number(request, "pid", 0, u32::MAX.into())? as u32,
    };
    if pid == 0 {
        return Err(QueryError::bad("pid= is missing"));
    }
    if let Some(process) = process {
        must_be_latest(collector(api)?, process)?;
    }
    Ok(as_source(api, collector(api)?.snapshot(pid).map_err(QueryError::Failed)?))
}

/// Fails if another process has the pid by now: a snapshot would be of that one.
fn must_be_latest(collector: &dyn LiveProcesses, process: ProcessKey) -> Result<(), QueryError> {
    match collector.latest(process.pid).map_err(QueryError::Failed)? {
        Some(latest) if latest == process => Ok(()),
        Some(_) => Err(QueryError::Failed(format!(
            "process {} has ended, and another program runs under its number",
            process.pid
        ))),
        None => Err(unknown(process)),
    }
}

fn as_source(api: &Api, snapshot: LiveSnapshot) -> Value {
    json!({ "source": sources::about(&api.sources.add_live(snapshot)) })
}

/// `live/own`: the snapshots that programs took of themselves.
pub fn own_snapshots(api: &Api) -> Answered {
    let all = collector(api)?.own_snapshots().map_err(QueryError::Failed)?;
    let one = |own: &crate::sources::OwnSnapshot| {
        json!({
            "id": own.id,
            "name": own.name,
            "pid": own.pid,
            "program": own.program,
            "taken_unix_ns": own.taken_unix_ns,
            "live_bytes": own.live_bytes,
            "live_blocks": own.live_blocks,
            "is_estimate": own.is_estimate,
        })
    };
    Ok(json!({ "snapshots": all.iter().map(one).collect::<Value>() }))
}

/// `live/own/open`: adds one of these as a source.
pub fn open_own(request: &Request, api: &Api) -> Answered {
    let id = request.parameter("id").ok_or_else(|| QueryError::bad("id= is missing"))?;
    let id = id.parse().map_err(|_| QueryError::Bad(format!("id={id}: a number is wanted")))?;
    Ok(as_source(api, collector(api)?.own_snapshot(id).map_err(QueryError::Failed)?))
}

fn look_json(look: &Look) -> Value {
    json!({
        "number": look.number,
        "at_unix_ms": look.at_unix_ns / 1_000_000,
        "live_bytes": look.live_bytes,
        "live_blocks": look.live_blocks,
        "is_estimate": look.is_estimate,
        "is_verified": look.is_verified,
        "has_exited": look.has_exited,
        "sample_bytes": look.sample_bytes,
    })
}

/// `live/looks`: the kept looks at a process.
pub fn looks(request: &Request, api: &Api) -> Answered {
    let process = process_of(request)?;
    let looks = api.looks.of(process);
    let bytes: usize = looks.iter().map(|look| look.file.len()).sum();
    let every_s = api.look_timers.every(process).map_or(0, |every| every.as_secs());
    Ok(json!({ "looks": looks.iter().map(look_json).collect::<Value>(), "kept_bytes": bytes, "every_s": every_s }))
}

/// `live/look`: looks at a process. With `every=`, only if the last look is older than half of that time in seconds: another page may look, too.
pub fn look(request: &Request, api: &Api) -> Answered {
    let process = process_of(request)?;
    let every = Duration::from_secs(number(request, "every", 0, LONGEST_S)?);
    if !is_fresh(&api.looks, process, every) {
        must_be_latest(collector(api)?, process)?;
        api.looks.add(process, collector(api)?.look(process).map_err(QueryError::Failed)?);
    }
    looks(request, api)
}

/// Whether the last look at a process is not older than half of this time, or shows its end.
fn is_fresh(looks: &Looks, process: ProcessKey, every: Duration) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let is_fresh = |last: &Look| u128::from(now.saturating_sub(last.at_unix_ns)) < every.as_nanos() / 2;
    looks.of(process).last().is_some_and(|last| last.has_exited || is_fresh(last))
}

/// `live/watch`: looks at a process now, and then at the given interval, whether or not a page is open. With 0, that ends.
pub fn watch(request: &Request, api: &Api) -> Answered {
    let process = process_of(request)?;
    let every = Duration::from_secs(number(request, "every", 0, LONGEST_S)?);
    if every.is_zero() {
        api.look_timers.end(process);
        return looks(request, api);
    }
    look(request, api)?;
    let (collector, looked) = (api.collector.clone(), Arc::clone(&api.looks));
    if let Some(collector) = collector
        && !looked.of(process).last().is_some_and(|last| last.has_exited)
    {
        let look = move |process| look_again(&*collector, &looked, process);
        api.look_timers.begin(process, every, look).map_err(QueryError::failed)?;
    }
    looks(request, api)
}

/// A look that no request asks for. A collector that does not answer may come back.
fn look_again(collector: &dyn LiveProcesses, looks: &Looks, process: ProcessKey) -> LookOutcome {
    match collector.latest(process.pid) {
        Err(_) => LookOutcome::GoesOn,
        Ok(Some(latest)) if latest == process => match collector.look(process) {
            Err(_) => LookOutcome::GoesOn,
            Ok(taken) => {
                let has_exited = taken.has_exited;
                looks.add(process, taken);
                if has_exited { LookOutcome::HasEnded } else { LookOutcome::GoesOn }
            }
        },
        Ok(_) => LookOutcome::HasEnded,
    }
}

/// `live/forget`: drops all looks at a process, so that growth counts from the next one.
pub fn forget(request: &Request, api: &Api) -> Answered {
    api.looks.forget(process_of(request)?);
    looks(request, api)
}

/// `live/open`: adds a look as a source.
pub fn open_look(request: &Request, api: &Api) -> Answered {
    let process = process_of(request)?;
    let wanted = number(request, "look", 0, u64::MAX)?;
    let looks = api.looks.of(process);
    let look = looks.iter().find(|look| look.number == wanted);
    let look = look.ok_or_else(|| QueryError::Unknown(format!("look {wanted} is not kept any more")))?;
    Ok(as_source(api, collector(api)?.open_look(process, &look.file).map_err(QueryError::Failed)?))
}

/// The first look, one some looks ago, and the latest; and the number of looks between the last two.
struct ComparedLooks {
    looks: [Look; 3],
    queries: [Query; 3],
}

impl ComparedLooks {
    fn of(request: &Request, api: &Api) -> Result<Self, QueryError> {
        let looks = api.looks.of(process_of(request)?);
        let back = number(request, "lately", 1, RECENT - 1)?.max(1);
        let none = || QueryError::failed("the process has not been looked at yet");
        let (first, last) = (looks.first().ok_or_else(none)?, looks.last().ok_or_else(none)?);
        let before = last.number.saturating_sub(back);
        // Looks that are more recent than this one are all kept.
        let lately = looks.iter().find(|look| look.number >= before && look.loaded.is_some()).ok_or_else(none)?;
        let looks = [first.clone(), lately.clone(), last.clone()];
        let query = |look: &Look| -> Result<Query, QueryError> {
            let loaded: &Arc<Loaded> = look.loaded.as_ref().ok_or_else(none)?;
            let naming = naming_of(request, &loaded.history)?;
            Ok(Query { naming, ..Query::new(Arc::clone(&loaded.history)) })
        };
        let mut queries = [query(&looks[0])?, query(&looks[1])?, query(&looks[2])?];
        // What is a wrapper in one look is a wrapper in all.
        let learned = Arc::new(queries[2].naming.learned.and(&queries[0].naming.learned));
        queries.iter_mut().for_each(|query| query.naming.learned = Arc::clone(&learned));
        Ok(Self { looks, queries })
    }

    /// Which looks an answer compares.
    fn note(&self, answer: &mut Value) {
        if let Some(members) = answer.as_object_mut() {
            let names = ["opened_look", "lately_look", "now_look"];
            members.extend(names.into_iter().map(str::to_owned).zip(self.looks.iter().map(look_json)));
        }
    }
}

/// `live/growth`: the rows of the latest look, with their growth since the first look and since some looks ago.
pub fn growth(api: &Api, request: &Request, work: &Work<'_>) -> Answered {
    let compared = ComparedLooks::of(request, api)?;
    let orders = [
        ("growth", SiteGrowthOrder::Growth),
        ("lately", SiteGrowthOrder::Lately),
        ("live", SiteGrowthOrder::Live),
        ("blocks", SiteGrowthOrder::Blocks),
        ("name", SiteGrowthOrder::Name),
    ];
    let order = word(request, "sort", &orders)?;
    let options = SiteGrowthOptions {
        by: grouping(request)?,
        order,
        is_reversed: is_ascending(request)? != (order == SiteGrowthOrder::Name),
        search: search(request),
        limit: number(request, "limit", 200, MOST_ROWS)? as usize,
    };
    let [first, lately, last] = &compared.queries;
    let mut answer = json(query::site_growth([first, lately, last], &options, work)?)?;
    compared.note(&mut answer);
    Ok(answer)
}

/// `live/tree`: a flame graph of the latest look, or of its growth.
pub fn tree(api: &Api, request: &Request, work: &Work<'_>) -> Answered {
    let compared = ComparedLooks::of(request, api)?;
    let since = word(request, "since", &[("none", None), ("opened", Some(0)), ("lately", Some(1))])?;
    let (tree, last) = (tree_options(request)?, &compared.queries[2]);
    let mut answer = match since {
        None => json(query::tree(last, &tree, work)?)?,
        Some(at) => {
            // Only the flame graph is wanted.
            let options =
                CompareOptions { by: GroupBy::Heap, limit: 0, is_ascending: false, search: String::new(), tree };
            json(query::compare([&compared.queries[at], last], &options, work)?.tree)?
        }
    };
    compared.note(&mut answer);
    Ok(answer)
}
