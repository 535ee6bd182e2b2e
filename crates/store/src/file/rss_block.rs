//! The breakdown of resident memory at one instant, as a block of the file (docs/format.md §17).
//!
//! Fields in a fixed order, then columns. The numbers of a payload obey [`is_sound`], so that sums of them never wrap, also in a file of a hostile writer.

use super::column::{ColumnPacker, ColumnUnpacker};
use super::handles::Handles;
use super::varint::{self, VarintReader};
use highwater_model::{
    AllocatorMemory, AreaKind, BreakdownReason, FilePages, HeapArea, MemoryLimit, Nanos, PageOwner, PageRun,
    ProcessMemory, RssBreakdown, RssKind, RssRow, SitePages, StackId, TagId,
};
use std::io;

/// The limit of bytes in one column.
const LONGEST_COLUMN: u64 = 1 << 26;
/// The limit of rows, sites, files, areas and runs, in all, for each byte of the payload.
const MOST_ENTRIES_PER_BYTE: u64 = 4;
/// The limit of every number of bytes or pages, and of every sum of one column of a table. No address space is larger.
const MOST_BYTES: u64 = 1 << 60;
/// The unit of [`PageRun::pages`].
const PAGE: u64 = 4096;

mod column {
    pub const ROWS: u8 = 0;
    pub const SITES: u8 = 1;
    pub const FILES: u8 = 2;
    pub const AREAS: u8 = 3;
    pub const RUN_PAGES: u8 = 4;
    pub const RUN_LIVE: u8 = 5;
    pub const RUN_OWNERS: u8 = 6;
    pub const COUNT: u8 = 7;
}

/// The bits of the flags.
mod flag {
    pub const KNOWS_EVERY_BLOCK: u64 = 1;
    pub const HAS_PSS: u64 = 1 << 1;
    pub const HAS_LAZILY_FREE: u64 = 1 << 2;
    pub const HAS_LIMIT: u64 = 1 << 3;
    pub const HAS_TRIM: u64 = 1 << 4;
    pub const TRIM_IS_UPPER_BOUND: u64 = 1 << 5;
}

/// The stored form of a [`PageOwner`]. From [`FIRST_SITE`] on it is the number of a site.
mod owner {
    pub const ABSENT: u64 = 0;
    pub const FREE: u64 = 1;
    pub const SEVERAL: u64 = 2;
    pub const ALLOCATOR: u64 = 3;
    pub const FIRST_SITE: u64 = 4;
}

/// A breakdown that was read, and how many of its handles are not in the catalog.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadBreakdown {
    /// The breakdown.
    pub breakdown: RssBreakdown,
    /// Stacks and tags that were lost, or never were there.
    pub unknown_handles: u64,
}

/// Appends the payload, of a breakdown that [`is_sound`].
pub fn encode(breakdown: &RssBreakdown, packer: &mut ColumnPacker, out: &mut Vec<u8>) -> io::Result<()> {
    let start = out.len();
    put_fields(breakdown, out);
    let mut columns: [Vec<u8>; column::COUNT as usize] = Default::default();
    let mut put = |id: u8, values: &[u64]| {
        values.iter().for_each(|&value| varint::put(&mut columns[usize::from(id)], value));
    };
    for row in &breakdown.rows {
        put(column::ROWS, &[row.kind as u64, row.resident, row.size - row.resident, row.swapped]);
    }
    for site in &breakdown.sites {
        let SitePages { stack, tag, blocks, live, usable, resident, pinned } = *site;
        put(column::SITES, &[stack.0.into(), tag.0.into(), blocks, live, usable, resident, pinned]);
    }
    for area in &breakdown.areas {
        put(column::AREAS, &[area.kind as u64, area.start / PAGE, area.runs.len() as u64]);
        for run in &area.runs {
            put(column::RUN_PAGES, &[run.pages.into()]);
            put(column::RUN_LIVE, &[run.live.into()]);
            put(column::RUN_OWNERS, &[owner_number(run.owner)]);
        }
    }
    let files = &mut columns[usize::from(column::FILES)];
    for file in &breakdown.files {
        varint::put_byte_string(files, file.path.as_bytes());
        varint::put(files, file.shared);
        varint::put(files, file.private);
    }
    for (id, raw) in (0..).zip(&columns) {
        packer.add(id, raw)?;
    }
    packer.finish(out);
    let least = start + entries(breakdown) / MOST_ENTRIES_PER_BYTE as usize;
    if out.len() < least {
        out.resize(least, 0);
    }
    Ok(())
}

/// Rows, sites, files, areas and runs.
fn entries(breakdown: &RssBreakdown) -> usize {
    let RssBreakdown { rows, sites, files, areas, .. } = breakdown;
    let runs: usize = areas.iter().map(|area| area.runs.len()).sum();
    rows.len() + sites.len() + files.len() + areas.len() + runs
}

fn put_fields(breakdown: &RssBreakdown, out: &mut Vec<u8>) {
    let (process, allocator) = (&breakdown.process, &breakdown.allocator);
    let flags = [
        (flag::KNOWS_EVERY_BLOCK, breakdown.knows_every_block),
        (flag::HAS_PSS, process.pss.is_some()),
        (flag::HAS_LAZILY_FREE, process.lazily_free.is_some()),
        (flag::HAS_LIMIT, process.limit.is_some()),
        (flag::HAS_TRIM, allocator.trim.is_some()),
        (flag::TRIM_IS_UPPER_BOUND, allocator.trim_is_upper_bound),
    ];
    let flags: u64 = flags.iter().filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum();
    [breakdown.at.0, breakdown.reason as u64, flags].iter().for_each(|&value| varint::put(out, value));
    byte_fields(breakdown).iter().for_each(|&value| varint::put(out, value));
    varint::put_byte_string(out, allocator.name.as_bytes());
}

/// The numbers of the whole, in the order of the file. 0 where one is not known.
fn byte_fields(breakdown: &RssBreakdown) -> [u64; 17] {
    let (process, allocator) = (&breakdown.process, &breakdown.allocator);
    let limit = process.limit.unwrap_or_default();
    [
        breakdown.uncertain,
        process.rss,
        process.rss_after,
        process.rss_peak,
        process.anonymous,
        process.data,
        process.swap,
        process.page_tables,
        process.huge,
        process.threads,
        process.pss.unwrap_or(0),
        process.lazily_free.unwrap_or(0),
        limit.bytes,
        limit.used,
        allocator.arenas,
        allocator.trim.unwrap_or(0),
        allocator.other_tops,
    ]
}

fn owner_number(owner: PageOwner) -> u64 {
    match owner {
        PageOwner::Absent => owner::ABSENT,
        PageOwner::Free => owner::FREE,
        PageOwner::Several => owner::SEVERAL,
        PageOwner::Allocator => owner::ALLOCATOR,
        PageOwner::Site(site) => owner::FIRST_SITE + u64::from(site),
    }
}

/// Reads a payload; `None` if it is malformed. Handles beyond `believed` are read as 0.
pub fn decode(payload: &[u8], known: Handles, believed: Handles) -> Option<ReadBreakdown> {
    let mut input = VarintReader::new(payload);
    let mut breakdown = read_fields(&mut input)?;
    let mut unpacker = ColumnUnpacker::new(column::COUNT).ok()?;
    unpacker.unpack(input, LONGEST_COLUMN)?;
    let mut room = (payload.len() as u64).saturating_add(1).saturating_mul(MOST_ENTRIES_PER_BYTE);
    let mut take_room = || {
        room = room.checked_sub(1)?;
        Some(())
    };

    let mut input = unpacker.column(column::ROWS);
    while !input.is_empty() {
        take_room()?;
        read_row(&mut input, &mut breakdown.rows)?;
    }
    let mut input = unpacker.column(column::SITES);
    let mut unknown_handles = 0;
    while !input.is_empty() {
        take_room()?;
        let mut site = read_site(&mut input)?;
        unknown_handles += u64::from(site.stack.0 >= known.stacks) + u64::from(site.tag.0 >= known.tags);
        site.stack = if site.stack.0 < believed.stacks { site.stack } else { StackId::UNKNOWN };
        site.tag = if site.tag.0 < believed.tags { site.tag } else { TagId::NONE };
        breakdown.sites.push(site);
    }
    let mut input = unpacker.column(column::FILES);
    while !input.is_empty() {
        take_room()?;
        let path = String::from_utf8_lossy(input.byte_string()?).into_owned();
        breakdown.files.push(FilePages { path, shared: input.number()?, private: input.number()? });
    }
    let mut input = unpacker.column(column::AREAS);
    let mut runs = [column::RUN_PAGES, column::RUN_LIVE, column::RUN_OWNERS].map(|id| unpacker.column(id));
    while !input.is_empty() {
        take_room()?;
        let kind = area_kind(input.number()?);
        let start = input.number()?.checked_mul(PAGE)?;
        let mut area = HeapArea { kind, start, runs: Vec::new() };
        for _ in 0..input.number()? {
            take_room()?;
            area.runs.push(read_run(&mut runs, breakdown.sites.len() as u64)?);
        }
        breakdown.areas.push(area);
    }
    let is_whole = runs.iter().all(VarintReader::is_empty);
    (is_whole && is_sound(&breakdown)).then_some(ReadBreakdown { breakdown, unknown_handles })
}

fn read_fields(input: &mut VarintReader<'_>) -> Option<RssBreakdown> {
    let (at, reason, flags) = (Nanos(input.number()?), input.number()?, input.number()?);
    let has = |bit: u64| flags & bit != 0;
    let uncertain = input.number()?;
    let mut process = ProcessMemory {
        rss: input.number()?,
        rss_after: input.number()?,
        rss_peak: input.number()?,
        anonymous: input.number()?,
        data: input.number()?,
        swap: input.number()?,
        page_tables: input.number()?,
        huge: input.number()?,
        threads: input.number()?,
        ..ProcessMemory::default()
    };
    let (pss, lazily_free) = (input.number()?, input.number()?);
    let limit = MemoryLimit { bytes: input.number()?, used: input.number()? };
    process.pss = has(flag::HAS_PSS).then_some(pss);
    process.lazily_free = has(flag::HAS_LAZILY_FREE).then_some(lazily_free);
    process.limit = has(flag::HAS_LIMIT).then_some(limit);
    let (arenas, trim, other_tops) = (input.number()?, input.number()?, input.number()?);
    let allocator = AllocatorMemory {
        name: String::from_utf8_lossy(input.byte_string()?).into_owned(),
        arenas,
        trim: has(flag::HAS_TRIM).then_some(trim),
        trim_is_upper_bound: has(flag::TRIM_IS_UPPER_BOUND),
        other_tops,
    };
    let (reason, knows_every_block) = (reason_of(reason), has(flag::KNOWS_EVERY_BLOCK));
    Some(RssBreakdown { at, reason, process, allocator, knows_every_block, uncertain, ..RssBreakdown::default() })
}

/// The reason stored as `number`. One of a later version is read as a request.
fn reason_of(number: u64) -> BreakdownReason {
    match number {
        1 => BreakdownReason::RssPeak,
        2 => BreakdownReason::Mark,
        3 => BreakdownReason::End,
        _ => BreakdownReason::Request,
    }
}

/// The kind stored as `number`. One of a later version is read as memory of an allocator, of which nothing else is known.
fn area_kind(number: u64) -> AreaKind {
    match number {
        0 => AreaKind::Main,
        1 => AreaKind::Arena,
        _ => AreaKind::Allocator,
    }
}

/// Reads a row. Rows of kinds that a later version added become one row of [`RssKind::Other`], so that the rows still add up to RSS.
fn read_row(input: &mut VarintReader<'_>, rows: &mut Vec<RssRow>) -> Option<()> {
    let kind = RssKind::from_number(input.number()?).unwrap_or(RssKind::Other);
    let (resident, beyond, swapped) = (input.number()?, input.number()?, input.number()?);
    let row = RssRow { kind, resident, size: resident.checked_add(beyond)?, swapped };
    match rows.last_mut() {
        Some(last) if last.kind == kind && kind == RssKind::Other => {
            last.resident = last.resident.checked_add(row.resident)?;
            last.size = last.size.checked_add(row.size)?;
            last.swapped = last.swapped.checked_add(row.swapped)?;
        }
        _ => rows.push(row),
    }
    Some(())
}

fn read_site(input: &mut VarintReader<'_>) -> Option<SitePages> {
    Some(SitePages {
        stack: StackId(input.number32()?),
        tag: TagId(input.number32()?),
        blocks: input.number()?,
        live: input.number()?,
        usable: input.number()?,
        resident: input.number()?,
        pinned: input.number()?,
    })
}

fn read_run(columns: &mut [VarintReader<'_>; 3], sites: u64) -> Option<PageRun> {
    let [pages, live, owners] = columns;
    let (pages, live) = (pages.number32()?, u16::try_from(live.number()?).ok()?);
    let owner = match owners.number()? {
        owner::ABSENT => PageOwner::Absent,
        owner::FREE => PageOwner::Free,
        owner::SEVERAL => PageOwner::Several,
        owner::ALLOCATOR => PageOwner::Allocator,
        site => {
            let site = site - owner::FIRST_SITE;
            (site < sites).then_some(())?;
            PageOwner::Site(u32::try_from(site).ok()?)
        }
    };
    Some(PageRun { pages, live, owner })
}

/// True if a file can hold the breakdown: rows in the order of their kinds, areas in the order of their addresses, no page twice, and no number, and no sum of
/// a column of a table, above [`MOST_BYTES`].
pub fn is_sound(breakdown: &RssBreakdown) -> bool {
    let RssBreakdown { rows, sites, files, areas, .. } = breakdown;
    let is_run_sound = |run: &PageRun| {
        let is_site = |site: u32| (site as usize) < sites.len();
        run.pages > 0 && u64::from(run.live) <= PAGE && !matches!(run.owner, PageOwner::Site(site) if !is_site(site))
    };
    byte_fields(breakdown).iter().all(|&value| value <= MOST_BYTES)
        && rows.iter().is_sorted_by(|a, b| a.kind < b.kind)
        && rows.iter().all(|row| row.resident <= row.size)
        && are_bounded(rows.iter().map(|row| [row.resident, row.size, row.swapped]))
        && are_bounded(sites.iter().map(|site| [site.blocks, site.live, site.usable, site.resident, site.pinned]))
        && are_bounded(files.iter().map(|file| [file.shared, file.private]))
        && areas.iter().all(|area| area.start % PAGE == 0 && area.runs.iter().all(is_run_sound))
        && are_in_order(areas)
}

/// True if no sum over the rows exceeds [`MOST_BYTES`].
fn are_bounded<const N: usize>(rows: impl Iterator<Item = [u64; N]>) -> bool {
    let mut sums = [0u64; N];
    rows.into_iter().flat_map(|row| row.into_iter().enumerate()).all(|(at, value)| {
        sums[at] = sums[at].saturating_add(value);
        sums[at] <= MOST_BYTES
    })
}

fn are_in_order(areas: &[HeapArea]) -> bool {
    let mut end = 0u64;
    areas.iter().all(|area| {
        let pages = area.runs.iter().map(|run| u64::from(run.pages)).fold(0u64, u64::saturating_add);
        let is_after = area.start >= end;
        end = area.start.saturating_add(pages.saturating_mul(PAGE));
        is_after && end < u64::MAX
    })
}
