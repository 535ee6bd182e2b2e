//! The endpoints of the API: the parameters of a request become a question to `highwater-query`, and its answer becomes JSON.

pub mod fleet;
pub mod live;
pub mod pprof;
pub mod processes;
pub mod rss;
pub mod short_names;
pub mod source;
pub mod sources;
pub mod special;
pub mod stacks;

use crate::choice::{RequestChoice, filters_of, named_moment, naming_of, window_of};
use crate::http::request::Request;
use crate::sources::Sources;
use highwater_model::AllocId;
use highwater_query::{
    self as query, BandsOptions, BlockChoice, BlockOrder, BlocksOptions, CompareOptions, GroupBy, GrowthOptions,
    LeaksOptions, Metric, Query, QueryError, RowOrder, RowsOptions, TimelineEffort, TreeOptions,
};
use highwater_store::history::Work;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The most rows in one answer, and the most bins, bands, points and blocks.
const MOST_ROWS: u64 = 10_000;
const MOST_BINS: u64 = 10_000;
const MOST_BANDS: u64 = 100;
const MOST_POINTS: u64 = 1000;
const MOST_BLOCKS: u64 = 1000;
/// The largest offset into a list of blocks: the blocks up to it are held in memory while the list is made.
const FARTHEST: u64 = 1_000_000;

/// An answer, or why there is none.
pub type Answered = Result<Value, QueryError>;

fn json(answer: impl Serialize) -> Answered {
    serde_json::to_value(answer).map_err(QueryError::failed)
}

/// A parameter that is a number, at most `most`; `missing` if it is absent.
fn number(request: &Request, name: &str, missing: u64, most: u64) -> Result<u64, QueryError> {
    match request.parameter(name) {
        None | Some("") => Ok(missing),
        Some(text) => match text.parse() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(QueryError::Bad(format!("{name}={text}: a number up to {most} is wanted"))),
        },
    }
}

/// A parameter that is one of some words; the first of them if it is absent.
fn word<T: Copy>(request: &Request, name: &str, words: &[(&str, T)]) -> Result<T, QueryError> {
    let given = request.parameter(name).filter(|text| !text.is_empty());
    let known = words.iter().find(|(word, _)| given.is_none_or(|given| given == *word));
    known.map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        QueryError::Bad(format!("{name}={}: there are {}", given.unwrap_or_default(), all.join(", ")))
    })
}

/// What the rows are. `place` is the old name of `line`.
fn grouping(request: &Request) -> Result<GroupBy, QueryError> {
    let mut words: Vec<(&str, GroupBy)> = GroupBy::ALL.into_iter().map(|by| (by.key(), by)).collect();
    words.push(("place", GroupBy::Line));
    word(request, "by", &words)
}

fn is_ascending(request: &Request) -> Result<bool, QueryError> {
    word(request, "order", &[("desc", false), ("asc", true)])
}

fn search(request: &Request) -> String {
    request.parameter("search").unwrap_or_default().to_owned()
}

/// The share of the whole below which nodes are left out.
fn least_share(request: &Request) -> Result<f64, QueryError> {
    match request.parameter("least") {
        None | Some("") => Ok(TreeOptions::LEAST_SHARE),
        Some(text) => match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(QueryError::Bad(format!("least={text}: a share from 0 to 1 is wanted"))),
        },
    }
}

fn tree_options(request: &Request) -> Result<TreeOptions, QueryError> {
    Ok(TreeOptions {
        is_inverted: word(request, "direction", &[("down", false), ("up", true)])?,
        in_blocks: word(request, "measure", &[("bytes", false), ("blocks", true)])?,
        hidden: request.all_parameters("hide").map(str::to_owned).collect(),
        merges_recursion: word(request, "merge_recursion", &[("0", false), ("1", true)])?,
        with_library: word(request, "library", &[("0", false), ("1", true)])?,
        splits_lines: word(request, "split", &[("function", false), ("line", true)])?,
        least_share: least_share(request)?,
    })
}

/// `filters`: whether the filters of a request can be used, without using them.
pub fn checked_filters(request: &Request) -> Answered {
    json(serde_json::json!({ "count": filters_of(request)?.len() }))
}

/// `timeline`: live bytes and blocks, rates, gauges and marks over a window.
pub fn timeline(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let points = number(request, "points", 600, MOST_BINS)? as usize;
    json(query::timeline(&choice.query, points, TimelineEffort::Quick, work)?)
}

/// `bands`: live memory over a window, stacked.
pub fn bands(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let options = BandsOptions {
        by: grouping(request)?,
        points: number(request, "points", 600, MOST_BINS)? as usize,
        top: number(request, "top", 8, MOST_BANDS)? as usize,
        in_blocks: word(request, "measure", &[("bytes", false), ("blocks", true)])?,
    };
    json(query::bands(&choice.query, &options, work)?)
}

/// `peak`: where the most bytes are live within the window.
pub fn peak(_: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    json(query::peak(&choice.query, work)?)
}

/// `overview`: key figures, four top lists, and anomalies in words.
pub fn overview(_: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    json(query::overview(&choice.query, work)?)
}

/// `headline`: the peak, the site that holds most of it, and what grows steadily.
pub fn headline(_: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    json(query::headline(&choice.query, work)?)
}

/// `rows`: a table.
pub fn rows(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let orders = [
        ("value", RowOrder::Value),
        ("self", RowOrder::Value),
        ("share", RowOrder::Value),
        ("blocks", RowOrder::Blocks),
        ("name", RowOrder::Name),
        ("key", RowOrder::Name),
        ("total", RowOrder::Total),
        ("average", RowOrder::Average),
    ];
    let options = RowsOptions {
        by: grouping(request)?,
        order: word(request, "sort", &orders)?,
        is_ascending: word(request, "order", &[("", None), ("asc", Some(true)), ("desc", Some(false))])?,
        search: search(request),
        offset: number(request, "offset", 0, u64::MAX)? as usize,
        limit: number(request, "limit", 100, MOST_ROWS)? as usize,
    };
    json(query::rows(&choice.query, &options, work)?)
}

/// `callers`: the callers and callees of a function.
pub fn callers(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let function = request.parameter("function").ok_or_else(|| QueryError::bad("function= is missing"))?;
    json(query::callers(&choice.query, function, work)?)
}

/// `tree`: a flame graph, or with `focus=` the callers and callees of one function.
pub fn tree(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let options = tree_options(request)?;
    match request.parameter("focus").filter(|name| !name.is_empty()) {
        Some(function) => json(query::focus(&choice.query, function, &options, work)?),
        None => json(query::tree(&choice.query, &options, work)?),
    }
}

/// `blocks`: single allocations.
pub fn blocks(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let orders = [
        ("size", BlockOrder::Size),
        ("time", BlockOrder::Time),
        ("lifetime", BlockOrder::Lifetime),
        ("address", BlockOrder::Address),
    ];
    let options = BlocksOptions {
        order: word(request, "sort", &orders)?,
        is_ascending: is_ascending(request)?,
        search: search(request),
        offset: number(request, "offset", 0, FARTHEST)? as usize,
        limit: number(request, "limit", 100, MOST_BLOCKS)? as usize,
    };
    json(query::blocks(&choice.query, &options, work)?)
}

/// `block`: the life of one block, by its number or by an address.
pub fn block(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let given = |name: &str| request.parameter(name).filter(|text| !text.is_empty());
    let wanted = match (given("id"), given("address")) {
        (Some(_), None) => BlockChoice::Number(AllocId(number(request, "id", 0, u64::MAX)?)),
        (None, Some(text)) => BlockChoice::Address(address(text)?),
        _ => return Err(QueryError::bad("either id= or address= is wanted")),
    };
    json(query::biography(&choice.query, wanted, work)?)
}

/// An address in hex, with or without `0x`.
fn address(text: &str) -> Result<u64, QueryError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = if is_hex { u64::from_str_radix(digits, 16).ok() } else { None };
    number.ok_or_else(|| QueryError::Bad(format!("address={text}: an address in hex is wanted")))
}

/// `histograms`: sizes and lifetimes.
pub fn histograms(_: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    json(query::histograms(&choice.query, work)?)
}

/// `growth`: sites by how steadily their blocks grow.
pub fn growth(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let options = GrowthOptions {
        by: GroupBy::Site,
        points: number(request, "points", 40, MOST_POINTS)? as usize,
        limit: number(request, "limit", 200, MOST_ROWS)? as usize,
        is_ascending: is_ascending(request)?,
        search: search(request),
    };
    json(query::growth(&*judged(request, choice, work)?, &options, work)?)
}

/// `still_live`: what is live at the instant, by site, with the age of the oldest block.
pub fn still_live(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let options = LeaksOptions { limit: number(request, "limit", 200, MOST_ROWS)? as usize };
    json(query::leaks(&*judged(request, choice, work)?, &options, work)?)
}

/// What leaks and growth are judged by: with `before_teardown=1`, the window that ends before the program's tear-down.
fn judged<'a>(request: &Request, choice: &'a RequestChoice, work: &Work<'_>) -> Result<Cow<'a, Query>, QueryError> {
    Ok(match word(request, "before_teardown", &[("0", false), ("1", true)])? {
        true => Cow::Owned(query::judged_before_teardown(&choice.query, work)?),
        false => Cow::Borrowed(&choice.query),
    })
}

/// `compare`: two instants, of one source or of two.
pub fn compare(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let options = CompareOptions {
        by: grouping(request)?,
        limit: number(request, "limit", 500, MOST_ROWS)? as usize,
        is_ascending: is_ascending(request)?,
        search: search(request),
        tree: tree_options(request)?,
    };
    let [before, after] = sides(request, sources)?;
    json(query::compare([&before, &after], &options, work)?)
}

/// The live memory of both sides of a comparison. The window, and the sites and threads that filters name, are of the source `source=`; without it,
/// of side A's: another source has other times and other numbers.
fn sides(request: &Request, sources: &Sources) -> Result<[Query; 2], QueryError> {
    let named = [named_side(request, "a")?, named_side(request, "b")?];
    let chosen = match request.parameter("source") {
        None | Some("") => named[0].0,
        Some(_) => number(request, "source", 0, u64::MAX)? as usize,
    };
    let is_one_source = named.iter().all(|(id, _)| *id == chosen);
    let filters = filters_of(request)?;
    let side = |(id, instant): (usize, &str)| -> Result<Query, QueryError> {
        let history = Arc::clone(&sources.get(id)?.loaded()?.history);
        let window = if id == chosen { window_of(request, &history)? } else { history.whole() };
        let at = named_moment(&history, window, instant)?;
        let naming = naming_of(request, &history)?;
        // The chosen source is translated, too: several of its sites may have the text of the one that is meant, and rows of two sources pair those.
        let filters = if is_one_source || filters.is_empty() {
            filters.clone()
        } else {
            let chosen = Arc::clone(&sources.get(chosen)?.loaded()?.history);
            query::foreign_filters(&filters, chosen.catalog(), history.catalog())?
        };
        Ok(Query { history, window, at, metric: Metric::Live, filters, naming })
    };
    let (before, mut after) = (side(named[0])?, side(named[1])?);
    // What is a wrapper in one is a wrapper in both.
    after.naming.learned = Arc::new(after.naming.learned.and(&before.naming.learned));
    Ok([before, after])
}

/// The source and the instant that a side of a comparison names.
fn named_side<'a>(request: &'a Request, name: &str) -> Result<(usize, &'a str), QueryError> {
    let text = request.parameter(name).ok_or_else(|| QueryError::Bad(format!("{name}= is missing")))?;
    let (id, instant) = text.split_once('@').unwrap_or((text, "end"));
    let id = id.parse().map_err(|_| QueryError::Bad(format!("{name}={text}: SOURCE@INSTANT is wanted")))?;
    Ok((id, instant))
}
