//! A breakdown of resident memory whose every byte is known.

use highwater_model::{
    AllocatorMemory, AreaKind, BreakdownReason, Catalog, Event, EventKind, FilePages, FrameText, Heap, HeapArea,
    MemoryLimit, Nanos, PageOwner, PageRun, Placement, ProcessMemory, RssBreakdown, RssKind, RssRow, SitePages, Source,
    StackId, Tag, TagId, ThreadId,
};

const MIB: u64 = 1 << 20;

/// A program with two sites of blocks and one of mappings.
pub struct Known {
    pub catalog: Catalog,
    pub events: Vec<Event>,
    sites: [(StackId, TagId); 3],
}

impl Known {
    pub fn new() -> Self {
        let mut catalog = Catalog::default();
        let frame = |function, line| FrameText { function, file: "server.c", line, ..FrameText::default() };
        let mut site = |function, line| catalog.intern_stack(&[frame(function, line), frame("main", 9)]);
        let [open, index, grow] = [site("open_session", 40), site("index_add", 77), site("grow_arena", 12)];
        let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let sites = [(open, TagId::NONE), (index, TagId::NONE), (grow, mapped)];
        let events = sites.iter().zip(1..).map(|((stack, tag), number)| Event {
            time: Nanos(number * 1000),
            thread: ThreadId(1),
            kind: EventKind::Allocate(Placement {
                address: number << 32,
                size: number * MIB,
                stack: *stack,
                tag: *tag,
                ..Placement::default()
            }),
        });
        Self { events: events.collect(), catalog, sites }
    }

    pub fn source() -> Source {
        Source { program: "server".to_owned(), pid: 7, duration: Nanos(5000), ..Source::default() }
    }

    /// 20 MiB are resident: two of them are the agent's, and six are pinned by few blocks of `open_session`.
    pub fn breakdown(&self, at: u64, reason: BreakdownReason) -> RssBreakdown {
        let row = |kind, resident, size| RssRow { kind, resident: resident * MIB, size: size * MIB, swapped: 0 };
        let site = |(stack, tag), blocks, live, resident, pinned| SitePages {
            stack,
            tag,
            blocks,
            live,
            usable: live + blocks * 8,
            resident,
            pinned,
        };
        let [open, index, grow] = self.sites;
        let run = |pages, live, owner| PageRun { pages, live, owner };
        RssBreakdown {
            at: Nanos(at),
            reason,
            rows: vec![
                row(RssKind::LiveBlocks, 4, 5),
                row(RssKind::FreePages, 1, 1),
                row(RssKind::FreePinned, 6, 6),
                row(RssKind::Mappings, 3, 8),
                row(RssKind::FileShared, 4, 9),
                row(RssKind::Agent, 2, 2),
            ],
            process: ProcessMemory {
                rss: 20 * MIB,
                rss_after: 20 * MIB,
                rss_peak: 21 * MIB,
                pss: Some(18 * MIB),
                page_tables: 100 << 10,
                threads: 3,
                limit: Some(MemoryLimit { bytes: 64 * MIB, used: 48 * MIB }),
                ..ProcessMemory::default()
            },
            allocator: AllocatorMemory {
                name: "glibc 2.36".to_owned(),
                arenas: 2,
                trim: Some(MIB),
                ..AllocatorMemory::default()
            },
            knows_every_block: true,
            uncertain: 4096,
            sites: vec![
                site(open, 40, 4000, 4000, 6 * MIB),
                site(index, 1000, 5 * MIB, 4 * MIB, 4 * MIB),
                site(grow, 1, 8 * MIB, 3 * MIB, 3 * MIB),
            ],
            files: vec![FilePages { path: "/usr/bin/server".to_owned(), shared: 4 * MIB, private: 0 }],
            areas: vec![
                HeapArea {
                    kind: AreaKind::Main,
                    start: 0x5555_0000_0000,
                    runs: vec![
                        run(1024, 4096, PageOwner::Site(1)),
                        run(256, 0, PageOwner::Free),
                        run(1536, 3, PageOwner::Site(0)),
                    ],
                },
                HeapArea {
                    kind: AreaKind::Arena,
                    start: 0x7f00_0000_0000,
                    runs: vec![run(64, 90, PageOwner::Several), run(320, 0, PageOwner::Absent)],
                },
            ],
        }
    }
}
