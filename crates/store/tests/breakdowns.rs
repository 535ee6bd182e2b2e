//! Breakdowns of resident memory in files: they come back as they were written, wherever they are, and a damaged one harms no other block.

use highwater_model::{
    Accounts, AreaKind, BreakdownReason, Catalog, Event, EventKind, FilePages, FrameText, HeapArea, Nanos, PageOwner,
    PageRun, Placement, ProcessMemory, RssBreakdown, RssKind, RssRow, SitePages, Source, StackId, TagId, ThreadId,
};
use highwater_store::history::History;
use highwater_store::{Recording, Writer, write_snapshot_with_breakdown};
use proptest::prelude::*;
use std::sync::Arc;

const RSS: u8 = 9;

fn catalog() -> (Catalog, StackId) {
    let mut catalog = Catalog::default();
    let frame = FrameText { function: "make", file: "main.c", line: 3, ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame]);
    (catalog, stack)
}

/// A breakdown whose rows add up to RSS.
fn breakdown(at: u64, reason: BreakdownReason, stack: StackId) -> RssBreakdown {
    let row = |kind, resident| RssRow { kind, resident, size: resident * 2, swapped: 0 };
    let rows = vec![row(RssKind::LiveBlocks, 3 << 20), row(RssKind::FreePinned, 5 << 20), row(RssKind::Stacks, 8192)];
    let rss = rows.iter().map(|row| row.resident).sum();
    RssBreakdown {
        at: Nanos(at),
        reason,
        rows,
        process: ProcessMemory { rss, rss_after: rss, threads: 1, ..ProcessMemory::default() },
        sites: vec![SitePages { stack, blocks: 7, live: 3 << 20, resident: 3 << 20, ..SitePages::default() }],
        files: vec![FilePages { path: "/usr/bin/x".into(), shared: 4096, private: 4096 }],
        areas: vec![HeapArea {
            kind: AreaKind::Main,
            start: 1 << 30,
            runs: vec![PageRun { pages: 3, live: 100, owner: PageOwner::Site(0) }],
        }],
        ..RssBreakdown::default()
    }
}

fn allocation(number: u64) -> Event {
    let place = Placement { address: 4096 * (number + 1), size: 10, ..Placement::default() };
    Event { time: Nanos(number), thread: ThreadId(1), kind: EventKind::Allocate(place) }
}

/// A recording with events before, between and after two breakdowns.
fn recording() -> (Vec<u8>, Vec<RssBreakdown>) {
    let (catalog, stack) = catalog();
    let made = vec![breakdown(10, BreakdownReason::Mark, stack), breakdown(20, BreakdownReason::End, stack)];
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    for (number, breakdown) in (0..).zip(&made) {
        writer.append(&[allocation(number)], &catalog).unwrap();
        writer.flush(&catalog).unwrap();
        assert!(writer.add_breakdown(breakdown, &catalog).unwrap());
    }
    writer.append(&[allocation(30)], &catalog).unwrap();
    let (_, bytes) = writer.finish(&catalog, &Source::default()).unwrap();
    (bytes, made)
}

/// The offsets of the blocks of a kind, found without the library.
fn blocks(file: &[u8], kind: u8) -> Vec<usize> {
    let (mut at, mut found) = (16, Vec::new());
    while at < file.len() {
        found.extend((file[at + 4] == kind).then_some(at));
        at += 24 + u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    found
}

fn opened(bytes: &[u8]) -> Recording {
    Recording::from_bytes(bytes.to_vec()).unwrap()
}

#[test]
fn breakdowns_are_read_as_they_were_written() {
    let (bytes, made) = recording();
    let recording = opened(&bytes);
    assert_eq!(recording.breakdowns().unwrap(), made);
    let report = recording.check(&mut |_| {}).unwrap();
    assert_eq!((report.breakdowns, report.keyframes, report.events), (2, 1, 3));
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!(recording.damage(), []);
    let history = History::of_recording(Arc::new(recording)).unwrap();
    assert_eq!(history.breakdowns().unwrap(), made);
}

#[test]
fn a_recording_without_an_end_keeps_its_breakdowns() {
    let (bytes, made) = recording();
    let after_the_last = blocks(&bytes, RSS)[1];
    let keyframe = blocks(&bytes, 4)[0];
    let cut = opened(&bytes[..keyframe]);
    assert!(!cut.stats().complete);
    assert_eq!(cut.breakdowns().unwrap(), made);
    assert_eq!(opened(&bytes[..after_the_last + 30]).breakdowns().unwrap(), made[..1]);
}

#[test]
fn a_file_that_is_continued_keeps_breakdowns_after_its_last_events() {
    let (bytes, made) = recording();
    let cut = blocks(&bytes, 3)[2];
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("continued{}.hw", std::process::id()));
    std::fs::write(&path, &bytes[..cut]).unwrap();
    let recording = Recording::open(&path).unwrap();
    let accounts = recording.for_each_step(|_, _| {}).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut writer = Writer::resume(file, &recording, accounts).unwrap();
    writer.append(&[allocation(40)], recording.catalog()).unwrap();
    writer.finish(recording.catalog(), &Source::default()).unwrap();
    let again = Recording::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(again.breakdowns().unwrap(), made);
    assert_eq!(again.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    assert_eq!((again.damage(), again.stats().complete), (vec![], true));
}

#[test]
fn damage_to_a_breakdown_loses_it_alone() {
    let (bytes, made) = recording();
    for (index, &at) in blocks(&bytes, RSS).iter().enumerate() {
        for byte in [at + 1, at + 30] {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 0x10;
            let recording = opened(&damaged);
            assert_eq!(recording.breakdowns().unwrap(), [made[1 - index].clone()]);
            assert_eq!(recording.check(&mut |_| {}).unwrap().events, 3);
            if byte == at + 30 {
                let damage = recording.damage();
                assert_eq!((damage[0].offset, damage.len()), (at as u64, 1), "{damage:?}");
            }
        }
    }
}

#[test]
fn rows_that_do_not_add_up_are_a_violation() {
    let (catalog, stack) = catalog();
    let mut short = breakdown(10, BreakdownReason::Mark, stack);
    short.process.rss = 60 << 20;
    short.process.rss_after = 61 << 20;
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    writer.append(&[allocation(1)], &catalog).unwrap();
    assert!(writer.add_breakdown(&short, &catalog).unwrap());
    let (_, bytes) = writer.finish(&catalog, &Source::default()).unwrap();
    let violations = opened(&bytes).check(&mut |_| {}).unwrap().violations;
    assert_eq!(violations.len(), 1);
    assert!(violations[0].contains("add up to 8396800 bytes, but RSS was 62914560 bytes"), "{violations:?}");
}

#[test]
fn a_snapshot_keeps_its_breakdown() {
    let (catalog, stack) = catalog();
    let made = breakdown(0, BreakdownReason::Request, stack);
    let state = Accounts::default().to_state();
    let source = Source::default();
    let (bytes, _) = write_snapshot_with_breakdown(Vec::new(), &source, &catalog, &state, Some(&made)).unwrap();
    let recording = Arc::new(opened(&bytes));
    assert!(recording.is_snapshot());
    let history = History::of_recording(recording).unwrap();
    assert_eq!(history.breakdowns().unwrap(), [made]);
}

#[test]
fn figures_that_no_file_can_hold_are_not_written() {
    let (catalog, stack) = catalog();
    let good = breakdown(10, BreakdownReason::Mark, stack);
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    let mut absurd = vec![good.clone(); 5];
    absurd[0].sites[0].live = u64::MAX;
    absurd[1].rows[0].size = 1;
    absurd[2].areas[0].runs[0].owner = PageOwner::Site(9);
    absurd[3].rows.reverse();
    absurd[4].process.rss = 1 << 61;
    for breakdown in &absurd {
        assert!(!writer.add_breakdown(breakdown, &catalog).unwrap());
    }
    assert!(writer.add_breakdown(&good, &catalog).unwrap());
}

fn any_owner() -> impl Strategy<Value = PageOwner> {
    prop_oneof![
        Just(PageOwner::Absent),
        Just(PageOwner::Free),
        Just(PageOwner::Several),
        Just(PageOwner::Allocator),
        (0..2u32).prop_map(PageOwner::Site)
    ]
}

proptest! {
    #[test]
    fn any_breakdown_comes_back(
        at: u64,
        figures in prop::collection::vec(0..1u64 << 50, 12),
        kinds in prop::sample::subsequence(RssKind::ALL.to_vec(), 0..17),
        runs in prop::collection::vec((1..u32::MAX, 0..=4096u16, any_owner()), 0..300),
        path in ".*",
        knows_every_block: bool,
    ) {
        let mut made = breakdown(at, BreakdownReason::RssPeak, StackId::UNKNOWN);
        let row = |kind: RssKind| {
            let resident = figures[kind as usize % 12];
            RssRow { kind, resident, size: resident + figures[0], swapped: figures[1] }
        };
        made.rows = kinds.into_iter().map(row).collect();
        made.process.rss_peak = figures[2];
        made.process.pss = (figures[3] % 2 == 0).then_some(figures[3]);
        made.allocator.trim = (figures[4] % 2 == 0).then_some(figures[4]);
        made.knows_every_block = knows_every_block;
        made.sites.push(SitePages { tag: TagId::NONE, pinned: figures[5], usable: figures[6], ..SitePages::default() });
        made.files[0].path = path;
        made.areas[0].runs = runs.into_iter().map(|(pages, live, owner)| PageRun { pages, live, owner }).collect();
        let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
        prop_assert!(writer.add_breakdown(&made, &Catalog::default()).unwrap());
        let (_, bytes) = writer.finish(&Catalog::default(), &Source::default()).unwrap();
        prop_assert_eq!(opened(&bytes).breakdowns().unwrap(), vec![made]);
    }
}
