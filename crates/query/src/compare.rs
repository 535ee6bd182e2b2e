//! Two instants compared, of one history or of two.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::frame_tree::{FrameTree, TreeColumns, Weighed};
use crate::grouping::{RowAmount, rows_of, sites};
use crate::measure::{Amount, Measured, measure_by};
use crate::names::{Search, details_of, is_found, key_text, own_frame_of, pool_of};
use crate::query::Query;
use crate::stacks::no_stacks;
use crate::tree::{TreeAnswer, TreeOptions};
use crate::tree_stacks::TreeStacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::diff::{Delta, pair_rows};
use highwater_model::groups::{Addend, GroupBy, GroupKey, Row};
use highwater_model::{ByteSum, Catalog, Naming, StackId};
use highwater_store::history::Work;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Arc;

/// What is compared, and how it is shown.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What a row is.
    pub by: GroupBy,
    /// The most rows.
    pub limit: usize,
    /// The smallest change comes first.
    pub is_ascending: bool,
    /// Only rows that contain this text.
    pub search: String,
    /// How the flame graph is made.
    pub tree: TreeOptions,
}

/// The live memory of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct CompareSide {
    /// The instant.
    pub at_ns: u64,
    /// Bytes live then.
    pub live_bytes: u64,
    /// Blocks live then.
    pub live_blocks: u64,
}

/// A change of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WholeChange {
    /// In bytes.
    pub bytes: i64,
    /// In blocks.
    pub blocks: i64,
}

/// A row that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Change"))]
pub struct ChangeAnswer {
    /// Its name, for people.
    pub key: String,
    /// The number of a site or thread on side A.
    pub id_a: Option<u64>,
    /// The same on side B.
    pub id_b: Option<u64>,
    /// Bytes before.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
    /// The difference; it is taken first and rounded last.
    pub change: i64,
    /// Blocks before.
    pub blocks_before: u64,
    /// Blocks after.
    pub blocks_after: u64,
    /// Of estimates: the samples that `before` is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub samples_before: Option<u64>,
    /// The same of `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub samples_after: Option<u64>,
    /// `grew`, `shrank`, `came` or `went`.
    pub what: &'static str,
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

/// Two instants compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Compare"))]
pub struct CompareAnswer {
    /// Side A.
    pub before: CompareSide,
    /// Side B.
    pub after: CompareSide,
    /// The change of the whole.
    pub change: WholeChange,
    /// How many rows changed, also those that are not in `rows`.
    pub count: usize,
    /// The rows, the largest change first.
    pub rows: Vec<ChangeAnswer>,
    /// A flame graph of both sides.
    pub tree: TreeAnswer,
    /// The stacks of sites.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(skip))]
    pub stacks: Option<StackTableAnswer>,
}

/// The change in bytes; the difference is taken first and rounded last.
pub fn change_of(before: &Amount, after: &Amount) -> i64 {
    let change = after.sum.rounded_difference(before.sum);
    i64::try_from(change).unwrap_or(if change > 0 { i64::MAX } else { i64::MIN })
}

fn difference(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}

impl Addend for Amount {
    fn add(&mut self, other: &Self) {
        Self::add(self, *other);
    }
}

/// Compares two instants: the live memory of `before` and of `after`.
pub fn compare(
    [before, after]: [&Query; 2],
    options: &CompareOptions,
    work: &Work<'_>,
) -> Result<CompareAnswer, QueryError> {
    let CompareOptions { by, limit, is_ascending, .. } = *options;
    let search = Search::new(&options.search)?;
    let measured = [measure_by(before, by, work)?, measure_by(after, by, work)?];
    let catalogs = [&**before.history.catalog(), &**after.history.catalog()];
    let naming = &after.naming;
    // What is a wrapper in one is a wrapper in both.
    let before = Query { naming: naming.clone(), ..before.clone() };
    let tries = [CallTrie::of(&before)?, CallTrie::of(after)?];
    let side = |at: usize| {
        let is_wanted = |row: &Row<RowAmount>| is_found(naming, catalogs[at], &row.key, &search);
        let rows = rows_of(&measured[at], (catalogs[at], &tries[at]), by, work)?;
        let amount = |row: Row<RowAmount>| (row.key, row.figures.amount);
        Ok::<_, QueryError>((catalogs[at], rows.into_iter().filter(is_wanted).map(amount).collect::<Vec<_>>()))
    };
    let mut changed = pair_rows([side(0)?, side(1)?])?;
    changed.retain(|delta| delta.amounts()[0] != delta.amounts()[1]);
    changed.sort_by_key(|delta| {
        let [old, new] = delta.amounts();
        Reverse((change_of(&old, &new).unsigned_abs(), difference(old.blocks, new.blocks).unsigned_abs()))
    });
    if is_ascending {
        changed.reverse();
    }
    let shown = &changed[..limit.min(changed.len())];
    let mut stacks = no_stacks(catalogs);
    for delta in shown {
        if let Some((side, GroupKey::Site(stack))) = delta.key() {
            stacks.add(side, *stack)?;
        }
    }
    let details = details_of(naming, shown.iter().map(|delta| site_of(delta, catalogs)));
    let row = |(delta, detail): (&Delta<Amount>, Option<String>)| {
        let mut row = ChangeAnswer { detail, ..change_answer(delta, catalogs, naming) };
        if let Some((side, GroupKey::Site(stack))) = delta.key() {
            row.stack = Some(stacks.number(side, *stack));
        }
        let [old, new] = delta.amounts();
        (row.samples_before, row.samples_after) = (measured[0].samples_of(&old), measured[1].samples_of(&new));
        row
    };
    let [old, new] = [&measured[0].total, &measured[1].total];
    let side = |measured: &Measured| CompareSide {
        at_ns: measured.at.0,
        live_bytes: measured.total.value,
        live_blocks: measured.total.blocks,
    };
    Ok(CompareAnswer {
        before: side(&measured[0]),
        after: side(&measured[1]),
        change: WholeChange { bytes: change_of(old, new), blocks: difference(old.blocks, new.blocks) },
        count: changed.len(),
        rows: shown.iter().zip(details).map(row).collect(),
        tree: both_trees([&measured[0], &measured[1]], catalogs, &tries, &options.tree, work)?,
        stacks: (by == GroupBy::Site).then(|| stacks.table()),
    })
}

/// The site of a row, and the catalog that its handle refers to.
fn site_of<'a>(delta: &Delta<Amount>, catalogs: [&'a Catalog; 2]) -> Option<(&'a Catalog, StackId)> {
    match delta.key() {
        Some((side, GroupKey::Site(stack))) => Some((catalogs[side], *stack)),
        _ => None,
    }
}

fn change_answer(delta: &Delta<Amount>, catalogs: [&Catalog; 2], naming: &Naming) -> ChangeAnswer {
    let [old, new] = delta.amounts();
    let what = match (old.blocks, new.blocks) {
        (0, _) => "came",
        (_, 0) => "went",
        _ if new.value < old.value || (new.value == old.value && new.blocks < old.blocks) => "shrank",
        _ => "grew",
    };
    let id = |side: &Option<(GroupKey, Amount)>| match side.as_ref().map(|(key, _)| key) {
        Some(GroupKey::Site(stack)) => Some(u64::from(stack.0)),
        Some(GroupKey::Thread(thread)) => Some(thread.0),
        _ => None,
    };
    let key = delta.key();
    ChangeAnswer {
        key: key.map_or_else(String::new, |(side, key)| key_text(naming, catalogs[side], key)),
        id_a: id(&delta.before),
        id_b: id(&delta.after),
        before: old.value,
        after: new.value,
        change: change_of(&old, &new),
        blocks_before: old.blocks,
        blocks_after: new.blocks,
        samples_before: None,
        samples_after: None,
        what,
        frame: site_of(delta, catalogs).map(|(catalog, stack)| own_frame_of(naming, catalog, stack)),
        pool: site_of(delta, catalogs).and_then(|(catalog, stack)| pool_of(naming, catalog, stack)),
        detail: None,
        stack: None,
    }
}

/// A flame graph of both sides: a node is as wide as the larger side of each of its stacks, and has the values of both, in bytes or in blocks.
fn both_trees(
    measured: [&Measured; 2],
    catalogs: [&Catalog; 2],
    tries: &[Arc<CallTrie>; 2],
    options: &TreeOptions,
    work: &Work<'_>,
) -> Result<TreeAnswer, QueryError> {
    let side = |at: usize| (catalogs[at], sites(measured[at]).map(|(stack, row)| (GroupKey::Site(stack), row.amount)));
    let mut stacks = pair_rows([side(0), side(1)])?;
    let held = |amount: Amount| if options.in_blocks { ByteSum::whole(amount.blocks) } else { amount.sum };
    let sides_of = |delta: &Delta<Amount>| delta.amounts().map(held);
    stacks.sort_by_key(|delta| {
        let [old, new] = sides_of(delta);
        Reverse(old.max(new))
    });
    let mut tree = FrameTree::new("all");
    // Two instants of one history have one trie, which names the sites of one side at a time.
    let is_one = Arc::ptr_eq(&tries[0], &tries[1]);
    let mut first_side = TreeStacks::new(catalogs[0], &tries[0], options);
    let mut second_side = (!is_one).then(|| TreeStacks::new(catalogs[1], &tries[1], options));
    for delta in stacks {
        work.go_on()?;
        // The frames of both sides have the same text.
        let first = if delta.before.is_some() { 0 } else { 1 };
        let Some((GroupKey::Site(stack), _)) = [&delta.before, &delta.after][first] else { continue };
        let [old, new] = delta.amounts();
        let weighed = Weighed {
            value: held(old).max(held(new)),
            blocks: old.blocks.max(new.blocks),
            samples: 0,
            sides: sides_of(&delta),
        };
        let side = second_side.as_mut().filter(|_| first == 1).unwrap_or(&mut first_side);
        side.add_down(&mut tree, *stack, weighed);
    }
    tree.add_library_calls(options);
    Ok(tree.answer(options.least_share, TreeColumns::Sides))
}
