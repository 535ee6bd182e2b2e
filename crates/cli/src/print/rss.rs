//! The resident memory as text: rows that add up, what is beside them, tables of sites and files, and findings.

use super::bytes::{bytes, count, counted, share};
use super::colour::Style;
use super::heading::Heading;
use super::rows::{RowName, add_row};
use super::stack::SiteView;
use super::table::{Align, Cell, Table};
use crate::output::Output;
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Catalog, RssBreakdown, RssKind, StackId};
use highwater_query::{RssAnswer, RssFigures, RssFinding, RssRowAnswer};

/// The number of files that are shown.
const FILES: usize = 5;

/// The groups of rows, in the order in which they are shown, and their names.
const GROUPS: [(&str, &str); 7] = [
    ("heap", "heap"),
    ("mappings", "mappings"),
    ("stacks", "stacks"),
    ("files", "files"),
    ("shared", "shared memory"),
    ("other", "other"),
    ("agent", "Highwater"),
];

/// The rows and their sum.
pub fn rows(answer: &RssAnswer, output: &Output) -> String {
    let mut table = Table::default()
        .column(Align::Right, "resident")
        .column(Align::Right, "share")
        .column(Align::Right, "of")
        .column(Align::Left, "");
    let whole = answer.sum_bytes;
    for (group, name) in GROUPS {
        let members: Vec<&RssRowAnswer> = answer.rows.iter().filter(|row| row.group == group).collect();
        if members.len() > 1 {
            let resident = members.iter().map(|row| row.resident_bytes).sum();
            table.row(vec![
                bytes(resident).into(),
                share(resident, whole).into(),
                "".into(),
                Cell::new(Style::Bold, name),
            ]);
        }
        let indent = if members.len() > 1 { "  " } else { "" };
        for row in members {
            let cells = [bytes(row.resident_bytes), share(row.resident_bytes, whole), size_of(row)];
            let mut cells: Vec<Cell> = cells.iter().map(|text| Cell::new(Style::Plain, text)).collect();
            cells.push(format!("{indent}{}", row.name).into());
            table.row(cells);
        }
    }
    table.row(vec![bytes(whole).into(), share(whole, whole).into(), "".into(), Cell::new(Style::Bold, &sum(answer))]);
    let agent = answer.sum_bytes.saturating_sub(answer.without_agent_bytes);
    if agent > 0 {
        let without = answer.without_agent_bytes;
        table.row(vec![
            bytes(without).into(),
            share(without, whole).into(),
            "".into(),
            "without Highwater's agent".into(),
        ]);
    }
    table.render(output.paint, output.width)
}

/// The address space of a row, if not all of it is resident.
fn size_of(row: &RssRowAnswer) -> String {
    if row.size_bytes > row.resident_bytes { bytes(row.size_bytes) } else { String::new() }
}

/// What the kernel says about the sum.
fn sum(answer: &RssAnswer) -> String {
    let (before, after) = (answer.rss_bytes, answer.rss_after_bytes);
    let kernel = if bytes(before) == bytes(after) {
        bytes(before)
    } else {
        format!("{} before and {} after", bytes(before), bytes(after))
    };
    match answer.uncertain_bytes {
        0 if before == answer.sum_bytes => "sum: the kernel's RSS to the byte".to_owned(),
        0 => format!("sum; the kernel's RSS: {kernel}"),
        uncertain => format!("sum, ± {}; the kernel's RSS: {kernel}", bytes(uncertain)),
    }
}

/// Adds the kernel's figures of the process.
pub fn add_process(head: &mut Heading, answer: &RssAnswer) {
    let beside = &answer.beside;
    let mut parts = vec![bytes(answer.rss_bytes)];
    if answer.rss_peak_bytes > answer.rss_bytes {
        parts.push(format!("{} at its highest", bytes(answer.rss_peak_bytes)));
    }
    if let Some(pss) = beside.pss_bytes {
        parts.push(format!("{} proportionally (PSS)", bytes(pss)));
    }
    head.line("RSS", parts.join(", "));
    if let Some(limit) = &beside.limit {
        let used = share(limit.used_bytes, limit.bytes);
        head.line(
            "limit",
            format!("{}, {used} used by its control group, {} left", bytes(limit.bytes), bytes(limit.left_bytes)),
        );
    }
}

/// What is not part of the sum, and the allocator.
pub fn beside(answer: &RssAnswer, output: &Output) -> String {
    let mut lines = Heading::default();
    let (blocks, mappings) = (answer.untouched_block_bytes, answer.untouched_mapping_bytes);
    let untouched: Vec<String> = [(blocks, "live blocks"), (mappings, "mappings")]
        .iter()
        .filter(|(size, _)| *size > 0)
        .map(|(size, what)| format!("{} of {what}", bytes(*size)))
        .collect();
    if !untouched.is_empty() {
        lines.line("not resident", format!("{}: never touched, or given back", untouched.join(", ")));
    }
    let beside = &answer.beside;
    if beside.swap_bytes > 0 {
        lines.line("swapped out", bytes(beside.swap_bytes));
    }
    if beside.huge_bytes > 0 {
        lines.line(
            "huge pages",
            format!("{} ({} of RSS)", bytes(beside.huge_bytes), share(beside.huge_bytes, answer.rss_bytes)),
        );
    }
    if let Some(free) = beside.lazily_free_bytes.filter(|free| *free > 0) {
        lines.line("lazily free", format!("{} (MADV_FREE)", bytes(free)));
    }
    lines.line("page tables", format!("{}, which are the kernel's", bytes(beside.page_table_bytes)));
    lines.line("threads", count(beside.threads));
    if let Some(allocator) = allocator(answer) {
        lines.line("allocator", allocator);
    }
    lines.render(output.paint, output.width)
}

fn allocator(answer: &RssAnswer) -> Option<String> {
    let allocator = &answer.allocator;
    let mut parts = vec![allocator.name.clone()?];
    if let Some(arenas) = allocator.arenas {
        parts.push(counted(arenas, "arena"));
    }
    if let Some(free) = answer.free_bytes.filter(|free| *free > 0) {
        parts.push(format!("{} free and resident", bytes(free)));
    }
    Some(parts.join(", "))
}

/// How sites and groups are shown.
#[derive(Clone, Copy)]
pub struct SiteTable<'a> {
    /// What the rows are.
    pub by: GroupBy,
    /// Whether the pages that they pin come first.
    pub pinned: bool,
    /// How call stacks are shown.
    pub sites: SiteView<'a>,
}

impl SiteTable<'_> {
    /// The table, and a line about the rows that are not shown.
    pub fn render(&self, answer: &RssAnswer, catalog: &Catalog, output: &Output) -> String {
        let rows = self.rows(answer);
        if rows.is_empty() {
            return String::new();
        }
        let knows_pins = answer.knows_every_block;
        let columns = columns(self.pinned, knows_pins);
        let mut table = Table::default();
        for (heading, _) in &columns {
            table = table.column(Align::Right, heading);
        }
        table = table.column(Align::Left, self.by.key());
        let keys: Vec<(&Catalog, &GroupKey)> = rows.iter().map(|(key, _)| (catalog, key)).collect();
        let names = RowName::all(self.by, self.sites, &keys);
        for ((key, figures), name) in rows.iter().zip(names) {
            let cells = columns.iter().map(|(_, text)| Cell::new(Style::Plain, &text(figures))).collect();
            add_row(&mut table, cells, catalog, key, self.sites, &name);
        }
        let all = if self.by == GroupBy::Site { answer.site_count } else { answer.group_count };
        let more = all.saturating_sub(rows.len()) as u64;
        let rest = match more {
            0 => String::new(),
            more => format!("… {}; '--top 0' shows all.\n", counted(more, &format!("more {}", self.by.key()))),
        };
        format!("{}{rest}", table.render(output.paint, output.width))
    }

    fn rows(&self, answer: &RssAnswer) -> Vec<(GroupKey, RssFigures)> {
        let rows: Vec<(GroupKey, RssFigures)> = match self.by {
            GroupBy::Site => answer.sites.iter().map(|site| (GroupKey::Site(StackId(site.id)), site.figures)).collect(),
            _ => answer.groups.iter().map(|group| (GroupKey::Name(group.key.clone()), group.figures)).collect(),
        };
        rows.into_iter().filter(|(_, figures)| !self.pinned || figures.pinned_bytes > 0).collect()
    }
}

type Column = (&'static str, fn(&RssFigures) -> String);

fn columns(pinned: bool, knows_pins: bool) -> Vec<Column> {
    let resident: Column = ("resident", |figures| bytes(figures.resident_bytes));
    let live: Column = ("live", |figures| bytes(figures.live_bytes));
    let slack: Column = ("slack", |figures| bytes(figures.slack_bytes));
    let pins: Column = ("pinned", |figures| bytes(figures.pinned_bytes));
    let blocks: Column = ("blocks", |figures| count(figures.blocks));
    match (pinned, knows_pins) {
        (true, _) => vec![pins, resident, live, blocks],
        (false, true) => vec![resident, live, slack, pins, blocks],
        (false, false) => vec![resident, live, slack, blocks],
    }
}

/// The largest files.
pub fn files(answer: &RssAnswer, output: &Output) -> String {
    if answer.files.is_empty() {
        return String::new();
    }
    let mut table =
        Table::default().column(Align::Right, "page cache").column(Align::Right, "private").column(Align::Left, "file");
    for file in answer.files.iter().take(FILES) {
        table.row(vec![bytes(file.shared_bytes).into(), bytes(file.private_bytes).into(), file.path.as_str().into()]);
    }
    let more = answer.file_count.saturating_sub(FILES) as u64;
    let rest = if more > 0 { format!("… {}\n", counted(more, "more file")) } else { String::new() };
    format!("{}{rest}", table.render(output.paint, output.width))
}

/// The findings; empty if there are none.
pub fn findings(findings: &[RssFinding], output: &Output) -> String {
    let mut text = String::new();
    for finding in findings {
        let how = output.paint.paint(Style::Dim, finding.how);
        text.push_str(&format!("* {}\n  ({how})\n", finding.sentence));
    }
    match text.is_empty() {
        true => text,
        false => format!("{}\n{text}", output.paint.paint(Style::Yellow, "Findings:")),
    }
}

/// The rows in a line, all in one unit: `RSS 103.4 MiB = live 7.3 + slack 0.4 + free 38.3 + files 11.6 + agent 45.8`. Parts that would be 0.0 are left out.
pub fn in_a_line(breakdown: &RssBreakdown) -> String {
    let of = |kinds: &[RssKind]| kinds.iter().map(|kind| breakdown.resident(*kind)).sum::<u64>();
    let parts = [
        ("live", of(&[RssKind::LiveBlocks])),
        ("slack", of(&[RssKind::Slack])),
        ("free", breakdown.free()),
        ("allocator", of(&[RssKind::AllocatorOwn, RssKind::AllocatorRest])),
        ("mappings", of(&[RssKind::Mappings])),
        ("stacks", of(&[RssKind::Stacks, RssKind::CachedStacks])),
        ("files", of(&[RssKind::FileShared, RssKind::FilePrivate])),
        ("shared", of(&[RssKind::SharedMemory])),
        ("other", of(&[RssKind::Other, RssKind::Kernel])),
        ("agent", of(&[RssKind::Agent])),
    ];
    let whole = breakdown.sum();
    let unit = [1u64 << 30, 1 << 20, 1 << 10].into_iter().find(|unit| whole >= *unit).unwrap_or(1) as f64;
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, size)| (name, format!("{:.1}", *size as f64 / unit)))
        .filter(|(_, text)| text != "0.0")
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    format!("RSS {} = {}", bytes(whole), parts.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::RssRow;

    #[test]
    fn a_line_has_the_parts_in_the_unit_of_the_whole() {
        let row = |kind, resident| RssRow { kind, resident, size: resident, swapped: 0 };
        let rows = vec![
            row(RssKind::LiveBlocks, 7 << 20),
            row(RssKind::FreeTop, 1 << 20),
            row(RssKind::FreePages, 1 << 19),
            row(RssKind::Kernel, 4096),
            row(RssKind::Agent, 3 << 20),
        ];
        let breakdown = RssBreakdown { rows, ..RssBreakdown::default() };
        assert_eq!(in_a_line(&breakdown), "RSS 11.5 MiB = live 7.0 + free 1.5 + agent 3.0");
        assert_eq!(in_a_line(&RssBreakdown::default()), "RSS 0 B = ");
    }
}
