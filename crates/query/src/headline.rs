//! The first thing to know about a recording: how much was live at the peak, which function and which site held most of it, and what grows steadily.
//!
//! Both, a function and a site: an arena allocator holds nearly everything, through hundreds of stacks of which each holds little. The function alone would let
//! one place look responsible for all of it.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::grouping::{RowAmount, largest_sites, rows_of, sites_named_by};
use crate::growth::{GrowthOptions, GrowthSite, growth};
use crate::measure::measure;
use crate::names::{key_text, own_frame_of, pool_of};
use crate::query::{Query, metrics_of};
use crate::teardown::before_teardown;
use highwater_formats::json::FrameAnswer;
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row};
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
    /// Of estimates: the samples that the bytes are made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub samples: Option<u64>,
    /// The function that holds most of them.
    pub top: Option<HeadlineFunction>,
    /// The site that holds most of them. It may be of another function.
    pub site: Option<HeadlineSite>,
    /// What grows steadily.
    pub steady: Option<SteadyGrowth>,
    /// The last instant before the program's tear-down, if the window ends with one: leaks and growth are judged there.
    pub before_teardown_ns: Option<u64>,
}

/// The function that holds most, without what it calls: what a table by function has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HeadlineFunction {
    /// Its name.
    pub key: String,
    /// The pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// Its bytes.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its share of all bytes, from 0 to 1.
    pub share: f64,
    /// The number of its sites: how many call stacks these blocks have.
    pub sites: usize,
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
    /// The pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
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
    let trie = CallTrie::of(query)?;
    let rows = rows_of(&measured, (catalog, &trie), GroupBy::Function, work)?;
    let rank = |row: &&Row<RowAmount>| (row.figures.amount.value, row.figures.amount.blocks);
    let top = rows
        .iter()
        .filter(|row| row.figures.amount.value > 0)
        .max_by(|a, b| rank(a).cmp(&rank(b)).then(b.key.cmp(&a.key)));
    let top = top.map(|row| HeadlineFunction {
        key: key_text(&query.naming, catalog, &row.key),
        pool: match &row.key {
            GroupKey::Name(name) => query.naming.pool_of_function(name),
            _ => None,
        },
        bytes: row.figures.amount.value,
        blocks: row.figures.amount.blocks,
        share: row.figures.amount.value as f64 / measured.total.value.max(1) as f64,
        sites: sites_named_by(&measured, (catalog, &trie), &row.key),
    });
    let largest = largest_sites(&measured, 1, |amount| (amount.value, amount.blocks)).rows;
    let site =
        largest.first().and_then(|row| Some((row.site()?, row.figures.amount))).map(|(stack, amount)| HeadlineSite {
            id: stack.0,
            key: key_text(&query.naming, catalog, &GroupKey::Site(stack)),
            frame: own_frame_of(&query.naming, catalog, stack),
            pool: pool_of(&query.naming, catalog, stack),
            bytes: amount.value,
            blocks: amount.blocks,
            share: amount.value as f64 / measured.total.value.max(1) as f64,
        });
    let judged = judged_before_teardown(query, work)?;
    let before_teardown_ns = (judged.window != query.window).then_some(judged.window.to.0);
    Ok(HeadlineAnswer {
        at_ns: measured.at.0,
        bytes: measured.total.value,
        blocks: measured.total.blocks,
        samples: measured.samples_of(&measured.total),
        top,
        site: site.filter(|site| site.bytes > 0),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{allocated, function};

    #[test]
    fn a_function_has_its_number_of_sites_and_the_largest_site_is_named_too() {
        let [take, load, parse, main] = ["take", "load", "parse", "main"].map(function);
        let query = allocated(&[
            (vec![take, load, main], 300),
            (vec![take, parse, main], 250),
            (vec![take, main], 150),
            (vec![load, main], 400),
        ]);
        let answer = headline(&query, &Work::quiet()).unwrap();
        let top = answer.top.unwrap();
        assert_eq!((answer.bytes, top.key.as_str(), top.bytes, top.blocks, top.sites), (1100, "take", 700, 3, 3));
        let site = answer.site.unwrap();
        assert_eq!((site.key.as_str(), site.bytes, site.blocks), ("load", 400, 1));
        assert_eq!(site.share, 400.0 / 1100.0);
    }
}
