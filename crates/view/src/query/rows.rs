//! `rows`: a table by site, function, file, module, place, thread, type or heap.

use super::names::{MOST_FRAMES, UNKNOWN, key_text, own_frame};
use super::{number, word};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::measure::{Amount, Amounts, Figured, Measured, amount_of, measure};
use crate::problem::Problem;
use crate::work::Work;
use highwater_formats::json;
use highwater_model::groups::{self, GroupBy, GroupKey};
use highwater_model::{Catalog, Figures, FrameText, Snapshot, StackId, ThreadId};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The most rows in one answer.
const MOST_ROWS: u64 = 10_000;

/// What rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Whole stacks.
    Site,
    /// Functions.
    Function,
    /// Source files.
    File,
    /// Executables and libraries.
    Module,
    /// Source lines.
    Place,
    /// Threads.
    Thread,
    /// Types.
    Type,
    /// Heaps.
    Heap,
}

impl By {
    /// Their names.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("site", Self::Site),
        ("function", Self::Function),
        ("file", Self::File),
        ("module", Self::Module),
        ("place", Self::Place),
        ("thread", Self::Thread),
        ("type", Self::Type),
        ("heap", Self::Heap),
    ];

    /// True where figures by stack do not tell.
    pub fn is_owner(self) -> bool {
        matches!(self, Self::Thread | Self::Type | Self::Heap)
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it stands for.
    pub key: GroupKey,
    /// What is its own.
    pub own: Amount,
    /// With all that was called from it.
    pub total: Amount,
    /// Its figures, where they are known.
    pub figures: Option<Figures>,
}

/// The rows of what was measured, those that are nothing left out; in no particular order.
pub fn rows_of(measured: &Measured, catalog: &Catalog, by: By) -> Vec<Row> {
    let mut rows = match by {
        By::Site => sites(measured).map(|(stack, own, figures)| row(GroupKey::Site(stack), own, figures)).collect(),
        By::Function => by_frame(measured, catalog, |frame| frame.function.to_owned()),
        By::File => by_frame(measured, catalog, |frame| frame.file.to_owned()),
        By::Module => by_frame(measured, catalog, |frame| frame.module.to_owned()),
        By::Place => by_frame(measured, catalog, |frame| match (frame.file, frame.line) {
            ("", _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        }),
        By::Thread | By::Type | By::Heap => by_owner(measured, catalog, by),
    };
    rows.retain(|row| !row.total.is_nothing());
    rows
}

fn row(key: GroupKey, own: Amount, figures: Option<Figures>) -> Row {
    Row { key, own, total: own, figures }
}

/// What each stack has.
pub fn sites(measured: &Measured) -> Box<dyn Iterator<Item = (StackId, Amount, Option<Figures>)> + '_> {
    match &measured.amounts {
        Amounts::Figures { figured, sieve } => {
            let all = (0..).map(StackId).zip(figured.snapshot().accounts.sites());
            let wanted = all.filter(|(stack, _)| sieve.passes_stack(*stack));
            let measure = |(stack, figures)| (stack, amount_of(measured.metric, figures), Some(*figures));
            Box::new(wanted.map(measure).filter(|(_, amount, _)| !amount.is_nothing()))
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<StackId, Amount> = BTreeMap::new();
            amounts.iter().for_each(|(owners, amount)| sums.entry(owners.stack).or_default().add(*amount));
            Box::new(sums.into_iter().map(|(stack, amount)| (stack, amount, None)))
        }
    }
}

fn by_frame(measured: &Measured, catalog: &Catalog, name: impl Fn(&FrameText<'_>) -> String) -> Vec<Row> {
    let mut groups: BTreeMap<String, Row> = BTreeMap::new();
    let empty = |name: String| Row {
        key: GroupKey::Name(name),
        own: Amount::default(),
        total: Amount::default(),
        figures: None,
    };
    for (stack, amount, figures) in sites(measured) {
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let own = own_frame(&frames).map_or_else(String::new, |frame| name(&frame));
        let own = groups.entry(own.clone()).or_insert_with(|| empty(own));
        own.own.add(amount);
        if let Some(figures) = figures {
            own.figures.get_or_insert_default().add(&figures);
        }
        let mut names: Vec<String> = frames.iter().map(&name).collect();
        if names.is_empty() {
            names.push(String::new());
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            groups.entry(name.clone()).or_insert_with(|| empty(name)).total.add(amount);
        }
    }
    groups.into_values().collect()
}

fn by_owner(measured: &Measured, catalog: &Catalog, by: By) -> Vec<Row> {
    match &measured.amounts {
        Amounts::Figures { figured, .. } => {
            let group = match by {
                By::Thread => GroupBy::Thread,
                By::Type => GroupBy::Type,
                _ => GroupBy::Heap,
            };
            let all = groups::rows(figured.snapshot(), group, groups::Metric::Live, None);
            all.into_iter()
                .map(|each| row(each.key, amount_of(measured.metric, &each.figures), Some(each.figures)))
                .collect()
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<GroupKey, Amount> = BTreeMap::new();
            for (owners, amount) in amounts {
                let tag = catalog.tag(owners.tag);
                let key = match by {
                    By::Thread => GroupKey::Thread(owners.thread),
                    By::Type => GroupKey::Name(catalog.strings.get(tag.type_name).to_owned()),
                    _ => GroupKey::Name(tag.heap.name().to_owned()),
                };
                // What has no type is not among the types.
                if by != By::Type || key != GroupKey::Name(String::new()) {
                    sums.entry(key).or_default().add(*amount);
                }
            }
            sums.into_iter().map(|(key, amount)| row(key, amount, None)).collect()
        }
    }
}

/// The figures of a row as `report` has them: of a window its counters, and what is live at its end.
pub fn figures_json(figured: &Figured, key: &GroupKey, figures: &Figures) -> Map<String, Value> {
    let snapshot = figured.snapshot();
    let mut members = json::figures(snapshot, figures);
    if let Figured::In(between) = figured {
        let live = live_at_end(&between.after, key);
        for (name, value) in [("live_bytes", live.map(|live| live.0)), ("live_blocks", live.map(|live| live.1))] {
            members.insert(name.to_owned(), value.into());
        }
    }
    members
}

/// Bytes and blocks that a row has at the end of a window, where that can be told without adding up.
fn live_at_end(after: &Snapshot, key: &GroupKey) -> Option<(u64, u64)> {
    let figures = match key {
        GroupKey::Site(stack) => after.accounts.sites().get(stack.0 as usize)?,
        GroupKey::Thread(id) => &after.accounts.threads().iter().find(|thread| thread.id == *id)?.figures,
        GroupKey::Name(_) => return None,
    };
    Some((figures.live_bytes(), figures.live_blocks()))
}

/// One row as JSON.
pub fn row_json(row: &Row, measured: &Measured, catalog: &Catalog, by: By) -> Value {
    let share = if measured.total.value == 0 { 0.0 } else { row.own.value as f64 / measured.total.value as f64 };
    let mut members = match (&measured.amounts, &row.figures) {
        (Amounts::Figures { figured, .. }, Some(figures)) => figures_json(figured, &row.key, figures),
        _ => Map::new(),
    };
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("key", key_text(catalog, &row.key).into());
    put("id", Value::Null);
    put("value", row.own.value.into());
    put("blocks", row.own.blocks.into());
    put("share", share.into());
    if matches!(by, By::Function | By::File | By::Module | By::Place) {
        put("self", row.own.value.into());
        put("total", row.total.value.into());
        put("total_blocks", row.total.blocks.into());
    }
    match &row.key {
        GroupKey::Site(stack) => {
            put("id", stack.0.into());
            let frames: Vec<FrameText<'_>> = catalog.frame_texts(*stack).take(MOST_FRAMES).collect();
            put("frame", own_frame(&frames).map_or(Value::Null, |frame| json::frame(&frame)));
            put("stack", frames.iter().map(json::frame).collect());
        }
        GroupKey::Thread(ThreadId(id)) => {
            put("id", (*id).into());
        }
        GroupKey::Name(_) => {}
    }
    members.into()
}

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
    let mut rows = rows_of(&measured, catalog, by);
    if !search.is_empty() {
        rows.retain(|row| is_found(catalog, row, &search));
    }
    sort(&mut rows, catalog, order, is_reversed);
    let shown = rows.iter().skip(offset).take(limit).map(|row| row_json(row, &measured, catalog, by));
    Ok(json!({
        "at_ns": measured.at.0,
        "total": total_json(&measured),
        "count": rows.len(),
        "rows": shown.collect::<Value>(),
    }))
}

/// The sum of what was measured, with all figures where they are known.
pub fn total_json(measured: &Measured) -> Value {
    let mut total = match &measured.amounts {
        Amounts::Figures { figured, sieve } if sieve.is_open() => {
            let mut members = json::figures(figured.snapshot(), &figured.snapshot().accounts.totals().figures);
            if let Figured::In(between) = figured {
                let live = &between.after.accounts.totals().figures;
                members.insert("live_bytes".to_owned(), live.live_bytes().into());
                members.insert("live_blocks".to_owned(), live.live_blocks().into());
            }
            members
        }
        _ => Map::new(),
    };
    total.insert("value".to_owned(), measured.total.value.into());
    total.insert("blocks".to_owned(), measured.total.blocks.into());
    total.into()
}

/// Whether a text, in lower case, is in what a row is called or in any of its frames.
pub fn is_found(catalog: &Catalog, row: &Row, search: &str) -> bool {
    is_found_in(catalog, &row.key, search)
}

/// The same of a row's key.
pub fn is_found_in(catalog: &Catalog, key: &GroupKey, search: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(search);
    match key {
        GroupKey::Site(stack) => catalog
            .frame_texts(*stack)
            .take(MOST_FRAMES)
            .any(|frame| has(frame.function) || has(frame.file) || has(frame.module)),
        GroupKey::Name(name) if name.is_empty() => has(UNKNOWN),
        GroupKey::Name(name) => has(name),
        key @ GroupKey::Thread(_) => has(&key_text(catalog, key)),
    }
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
    // Names come from the beginning, figures from the largest, unless the other way was asked for.
    if is_ascending.is_some_and(|ascending| ascending != (order == Order::Name)) {
        rows.reverse();
    }
}
