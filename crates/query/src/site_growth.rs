//! How the rows of a live process grew: since it was first looked at, and lately.

use crate::call_trie::CallTrie;
use crate::compare::{CompareSide, change_of};
use crate::error::QueryError;
use crate::grouping::{RowAmount, rows_of};
use crate::measure::{Amount, Measured, measure_by};
use crate::names::{Search, details_of, is_found, key_text, own_frame_of, pool_of};
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::diff::{MatchedRow, match_rows};
use highwater_model::groups::{GroupBy, GroupKey, Row};
use highwater_model::{Catalog, Naming, StackId};
use highwater_store::history::Work;
use serde::Serialize;
use std::cmp::Reverse;

/// Which rows come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteGrowthOrder {
    /// Those that grew most since the first look.
    Growth,
    /// Those that grew most lately.
    Lately,
    /// Those with most live bytes.
    Live,
    /// Those with most live blocks.
    Blocks,
    /// By name.
    Name,
}

/// What is asked about the looks.
#[derive(Clone, Debug)]
pub struct SiteGrowthOptions {
    /// What a row is.
    pub by: GroupBy,
    /// Which rows come first.
    pub order: SiteGrowthOrder,
    /// The other way round.
    pub is_reversed: bool,
    /// Only rows that contain this text.
    pub search: String,
    /// The most rows.
    pub limit: usize,
}

/// A row with its growth.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "GrowingRow"))]
pub struct GrowingRowAnswer {
    /// Its name, for people.
    pub key: String,
    /// The number of a site or thread in the latest look.
    pub id: Option<u64>,
    /// Bytes that are live now.
    pub live_bytes: u64,
    /// Blocks that are live now.
    pub live_blocks: u64,
    /// How many more bytes are live than at the first look.
    pub growth_bytes: i64,
    /// How many more blocks.
    pub growth_blocks: i64,
    /// How many more bytes are live than some looks ago.
    pub lately_bytes: i64,
    /// How many more blocks.
    pub lately_blocks: i64,
    /// For sites: the frame that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional = nullable))]
    pub frame: Option<Option<FrameAnswer>>,
    /// For sites: the number of the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, type = "Frame[]"))]
    pub stack: Option<Option<u32>>,
    /// For sites: the pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// For sites that would look like another: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
}

/// The rows of a live process, and how they grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "SiteGrowth"))]
pub struct SiteGrowthAnswer {
    /// The whole at the first look.
    pub opened: CompareSide,
    /// The whole some looks ago.
    pub lately: CompareSide,
    /// The whole now.
    pub now: CompareSide,
    /// How many rows there are, also those that are not in `rows`.
    pub count: usize,
    /// The live bytes of all these rows.
    pub found_bytes: u64,
    /// The growth of all these rows since the first look.
    pub found_growth: i64,
    /// The rows.
    pub rows: Vec<GrowingRowAnswer>,
    /// The stacks of sites.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(skip))]
    pub stacks: Option<StackTableAnswer>,
}

type GrowingRow = MatchedRow<Amount, 3>;

/// The amounts at the three looks; zero where there is no such row.
fn amounts(row: &GrowingRow) -> [Amount; 3] {
    row.each_ref().map(|side| side.as_ref().map_or_else(Amount::default, |(_, amount)| *amount))
}

/// The key of a row, and the look whose catalog its handles refer to: the latest that has the row.
fn key_of(row: &GrowingRow) -> Option<(usize, &GroupKey)> {
    row.iter().enumerate().rev().find_map(|(at, side)| side.as_ref().map(|(key, _)| (at, key)))
}

fn site_of<'a>(row: &GrowingRow, catalogs: [&'a Catalog; 3]) -> Option<(&'a Catalog, StackId)> {
    match key_of(row) {
        Some((side, GroupKey::Site(stack))) => Some((catalogs[side], *stack)),
        _ => None,
    }
}

fn more_blocks(then: &Amount, now: &Amount) -> i64 {
    i64::try_from(i128::from(now.blocks) - i128::from(then.blocks)).unwrap_or(i64::MAX)
}

/// The rows of the latest of three looks at a process (the first, one some looks ago, the latest), with their growth since the other two. Rows without
/// live memory are there only if they shrank.
pub fn site_growth(
    looks: [&Query; 3],
    options: &SiteGrowthOptions,
    work: &Work<'_>,
) -> Result<SiteGrowthAnswer, QueryError> {
    let SiteGrowthOptions { by, order, is_reversed, limit, .. } = *options;
    let search = Search::new(&options.search)?;
    let measured = [measure_by(looks[0], by, work)?, measure_by(looks[1], by, work)?, measure_by(looks[2], by, work)?];
    let catalogs = looks.map(|look| &**look.history.catalog());
    let naming = &looks[2].naming;
    let side = |at: usize| {
        let is_wanted = |row: &Row<RowAmount>| is_found(naming, catalogs[at], &row.key, &search);
        let named = Query { naming: naming.clone(), ..looks[at].clone() };
        let rows = rows_of(&measured[at], (catalogs[at], &*CallTrie::of(&named)?), by, work)?;
        let amount = |row: Row<RowAmount>| (row.key, row.figures.amount);
        Ok::<_, QueryError>((catalogs[at], rows.into_iter().filter(is_wanted).map(amount).collect::<Vec<_>>()))
    };
    let mut rows = match_rows([side(0)?, side(1)?, side(2)?])?;
    let name =
        |row: &GrowingRow| key_of(row).map_or_else(String::new, |(side, key)| key_text(naming, catalogs[side], key));
    match order {
        SiteGrowthOrder::Name => rows.sort_by_cached_key(name),
        _ => rows.sort_by_cached_key(|row| {
            let [opened, lately, now] = amounts(row);
            let since = |then: &Amount| change_of(then, &now);
            let live = i64::try_from(now.value).unwrap_or(i64::MAX);
            Reverse(match order {
                SiteGrowthOrder::Growth => (since(&opened), since(&lately), live),
                SiteGrowthOrder::Lately => (since(&lately), since(&opened), live),
                SiteGrowthOrder::Blocks => (i64::try_from(now.blocks).unwrap_or(i64::MAX), live, 0),
                _ => (live, since(&opened), 0),
            })
        }),
    }
    if is_reversed {
        rows.reverse();
    }
    let (mut found, mut found_before) = (Amount::default(), Amount::default());
    for row in &rows {
        let [opened, _, now] = amounts(row);
        found.add(now);
        found_before.add(opened);
    }
    let shown = &rows[..limit.min(rows.len())];
    let mut stacks = no_stacks(catalogs);
    for row in shown {
        if let Some((side, GroupKey::Site(stack))) = key_of(row) {
            stacks.add(side, *stack)?;
        }
    }
    let details = details_of(naming, shown.iter().map(|row| site_of(row, catalogs)));
    let answers = shown.iter().zip(details).map(|(row, detail)| {
        let mut answer = GrowingRowAnswer { key: name(row), detail, ..growing_row(row, catalogs, naming) };
        if let Some((side, GroupKey::Site(stack))) = key_of(row) {
            answer.stack = Some(stacks.number(side, *stack));
        }
        answer
    });
    let whole = |measured: &Measured| CompareSide {
        at_ns: measured.at.0,
        live_bytes: measured.total.value,
        live_blocks: measured.total.blocks,
    };
    Ok(SiteGrowthAnswer {
        opened: whole(&measured[0]),
        lately: whole(&measured[1]),
        now: whole(&measured[2]),
        count: rows.len(),
        found_bytes: found.value,
        found_growth: change_of(&found_before, &found),
        rows: answers.collect(),
        stacks: (by == GroupBy::Site).then(|| stacks.table()),
    })
}

fn growing_row(row: &GrowingRow, catalogs: [&Catalog; 3], naming: &Naming) -> GrowingRowAnswer {
    let [opened, lately, now] = amounts(row);
    let id = match row[2].as_ref().map(|(key, _)| key) {
        Some(GroupKey::Site(stack)) => Some(u64::from(stack.0)),
        Some(GroupKey::Thread(thread)) => Some(thread.0),
        _ => None,
    };
    let site = site_of(row, catalogs);
    GrowingRowAnswer {
        key: String::new(),
        id,
        live_bytes: now.value,
        live_blocks: now.blocks,
        growth_bytes: change_of(&opened, &now),
        growth_blocks: more_blocks(&opened, &now),
        lately_bytes: change_of(&lately, &now),
        lately_blocks: more_blocks(&lately, &now),
        frame: site.map(|(catalog, stack)| own_frame_of(naming, catalog, stack)),
        stack: None,
        pool: site.and_then(|(catalog, stack)| pool_of(naming, catalog, stack)),
        detail: None,
    }
}
