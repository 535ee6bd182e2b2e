//! `compare`: two instants, of one source or of two.

use super::grouping::{By, Row, rows_of, sites};
use super::names::{is_found, key_text, own_frame_of};
use super::stacks::{none_yet, put_table};
use super::tree::{Shape, Tree, Weighed, frames_of, least_share, with_library};
use super::{number, word};
use crate::choice::{Choice, Metric, filters_of, moment, window_of};
use crate::http::request::Request;
use crate::measure::{Amount, Measured, measure};
use crate::problem::Problem;
use crate::sources::Sources;
use crate::work::Work;
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, CatalogIdentities, RowIdentities, RowIdentity, StackId, TooManyCalls};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The most rows in one answer.
const MOST_ROWS: u64 = 10_000;

/// One side of the comparison: a source at an instant.
struct Side {
    choice: Choice,
    measured: Arc<Measured>,
}

impl Side {
    fn of(request: &Request, name: &str, by: By, sources: &Sources, work: &Work<'_>) -> Result<Self, Problem> {
        let (id, instant) = named(request, name)?;
        let loaded = sources.get(id)?.loaded()?;
        // The window belongs to the source of side A: another source has other times.
        let window = if id == named(request, "a")?.0 { window_of(request, &loaded)? } else { loaded.whole() };
        let at = moment(&loaded, window, instant)?;
        let (filters, filter_texts) = filters_of(request)?;
        let choice = Choice { loaded, window, at, metric: Metric::Live, filters, filter_texts };
        let measured = measure(&choice, by.is_owner(), work)?;
        Ok(Self { choice, measured })
    }

    fn catalog(&self) -> &Catalog {
        self.choice.loaded.catalog()
    }

    fn figures(&self) -> Value {
        let Amount { value, blocks, .. } = self.measured.total;
        json!({ "at_ns": self.measured.at.0, "live_bytes": value, "live_blocks": blocks })
    }
}

/// The source and the instant that a side names.
fn named<'a>(request: &'a Request, name: &str) -> Result<(usize, &'a str), Problem> {
    let text = request.parameter(name).ok_or_else(|| Problem::Bad(format!("{name}= is missing")))?;
    let (id, instant) = text.split_once('@').unwrap_or((text, "end"));
    let id = id.parse().map_err(|_| Problem::Bad(format!("{name}={text}: SOURCE@INSTANT is wanted")))?;
    Ok((id, instant))
}

/// A row of both sides.
#[derive(Default)]
struct Pair {
    before: Option<Row>,
    after: Option<Row>,
}

impl Pair {
    fn amounts(&self) -> (Amount, Amount) {
        let amount = |row: &Option<Row>| row.as_ref().map_or_else(Amount::default, |row| row.own);
        (amount(&self.before), amount(&self.after))
    }

    /// The stack of the row, and the side whose catalog has it.
    fn site(&self) -> Option<(usize, StackId)> {
        match (&self.before, &self.after) {
            (_, Some(row)) => row.site().map(|stack| (1, stack)),
            (Some(row), None) => row.site().map(|stack| (0, stack)),
            (None, None) => None,
        }
    }

    fn change(&self) -> i64 {
        let (before, after) = self.amounts();
        change_of(&before, &after)
    }
}

/// The change in bytes; the difference is taken first and rounded last.
fn change_of(before: &Amount, after: &Amount) -> i64 {
    let change = after.sum.rounded_difference(before.sum);
    i64::try_from(change).unwrap_or(if change > 0 { i64::MAX } else { i64::MIN })
}

fn difference(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}

/// Adds a row to a side. Rows that people would call the same are one.
fn add(side: &mut Option<Row>, row: Row) {
    match side {
        Some(sum) => {
            sum.own.add(row.own);
            sum.total.add(row.total);
        }
        None => *side = Some(row),
    }
}

/// The answer.
pub fn answer(request: &Request, sources: &Sources, work: &Work<'_>) -> Result<Value, Problem> {
    let by = word(request, "by", &By::WORDS)?;
    let limit = number(request, "limit", 500, MOST_ROWS)? as usize;
    let least = least_share(request)?;
    let is_ascending = word(request, "order", &[("desc", false), ("asc", true)])?;
    let search = request.parameter("search").unwrap_or_default().to_lowercase();
    let shape = Shape { with_library: with_library(request)?, ..Shape::default() };
    let before = Side::of(request, "a", by, sources, work)?;
    let after = Side::of(request, "b", by, sources, work)?;

    let mut changed: Vec<Pair> = Vec::new();
    let mut places: HashMap<RowIdentity, usize> = HashMap::new();
    let mut identities = RowIdentities::default();
    for (is_later, side) in [(false, &before), (true, &after)] {
        let mut known = CatalogIdentities::default();
        let is_wanted = |row: &Row| search.is_empty() || is_found(side.catalog(), &row.key, &search);
        for row in rows_of(&side.measured, side.catalog(), by, work)?.into_iter().filter(is_wanted) {
            let identity = identities.of(side.catalog(), &mut known, &row.key)?;
            let place = *places.entry(identity).or_insert_with(|| {
                changed.push(Pair::default());
                changed.len() - 1
            });
            let pair = &mut changed[place];
            add(if is_later { &mut pair.after } else { &mut pair.before }, row);
        }
    }
    changed.retain(|pair| pair.amounts().0 != pair.amounts().1);
    let blocks_change = |pair: &Pair| difference(pair.amounts().0.blocks, pair.amounts().1.blocks).unsigned_abs();
    changed.sort_by_key(|pair| std::cmp::Reverse((pair.change().unsigned_abs(), blocks_change(pair))));
    if is_ascending {
        changed.reverse();
    }
    let shown = &changed[..limit.min(changed.len())];
    let mut stacks = none_yet([before.catalog(), after.catalog()]);
    for pair in shown {
        if let Some((side, stack)) = pair.site() {
            stacks.add(side, stack)?;
        }
    }
    let row = |pair: &Pair| {
        let mut row = pair_json(pair, &before, &after);
        if let Some((side, stack)) = pair.site() {
            row["stack"] = stacks.number(side, stack);
        }
        row
    };
    let (old, new) = (before.measured.total, after.measured.total);
    let mut answer = json!({
        "before": before.figures(),
        "after": after.figures(),
        "change": { "bytes": change_of(&old, &new), "blocks": difference(old.blocks, new.blocks) },
        "count": changed.len(),
        "rows": shown.iter().map(row).collect::<Value>(),
        "tree": tree(&before, &after, &shape, work)?.to_json(least, true),
    });
    if by == By::Site {
        put_table(&mut answer, &stacks);
    }
    Ok(answer)
}

fn pair_json(pair: &Pair, before: &Side, after: &Side) -> Value {
    let (old, new) = pair.amounts();
    let what = match (old.blocks, new.blocks) {
        (0, _) => "came",
        (_, 0) => "went",
        _ if new.value < old.value || (new.value == old.value && new.blocks < old.blocks) => "shrank",
        _ => "grew",
    };
    let (row, catalog) = match (&pair.after, &pair.before) {
        (Some(row), _) => (Some(row), after.catalog()),
        (None, row) => (row.as_ref(), before.catalog()),
    };
    let id = |row: &Option<Row>| match row.as_ref().map(|row| &row.key) {
        Some(GroupKey::Site(stack)) => Some(u64::from(stack.0)),
        Some(GroupKey::Thread(thread)) => Some(thread.0),
        _ => None,
    };
    let mut shown = json!({
        "key": row.map(|row| key_text(catalog, &row.key)),
        "id_a": id(&pair.before),
        "id_b": id(&pair.after),
        "before": old.value,
        "after": new.value,
        "change": pair.change(),
        "blocks_before": old.blocks,
        "blocks_after": new.blocks,
        "what": what,
    });
    if let Some(GroupKey::Site(stack)) = row.map(|row| &row.key) {
        shown["frame"] = own_frame_of(catalog, *stack);
    }
    shown
}

/// A flame graph of both sides: a node is as wide as the larger side of each of its stacks, and has the values of both.
fn tree(before: &Side, after: &Side, shape: &Shape<'_>, work: &Work<'_>) -> Result<Tree, Problem> {
    let mut stacks: Vec<(usize, StackId, [Amount; 2])> = Vec::new();
    let mut places: HashMap<RowIdentity, usize> = HashMap::new();
    let mut identities = RowIdentities::default();
    let sides = [before, after];
    for (at, side) in sides.into_iter().enumerate() {
        let mut known = CatalogIdentities::default();
        for (stack, amount, _) in sites(&side.measured) {
            work.go_on()?;
            let identity = identities.of(side.catalog(), &mut known, &GroupKey::Site(stack))?;
            let place = *places.entry(identity).or_insert_with(|| {
                stacks.push((at, stack, [Amount::default(); 2]));
                stacks.len() - 1
            });
            stacks[place].2[at].add(amount);
        }
    }
    let mut tree = Tree::new("all");
    stacks.sort_by_key(|(_, _, sides)| std::cmp::Reverse(sides[0].value.max(sides[1].value)));
    for (side, stack, [old, new]) in stacks {
        work.go_on()?;
        let mut frames = frames_of(sides[side].catalog(), stack);
        frames.reverse();
        let weighed =
            Weighed { value: old.sum.max(new.sum), blocks: old.blocks.max(new.blocks), sides: [old.sum, new.sum] };
        tree.add(&frames, weighed, shape);
    }
    Ok(tree)
}

impl From<TooManyCalls> for Problem {
    fn from(calls: TooManyCalls) -> Self {
        Self::TooLarge(format!("{calls}; filter them"))
    }
}
