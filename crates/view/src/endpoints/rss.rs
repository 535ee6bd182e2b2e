//! `rss` and `rss/map`: where the resident memory of the process was.

use super::{Answered, MOST_ROWS, grouping, json, number, word};
use crate::choice::{RequestChoice, named_time};
use crate::http::request::Request;
use highwater_query::{self as query, GroupBy, QueryError, RssMapOptions, RssMoment, RssOptions, RssOrder};
use highwater_store::history::Work;

/// The most cells of a picture, and how many there are if the request does not say.
const MOST_CELLS: u64 = 1 << 15;
const CELLS: u64 = 4096;

/// `rss`: rows that add up to the resident memory, with sites, types and files.
pub fn rows(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let orders = [
        ("resident", RssOrder::Resident),
        ("pinned", RssOrder::Pinned),
        ("live", RssOrder::Live),
        ("slack", RssOrder::Slack),
        ("untouched", RssOrder::Untouched),
    ];
    let options = RssOptions {
        order: word(request, "sort", &orders)?,
        by: if request.parameter("by").is_some() { grouping(request)? } else { GroupBy::Type },
        limit: number(request, "limit", 100, MOST_ROWS)? as usize,
    };
    json(query::rss(&choice.query, moment(request, choice)?, &options, work)?)
}

/// `rss/map`: the pages of all heaps, or some of them, as cells.
pub fn map(request: &Request, choice: &RequestChoice, work: &Work<'_>) -> Answered {
    let options = RssMapOptions {
        from: number(request, "first", 0, u64::MAX)?,
        to: number(request, "end", u64::MAX, u64::MAX)?,
        cells: number(request, "cells", CELLS, MOST_CELLS)?.max(1) as usize,
    };
    json(query::rss_map(&choice.query, moment(request, choice)?, &options, work)?)
}

/// The instant that is asked for. Without one it is the instant at which RSS was highest, because that is the memory that the process takes.
fn moment(request: &Request, choice: &RequestChoice) -> Result<RssMoment, QueryError> {
    match request.parameter("at") {
        None | Some("" | "rss-peak") => Ok(RssMoment::RssPeak),
        Some(text) => Ok(RssMoment::At(named_time(&choice.query.history, text, "at")?)),
    }
}
