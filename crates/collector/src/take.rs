//! Taking a snapshot: from a cut of a table to the contents of a `.hw` file.

use crate::attached::{AttachedReader, OlderBlocksNow};
use crate::cut::{Cut, TableScan, Unread};
use crate::older::OlderNow;
use crate::pages::{LiveMemoryBuilder, OLDER_NODE, PageDetail, ReadPages, knows_every_block, read_pages};
use crate::past::{FREED_BEFORE, figures_of_past, part_of};
use crate::peek::{Peek, Peeked, Unpeeked};
use crate::process_identity::ProcessIdentity;
use crate::protocol::{CutInfo, Detail};
use crate::sums::{BlockOwner, Sums};
use crate::table::{LiveTable, Overclaimed, TableExtent, count_of, is_of_mappings};
use crate::threads::{ALL_THREADS, Threads};
use crate::weigh::Scale;
use highwater_model::{
    AccountsState, AllocId, Anomalies, Anomaly, Block, Blocks, Catalog, Figures, FrameText, Heap, Nanos, RssBreakdown,
    Sites, Source, SourceKind, StackId, Tag, TagId, ThreadAccount, ThreadId, Totals, Weight, mapped_address,
};
use highwater_resident::ScanError;
use highwater_session::{BEFORE_ATTACH, BEFORE_ATTACH_THREAD, SessionNames, UnrecordedPrograms};
use highwater_shm::table_v1::{Count, FLAG_FORKED, FLAG_USABLE_SIZES, STAMP_SHIFT};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The maximum number of attempts at a snapshot.
pub(crate) const MOST_ATTEMPTS: u64 = 5;
/// The lease of the first attempt: a cut ends after it unless it is extended. Each further attempt doubles it.
pub(crate) const FIRST_LEASE: Duration = Duration::from_secs(2);
/// Files hold no larger counts.
const MOST_COUNTED: u64 = 1 << 40;

/// The process of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotSubject<'a> {
    /// Its shared table.
    pub table: &'a LiveTable,
    /// Its identity.
    pub about: &'a ProcessIdentity,
    /// When it was found to be gone, in its own time; `None` while it runs.
    pub gone: Option<Nanos>,
    /// For a process that did not start with an agent.
    pub attached: Option<&'a AttachedReader>,
}

/// The requested contents of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Sites only, or every block.
    pub detail: Detail,
    /// How many of the first bytes of each block to read, if any.
    pub contents: Option<u64>,
    /// Whether to read where the resident memory is, and how much of that.
    pub pages: Option<PageDetail>,
}

/// A snapshot, ready to be written.
#[derive(Debug)]
pub struct LiveSnapshot {
    /// The process.
    pub source: Source,
    /// The names that the accounts refer to.
    pub catalog: Catalog,
    /// Figures, and blocks if they were requested.
    pub accounts: AccountsState,
    /// How the cut was made.
    pub cut: CutInfo,
    /// Contents of blocks, if they were requested.
    pub contents: Option<File>,
    /// Where the resident memory is, if that was requested and could be read.
    pub breakdown: Option<RssBreakdown>,
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The program ended each attempt.
    Void,
    /// The table claims more than its memory holds.
    Overclaimed,
    /// The system does not permit reading the blocks' contents.
    Unreadable(rustix::io::Errno),
    /// The table does not show the process's memory: the reason.
    Untrue(String),
}

impl std::fmt::Display for NotTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Void => f.write_str("the program frees faster than its table can be read"),
            Self::Overclaimed => Overclaimed.fmt(f),
            Self::Unreadable(error) => {
                write!(f, "the system does not let its contents be read: {error} (see kernel.yama.ptrace_scope)")
            }
            Self::Untrue(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotTaken {}

impl From<Overclaimed> for NotTaken {
    fn from(_: Overclaimed) -> Self {
        Self::Overclaimed
    }
}

/// Takes a snapshot. `after_cut` is called once, right after the first cut.
pub fn take(
    subject: SnapshotSubject<'_>,
    wanted: SnapshotRequest,
    after_cut: impl FnOnce(),
) -> Result<LiveSnapshot, NotTaken> {
    let mut after_cut = Some(after_cut);
    for attempt in 1..=MOST_ATTEMPTS {
        let mut cut = match subject.gone {
            Some(_) => subject.table.last_cut(),
            None => subject.table.cut(FIRST_LEASE * (1 << (attempt - 1)))?,
        };
        if let Some(after_cut) = after_cut.take() {
            after_cut();
        }
        cut.settle();
        match read_with_pages(subject, wanted, cut) {
            Ok(mut found) => {
                found.cut.attempts = attempt;
                return Ok(assemble(subject, found));
            }
            Err(TakeProblem::Unread(Unread::Void)) => {}
            Err(TakeProblem::Unread(Unread::Overclaimed)) => return Err(NotTaken::Overclaimed),
            Err(TakeProblem::Unreadable(error)) => return Err(NotTaken::Unreadable(error)),
        }
    }
    Err(NotTaken::Void)
}

/// Why an attempt failed.
enum TakeProblem {
    Unread(Unread),
    Unreadable(rustix::io::Errno),
}

impl From<Unread> for TakeProblem {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<Unpeeked> for TakeProblem {
    fn from(unpeeked: Unpeeked) -> Self {
        match unpeeked {
            Unpeeked::Unread(unread) => Self::Unread(unread),
            Unpeeked::System(error) => Self::Unreadable(error),
        }
    }
}

impl From<Overclaimed> for TakeProblem {
    fn from(overclaimed: Overclaimed) -> Self {
        Self::Unread(overclaimed.into())
    }
}

/// A block, to be sorted.
#[derive(Clone, Copy)]
struct Compact {
    stamp: u64,
    address: u64,
    size: u64,
    node: u32,
    thread: u32,
    surplus: i32,
    rate: u8,
    is_mapping: bool,
}

/// The result of reading a cut.
struct CutResult {
    extent: TableExtent,
    scan: TableScan,
    what: CutBlocks,
    scale: Scale,
    instant: Nanos,
    cut: CutInfo,
    contents: Option<Peeked>,
    /// Blocks and mappings by themselves, if pages were requested and `what` has sums only.
    live: Option<LiveMemoryBuilder>,
    pages: Option<ReadPages>,
    /// Blocks that are older than an attach, right after the cut.
    older: OlderBlocksNow,
}

impl CutResult {
    /// Blocks that are older than an attach, if they are known.
    fn known_older(&self) -> Option<&OlderNow> {
        if let OlderBlocksNow::Known(older) = &self.older { Some(older) } else { None }
    }
}

/// The blocks of a cut: added up by site, or each by itself.
enum CutBlocks {
    Sites(Sums),
    Blocks(Vec<Compact>),
}

/// Reads the table, and at the same time the pages of the process if they were requested.
fn read_with_pages(
    subject: SnapshotSubject<'_>,
    wanted: SnapshotRequest,
    cut: Cut<'_>,
) -> Result<CutResult, TakeProblem> {
    let Some(detail) = wanted.pages else { return read(subject, wanted, cut) };
    let (found, pages) = std::thread::scope(|scope| {
        let pages = scope.spawn(move || read_pages(subject, detail));
        (read(subject, wanted, cut), pages.join())
    });
    let mut found = found?;
    match pages.unwrap_or_else(|_| Err(ScanError::System(std::io::Error::other("reading its pages failed")))) {
        Ok(pages) => {
            found.cut.pages_ns = nanoseconds(pages.time);
            found.pages = Some(pages);
        }
        Err(error) => found.cut.no_pages = error.to_string(),
    }
    Ok(found)
}

/// Reads everything that needs the cut, and ends the cut.
fn read(subject: SnapshotSubject<'_>, wanted: SnapshotRequest, mut cut: Cut<'_>) -> Result<CutResult, TakeProblem> {
    let table = subject.table;
    let begin = Instant::now();
    let with_list = wanted.detail == Detail::Blocks || wanted.pages.is_some();
    let older = subject.attached.map_or(OlderBlocksNow::Unknown, |attached| attached.older(table, with_list));
    let extent = table.extent()?;
    let mut scale = Scale::of(table);
    let mut peek = wanted.contents.map(|bytes| Peek::new(subject.about.pid, bytes));
    let mut live = match (wanted.pages, wanted.detail) {
        (Some(_), Detail::Sites) => Some(LiveMemoryBuilder::new(table, extent.nodes)),
        _ => None,
    };
    let (scan, what) = match wanted.detail {
        Detail::Sites => {
            let mut sums = Sums::new(&extent);
            let scan = cut.scan(&extent, |position, block| {
                let is_mapping = is_of_mappings(position.shard);
                let owner = BlockOwner { node: block.node, thread: block.thread, is_mapping };
                let weight = scale.weight(block.rate, block.size);
                sums.add_weighed(owner, AllocId(sums.records), block.size, weight);
                if let Some(live) = &mut live {
                    live.add((block.address, block.size, block.surplus), block.node, is_mapping);
                }
                if let Some(peek) = &mut peek {
                    peek.want(position, block);
                }
            })?;
            (scan, CutBlocks::Sites(sums))
        }
        Detail::Blocks => {
            let mut blocks = Vec::with_capacity(expected_blocks(table, &extent));
            let scan = cut.scan(&extent, |position, block| {
                blocks.push(Compact {
                    stamp: block.stamp,
                    address: block.address,
                    size: block.size,
                    node: block.node,
                    thread: block.thread,
                    surplus: block.surplus,
                    rate: block.rate,
                    is_mapping: is_of_mappings(position.shard),
                });
                if let Some(peek) = &mut peek {
                    peek.want(position, block);
                }
            })?;
            (scan, CutBlocks::Blocks(blocks))
        }
    };
    let scan_time = begin.elapsed();
    let contents = peek.map(|peek| peek.read(&cut)).transpose()?;
    let info = CutInfo {
        exact: cut.is_exact(),
        verified: scan.is_verified(),
        exited: subject.gone.is_some(),
        attempts: 1,
        cut_ns: nanoseconds(cut.cut_time()),
        settle_ns: nanoseconds(cut.settle_time()),
        scan_ns: nanoseconds(scan_time),
        untracked: count_of(&scan.counts, Count::Untracked),
        unknown_frees: count_of(&scan.counts, Count::UnknownFrees),
        contents_missing: contents.as_ref().map_or(0, |contents| contents.missing),
        pages_ns: 0,
        no_pages: String::new(),
    };
    let instant = subject.gone.unwrap_or(cut.instant());
    if !cut.end() {
        return Err(Unread::Void.into());
    }
    let mut found = CutResult { extent, scan, what, scale, instant, cut: info, contents, live, pages: None, older };
    if let Some(attached) = subject.attached {
        leave_out_reborn(&mut found, attached);
    }
    Ok(found)
}

/// An older block that has the address of a recorded one is gone: its free was not seen. Only looked for where blocks are listed: that needs all addresses.
fn leave_out_reborn(found: &mut CutResult, attached: &AttachedReader) {
    let (OlderBlocksNow::Known(older), CutBlocks::Blocks(blocks)) = (&mut found.older, &found.what) else { return };
    let index_of = |address| older.list.binary_search_by_key(&address, |&(address, _)| address).ok();
    let indices: BTreeSet<usize> =
        blocks.iter().filter(|block| !block.is_mapping).filter_map(|block| index_of(block.address)).collect();
    attached.remove_older(indices.iter().map(|&index| older.list[index].0));
    for &index in indices.iter().rev() {
        let (_, size) = older.list.remove(index);
        older.live.blocks -= 1;
        older.live.bytes -= size;
    }
}

/// The expected number of blocks. The process's own count is limited to the number of records.
fn expected_blocks(table: &LiveTable, extent: &TableExtent) -> usize {
    let counts = table.counts();
    let live = count_of(&counts, Count::Allocations).wrapping_sub(count_of(&counts, Count::Frees));
    let most: u64 = extent.used.iter().map(|&used| u64::from(used)).sum();
    live.min(most) as usize
}

/// Makes a snapshot from the result of a cut.
fn assemble(subject: SnapshotSubject<'_>, found: CutResult) -> LiveSnapshot {
    let older = found.known_older().cloned();
    let CutResult { extent, scan, what, mut scale, instant, cut, contents, live, pages, older: state } = found;
    let table = subject.table;
    let mut catalog = Catalog::default();
    let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
    let mut names =
        if subject.gone.is_none() { SessionNames::of_process(subject.about.pid) } else { SessionNames::default() };
    let stamps = table.stamps();
    names.read_modules(table.session(), &subject.about.executable, &mut catalog, |stamp| stamps.time(stamp));
    let aggregated = matches!(what, CutBlocks::Sites(_));
    let older = older.map(|older| OlderPart {
        stack: catalog.intern_stack(&[FrameText { function: BEFORE_ATTACH, ..FrameText::default() }]),
        now: older,
    });
    let mut stacks = NodeStacks { names, known: vec![0; extent.nodes.max(1) as usize] };
    let mut owner_of = |node, is_mapping| {
        if node == OLDER_NODE
            && let Some(older) = &older
        {
            return (older.stack, TagId::NONE);
        }
        let stack = stacks.of(node, table, &mut catalog);
        (stack, stacks.tag(node, is_mapping).unwrap_or(if is_mapping { mapped } else { TagId::NONE }))
    };
    // Before the blocks are numbered: of very many blocks, two copies at a time are enough.
    let breakdown = pages.map(|pages| {
        let mut live = live.unwrap_or_else(|| live_memory(table, &extent, &what));
        let list = older.iter().flat_map(|older| &older.now.list);
        list.for_each(|&block| live.add_older(block));
        let live = live.finish(|(node, is_mapping)| owner_of(node, is_mapping), knows_every_block(table, &cut));
        RssBreakdown { at: instant, ..pages.scan.breakdown(live) }
    });
    let (sums, blocks) = match what {
        CutBlocks::Sites(sums) => (sums, Blocks::default()),
        CutBlocks::Blocks(found) => {
            number(found, older.as_ref(), NumberedTable { table, extent: &extent, instant }, &mut scale, owner_of)
        }
    };
    let past = figures_of_past(&scan.counts, &sums.whole);
    let past_of_mappings = part_of(&past, figures_of_past(&scan.mapping_counts, &sums.whole));
    let (mut sites, mut tags) = (Sites::default(), Vec::new());
    let mut of_mappings = sums.mappings.figures();
    for (node, sum) in sums.by_node() {
        let stack = stacks.of(node, table, &mut catalog);
        sites.at(stack).add(&sum.figures());
        let mappings = sums.mappings_of(node).figures();
        let parts = [(true, mappings), (false, without(&sum.figures(), &mappings))];
        for (is_mapping, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            if let Some(tag) = stacks.tag(node, is_mapping) {
                row(&mut tags, tag.0).add(&part);
                of_mappings = if is_mapping { without(&of_mappings, &part) } else { of_mappings };
            }
        }
    }
    let known = Threads::read(table, &extent);
    let running = subject.gone.is_none().then_some(subject.about.pid);
    let mut threads: Vec<ThreadAccount> = Vec::new();
    let mut figures = sums.whole.figures();
    if let Some(older) = &older {
        let own = older.now.figures();
        sites.at(older.stack).add(&own);
        catalog.name_thread(ThreadId::UNKNOWN, BEFORE_ATTACH_THREAD);
        threads.push(account(ThreadId::UNKNOWN, own));
        figures.add(&own);
    }
    let older_blocks = older.as_ref().map_or(0, |older| older.now.live.blocks);
    for (number, sum) in sums.by_thread() {
        let id = known.id(number);
        catalog.name_thread(id, &known.name(number, table, running));
        threads.push(account(id, sum.figures()));
    }
    if !past.is_empty() {
        let stack = catalog.intern_stack(&[FrameText { function: FREED_BEFORE, ..FrameText::default() }]);
        sites.at(stack).add(&past);
        catalog.name_thread(ALL_THREADS.0, ALL_THREADS.1);
        threads.push(account(ALL_THREADS.0, past));
    }
    of_mappings.add(&past_of_mappings);
    if !of_mappings.is_empty() {
        *row(&mut tags, mapped.0) = of_mappings;
    }
    figures.add(&past);
    let counted = [Count::Allocations, Count::Reallocations, Count::Frees].map(|count| count_of(&scan.counts, count));
    let records = sums.records + older_blocks;
    let events = counted.into_iter().fold(0, u64::saturating_add).max(records).min(MOST_COUNTED);
    let accounts = AccountsState {
        totals: Totals {
            figures,
            peak_blocks: figures.live_blocks(),
            peak_at: instant,
            peak_event: events,
            peak_bytes_inside_reallocation: 0,
        },
        anomalies: anomalies(table, &scan, sums.clamped),
        threads,
        sites,
        tags,
        events,
        next_id: records,
        last_time: instant,
        blocks,
    };
    let rate = if scale.largest != 0 { scale.largest } else { table.sample_bytes() };
    let source = Source {
        kind: SourceKind::NATIVE,
        program: subject.about.name(),
        executable: subject.about.executable.clone(),
        pid: subject.about.pid.into(),
        parent_pid: subject.about.parent.into(),
        command: subject.about.command.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        start_unix_ns: stamps.start_unix_ns(),
        duration: instant,
        sample_rate: (rate != 0).then_some(rate),
        usable_sizes: !aggregated && table.has_flag(FLAG_USABLE_SIZES),
        aggregated,
        address_space: table.address_space(),
        notes: notes_of(subject, &state),
        ..Source::default()
    };
    LiveSnapshot { source, catalog, accounts, cut, contents: contents.map(|contents| contents.file), breakdown }
}

fn notes_of(subject: SnapshotSubject<'_>, older: &OlderBlocksNow) -> Vec<String> {
    let mut notes = UnrecordedPrograms::of(subject.table.session()).sentences();
    notes.extend(subject.attached.map(|attached| attached.in_words(older)));
    notes
}

/// The blocks that are older than an attach, with their site.
struct OlderPart {
    now: OlderNow,
    stack: StackId,
}

/// The table whose blocks are numbered.
#[derive(Clone, Copy)]
struct NumberedTable<'a> {
    table: &'a LiveTable,
    extent: &'a TableExtent,
    instant: Nanos,
}

/// The live memory of the blocks that were read one by one.
fn live_memory(table: &LiveTable, extent: &TableExtent, what: &CutBlocks) -> LiveMemoryBuilder {
    let mut live = LiveMemoryBuilder::new(table, extent.nodes);
    if let CutBlocks::Blocks(blocks) = what {
        for block in blocks {
            live.add((block.address, block.size, block.surplus), block.node, block.is_mapping);
        }
    }
    live
}

/// The stacks of nodes, each read once: the shared memory may change, and all uses of a node must get the same stack.
struct NodeStacks {
    names: SessionNames,
    /// By node: its stack plus one; 0 if it has not been read.
    known: Vec<u32>,
}

impl NodeStacks {
    fn of(&mut self, node: u32, table: &LiveTable, catalog: &mut Catalog) -> StackId {
        let known = &mut self.known[node as usize];
        if *known == 0 {
            *known = self.names.stack(node, table.session(), catalog).0 + 1;
        }
        StackId(*known - 1)
    }

    /// The tag of a task's node that was read.
    fn tag(&self, node: u32, is_mapping: bool) -> Option<TagId> {
        Some(self.names.tag(node, is_mapping)).filter(|tag| *tag != TagId::NONE)
    }
}

/// Orders blocks by their time, numbers them, and adds those of the table up. Older ones come first, and so does their thread.
fn number(
    mut found: Vec<Compact>,
    older: Option<&OlderPart>,
    NumberedTable { table, extent, instant }: NumberedTable<'_>,
    scale: &mut Scale,
    mut owner_of: impl FnMut(u32, bool) -> (StackId, TagId),
) -> (Sums, Blocks) {
    // In place: there may be very many blocks.
    found.sort_unstable_by_key(|block| (block.stamp, block.address));
    let (mut sums, mut blocks) = (Sums::new(extent), Blocks::default());
    let mut indices = vec![u32::MAX; extent.threads.max(1) as usize];
    let (mut threads, stamps) = (u32::from(older.is_some()), table.stamps());
    let mut ids = (0..).map(AllocId);
    let listed = older.iter().flat_map(|part| part.now.list.iter().map(move |block| (part, block)));
    for ((part, &(address, size)), id) in listed.zip(ids.by_ref()) {
        blocks.push(Block {
            id,
            address,
            size,
            time: Nanos(0),
            thread: 0,
            stack: part.stack,
            tag: TagId::NONE,
            surplus: 0,
            weight: Weight::ONE,
        });
    }
    for (id, one) in ids.zip(found) {
        let weight = scale.weight(one.rate, one.size);
        // As in the sums: unknown nodes and threads count as number 0.
        let node = if one.node < extent.nodes { one.node } else { 0 };
        let thread = if one.thread < extent.threads { one.thread } else { 0 };
        let owner = BlockOwner { node, thread, is_mapping: one.is_mapping };
        let (size, weight) = sums.add_weighed(owner, id, one.size, weight);
        let index = &mut indices[thread as usize];
        if *index == u32::MAX {
            *index = threads;
            threads += 1;
        }
        let (stack, tag) = owner_of(node, one.is_mapping);
        blocks.push(Block {
            id,
            address: if one.is_mapping { mapped_address(one.address) } else { one.address },
            size,
            time: stamps.time(one.stamp << STAMP_SHIFT).min(instant),
            thread: *index,
            stack,
            tag,
            surplus: one.surplus,
            weight,
        });
    }
    (sums, blocks)
}

fn account(id: ThreadId, figures: Figures) -> ThreadAccount {
    ThreadAccount { id, figures, last_allocation: AllocId(u64::MAX) }
}

/// Figures of live blocks, less a part of them.
fn without(figures: &Figures, part: &Figures) -> Figures {
    let rest = figures.without(part);
    Figures { peak_bytes: rest.live_bytes(), ..rest }
}

fn row(rows: &mut Vec<Figures>, index: u32) -> &mut Figures {
    let index = index as usize;
    if index >= rows.len() {
        rows.resize(index + 1, Figures::default());
    }
    &mut rows[index]
}

/// Anomalies until now.
fn anomalies(table: &LiveTable, scan: &TableScan, clamped: u64) -> Anomalies {
    let of = |count| count_of(&scan.counts, count);
    let header = table.session().header();
    let load = |counter: &std::sync::atomic::AtomicU32| u64::from(counter.load(Ordering::Relaxed));
    let mut anomalies = Anomalies::default();
    // A forked child frees blocks of its parent, which are in the parent's table.
    if !table.has_flag(FLAG_FORKED) {
        anomalies.add(Anomaly::UnmatchedFree, of(Count::UnknownFrees));
    }
    anomalies.add(Anomaly::DroppedEvent, of(Count::Untracked));
    anomalies.add(Anomaly::DroppedEvent, load(&header.missed));
    anomalies.add(Anomaly::DuplicateAllocation, of(Count::Duplicates));
    anomalies.add(Anomaly::TruncatedStack, load(&header.cut_stacks) + load(&header.lost_nodes));
    anomalies.add(Anomaly::ClampedSize, clamped);
    anomalies
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
