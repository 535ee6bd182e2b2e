//! The pass over all zones: each resident byte into its row.

use super::areas;
use super::blocks::{CHUNK_OFFSET, HEADER, is_mapped_chunk};
use super::holders::{HeldChunk, HeldPages, Holder, PageHolders};
use super::zones::{Zone, ZoneKind, Zones};
use crate::image::{FENCE, Heap, KnownChunk, ProcessImage};
use crate::live_memory::{LiveBlock, LiveMemory};
use crate::mappings::{PAGE, page_ceil, page_floor};
use crate::regions::{PageBytes, RegionCursor};
use highwater_model::{AreaKind, FilePages, HeapArea, PageOwner, PageRun, RssKind, RssRow, SitePages};

/// A free chunk of glibc keeps this much of its first page (`sizeof(struct malloc_chunk)`).
const TRIM_MARGIN: u64 = 48;

/// What the pass gives, besides the sites.
#[derive(Debug, Default)]
pub struct Totals {
    pub rows: Vec<RssRow>,
    pub files: Vec<FilePages>,
    pub areas: Vec<HeapArea>,
    /// What `malloc_trim` would return.
    pub trim: u64,
    pub other_tops: u64,
    /// Usable bytes of blocks that are in glibc's heaps or have mappings of their own, and of all others.
    pub glibc_bytes: u64,
    pub foreign_bytes: u64,
}

/// Adds up zones in order of their addresses.
pub struct Ledger<'a> {
    image: &'a ProcessImage,
    live: &'a LiveMemory,
    zones: &'a Zones,
    sites: &'a mut [SitePages],
    rows: [RssRow; RssKind::ALL.len()],
    cursor: RegionCursor<'a>,
    /// The blocks and chunks that may lie in the next zone.
    next_block: usize,
    next_chunk: usize,
    totals: Totals,
}

impl<'a> Ledger<'a> {
    pub fn new(image: &'a ProcessImage, live: &'a LiveMemory, zones: &'a Zones, sites: &'a mut [SitePages]) -> Self {
        let file = |path: &String| FilePages { path: path.clone(), ..FilePages::default() };
        Self {
            image,
            live,
            zones,
            sites,
            rows: RssKind::ALL.map(|kind| RssRow { kind, resident: 0, size: 0, swapped: 0 }),
            cursor: RegionCursor::new(&image.regions),
            next_block: 0,
            next_chunk: 0,
            totals: Totals { files: zones.paths.iter().map(file).collect(), ..Totals::default() },
        }
    }

    /// Adds all zones. Pages between them came after the mappings were read.
    pub fn add_all(&mut self) {
        let mut at = 0;
        for zone in &self.zones.list {
            self.add_pages(RssKind::Other, at, zone.start);
            self.add_zone(zone);
            at = zone.end;
        }
        self.add_pages(RssKind::Other, at, u64::MAX);
    }

    /// The result. Kinds without bytes are left out.
    pub fn finish(mut self) -> Totals {
        let is_used = |row: &RssRow| row.size > 0 || row.resident > 0 || row.swapped > 0;
        self.totals.rows = self.rows.into_iter().filter(is_used).collect();
        self.totals
    }

    fn add_zone(&mut self, zone: &Zone) {
        match zone.kind {
            ZoneKind::NotCounted => {}
            ZoneKind::Agent => self.add_rest(zone, zone.start, zone.end),
            ZoneKind::Heap(index) => self.add_heap(zone, &self.image.heaps[index]),
            ZoneKind::Allocator if zone.has_blocks => self.add_allocator(zone),
            _ => self.add_other(zone),
        }
    }

    /// A zone whose pages are not followed. Blocks with mappings of their own are in such.
    fn add_other(&mut self, zone: &Zone) {
        let mut at = zone.start;
        for block in self.blocks_in(zone) {
            let is_mapped = self.image.glibc.is_some() && is_mapped_chunk(block);
            let start = block.address - if is_mapped { CHUNK_OFFSET } else { 0 };
            let start = start.clamp(at, zone.end);
            self.add_rest(zone, at, start);
            let (end, resident) = self.add_block(zone, block, start);
            at = end;
            if is_mapped {
                self.totals.glibc_bytes = self.totals.glibc_bytes.saturating_add(block.usable);
                if let Some(site) = self.sites.get_mut(block.owner as usize) {
                    site.pinned += resident;
                }
            }
        }
        self.add_rest(zone, at, zone.end);
    }

    fn add_allocator(&mut self, zone: &Zone) {
        let mut pages = HeapPages::new(self, zone, 0, AreaKind::Allocator);
        let mut at = zone.start;
        for block in self.blocks_in(zone) {
            let start = block.address.clamp(at, zone.end);
            self.add_bytes(RssKind::AllocatorRest, at, start);
            at = self.add_block(zone, block, start).0;
            self.totals.foreign_bytes = self.totals.foreign_bytes.saturating_add(block.usable);
            pages.hold(held(block, block.address, block.address + block.usable), self);
        }
        self.add_bytes(RssKind::AllocatorRest, at, zone.end);
        pages.finish(self);
    }

    fn add_heap(&mut self, zone: &Zone, heap: &Heap) {
        let mut pages = HeapPages::new(self, zone, TRIM_MARGIN, heap.kind);
        // The last chunk's bytes end 8 after the chunk, where the header of the next begins. Before the first chunk and after the last is the allocator's own data.
        let mut at = heap.first_chunk.saturating_add(HEADER).clamp(zone.start, zone.end);
        self.add_bytes(RssKind::AllocatorOwn, zone.start, at);
        pages.hold(own(zone.start, heap.first_chunk.min(zone.end)), self);
        let end = heap.end.saturating_sub(if heap.top.is_none() { FENCE } else { 0 }).clamp(at, zone.end);
        let blocks = self.blocks_in(zone);
        let mut chunks = self.chunks_in(zone).iter().peekable();
        for block in blocks {
            let start = block.address.saturating_sub(HEADER).min(end).max(at);
            while let Some(chunk) = chunks.next_if(|chunk| chunk.start.saturating_add(HEADER) < start) {
                at = self.add_chunk(heap, chunk, at, start, &mut pages);
            }
            self.add_gap(heap, at, start);
            at = self.add_block(zone, block, start).0.max(at);
            self.totals.glibc_bytes = self.totals.glibc_bytes.saturating_add(block.usable);
            let chunk_start = block.address.saturating_sub(CHUNK_OFFSET);
            pages.hold(held(block, chunk_start, (block.address + block.usable).saturating_sub(HEADER)), self);
        }
        for chunk in chunks {
            at = self.add_chunk(heap, chunk, at, end, &mut pages);
        }
        self.add_gap(heap, at, end);
        let at = at.max(end);
        self.add_bytes(RssKind::AllocatorOwn, at, zone.end);
        pages.hold(own(at, zone.end), self);
        pages.finish(self);
    }

    /// A chunk that is neither free nor live, and the gap before it. One that overlaps what is counted already is out of date.
    fn add_chunk(&mut self, heap: &Heap, chunk: &KnownChunk, at: u64, limit: u64, pages: &mut HeapPages) -> u64 {
        let (start, end) = (chunk.start.saturating_add(HEADER), chunk.end.saturating_add(HEADER).min(limit));
        if start < at || end <= start {
            return at;
        }
        self.add_gap(heap, at, start);
        self.add_bytes(if chunk.is_cached { RssKind::ThreadCaches } else { RssKind::AllocatorOwn }, start, end);
        pages.hold(own(chunk.start, chunk.end.min(limit)), self);
        end
    }

    /// Memory of a heap in no chunk that is in use.
    fn add_gap(&mut self, heap: &Heap, start: u64, end: u64) {
        let top = heap.top.map_or(end, |top| top.saturating_add(HEADER)).clamp(start, end.max(start));
        if self.live.knows_every_block {
            let first = page_ceil(start).min(top);
            let last = page_floor(top).max(first);
            self.add_bytes(RssKind::FreePinned, start, first);
            self.add_bytes(RssKind::FreePages, first, last);
            self.add_bytes(RssKind::FreePinned, last, top);
        } else {
            self.add_bytes(RssKind::AllocatorRest, start, top);
        }
        self.add_bytes(RssKind::FreeTop, top, end);
    }

    /// A block with its header, which begins at `start`; returns the end, and the resident bytes.
    fn add_block(&mut self, zone: &Zone, block: &LiveBlock, start: u64) -> (u64, u64) {
        let address = block.address.clamp(start, zone.end);
        let requested = (block.address + block.size).clamp(address, zone.end);
        let end = (block.address + block.usable).clamp(requested, zone.end);
        let mut resident = self.add_bytes(RssKind::AllocatorOwn, start, address);
        let live = self.add_bytes(RssKind::LiveBlocks, address, requested);
        resident += live + self.add_bytes(RssKind::Slack, requested, end);
        if let Some(site) = self.sites.get_mut(block.owner as usize) {
            site.resident += live;
        }
        (end, resident)
    }

    /// The rest of a zone goes to the zone's own kind.
    fn add_rest(&mut self, zone: &Zone, start: u64, end: u64) {
        let one = |kind| (kind, kind);
        let (shared, private) = match zone.kind {
            ZoneKind::Unexplained | ZoneKind::NotCounted => one(RssKind::Other),
            ZoneKind::Mapping(_) => one(RssKind::Mappings),
            ZoneKind::Allocator | ZoneKind::Heap(_) => one(RssKind::AllocatorRest),
            ZoneKind::Stack => one(RssKind::Stacks),
            ZoneKind::KeptStack => one(RssKind::CachedStacks),
            ZoneKind::File(_) => (RssKind::FileShared, RssKind::FilePrivate),
            ZoneKind::Zeroed(_) => one(RssKind::FilePrivate),
            ZoneKind::SharedMemory(_) => one(RssKind::SharedMemory),
            ZoneKind::Agent => one(RssKind::Agent),
            ZoneKind::Kernel => one(RssKind::Kernel),
        };
        let bytes = self.cursor.bytes(start, end);
        // Address space that cannot be touched counts only where it is in RAM all the same.
        let elsewhere = end - start - bytes.resident() - bytes.swapped;
        let untouched = if zone.accessible { elsewhere } else { 0 };
        self.row(shared).resident += bytes.file;
        self.row(shared).size += bytes.file;
        let row = self.row(private);
        row.resident += bytes.private;
        row.size += bytes.private + bytes.swapped;
        row.swapped += bytes.swapped;
        let row = self.row(if matches!(zone.kind, ZoneKind::File(_)) { shared } else { private });
        row.size += untouched;
        self.add_to_owner(zone, bytes);
    }

    /// The figures of the zone's file, or of the site that mapped it.
    fn add_to_owner(&mut self, zone: &Zone, bytes: PageBytes) {
        match zone.kind {
            ZoneKind::File(path) | ZoneKind::Zeroed(path) | ZoneKind::SharedMemory(path) => {
                let file = &mut self.totals.files[path];
                file.shared += bytes.file;
                file.private += bytes.private;
            }
            ZoneKind::Mapping(owner) => {
                if let Some(site) = self.sites.get_mut(owner as usize) {
                    site.resident += bytes.resident();
                    site.pinned += bytes.resident();
                }
            }
            _ => {}
        }
    }

    /// Bytes of one kind; returns those in RAM.
    fn add_bytes(&mut self, kind: RssKind, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let bytes = self.cursor.bytes(start, end);
        let row = self.row(kind);
        row.resident += bytes.resident();
        row.size += end - start;
        row.swapped += bytes.swapped;
        bytes.resident()
    }

    /// Only pages in RAM: nothing is known of the address space around them.
    fn add_pages(&mut self, kind: RssKind, start: u64, end: u64) {
        let bytes = self.cursor.bytes(start, end);
        let row = self.row(kind);
        row.resident += bytes.resident();
        row.size += bytes.resident() + bytes.swapped;
        row.swapped += bytes.swapped;
    }

    fn row(&mut self, kind: RssKind) -> &mut RssRow {
        &mut self.rows[kind as usize]
    }

    /// The blocks that touch a zone.
    fn blocks_in(&mut self, zone: &Zone) -> &'a [LiveBlock] {
        let blocks = &self.live.blocks[self.next_block..];
        let first = blocks.partition_point(|block| block.address + block.usable <= zone.start);
        let count = blocks[first..].partition_point(|block| block.address < zone.end);
        self.next_block += first + count.saturating_sub(1);
        &blocks[first..first + count]
    }

    /// The chunks that begin in a zone.
    fn chunks_in(&mut self, zone: &Zone) -> &'a [KnownChunk] {
        let chunks = &self.image.chunks[self.next_chunk..];
        let first = chunks.partition_point(|chunk| chunk.start < zone.start);
        let count = chunks[first..].partition_point(|chunk| chunk.start < zone.end);
        self.next_chunk += first + count;
        &chunks[first..first + count]
    }
}

/// A chunk of the allocator itself.
fn own(start: u64, end: u64) -> HeldChunk {
    HeldChunk { start, end, live: (0, 0), holder: Holder::Allocator }
}

/// The chunk of a block.
fn held(block: &LiveBlock, start: u64, end: u64) -> HeldChunk {
    HeldChunk { start, end, live: (block.address, block.address + block.size), holder: Holder::Owner(block.owner) }
}

/// The pages of one heap: who keeps them.
struct HeapPages<'a> {
    holders: PageHolders,
    sink: PageSink<'a>,
}

/// What happens to pages once it is known what keeps them.
struct PageSink<'a> {
    cursor: RegionCursor<'a>,
    kind: AreaKind,
    /// Whether a page that no block touches is free.
    knows_free: bool,
    runs: Vec<PageRun>,
    start: u64,
}

impl<'a> HeapPages<'a> {
    fn new(ledger: &Ledger<'a>, zone: &Zone, margin: u64, kind: AreaKind) -> Self {
        Self {
            holders: PageHolders::new(zone.start, zone.end, margin),
            sink: PageSink {
                cursor: ledger.cursor.clone(),
                kind,
                knows_free: ledger.live.knows_every_block && kind != AreaKind::Allocator,
                runs: Vec::new(),
                start: zone.start,
            },
        }
    }

    fn hold(&mut self, chunk: HeldChunk, ledger: &mut Ledger<'_>) {
        let sink = &mut self.sink;
        self.holders.hold(chunk, &mut |pages| sink.put(pages, ledger));
    }

    fn finish(mut self, ledger: &mut Ledger<'_>) {
        let sink = &mut self.sink;
        self.holders.finish(&mut |pages| sink.put(pages, ledger));
        ledger.totals.areas.push(HeapArea { kind: self.sink.kind, start: self.sink.start, runs: self.sink.runs });
    }
}

impl PageSink<'_> {
    fn put(&mut self, pages: HeldPages, ledger: &mut Ledger<'_>) {
        let Self { cursor, kind, knows_free, runs, start } = self;
        let is_other_top = pages.is_tail && *kind == AreaKind::Arena;
        cursor.for_each(pages.start, pages.end, |from, to, region| {
            let bytes = to - from;
            let owner = match pages.holder {
                _ if !region.is_some_and(|region| region.is_resident()) => PageOwner::Absent,
                Holder::Nobody if *knows_free => {
                    // A free chunk keeps its own beginning: at the start of a heap no other chunk keeps that page.
                    let kept = if from == *start { PAGE } else { 0 };
                    *if is_other_top { &mut ledger.totals.other_tops } else { &mut ledger.totals.trim } += bytes - kept;
                    PageOwner::Free
                }
                Holder::Owner(owner) => match ledger.sites.get_mut(owner as usize) {
                    Some(site) => {
                        site.pinned += if ledger.live.knows_every_block { bytes } else { 0 };
                        PageOwner::Site(owner)
                    }
                    None => PageOwner::Several,
                },
                Holder::Several => PageOwner::Several,
                Holder::Nobody | Holder::Allocator => PageOwner::Allocator,
            };
            areas::push(runs, bytes / PAGE, pages.live, owner);
        });
    }
}
