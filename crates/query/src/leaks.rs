//! What is live at an instant, by site, with the age of its oldest block.
//!
//! At the end of a program this is what was never freed. Not all of it is a leak: caches and globals live as long as their program. What keeps growing is
//! another question, [`growth`](crate::growth()).

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::grouping::owner_key;
use crate::names::{details_of, key_text, own_frame_of, pool_of};
use crate::population::Population;
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::groups::{Addend, GroupBy, GroupKey, rows_by_frame};
use highwater_model::{ByteSum, Naming, Nanos, SiteTypes, Snapshot, StackId, TagId};
use highwater_store::history::{ColumnSet, Work};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

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
    /// The pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// Where another would look the same: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
    /// The number of its stack.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
    /// Its live bytes.
    pub live_bytes: u64,
    /// Its live blocks.
    pub live_blocks: u64,
    /// Of estimates: the samples that they are made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub samples: Option<u64>,
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

/// The live blocks of a site.
#[derive(Clone, Copy, Debug, Default)]
struct LiveSite {
    bytes: ByteSum,
    blocks: u64,
    samples: u64,
    oldest: Option<Nanos>,
}

impl LiveSite {
    fn add(&mut self, bytes: ByteSum, blocks: u64, samples: u64, birth: Option<Nanos>) {
        self.bytes += bytes;
        self.samples = self.samples.saturating_add(samples);
        self.blocks = self.blocks.saturating_add(blocks);
        self.oldest = self.oldest.map_or(birth, |oldest| Some(birth.map_or(oldest, |birth| birth.min(oldest))));
    }
}

/// What is live at the instant of the query.
pub fn leaks(query: &Query, options: &LeaksOptions, work: &Work<'_>) -> Result<LeaksAnswer, QueryError> {
    let (history, catalog) = (&query.history, query.history.catalog());
    let snapshot = history.snapshot(query.at)?;
    let mut by_site: FxHashMap<StackId, LiveSite> = FxHashMap::default();
    if snapshot.source.aggregated && query.filters.is_empty() {
        for (stack, figures) in snapshot.accounts.sites().iter() {
            by_site.entry(stack).or_default().add(figures.live(), figures.live_blocks(), figures.live_samples(), None);
        }
    } else {
        let filter = CompiledFilter::new(&query.filters, catalog, &query.naming);
        let wanted = (false, ColumnSet::Figures);
        let parts = Population::LiveAt(query.at).each(
            query,
            &filter,
            wanted,
            work,
            FxHashMap::<StackId, LiveSite>::default,
            |sites, block, life| {
                let (bytes, blocks) = block.amount();
                sites.entry(block.stack()).or_default().add(bytes, blocks, block.samples(), Some(life.birth));
            },
        )?;
        for (stack, site) in parts.into_iter().flatten() {
            by_site.entry(stack).or_default().add(site.bytes, site.blocks, site.samples, site.oldest);
        }
    }
    let mut all: Vec<(StackId, LiveSite)> = by_site.into_iter().filter(|(_, site)| site.blocks > 0).collect();
    all.sort_by_key(|(stack, site)| (Reverse((site.bytes, site.blocks)), *stack));
    let (mut bytes, mut blocks) = (ByteSum::ZERO, 0u64);
    for (_, site) in &all {
        bytes += site.bytes;
        blocks = blocks.saturating_add(site.blocks);
    }
    let shown = &all[..options.limit.min(all.len())];
    let mut stacks = no_stacks([&**catalog]);
    shown.iter().try_for_each(|(stack, _)| stacks.add(0, *stack))?;
    let naming = &query.naming;
    let details = details_of(naming, shown.iter().map(|(stack, _)| Some((&**catalog, *stack))));
    let site = |((stack, site), detail): (&(StackId, LiveSite), Option<String>)| LeakSite {
        id: stack.0,
        key: key_text(naming, catalog, &GroupKey::Site(*stack)),
        frame: own_frame_of(naming, catalog, *stack),
        pool: pool_of(naming, catalog, *stack),
        detail,
        stack: stacks.number(0, *stack),
        live_bytes: site.bytes.rounded(),
        live_blocks: site.blocks,
        samples: query.is_sampled().then_some(site.samples),
        share: site.bytes.rounded() as f64 / bytes.rounded().max(1) as f64,
        oldest_at_ns: site.oldest.map(|birth| birth.0),
        oldest_age_ns: site.oldest.map(|birth| snapshot.at.0.saturating_sub(birth.0)),
    };
    Ok(LeaksAnswer {
        at_ns: snapshot.at.0,
        live_bytes: bytes.rounded(),
        live_blocks: blocks,
        count: all.len(),
        sites: shown.iter().zip(details).map(site).collect(),
        stacks: stacks.table(),
    })
}

/// The time of birth of the oldest live block of each row.
pub fn oldest_births(snapshot: &Snapshot, by: GroupBy, naming: &Naming) -> BTreeMap<GroupKey, Nanos> {
    let catalog = &*snapshot.catalog;
    let by_site_type = by == GroupBy::Type && snapshot.has_site_types();
    let mut types = SiteTypes::new(catalog, naming);
    let mut births: FxHashMap<(StackId, TagId, u32), Nanos> = FxHashMap::default();
    for block in snapshot.accounts.blocks() {
        let owners = if by.is_by_owner() && !by_site_type {
            (StackId::UNKNOWN, block.tag, block.thread)
        } else {
            (block.stack, TagId::NONE, 0)
        };
        births.entry(owners).and_modify(|oldest| *oldest = block.time.min(*oldest)).or_insert(block.time);
    }
    if by.has_callees() {
        let sites = births.into_iter().map(|((stack, ..), birth)| (stack, Oldest(Some(birth))));
        let rows = rows_by_frame(catalog, naming, by, sites, usize::MAX, || Ok::<_, Infallible>(()));
        let rows = rows.unwrap_or_else(|never| match never {});
        return rows.into_iter().filter_map(|row| Some((row.key, row.figures.0?))).collect();
    }
    let mut oldest: BTreeMap<GroupKey, Nanos> = BTreeMap::new();
    for ((stack, tag, thread), birth) in births {
        let key = match (by, snapshot.accounts.threads().get(thread as usize)) {
            (GroupBy::Thread, Some(thread)) => GroupKey::Thread(thread.id),
            (GroupBy::Thread, None) => continue,
            _ if by_site_type => GroupKey::Name(types.of(catalog, stack).name.clone()),
            (by, _) if by.is_by_owner() => owner_key(catalog, by, catalog.tag(tag)),
            _ => GroupKey::Site(stack),
        };
        oldest.entry(key).and_modify(|oldest| *oldest = birth.min(*oldest)).or_insert(birth);
    }
    oldest
}

/// The earlier of two births.
#[derive(Clone, Copy, Default)]
struct Oldest(Option<Nanos>);

impl Addend for Oldest {
    fn add(&mut self, other: &Self) {
        self.0 = [self.0, other.0].into_iter().flatten().min();
    }
}
