//! `pprof`: the chosen metric of every stack, as a file for `go tool pprof`.

use crate::api::{Api, SentFile};
use crate::choice::RequestChoice;
use crate::http::request::Request;
use crate::save::file_stem;
use highwater_query::{QueryError, ShownStacks};
use highwater_store::history::Work;

/// A gzipped `profile.proto` of the chosen window, instant, metric and filters, with the focus and without the hidden functions of the flame graph.
pub fn file(api: &Api, request: &Request, work: &Work<'_>) -> Result<SentFile, QueryError> {
    let RequestChoice { query, .. } = RequestChoice::of(request, &api.sources)?;
    let source = request.parameter("source").and_then(|text| text.parse().ok()).unwrap_or(0);
    let name = format!("{}-{}.pb.gz", file_stem(api, source), query.metric.key());
    let focus = request.parameter("focus").filter(|name| !name.is_empty()).map(str::to_owned);
    let hidden = request.all_parameters("hide").map(str::to_owned).collect();
    let bytes = highwater_query::pprof(&query, &ShownStacks { focus, hidden }, work)?;
    Ok(SentFile { name, kind: "application/gzip", bytes })
}
