//! Where the resident memory is: rows that add up to the RSS of a process, by site and type, with the pages that each site keeps in RAM.
//!
//! The figures are those of a [`RssBreakdown`], which was made when the process was read; here they get names, an order, and [findings](RssFinding).

mod answer;
mod findings;
mod instants;
mod map;
mod sites;

pub use answer::{
    RssAllocator, RssAnswer, RssBeside, RssFigures, RssFile, RssFinding, RssGroup, RssInstant, RssLimit, RssRowAnswer,
    RssSite,
};
pub use instants::RssMoment;
pub use map::{RssArea, RssCell, RssMapAnswer, RssMapOptions, RssMapSite, rss_map_of};
pub use sites::SiteNames;

use crate::error::QueryError;
use crate::query::Query;
use highwater_model::groups::GroupBy;
use highwater_model::{MemoryLimit, ProcessMemory, RssBreakdown, RssKind, RssRow};
use highwater_store::history::Work;

/// How sites and groups are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RssOrder {
    /// By bytes in RAM.
    #[default]
    Resident,
    /// By the pages that they pin.
    Pinned,
    /// By requested bytes.
    Live,
    /// By usable bytes beyond those that were requested.
    Slack,
    /// By requested bytes that are not in RAM.
    Untouched,
}

/// Which tables are wanted.
#[derive(Clone, Copy, Debug)]
pub struct RssOptions {
    /// How sites and groups are sorted.
    pub order: RssOrder,
    /// What a row of the groups is.
    pub by: GroupBy,
    /// The most sites, groups and files.
    pub limit: usize,
}

/// Where the resident memory of a history was.
pub fn rss(query: &Query, moment: RssMoment, options: &RssOptions, work: &Work<'_>) -> Result<RssAnswer, QueryError> {
    let known = instants::breakdowns(query)?;
    work.go_on()?;
    let answer = rss_of(instants::choose(known, moment)?, names_of(query), options)?;
    Ok(RssAnswer { instants: instants::instants(known, query.history.marks()?), ..answer })
}

/// A picture of the heap's address space of a history.
pub fn rss_map(
    query: &Query,
    moment: RssMoment,
    options: &RssMapOptions,
    work: &Work<'_>,
) -> Result<RssMapAnswer, QueryError> {
    let known = instants::breakdowns(query)?;
    work.go_on()?;
    Ok(rss_map_of(instants::choose(known, moment)?, names_of(query), options))
}

fn names_of(query: &Query) -> SiteNames<'_> {
    SiteNames { catalog: query.history.catalog(), naming: &query.naming, has_site_types: query.has_site_types() }
}

/// The answer of one breakdown.
pub fn rss_of(breakdown: &RssBreakdown, names: SiteNames<'_>, options: &RssOptions) -> Result<RssAnswer, QueryError> {
    let sums = sites::figures_by_site(names.catalog, &breakdown.sites);
    let (sites, stacks) = sites::site_table(names, &sums, options)?;
    let (groups, group_count) = sites::group_table(names, &breakdown.sites, options);
    let process = &breakdown.process;
    let untouched = |kind| row_of(breakdown, kind).map_or(0, untouched);
    Ok(RssAnswer {
        at_ns: breakdown.at.0,
        reason: instants::reason_key(breakdown.reason),
        knows_every_block: breakdown.knows_every_block,
        rows: rows(breakdown),
        sum_bytes: breakdown.sum(),
        rss_bytes: process.rss,
        rss_after_bytes: process.rss_after,
        rss_peak_bytes: process.rss_peak,
        uncertain_bytes: breakdown.uncertain,
        without_agent_bytes: breakdown.sum().saturating_sub(breakdown.resident(RssKind::Agent)),
        free_bytes: breakdown.knows_every_block.then(|| breakdown.free()),
        untouched_block_bytes: untouched(RssKind::LiveBlocks),
        untouched_mapping_bytes: untouched(RssKind::Mappings),
        beside: beside(process),
        allocator: allocator(breakdown),
        site_count: sums.len(),
        sites,
        by: options.by.key(),
        group_count,
        groups,
        file_count: breakdown.files.len(),
        files: files(breakdown, options.limit),
        findings: findings::findings(breakdown, &sums, names),
        instants: instants::instants(std::slice::from_ref(breakdown), &[]),
        stacks,
    })
}

fn rows(breakdown: &RssBreakdown) -> Vec<RssRowAnswer> {
    let row = |kind: RssKind| {
        let row = row_of(breakdown, kind)?;
        Some(RssRowAnswer {
            key: kind.key(),
            name: kind.name(),
            group: group_of(kind),
            resident_bytes: row.resident,
            size_bytes: row.size,
            swapped_bytes: row.swapped,
        })
    };
    RssKind::ALL.into_iter().filter_map(row).collect()
}

/// The row of a kind, if there is one.
fn row_of(breakdown: &RssBreakdown, kind: RssKind) -> Option<&RssRow> {
    breakdown.rows.iter().find(|row| row.kind == kind)
}

/// Bytes that are neither in RAM nor swapped out.
fn untouched(row: &RssRow) -> u64 {
    row.size.saturating_sub(row.resident).saturating_sub(row.swapped)
}

/// The group of rows that a kind belongs to.
fn group_of(kind: RssKind) -> &'static str {
    match kind {
        RssKind::LiveBlocks
        | RssKind::Slack
        | RssKind::FreeTop
        | RssKind::FreePages
        | RssKind::FreePinned
        | RssKind::ThreadCaches
        | RssKind::AllocatorOwn
        | RssKind::AllocatorRest => "heap",
        RssKind::Mappings => "mappings",
        RssKind::Stacks | RssKind::CachedStacks => "stacks",
        RssKind::FileShared | RssKind::FilePrivate => "files",
        RssKind::SharedMemory => "shared",
        RssKind::Agent => "agent",
        RssKind::Kernel | RssKind::Other => "other",
    }
}

fn beside(process: &ProcessMemory) -> RssBeside {
    RssBeside {
        pss_bytes: process.pss,
        anonymous_bytes: process.anonymous,
        data_bytes: process.data,
        swap_bytes: process.swap,
        page_table_bytes: process.page_tables,
        huge_bytes: process.huge,
        huge_share: part(process.huge, process.rss),
        lazily_free_bytes: process.lazily_free,
        threads: process.threads,
        limit: process.limit.map(|MemoryLimit { bytes, used }| RssLimit {
            bytes,
            used_bytes: used,
            left_bytes: bytes.saturating_sub(used),
            used_share: part(used, bytes),
        }),
    }
}

/// A part of a whole, from 0 to 1.
fn part(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn allocator(breakdown: &RssBreakdown) -> RssAllocator {
    let allocator = &breakdown.allocator;
    RssAllocator {
        name: (!allocator.name.is_empty()).then(|| allocator.name.clone()),
        arenas: (allocator.arenas > 0).then_some(allocator.arenas),
        trim_bytes: allocator.trim,
        trim_is_upper_bound: allocator.trim_is_upper_bound,
        other_top_bytes: allocator.other_tops,
    }
}

fn files(breakdown: &RssBreakdown, limit: usize) -> Vec<RssFile> {
    let mut files: Vec<RssFile> = breakdown
        .files
        .iter()
        .map(|file| RssFile { path: file.path.clone(), shared_bytes: file.shared, private_bytes: file.private })
        .collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.shared_bytes.saturating_add(file.private_bytes)));
    files.truncate(limit);
    files
}
