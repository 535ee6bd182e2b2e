//! `rows`: a table by site, function, file, module, place, thread, type or heap.

use super::figures::{row_json, total_json};
use super::grouping::{By, Row, rows_of};
use super::names::{is_found, key_text};
use super::stacks::{none_yet, put_table};
use super::{number, word};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::measure::measure;
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::Catalog;
use serde_json::{Value, json};

/// The most rows in one answer.
const MOST_ROWS: u64 = 10_000;

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Value,
    Blocks,
    Name,
    Total,
    Average,
}

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let by = word(request, "by", &By::WORDS)?;
    let orders = [
        ("value", Order::Value),
        ("self", Order::Value),
        ("share", Order::Value),
        ("blocks", Order::Blocks),
        ("name", Order::Name),
        ("key", Order::Name),
        ("total", Order::Total),
        ("average", Order::Average),
    ];
    let order = word(request, "sort", &orders)?;
    let is_reversed = word(request, "order", &[("", None), ("asc", Some(true)), ("desc", Some(false))])?;
    let offset = number(request, "offset", 0, u64::MAX)? as usize;
    let limit = number(request, "limit", 100, MOST_ROWS)? as usize;
    let search = request.parameter("search").unwrap_or_default().to_lowercase();

    let measured = measure(choice, by.is_owner(), work)?;
    let catalog = choice.loaded.catalog();
    let mut rows = rows_of(&measured, catalog, by, work)?;
    if !search.is_empty() {
        rows.retain(|row| is_found(catalog, &row.key, &search));
    }
    sort(&mut rows, catalog, order, is_reversed);
    let shown = &rows[offset.min(rows.len())..offset.saturating_add(limit).min(rows.len())];
    let mut stacks = none_yet([&**catalog]);
    shown.iter().filter_map(Row::site).try_for_each(|stack| stacks.add(0, stack))?;
    let mut answer = json!({
        "at_ns": measured.at.0,
        "total": total_json(&measured),
        "count": rows.len(),
        "rows": shown.iter().map(|row| row_json(row, &measured, catalog, by, &stacks)).collect::<Value>(),
    });
    if by == By::Site {
        put_table(&mut answer, &stacks);
    }
    Ok(answer)
}

fn sort(rows: &mut [Row], catalog: &Catalog, order: Order, is_ascending: Option<bool>) {
    let average = |row: &Row| row.own.value / row.own.blocks.max(1);
    match order {
        Order::Name => rows.sort_by_cached_key(|row| (key_text(catalog, &row.key), row.key.clone())),
        _ => rows.sort_by(|a, b| {
            let rank = |row: &Row| match order {
                Order::Value => (row.own.value, row.total.value, row.own.blocks),
                Order::Blocks => (row.own.blocks, row.own.value, 0),
                Order::Total => (row.total.value, row.own.value, 0),
                _ => (average(row), row.own.value, 0),
            };
            rank(b).cmp(&rank(a)).then_with(|| a.key.cmp(&b.key))
        }),
    }
    // By default names ascend and figures descend.
    if is_ascending.is_some_and(|ascending| ascending != (order == Order::Name)) {
        rows.reverse();
    }
}
