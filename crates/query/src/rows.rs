//! A table by site, function, file, module, line, thread, type or heap.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::figures::{FigureMap, RowAnswer};
use crate::grouping::{RowAmount, elements_by_type, largest_frames, largest_sites, rows_of};
use crate::measure::{Amount, measure_by};
use crate::names::{Search, is_found, key_text};
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{StackTableAnswer, frame as frame_answer};
use highwater_model::groups::{GroupBy, Row};
use highwater_model::{Catalog, FrameId, Naming};
use highwater_store::history::Work;
use serde::Serialize;

/// How rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// By the measured value.
    #[default]
    Value,
    /// By blocks.
    Blocks,
    /// By name.
    Name,
    /// By the value including callees.
    Total,
    /// By the mean size of a block.
    Average,
}

impl RowOrder {
    /// What rows are sorted by: its own amount, and the one including callees.
    fn rank(self, own: Amount, total: Amount) -> (u64, u64, u64) {
        match self {
            Self::Value => (own.value, total.value, own.blocks),
            Self::Blocks => (own.blocks, own.value, 0),
            Self::Total => (total.value, own.value, 0),
            _ => (own.value / own.blocks.max(1), own.value, 0),
        }
    }
}

/// Which rows are wanted.
#[derive(Clone, Debug)]
pub struct RowsOptions {
    /// What a row is.
    pub by: GroupBy,
    /// How they are sorted.
    pub order: RowOrder,
    /// By default names ascend and figures descend.
    pub is_ascending: Option<bool>,
    /// Only rows that this finds: a text, or a regular expression between slashes.
    pub search: String,
    /// The number of rows that are skipped.
    pub offset: usize,
    /// The most rows.
    pub limit: usize,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Rows"))]
pub struct RowsAnswer {
    /// The instant of the measurement; the end of the window for metrics of a window.
    pub at_ns: u64,
    /// The figures of everything together.
    #[cfg_attr(test, ts(type = "Figures"))]
    pub total: FigureMap,
    /// What the rows that the search finds have together, also those that are not in `rows`.
    pub found: FoundAnswer,
    /// How many rows there are, also those that are not in `rows`.
    pub count: usize,
    /// The rows.
    pub rows: Vec<RowAnswer>,
    /// The stacks of sites.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(skip))]
    pub stacks: Option<StackTableAnswer>,
}

/// What some rows have together, each without its callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Found"))]
pub struct FoundAnswer {
    /// The value of the metric.
    #[cfg_attr(test, ts(type = "number"))]
    pub value: u64,
    /// The blocks.
    #[cfg_attr(test, ts(type = "number"))]
    pub blocks: u64,
}

/// The rows of the metric.
pub fn rows(query: &Query, options: &RowsOptions, work: &Work<'_>) -> Result<RowsAnswer, QueryError> {
    let RowsOptions { by, order, is_ascending, offset, limit, .. } = *options;
    let search = Search::new(&options.search)?;
    let measured = measure_by(query, by, work)?;
    let catalog = query.history.catalog();
    let trie = CallTrie::of(query)?;
    let is_first_of_all = matches!(search, Search::All) && order != RowOrder::Name && is_ascending != Some(true);
    let (shown, found, count) = if by == GroupBy::Site && is_first_of_all {
        let largest = largest_sites(&measured, offset.saturating_add(limit), |own| order.rank(*own, *own));
        (largest.rows, largest.sum, largest.count)
    } else {
        let mut rows = rows_of(&measured, (catalog, &trie), by, work)?;
        rows.retain(|row| is_found(&query.naming, catalog, &row.key, &search));
        let mut found = Amount::default();
        rows.iter().for_each(|row| found.add(row.figures.amount));
        sort(&mut rows, (catalog, &query.naming), order, is_ascending);
        let count = rows.len();
        rows.truncate(offset.saturating_add(limit));
        (rows, found, count)
    };
    let shown = &shown[offset.min(shown.len())..];
    let mut stacks = no_stacks([&**catalog]);
    shown.iter().filter_map(Row::site).try_for_each(|stack| stacks.add(0, stack))?;
    let mut answers = RowAnswer::table(shown, &measured, (catalog, &query.naming), by, &stacks);
    if by == GroupBy::Function {
        let frames = largest_frames(&measured, (catalog, &trie), shown, work)?;
        let answer = |frame: FrameId| catalog.stacks.frame(frame).map(|it| frame_answer(&catalog.frame_text(it)));
        let frames = frames.into_iter().map(|frame| frame.and_then(answer));
        answers.iter_mut().zip(frames).for_each(|(row, frame)| row.frame = Some(frame));
    }
    if order == RowOrder::Total && measured.total.value > 0 {
        let share = |total: u64| total as f64 / measured.total.value as f64;
        answers.iter_mut().for_each(|row| row.share = row.total.map_or(row.share, share));
    }
    if by == GroupBy::Type && measured.has_site_types && measured.metric.is_live() {
        let elements = elements_by_type(&measured, catalog, &trie);
        answers.iter_mut().for_each(|answer| answer.elements = elements.get(&answer.key).copied());
    }
    Ok(RowsAnswer {
        at_ns: measured.at.0,
        total: FigureMap::of_total(&measured),
        found: FoundAnswer { value: found.value, blocks: found.blocks },
        count,
        rows: answers,
        stacks: (by == GroupBy::Site).then(|| stacks.table()),
    })
}

fn sort(
    rows: &mut [Row<RowAmount>],
    (catalog, naming): (&Catalog, &Naming),
    order: RowOrder,
    is_ascending: Option<bool>,
) {
    match order {
        RowOrder::Name => rows.sort_by_cached_key(|row| (key_text(naming, catalog, &row.key), row.key.clone())),
        _ => rows.sort_by(|a, b| {
            let rank = |row: &Row<RowAmount>| order.rank(row.figures.amount, row.inclusive.amount);
            rank(b).cmp(&rank(a)).then_with(|| a.key.cmp(&b.key))
        }),
    }
    if is_ascending.is_some_and(|ascending| ascending != (order == RowOrder::Name)) {
        rows.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{allocated, function};
    use highwater_model::FrameText;

    fn table(query: &Query, order: RowOrder) -> Vec<RowAnswer> {
        let by = GroupBy::Function;
        let options = RowsOptions { by, order, is_ascending: None, search: String::new(), offset: 0, limit: 10 };
        rows(query, &options, &Work::quiet()).unwrap().rows
    }

    #[test]
    fn functions_have_their_largest_frame_and_shares_of_what_they_are_sorted_by() {
        let at = |name, line| FrameText { file: "a.c", line, module: "/bin/app", ..function(name) };
        let query = allocated(&[
            (vec![at("make", 7), at("run", 20), at("main", 1)], 100),
            (vec![at("make", 9), at("run", 21), at("main", 1)], 300),
            (vec![at("make", 9), at("run", 20), at("main", 2)], 250),
            (vec![at("run", 22), at("main", 2)], 50),
            (vec![function("")], 300),
        ]);
        let by_own = table(&query, RowOrder::Value);
        let places: Vec<_> = by_own
            .iter()
            .map(|row| (row.key.as_str(), row.share, row.frame.as_ref().unwrap().as_ref().and_then(|frame| frame.line)))
            .collect();
        // A function that allocates itself is shown where it does; `main` where it calls what holds the most.
        let expected =
            [("make", 0.65, Some(9)), ("[unknown]", 0.3, None), ("run", 0.05, Some(22)), ("main", 0.0, Some(1))];
        assert_eq!(places, expected);
        let frame = by_own[0].frame.clone().flatten().unwrap();
        assert_eq!((frame.file.as_deref(), frame.module.as_deref()), (Some("a.c"), Some("/bin/app")));
        let by_total = table(&query, RowOrder::Total);
        let shares: Vec<(&str, f64)> = by_total.iter().map(|row| (row.key.as_str(), row.share)).collect();
        assert_eq!(shares, [("run", 0.7), ("main", 0.7), ("make", 0.65), ("[unknown]", 0.3)]);
    }
}
