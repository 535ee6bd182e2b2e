//! Several processes at once: a recorded tree of processes on one time axis.

use super::{Answered, MOST_BINS, json, number};
use crate::http::request::Request;
use crate::sources::Sources;
use highwater_query::{self as query, ProcessesOptions, QueryError};
use highwater_store::history::Work;

/// The most processes that are stacked one by one.
const MOST_STACKED: u64 = 100;

/// An instant of the common axis; `None` if it is not given.
fn instant(request: &Request, name: &str) -> Result<Option<u64>, QueryError> {
    match request.parameter(name) {
        None | Some("") => Ok(None),
        Some(_) => number(request, name, 0, u64::MAX).map(Some),
    }
}

/// `processes`: the processes as a tree, their curves, and their total.
pub fn all(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let options = ProcessesOptions {
        from: instant(request, "from")?,
        to: instant(request, "to")?,
        points: number(request, "points", 600, MOST_BINS)? as usize,
        lane_points: number(request, "lanes", 200, MOST_BINS)? as usize,
        stacked: number(request, "top", 12, MOST_STACKED)? as usize,
    };
    if options.from.zip(options.to).is_some_and(|(from, to)| from > to) {
        return Err(QueryError::bad("the window ends before it begins"));
    }
    let files = sources.process_files();
    sources.processes.get(format!("{options:?}"), &files, || json(query::processes(&files, &options, work)?))
}

/// `processes/held`: what each process held at one instant.
pub fn held(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let at = instant(request, "at")?.ok_or_else(|| QueryError::bad("at= is missing"))?;
    json(query::processes_held(&sources.process_files(), at, work)?)
}
