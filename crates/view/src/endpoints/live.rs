//! `live`: the processes of the collector, and snapshots of them.

use super::{Answered, number, sources};
use crate::http::request::Request;
use crate::sources::{LiveProcess, LiveProcesses, Sources};
use highwater_query::QueryError;
use serde_json::{Value, json};

/// The processes. A collector that is gone is reported as a `problem`, not as an error: it may come back.
pub fn processes(collector: Option<&dyn LiveProcesses>) -> Value {
    let Some(collector) = collector else {
        return json!({ "collector": null, "processes": [], "problem": null });
    };
    let process = |process: LiveProcess| {
        json!({
            "pid": process.pid,
            "name": process.name,
            "since_unix_ns": process.since_unix_ns,
            "live_bytes": process.live_bytes,
            "live_blocks": process.live_blocks,
            "mode": process.mode,
        })
    };
    let (list, problem) = match collector.processes() {
        Ok(list) => (list.into_iter().map(process).collect(), None),
        Err(line) => (json!([]), Some(line)),
    };
    json!({ "collector": collector.place(), "processes": list, "problem": problem })
}

/// Takes a snapshot and adds it as a source.
pub fn snapshot(request: &Request, collector: Option<&dyn LiveProcesses>, all: &Sources) -> Answered {
    let collector = collector.ok_or_else(|| QueryError::failed("live processes are not looked at here"))?;
    let pid = number(request, "pid", 0, u32::MAX.into())? as u32;
    if pid == 0 {
        return Err(QueryError::bad("pid= is missing"));
    }
    let snapshot = collector.snapshot(pid).map_err(QueryError::Failed)?;
    Ok(json!({ "source": sources::about(&all.add_live(snapshot)) }))
}
