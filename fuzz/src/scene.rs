//! A small history with something of everything: seeds are made of it, and questions are asked about it.

use highwater_model::{
    AccountsState, AddressLedger, AllocatorMemory, Anomaly, AreaKind, Blocks, BreakdownReason, Catalog, ColumnRange,
    Event, EventKind, FilePages, FrameId, FrameText, Heap, HeapArea, Nanos, PageOwner, PageRun, Placement,
    ProcessMemory, RssBreakdown, RssKind, RssRow, SampleSpacing, SitePages, Source, SourceKind, StackId, Tag, TagId,
    ThreadId, Weight, WordSampling,
};
use highwater_store::{Spacing, Writer, write_snapshot_with_breakdown};
use std::io;

/// A history and its catalog.
pub struct Scene {
    catalog: Catalog,
    stacks: Vec<StackId>,
    tag: TagId,
    events: Vec<Event>,
}

impl Scene {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let mut catalog = Catalog::default();
        let frame = |function, line| FrameText { function, file: "a.rs", line, module: "app", ..FrameText::default() };
        let stacks = ["grow", "parse", "load"].map(|site| catalog.intern_stack(&[frame(site, 3), frame("main", 9)]));
        let (variable, type_name) = (catalog.strings.intern("buf"), catalog.strings.intern("Vec<u8>"));
        let tag = catalog.intern_tag(Tag { variable, type_name, ..Tag::default() });
        catalog.name_thread(ThreadId(1), "main");
        catalog.name_thread(ThreadId(2), "worker");
        Self { catalog, stacks: stacks.to_vec(), tag, events: Vec::new() }
    }

    fn happens(&mut self, time: u64, thread: u64, kind: EventKind) {
        self.events.push(Event { time: Nanos(time), thread: ThreadId(thread), kind });
    }

    fn place(&self, address: u64, size: u64, site: usize) -> Placement {
        Placement { address, size, stack: self.stacks[site % self.stacks.len()], ..Placement::default() }
    }

    /// Something of everything.
    pub fn every_kind_of_event(&mut self) {
        let (mark, gauge) = (self.catalog.strings.intern("x"), self.catalog.strings.intern("rss"));
        for round in 0..8 {
            let (time, base) = (round * 100, 0x7f00_0000 + round * 64);
            let tagged = Placement { tag: self.tag, ..self.place(base, 40, 0) };
            self.happens(time, 1, EventKind::Allocate(tagged));
            let place = self.place(base + 0x1000, 500 + round, 1);
            self.happens(time + 10, 2, EventKind::Allocate(place));
            let new = self.place(if round % 2 == 0 { base } else { base + 0x4000 }, 80, 2);
            self.happens(time + 20, 1, EventKind::Reallocate { old_address: base, claimed_old_size: Some(40), new });
            self.happens(time + 30, 1, EventKind::Mark { name: mark });
            self.happens(time + 40, 2, EventKind::Gauge { name: gauge, value: 1 << (5 * round) });
            let address = if round % 3 == 0 { base + 0x1000 } else { new.address };
            let stack = self.stacks[round as usize % self.stacks.len()];
            self.happens(time + 50, 1, EventKind::Deallocate { address, claimed_size: None, stack });
        }
    }

    /// What should not happen.
    pub fn every_anomaly(&mut self) {
        let (first, second) = (self.place(0x10, 64, 0), self.place(0x10, u64::MAX, 1));
        self.happens(50, 1, EventKind::Allocate(first));
        self.happens(60, 1, EventKind::Allocate(second));
        self.happens(40, 2, EventKind::Allocate(self.place(0x20, 9, 2)));
        self.happens(70, 2, EventKind::free(0x20, Some(8)));
        self.happens(70, 2, EventKind::free(0x99, None));
        let new = self.place(0x30, 7, 2);
        self.happens(80, 3, EventKind::Reallocate { old_address: 0x98, claimed_old_size: None, new });
        self.happens(80, 3, EventKind::Reallocate { old_address: 0x30, claimed_old_size: Some(1), new: second });
        self.happens(u64::MAX, u64::MAX, EventKind::Dropped { count: 5 });
        self.happens(u64::MAX, u64::MAX, EventKind::Allocate(self.place(u64::MAX, 0, 0)));
    }

    /// Samples that were counted, and promotions, as traces have them.
    pub fn every_sample(&mut self) {
        let heaps = [Heap::Minor, Heap::Major, Heap::External];
        let tags = heaps.map(|heap| self.catalog.intern_tag(Tag { heap, ..Tag::default() }));
        let columns = ColumnRange { start: 3, end: 700 };
        let text = FrameText { function: "placed", columns, ..FrameText::default() };
        self.catalog.resolve(FrameId(0), &[text]);
        for number in 0..30u64 {
            let weight = Weight::new(33.3).of_samples(1 + number as u32 % 3, SampleSpacing::new(16_000.0));
            let tag = tags[number as usize % 3];
            let place = Placement { tag, weight, ..self.place(number << 4, 8 + number * 8, number as usize) };
            self.happens(number * 50, number % 2, EventKind::Allocate(place));
            let old = (number / 2) << 4;
            if number % 4 == 1 {
                self.happens(number * 50 + 5, 0, EventKind::Promote { address: old, tag: tags[1] });
            } else if number % 4 == 3 {
                self.happens(number * 50 + 9, 1, EventKind::free(old, None));
            }
        }
        self.happens(9000, 1, EventKind::Promote { address: 0xdead, tag: tags[1] });
    }

    /// Enough for something to be compressed.
    pub fn many_allocations(&mut self, count: u64) {
        for number in 0..count {
            let place = self.place(0x1000 + number * 48, 24 + number % 5 * 16, number as usize);
            self.happens(number * 7, 1 + number % 3, EventKind::Allocate(place));
            if number % 2 == 1 {
                let address = 0x1000 + (number - 1) * 48;
                self.happens(number * 7 + 2, 1, EventKind::free(address, None));
            }
        }
    }

    /// The state at its end, with every block or with figures only.
    pub fn snapshot(&self, aggregated: bool) -> io::Result<Vec<u8>> {
        let mut ledger = AddressLedger::default();
        self.events.iter().for_each(|event| ledger.record(event, &mut ()));
        let state = ledger.accounts().to_state();
        let blocks = if aggregated { Blocks::default() } else { state.blocks.clone() };
        let source = Source { program: "demo".to_owned(), aggregated, ..Source::default() };
        let (state, breakdown) = (AccountsState { blocks, ..state }, self.breakdown());
        Ok(write_snapshot_with_breakdown(Vec::new(), &source, &self.catalog, &state, Some(&breakdown))?.0)
    }

    /// Where the resident memory was, with something of everything.
    fn breakdown(&self) -> RssBreakdown {
        let row = |kind| RssRow { kind, resident: 4096, size: 8192, swapped: 100 };
        let run = |pages, live, owner| PageRun { pages, live, owner };
        let runs = vec![run(3, 100, PageOwner::Site(0)), run(2, 0, PageOwner::Free), run(9, 4096, PageOwner::Several)];
        RssBreakdown {
            at: Nanos(300),
            reason: BreakdownReason::Mark,
            rows: RssKind::ALL.map(row).to_vec(),
            process: ProcessMemory { rss: 17 * 4096, rss_after: 17 * 4096, pss: Some(9), ..ProcessMemory::default() },
            allocator: AllocatorMemory { name: "glibc".to_owned(), trim: Some(5), ..AllocatorMemory::default() },
            knows_every_block: true,
            sites: vec![SitePages { stack: self.stacks[0], tag: self.tag, blocks: 2, ..SitePages::default() }],
            files: vec![FilePages { path: "/lib/a.so".to_owned(), shared: 4096, private: 0 }],
            areas: vec![HeapArea { kind: AreaKind::Arena, start: 1 << 20, runs }],
            ..RssBreakdown::default()
        }
    }

    /// As a file whose blocks end every `flush` events and whose keyframes are `every` events apart.
    pub fn written(&self, flush: usize, every: u64) -> io::Result<Vec<u8>> {
        let mut source = Source { program: "demo".to_owned(), pid: 7, host: "here".to_owned(), ..Source::default() };
        if self.events.iter().any(|event| matches!(event.kind, EventKind::Promote { .. })) {
            source.kind = SourceKind::MEMTRACE;
            source.word_sampling = WordSampling::new(5e-4, 8);
            source.context = "seed".to_owned();
        }
        let mut writer = Writer::new(Vec::new(), &source)?;
        writer.set_spacing(Spacing::every(every));
        for part in self.events.chunks(flush) {
            writer.append(part, &self.catalog)?;
            writer.flush(&self.catalog)?;
        }
        if !self.events.is_empty() {
            writer.add_breakdown(&self.breakdown(), &self.catalog)?;
        }
        writer.note(Anomaly::TruncatedStack, 2, &self.catalog)?;
        Ok(writer.finish(&self.catalog, &source)?.1)
    }
}
