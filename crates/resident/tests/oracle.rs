//! Rows, pins and the trim line of random heaps, against an account that looks at each byte and each page by itself.

use highwater_model::{AreaKind, PageOwner, RssBreakdown, RssKind, StackId, TagId};
use highwater_resident::parts::{
    FENCE, FILE, Heap, KnownChunk, Mapping, PAGE, PRESENT, PageRegion, ProcessImage, Regions, SWAPPED, StackRange, ZERO,
};
use highwater_resident::{LiveBlock, LiveMapping, LiveMemory, PageScan};
use proptest::prelude::*;
use std::collections::BTreeSet;

const START: u64 = 0x5000_0000;
const OWNERS: u32 = 3;

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live(u32),
    Free,
    Cached,
    Own,
}

/// A chunk: its size in units of 16 bytes, and the part of its usable bytes that was requested, in 256ths.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    state: State,
    units: u64,
    requested: u64,
}

/// A heap of chunks, and what its pages are.
#[derive(Clone, Debug)]
struct Scene {
    kind: AreaKind,
    has_top: bool,
    /// Bytes before the first chunk, in units of 16.
    lead: u64,
    chunks: Vec<Chunk>,
    pages: Vec<u64>,
}

fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
    let state = prop_oneof![
        4 => (0..OWNERS).prop_map(State::Live),
        5 => Just(State::Free),
        1 => Just(State::Cached),
        1 => Just(State::Own)
    ];
    let units = prop_oneof![4 => 2..40u64, 2 => 200..600u64, 1 => 250..260u64, 1 => 1000..2000u64];
    let chunk = (state, units, 0..=256u64).prop_map(|(state, units, requested)| Chunk { state, units, requested });
    prop::collection::vec(chunk, 0..60)
}

fn scenes() -> impl Strategy<Value = Scene> {
    let page = prop_oneof![6 => Just(PRESENT), 1 => Just(0), 1 => Just(SWAPPED), 1 => Just(PRESENT | ZERO)];
    let pages = prop::collection::vec(page, 1..64);
    let kind = prop_oneof![Just(AreaKind::Main), Just(AreaKind::Arena)];
    (kind, any::<bool>(), 0..300u64, chunks(), pages).prop_map(|(kind, has_top, lead, chunks, pages)| Scene {
        kind,
        has_top: has_top || kind == AreaKind::Main,
        lead,
        chunks,
        pages,
    })
}

impl Scene {
    fn first_chunk(&self) -> u64 {
        START + self.lead * 16
    }

    /// Each chunk with its first address.
    fn placed(&self) -> Vec<(u64, Chunk)> {
        let mut at = self.first_chunk();
        let place = |chunk: &Chunk| {
            let start = at;
            at += chunk.units * 16;
            (start, *chunk)
        };
        self.chunks.iter().map(place).collect()
    }

    fn chunks_end(&self) -> u64 {
        self.first_chunk() + self.chunks.iter().map(|chunk| chunk.units * 16).sum::<u64>()
    }

    /// The heap ends with a page, after some bytes of the top or the fence.
    fn end(&self) -> u64 {
        (self.chunks_end() + FENCE + PAGE).next_multiple_of(PAGE)
    }

    fn page(&self, address: u64) -> u64 {
        let index = (address - START) / PAGE;
        self.pages[index as usize % self.pages.len()]
    }

    fn is_resident(&self, address: u64) -> bool {
        self.page(address) == PRESENT
    }

    fn image(&self) -> ProcessImage {
        let pages = (START..self.end()).step_by(PAGE as usize);
        let region = |start: u64| PageRegion { start, end: start + PAGE, categories: self.page(start) };
        let chunk = |&(start, chunk): &(u64, Chunk)| {
            let is_cached = chunk.state == State::Cached;
            (is_cached || chunk.state == State::Own).then(|| KnownChunk {
                start,
                end: start + chunk.units * 16,
                is_cached,
            })
        };
        ProcessImage {
            mappings: vec![mapping(START, self.end(), "[heap]")],
            regions: pages.map(region).filter(|region| region.categories != 0).collect(),
            heaps: vec![Heap {
                kind: self.kind,
                start: START,
                first_chunk: self.first_chunk(),
                top: self.has_top.then_some(self.chunks_end()),
                end: self.end(),
            }],
            chunks: self.placed().iter().filter_map(chunk).collect(),
            knows_caches: true,
            arenas: 1,
            glibc: Some("2.36".to_owned()),
            ..ProcessImage::default()
        }
    }

    fn live(&self) -> LiveMemory {
        let block = |(start, chunk): (u64, Chunk)| match chunk.state {
            State::Live(owner) => {
                let usable = chunk.units * 16 - 8;
                Some(LiveBlock { address: start + 16, size: usable * chunk.requested / 256, usable, owner })
            }
            _ => None,
        };
        // Not in order.
        let mut blocks: Vec<LiveBlock> = self.placed().into_iter().filter_map(block).collect();
        blocks.reverse();
        LiveMemory { blocks, owners: owners(), knows_every_block: true, ..LiveMemory::default() }
    }

    /// The kind of each byte, free bytes as `None`.
    fn bytes(&self) -> Vec<Option<RssKind>> {
        let mut bytes = vec![Some(RssKind::AllocatorOwn); (self.end() - START) as usize];
        let mut paint = |from: u64, to: u64, kind| bytes[(from - START) as usize..(to - START) as usize].fill(kind);
        for (start, chunk) in self.placed() {
            let end = start + chunk.units * 16 + 8;
            match chunk.state {
                State::Free => paint(start + 8, end, None),
                State::Cached => paint(start + 8, end, Some(RssKind::ThreadCaches)),
                State::Own => paint(start + 8, end, Some(RssKind::AllocatorOwn)),
                State::Live(_) => {
                    let requested = (chunk.units * 16 - 8) * chunk.requested / 256;
                    paint(start + 8, start + 16, Some(RssKind::AllocatorOwn));
                    paint(start + 16, start + 16 + requested, Some(RssKind::LiveBlocks));
                    paint(start + 16 + requested, end, Some(RssKind::Slack));
                }
            }
        }
        let after = self.chunks_end() + 8;
        match self.has_top {
            true => paint(after, self.end(), Some(RssKind::FreeTop)),
            false => paint(after, self.end() - FENCE, None),
        }
        bytes
    }

    fn row(&self, kind: RssKind) -> u64 {
        let bytes = self.bytes();
        let of_page = |start: u64| &bytes[(start - START) as usize..(start - START + PAGE) as usize];
        let pages = (START..self.end()).step_by(PAGE as usize).filter(|&page| self.is_resident(page));
        let count = |page: u64| {
            let whole = of_page(page).iter().all(Option::is_none);
            let free = if whole { RssKind::FreePages } else { RssKind::FreePinned };
            of_page(page).iter().filter(|byte| byte.unwrap_or(free) == kind).count() as u64
        };
        pages.map(count).sum()
    }

    /// Runs of free chunks as `malloc_trim` sees them, with whether they reach the top.
    fn free_runs(&self) -> Vec<(u64, u64, bool)> {
        let mut runs: Vec<(u64, u64, bool)> = Vec::new();
        let mut add = |start: u64, end: u64, is_top| match runs.last_mut() {
            Some(last) if last.1 == start => *last = (last.0, end, is_top),
            _ => runs.push((start, end, is_top)),
        };
        for (start, chunk) in self.placed() {
            if chunk.state == State::Free {
                add(start, start + chunk.units * 16, false);
            }
        }
        match self.has_top {
            true => add(self.chunks_end(), self.end(), true),
            false => add(self.chunks_end(), self.end() - FENCE, false),
        }
        runs
    }

    fn resident_pages(&self, from: u64, to: u64) -> u64 {
        (from..to).step_by(PAGE as usize).filter(|&page| self.is_resident(page)).count() as u64 * PAGE
    }

    /// As glibc does it: `mtrim` for free chunks, `systrim` for the main top.
    fn trim(&self) -> u64 {
        let mut returned = 0;
        for (start, end, is_top) in self.free_runs() {
            if !is_top {
                returned += self.resident_pages((start + 48).next_multiple_of(PAGE), end - end % PAGE);
            } else if self.kind == AreaKind::Main && end - start > 33 {
                returned += self.resident_pages(end - (end - start - 33) / PAGE * PAGE, end);
            }
        }
        returned
    }

    /// Pages that would be returned if only the blocks of an owner were freed, page by page.
    fn pinned(&self, owner: u32) -> u64 {
        let touching = |page: u64| -> BTreeSet<u32> {
            let chunks = self.placed().into_iter();
            let touching = chunks.filter(|(start, chunk)| *start < page + PAGE && start + chunk.units * 16 + 48 > page);
            let number = |(_, chunk): (u64, Chunk)| match chunk.state {
                State::Live(owner) => Some(owner),
                State::Free => None,
                State::Cached | State::Own => Some(u32::MAX),
            };
            let mut owners: BTreeSet<u32> = touching.filter_map(number).collect();
            // What is before the first chunk, and the fence, are the allocator's.
            let has_lead = self.lead > 0 && self.first_chunk() + 48 > page;
            let is_last = !self.has_top && page + PAGE == self.end();
            owners.extend((has_lead || is_last).then_some(u32::MAX));
            owners
        };
        let pages = (START..self.end()).step_by(PAGE as usize).filter(|&page| self.is_resident(page));
        pages.filter(|&page| touching(page) == BTreeSet::from([owner])).count() as u64 * PAGE
    }
}

fn mapping(start: u64, end: u64, name: &str) -> Mapping {
    Mapping { start, end, writable: true, accessible: true, shared: false, name: name.to_owned() }
}

fn owners() -> Vec<(StackId, TagId)> {
    (0..OWNERS).map(|owner| (StackId(owner + 1), TagId(0))).collect()
}

fn breakdown(scene: &Scene) -> RssBreakdown {
    PageScan::from_image(scene.image()).breakdown(scene.live())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_of_a_heap_is_in_its_row(scene in scenes()) {
        let found = breakdown(&scene);
        for kind in RssKind::ALL {
            prop_assert_eq!(found.resident(kind), scene.row(kind), "{}", kind.name());
        }
    }

    #[test]
    fn trim_and_pins_are_those_of_each_page_by_itself(scene in scenes()) {
        let found = breakdown(&scene);
        prop_assert_eq!(found.allocator.trim, Some(scene.trim()));
        for owner in 0..OWNERS {
            let site = found.sites.iter().find(|site| site.stack == StackId(owner + 1));
            prop_assert_eq!(site.map_or(0, |site| site.pinned), scene.pinned(owner), "owner {}", owner);
        }
    }

    #[test]
    fn the_map_of_a_heap_has_every_page_with_its_live_bytes(scene in scenes()) {
        let found = breakdown(&scene);
        let area = &found.areas[0];
        let bytes = scene.bytes();
        let mut at = area.start;
        for run in &area.runs {
            for _ in 0..run.pages {
                let page = &bytes[(at - START) as usize..(at - START + PAGE) as usize];
                let live = page.iter().filter(|byte| **byte == Some(RssKind::LiveBlocks)).count();
                prop_assert_eq!(usize::from(run.live), live);
                prop_assert_eq!(run.owner == PageOwner::Absent, !scene.is_resident(at));
                at += PAGE;
            }
        }
        prop_assert_eq!(at, scene.end());
    }
}

/// Anything: ranges that overlap, owners that do not exist.
#[derive(Clone, Debug)]
struct Hostile {
    image: ProcessImage,
    live: LiveMemory,
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..64 * PAGE, 5 => (0..64u64).prop_map(|page| page * PAGE + 16), 1 => any::<u64>()]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![10 => 0..200u64, 5 => 0..5 * PAGE, 1 => any::<u64>()]
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    (address(), length()).prop_map(|(start, length)| (start, start.saturating_add(length)))
}

fn mappings() -> impl Strategy<Value = Vec<Mapping>> {
    let names =
        ["", "", "[heap]", "/lib/x.so", "/memfd:highwater", "/dev/zero (deleted)", "[vvar]", "[stack]", "[vdso]"];
    let one = (0..8u64, 0..3u64, 0..names.len(), any::<[bool; 3]>());
    prop::collection::vec(one, 0..12).prop_map(move |list| {
        let mut at = 0;
        let mapping = |(pages, gap, name, [writable, accessible, shared]): (u64, u64, usize, [bool; 3])| {
            let start = at + gap * PAGE;
            at = start + (pages + 1) * PAGE;
            Mapping { start, end: at, writable, accessible, shared, name: names[name].to_owned() }
        };
        list.into_iter().map(mapping).collect()
    })
}

fn regions() -> impl Strategy<Value = Regions> {
    let categories = prop_oneof![4 => Just(PRESENT), 1 => Just(PRESENT | FILE), 1 => Just(SWAPPED), 1 => Just(PRESENT | ZERO), 1 => Just(0)];
    prop::collection::vec(categories, 0..80).prop_map(|pages| {
        let region =
            |(index, categories)| PageRegion { start: index as u64 * PAGE, end: (index as u64 + 1) * PAGE, categories };
        pages.into_iter().enumerate().map(region).filter(|region| region.categories != 0).collect()
    })
}

prop_compose! {
    fn hostile()(
        mappings in mappings(),
        regions in regions(),
        heaps in prop::collection::vec((range(), address(), prop::option::of(address()), any::<bool>()), 0..4),
        chunks in prop::collection::vec((range(), any::<bool>()), 0..10),
        stacks in prop::collection::vec((range(), any::<bool>()), 0..4),
        blocks in prop::collection::vec((address(), length(), length(), 0..6u32), 0..80),
        own in prop::collection::vec((range(), 0..6u32), 0..6),
        agent in prop::collection::vec(range(), 0..4),
        knows_every_block in any::<bool>(),
        glibc in any::<bool>(),
    ) -> Hostile {
        let heap = |((start, end), first_chunk, top, is_main)| Heap {
            kind: if is_main { AreaKind::Main } else { AreaKind::Arena }, start, first_chunk, top, end,
        };
        let image = ProcessImage {
            mappings,
            regions,
            heaps: heaps.into_iter().map(heap).collect(),
            chunks: chunks.into_iter().map(|((start, end), is_cached)| KnownChunk { start, end, is_cached }).collect(),
            stacks: stacks.into_iter().map(|((start, end), is_cached)| StackRange { start, end, is_cached }).collect(),
            glibc: glibc.then(String::new),
            ..ProcessImage::default()
        };
        let block = |(address, size, usable, owner)| LiveBlock { address, size, usable, owner };
        let live = LiveMemory {
            blocks: blocks.into_iter().map(block).collect(),
            mappings: own.into_iter().map(|((start, end), owner)| LiveMapping { start, end, owner }).collect(),
            owners: owners(),
            agent: agent.into_iter().map(|(start, end)| start..end).collect(),
            knows_every_block,
        };
        Hostile { image, live }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn rows_add_up_whatever_the_process_claims(Hostile { image, live } in hostile()) {
        let is_counted = |page: u64| {
            let mapping = image.mappings.iter().find(|mapping| mapping.start <= page && page < mapping.end);
            mapping.is_none_or(|mapping| mapping.name != "[vvar]")
        };
        let pages = image.regions.iter().filter(|region| region.is_resident());
        let pages = pages.flat_map(|region| (region.start..region.end).step_by(PAGE as usize));
        let resident = pages.filter(|&page| is_counted(page)).count() as u64 * PAGE;
        let found = PageScan::from_image(image.clone()).breakdown(live.clone());
        prop_assert_eq!(found.sum(), resident);
        let of_sites: u64 = found.sites.iter().map(|site| site.resident).sum();
        prop_assert!(of_sites <= found.resident(RssKind::LiveBlocks) + found.resident(RssKind::Mappings));
        prop_assert!(found.sites.iter().map(|site| site.pinned).sum::<u64>() <= resident);
        prop_assert!(found.rows.iter().all(|row| row.resident + row.swapped <= row.size), "{:?}", found.rows);
        let runs = found.areas.iter().flat_map(|area| &area.runs);
        for run in runs {
            prop_assert!(run.live <= 4096 && run.pages > 0);
            if let PageOwner::Site(site) = run.owner {
                prop_assert!((site as usize) < found.sites.len());
            }
        }
    }
}
