//! The chosen metric of every stack, as a profile.

use crate::error::QueryError;
use crate::grouping::sites;
use crate::measure::measure;
use crate::query::Query;
use highwater_formats::pprof::{MeasuredProfile, MeasuredStack, write_measured};
use highwater_store::history::Work;

/// The measured figures of the query as a gzipped `profile.proto`: those of its window, instant, metric and filters.
pub fn pprof(query: &Query, work: &Work<'_>) -> Result<Vec<u8>, QueryError> {
    let measured = measure(query, false, work)?;
    let filters: Vec<String> = query.filters.iter().map(ToString::to_string).collect();
    let profile = MeasuredProfile {
        source: query.history.source(),
        catalog: query.history.catalog(),
        metric: query.metric,
        at: measured.at,
        window: query.window,
        filters: &filters,
    };
    let stacks: Vec<MeasuredStack> = sites(&measured)
        .map(|(stack, row)| MeasuredStack { stack, value: row.amount.value, blocks: row.amount.blocks })
        .collect();
    work.go_on()?;
    let mut bytes = Vec::new();
    write_measured(&profile, stacks, &mut bytes).map_err(QueryError::failed)?;
    Ok(bytes)
}
