//! The first thing to know about a recording: how much was live at the peak, which site held most of it, and what grows steadily.

use crate::error::QueryError;
use crate::grouping::largest_sites;
use crate::growth::{GrowthOptions, GrowthSite, growth};
use crate::measure::measure;
use crate::names::{key_text, own_frame_of};
use crate::query::{Query, metrics_of};
use crate::teardown::before_teardown;
use highwater_formats::json::FrameAnswer;
use highwater_model::groups::{GroupBy, GroupKey, Metric};
use highwater_store::history::Work;
use serde::Serialize;

/// The least steadiness of a site that is said to grow steadily.
const STEADY: f64 = 0.9;
/// What grows steadily is worth a word if it is at least one part of this many of the peak.
const LEAST_GROWTH: u64 = 100;
/// The most sites whose growth is added up.
const SITES: usize = 200;
const POINTS: usize = 40;

/// The first things to know about a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Headline"))]
pub struct HeadlineAnswer {
    /// The instant of the most live memory; of a snapshot its only instant.
    pub at_ns: u64,
    /// Bytes that pass the filters and are live then.
    pub bytes: u64,
    /// Their blocks.
    pub blocks: u64,
    /// The site that holds most of them.
    pub top: Option<HeadlineSite>,
    /// What grows steadily.
    pub steady: Option<SteadyGrowth>,
    /// The last instant before the program's tear-down, if the window ends with one: leaks and growth are judged there.
    pub before_teardown_ns: Option<u64>,
}

/// The site that holds most.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HeadlineSite {
    /// Its number.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it.
    pub frame: Option<FrameAnswer>,
    /// Its bytes.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its share of all bytes, from 0 to 1.
    pub share: f64,
}

/// The sites that grow steadily, added up.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SteadyGrowth {
    /// Bytes that they allocated in the window and that are live at its end.
    pub bytes: u64,
    /// The number of these sites.
    pub sites: usize,
    /// The birth of the oldest of these blocks.
    pub since_ns: u64,
    /// The number of the site that grows most.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it.
    pub frame: Option<FrameAnswer>,
}

/// The first things to know about the window.
pub fn headline(query: &Query, work: &Work<'_>) -> Result<HeadlineAnswer, QueryError> {
    let (history, catalog) = (&query.history, query.history.catalog());
    let has_peak = history.recording().is_some() && metrics_of(history).contains(&Metric::Peak);
    let measured = measure(&query.measuring(if has_peak { Metric::Peak } else { Metric::Live }), false, work)?;
    let largest = largest_sites(&measured, 1, |amount| (amount.value, amount.blocks)).rows;
    let top = largest.first().filter(|row| row.figures.amount.value > 0);
    let top = top.and_then(|row| {
        let stack = row.site()?;
        Some(HeadlineSite {
            id: stack.0,
            key: key_text(&query.naming, catalog, &GroupKey::Site(stack)),
            frame: own_frame_of(&query.naming, catalog, stack),
            bytes: row.figures.amount.value,
            blocks: row.figures.amount.blocks,
            share: row.figures.amount.value as f64 / measured.total.value.max(1) as f64,
        })
    });
    let judged = judged_before_teardown(query, work)?;
    let before_teardown_ns = (judged.window != query.window).then_some(judged.window.to.0);
    Ok(HeadlineAnswer {
        at_ns: measured.at.0,
        bytes: measured.total.value,
        blocks: measured.total.blocks,
        top,
        steady: steady_growth(&judged, measured.total.value, work)?,
        before_teardown_ns,
    })
}

/// The query with a window that ends before the tear-down, if the window contains one. The instant moves with the end of the window.
pub fn judged_before_teardown(query: &Query, work: &Work<'_>) -> Result<Query, QueryError> {
    let mut judged = query.clone();
    if query.window.to == query.history.whole().to
        && let Some(before) = before_teardown(query, work)?
        && before > query.window.from
    {
        judged.window.to = before;
        judged.at = query.history.moment_at(before);
    }
    Ok(judged)
}

fn steady_growth(query: &Query, peak: u64, work: &Work<'_>) -> Result<Option<SteadyGrowth>, QueryError> {
    let options =
        GrowthOptions { by: GroupBy::Site, points: POINTS, limit: SITES, is_ascending: false, search: String::new() };
    let sites = match growth(query, &options, work) {
        Ok(answer) => answer.sites,
        Err(QueryError::Cancelled) => return Err(QueryError::Cancelled),
        // A source without blocks or without times has no growth.
        Err(_) => return Ok(None),
    };
    let steady: Vec<GrowthSite> = sites.into_iter().filter(|site| site.steadiness >= STEADY).collect();
    let bytes: u64 = steady.iter().map(|site| site.live_bytes).sum();
    let since = steady.iter().map(|site| site.oldest_ns).min();
    let (sites, first) = (steady.len(), steady.into_iter().next());
    Ok(match (first, since) {
        (Some(first), Some(since_ns)) if bytes > 0 && bytes.saturating_mul(LEAST_GROWTH) >= peak => {
            Some(SteadyGrowth { bytes, sites, since_ns, id: first.id, key: first.key, frame: first.frame })
        }
        _ => None,
    })
}
