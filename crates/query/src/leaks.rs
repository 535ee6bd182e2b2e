//! What is live at an instant, by site, with the age of its oldest block.
//!
//! At the end of a program this is what was never freed. Not all of it is a leak: caches and globals live as long as their program. What keeps growing is
//! another question, [`growth`](crate::growth()).

use crate::error::QueryError;
use crate::filtered::filtered_snapshot;
use crate::names::{key_text, own_frame_of};
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row, rows};
use highwater_model::{Nanos, Snapshot, StackId};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// How many sites are wanted.
#[derive(Clone, Copy, Debug)]
pub struct LeaksOptions {
    /// The most sites.
    pub limit: usize,
}

/// A site with live blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LeakSite {
    /// Its number.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it.
    pub frame: Option<FrameAnswer>,
    /// The number of its stack.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
    /// Its live bytes.
    pub live_bytes: u64,
    /// Its live blocks.
    pub live_blocks: u64,
    /// Its share of all live bytes, from 0 to 1.
    pub share: f64,
    /// The birth of its oldest live block; null where single blocks are not known.
    pub oldest_at_ns: Option<u64>,
    /// The age of that block.
    pub oldest_age_ns: Option<u64>,
}

/// What is live at an instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Leaks"))]
pub struct LeaksAnswer {
    /// The instant.
    pub at_ns: u64,
    /// All live bytes.
    pub live_bytes: u64,
    /// All live blocks.
    pub live_blocks: u64,
    /// How many sites there are, also those that are not in `sites`.
    pub count: usize,
    /// The sites, most live bytes first.
    pub sites: Vec<LeakSite>,
    /// Their stacks.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// What is live at the instant of the query.
pub fn leaks(query: &Query, options: &LeaksOptions, work: &Work<'_>) -> Result<LeaksAnswer, QueryError> {
    let snapshot = filtered_snapshot(&query.history, query.at, &query.filters, work)?;
    let all = live_sites(&snapshot);
    let shown = &all[..options.limit.min(all.len())];
    let births = oldest_births(&snapshot);
    let catalog = &*snapshot.catalog;
    let mut stacks = no_stacks([catalog]);
    shown.iter().filter_map(Row::site).try_for_each(|stack| stacks.add(0, stack))?;
    let figures = &snapshot.accounts.totals().figures;
    let site = |row: &Row| {
        let stack = row.site().unwrap_or(StackId::UNKNOWN);
        let oldest = births.get(&stack);
        LeakSite {
            id: stack.0,
            key: key_text(catalog, &GroupKey::Site(stack)),
            frame: own_frame_of(catalog, stack),
            stack: stacks.number(0, stack),
            live_bytes: row.figures.live_bytes(),
            live_blocks: row.figures.live_blocks(),
            share: row.figures.live_bytes() as f64 / figures.live_bytes().max(1) as f64,
            oldest_at_ns: oldest.map(|birth| birth.0),
            oldest_age_ns: oldest.map(|birth| snapshot.at.0.saturating_sub(birth.0)),
        }
    };
    Ok(LeaksAnswer {
        at_ns: snapshot.at.0,
        live_bytes: figures.live_bytes(),
        live_blocks: figures.live_blocks(),
        count: all.len(),
        sites: shown.iter().map(site).collect(),
        stacks: stacks.table(),
    })
}

/// The sites with live blocks, most live bytes first. Blocks of zero bytes count, too.
fn live_sites(snapshot: &Snapshot) -> Vec<Row> {
    let mut sites = rows(snapshot, GroupBy::Site, Metric::Live, None);
    sites.retain(|row| row.figures.live_blocks() > 0);
    sites
}

/// The time of birth of each site's oldest live block.
pub fn oldest_births(snapshot: &Snapshot) -> FxHashMap<StackId, Nanos> {
    let mut births: FxHashMap<StackId, Nanos> = FxHashMap::default();
    for block in snapshot.accounts.blocks() {
        births.entry(block.stack).and_modify(|oldest| *oldest = block.time.min(*oldest)).or_insert(block.time);
    }
    births
}
