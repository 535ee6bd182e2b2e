//! The chosen metric of every stack, as a profile.

use crate::error::QueryError;
use crate::filter::Filter;
use crate::grouping::sites;
use crate::measure::measure;
use crate::names::label;
use crate::query::Query;
use highwater_formats::pprof::{MeasuredProfile, MeasuredStack, write_measured};
use highwater_model::Frame;
use highwater_store::history::Work;
use std::collections::HashSet;

/// What a flame graph shows besides the choice: its profile shows the same.
#[derive(Clone, Debug, Default)]
pub struct ShownStacks {
    /// Only stacks with this function.
    pub focus: Option<String>,
    /// Functions that are left out of stacks: what they hold belongs to their callers.
    pub hidden: HashSet<String>,
}

/// The measured figures of the query as a gzipped `profile.proto`: those of its window, instant, metric and filters.
pub fn pprof(query: &Query, options: &ShownStacks, work: &Work<'_>) -> Result<Vec<u8>, QueryError> {
    let mut query = query.clone();
    query.filters.extend(options.focus.as_deref().map(Filter::of_function));
    let measured = measure(&query, false, work)?;
    let catalog = query.history.catalog();
    let filters: Vec<String> = query.filters.iter().map(ToString::to_string).collect();
    let mut hidden_names: Vec<String> = options.hidden.iter().cloned().collect();
    hidden_names.sort_unstable();
    let is_hidden = |frame: &&Frame| options.hidden.contains(&label(&catalog.frame_text(frame)));
    let hidden: HashSet<Frame> = match options.hidden.is_empty() {
        true => HashSet::new(),
        false => catalog.stacks.frames().iter().filter(is_hidden).copied().collect(),
    };
    let profile = MeasuredProfile {
        source: query.history.source(),
        catalog,
        metric: query.metric,
        at: measured.at,
        window: query.window,
        filters: &filters,
        hidden: &hidden,
        hidden_names: &hidden_names,
    };
    let stacks: Vec<MeasuredStack> = sites(&measured)
        .map(|(stack, row)| MeasuredStack { stack, value: row.amount.value, blocks: row.amount.blocks })
        .collect();
    work.go_on()?;
    let mut bytes = Vec::new();
    write_measured(&profile, stacks, &mut bytes).map_err(QueryError::failed)?;
    Ok(bytes)
}
