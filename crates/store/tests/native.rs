//! Features of native recordings: heaps, usable sizes, weights, frames that are resolved late, modules that are loaded and unloaded. At every instant,
//! all of it is read as it was written.

mod histories;

use highwater_model::groups::{GroupBy, GroupKey, Metric, rows};
use highwater_model::{
    AddressLedger, ByteSum, Catalog, Event, EventKind, Frame, FrameId, FrameText, Heap, Module, Nanos, Placement,
    Source, StackId, Tag, ThreadId, Weight, When, laws, mapped_address,
};
use highwater_store::{Moment, Recording, Spacing, Writer};
use histories::{doing, events};
use proptest::prelude::*;
use std::fs::OpenOptions;

fn written(catalog: &Catalog, events: &[Event], every: u64, flush: usize) -> Vec<u8> {
    let source = Source { usable_sizes: true, sample_rate: Some(4096), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(every));
    for part in events.chunks(flush) {
        writer.append(part, catalog).unwrap();
        writer.flush(catalog).unwrap();
    }
    writer.finish(catalog, &source).unwrap().1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_instant_of_a_sampled_recording_is_what_it_was(doings in prop::collection::vec(doing(), 1..300), at in 0..300u64) {
        let (catalog, _, events) = events(&doings);
        let recording = Recording::from_bytes(written(&catalog, &events, 40, 17)).unwrap();
        let time = Nanos((at * 10).min(recording.source().duration.0));
        let mut ledger = AddressLedger::default();
        events.iter().filter(|event| event.time <= time).for_each(|event| ledger.record(event, &mut ()));
        let read = recording.snapshot(&When::At(time)).unwrap();
        let (mut direct, mut stored) = (ledger.accounts().to_state(), read.accounts.to_state());
        for rows in [&mut direct.tags, &mut stored.tags] {
            rows.resize(8, Default::default());
        }
        prop_assert_eq!(stored, direct);
        let report = recording.check(&mut |_| {}).unwrap();
        prop_assert_eq!((report.violations, recording.damage()), (vec![], vec![]));
    }

    #[test]
    fn a_heap_alone_is_as_if_there_were_no_other(doings in prop::collection::vec(doing(), 1..300), at in 0..300u64) {
        let (catalog, mapped, events) = events(&doings);
        let recording = Recording::from_bytes(written(&catalog, &events, 40, 17)).unwrap();
        let time = Nanos((at * 10).min(recording.source().duration.0));
        let whole = recording.snapshot(&When::At(time)).unwrap();
        let heaps = [Heap::Malloc, Heap::Mapped].map(|heap| recording.snapshot_of_heap(Moment::At(time), heap).unwrap());
        for (heap, part) in [Heap::Malloc, Heap::Mapped].into_iter().zip(&heaps) {
            prop_assert_eq!(laws::violations(&part.accounts), Vec::<String>::new());
            let mut blocks: Vec<_> = whole.blocks_of(heap).map(|block| (block.id, block.address, block.size)).collect();
            let mut alone: Vec<_> = part.accounts.blocks().map(|block| (block.id, block.address, block.size)).collect();
            blocks.sort();
            alone.sort();
            prop_assert_eq!(alone, blocks);
            let (figures, row) = (&part.accounts.totals().figures, rows(&whole, GroupBy::Heap, Metric::Live, None));
            let row = row.iter().find(|row| row.key == GroupKey::Name(heap.name().to_owned()));
            let by_tag = row.map(|row| row.figures).unwrap_or_default();
            prop_assert_eq!(figures.live_bytes(), by_tag.live_bytes());
            prop_assert_eq!(figures.allocated_bytes, by_tag.allocated_bytes);
            prop_assert_eq!((figures.frees, figures.samples()), (by_tag.frees, by_tag.samples()));
            prop_assert!(figures.peak_bytes <= by_tag.peak_bytes);
        }
        let sum: ByteSum = heaps.iter().map(|part| part.accounts.totals().figures.live()).sum();
        prop_assert_eq!(sum, whole.accounts.totals().figures.live());
        prop_assert_eq!(catalog.tag(mapped).heap, Heap::Mapped);
    }
}

#[test]
fn a_mapping_and_a_block_at_its_beginning_are_two_blocks() {
    let mut catalog = Catalog::default();
    let tag = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
    let at = |time, kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
    let arena = Placement { address: mapped_address(0x7f00_0000), size: 1 << 20, tag, ..Placement::default() };
    let block = Placement { address: 0x7f00_0000, size: 64, ..Placement::default() };
    let events = [
        at(1, EventKind::Allocate(arena)),
        at(2, EventKind::Allocate(block)),
        at(3, EventKind::free(mapped_address(0x7f00_0000), Some(1 << 20))),
    ];
    let recording = Recording::from_bytes(written(&catalog, &events, 1, 1)).unwrap();
    let both = recording.snapshot(&When::At(Nanos(2))).unwrap();
    assert_eq!(both.accounts.blocks().map(|block| both.address_of(&block)).collect::<Vec<_>>(), [0x7f00_0000; 2]);
    let end = recording.snapshot(&When::End).unwrap();
    assert_eq!((end.accounts.totals().figures.live_bytes(), end.accounts.anomalies().is_empty()), (64, true));
    assert_eq!((end.usable_bytes(), end.live_bytes_of(Heap::Malloc), both.usable_bytes()), (Some(72), 64, Some(72)));
}

fn names(recording: &Recording, stack: StackId) -> Vec<String> {
    recording.catalog().frame_texts(stack).map(|frame| frame.function.to_owned()).collect()
}

/// A recording whose frames are addresses, in a file, and the stack that its one block was allocated at.
fn unresolved(path: &std::path::Path) -> (Catalog, StackId) {
    let mut catalog = Catalog::default();
    let module = catalog.intern_module("/bin/demo") + 1;
    let frame = |address| Frame { address, module, ..Frame::default() };
    let (outer, inner) = (catalog.stacks.intern_frame(frame(0x10)), catalog.stacks.intern_frame(frame(0x20)));
    let stack = catalog.stacks.intern_child(StackId::UNKNOWN, outer);
    let stack = catalog.stacks.intern_child(stack, inner);
    let place = Placement { address: 0x1000, size: 10, stack, ..Placement::default() };
    let event = Event { time: Nanos(1), thread: ThreadId(1), kind: EventKind::Allocate(place) };
    let mut writer = Writer::create(path, &Source::default()).unwrap();
    writer.append(&[event], &catalog).unwrap();
    writer.finish(&catalog, &Source::default()).unwrap();
    (catalog, stack)
}

#[test]
fn a_finished_recording_can_be_gone_on_with_to_give_its_frames_names() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("resolved-{}.hw", std::process::id()));
    let (_, stack) = unresolved(&path);
    let go_on = |resolve: &dyn Fn(&mut Catalog)| {
        let recording = Recording::open(&path).unwrap();
        let accounts = recording.snapshot(&When::End).unwrap().accounts;
        let mut catalog = recording.catalog_to_go_on().unwrap();
        resolve(&mut catalog);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let writer = Writer::resume(file, &recording, accounts).unwrap();
        writer.finish(&catalog, recording.source()).unwrap();
        Recording::open(&path).unwrap()
    };
    let text = |function| FrameText { function, file: "demo.c", line: 4, ..FrameText::default() };
    let resolved = go_on(&|catalog| {
        let inlined = FrameText { inlined: true, ..text("inlined") };
        assert!(catalog.resolve(FrameId(1), &[inlined, text("inner")]));
        assert!(!catalog.resolve(FrameId(99), &[text("nobody")]));
    });
    assert_eq!(names(&resolved, stack), ["inlined", "inner", ""]);
    let frames: Vec<&Frame> = resolved.catalog().stacks.frames_of(stack).collect();
    assert!(frames.iter().all(|frame| frame.module == 1));
    assert_eq!(frames.iter().map(|frame| frame.address).collect::<Vec<_>>(), [0x20, 0x20, 0x10]);
    // Known names are not written again.
    let unchanged = go_on(&|_| {});
    assert_eq!(names(&unchanged, stack), ["inlined", "inner", ""]);
    assert_eq!(unchanged.stats().catalog_bytes, resolved.stats().catalog_bytes);
    let again = go_on(&|catalog| {
        catalog.resolve(FrameId(0), &[text("outer")]);
        catalog.resolve(FrameId(1), &[text("better")]);
    });
    assert_eq!(names(&again, stack), ["better", "outer"]);
    assert_eq!(again.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn more_resolutions_than_fit_in_a_block_are_all_read() {
    const FRAMES: u32 = 70_000;
    let mut catalog = Catalog::default();
    let mut stacks = Vec::new();
    for address in 0..FRAMES {
        let frame = catalog.stacks.intern_frame(Frame { address: address.into(), ..Frame::default() });
        stacks.push(catalog.stacks.intern_child(StackId::UNKNOWN, frame));
    }
    for frame in 0..FRAMES {
        let name = (frame % 100).to_string();
        let text = FrameText { function: &name, ..FrameText::default() };
        catalog.resolve(FrameId(frame), &[text, text]);
    }
    let recording = Recording::from_bytes(written(&catalog, &[], 1, 1)).unwrap();
    assert_eq!(recording.damage(), []);
    assert_eq!(recording.catalog().stacks.resolutions(), catalog.stacks.resolutions());
    assert_eq!(names(&recording, stacks[69_942]), ["42", "42"]);
}

#[test]
fn modules_that_are_unloaded_after_they_were_written_are_known_to_be() {
    let mut catalog = Catalog::default();
    let path = catalog.strings.intern("/usr/lib/plugin.so");
    let module = |start, loaded| Module { path, start, loaded: Nanos(loaded), ..Module::default() };
    let first = catalog.add_module(module(0x1000, 0));
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    writer.flush(&catalog).unwrap();
    assert!(catalog.set_module_unloaded(first, Nanos(50)));
    writer.flush(&catalog).unwrap();
    let second = catalog.add_module(module(0x9000, 60));
    assert!(catalog.set_module_unloaded(second, Nanos(80)));
    let third = catalog.add_module(module(0x5000, 90));
    assert_eq!((second, third, catalog.intern_module("/usr/lib/plugin.so")), (1, 2, 0));
    assert!(!catalog.set_module_unloaded(3, Nanos(1)));
    let file = writer.finish(&catalog, &Source::default()).unwrap().1;
    let recording = Recording::from_bytes(file).unwrap();
    assert_eq!(recording.catalog().modules, catalog.modules);
    let unloaded: Vec<_> = recording.catalog().modules.iter().map(|module| module.unloaded).collect();
    assert_eq!(unloaded, [Some(Nanos(50)), Some(Nanos(80)), None]);
}

/// Programs that sample: each byte has the same probability, so larger blocks are more likely to be found.
#[test]
fn estimates_are_right_on_the_average() {
    const RATE: u64 = 2000;
    const RUNS: u64 = 4000;
    let sizes = [1u64, 24, 100, 700, 2000, 9000, 100_000];
    // The number of allocations of each size; every third is freed.
    let count = |size: u64| 40 + 4000 / size;
    let mut sums = [0.0; 4];
    for run in 0..RUNS {
        let mut state = (run + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut chance = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut ledger = AddressLedger::default();
        let mut address = 0;
        for size in sizes {
            let weight = Weight::of_sample(size, RATE);
            for number in 0..count(size) {
                address += 16;
                if chance() > 1.0 / weight.value() {
                    continue;
                }
                let place = Placement { address, size, weight, ..Placement::default() };
                let mut happen = |kind| ledger.record(&Event { time: Nanos(0), thread: ThreadId(1), kind }, &mut ());
                happen(EventKind::Allocate(place));
                if number % 3 == 0 {
                    happen(EventKind::free(address, None));
                }
            }
        }
        assert_eq!(laws::violations(ledger.accounts()), Vec::<String>::new());
        let figures = &ledger.accounts().totals().figures;
        let seen = [figures.live_bytes(), figures.live_blocks(), figures.allocated_bytes, figures.frees];
        sums.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen as f64);
    }
    let freed = |size: u64| count(size).div_ceil(3);
    let live = |size: u64| count(size) - freed(size);
    let truth = [
        sizes.iter().map(|&size| live(size) * size).sum(),
        sizes.iter().map(|&size| live(size)).sum(),
        sizes.iter().map(|&size| count(size) * size).sum(),
        sizes.iter().map(|&size| freed(size)).sum::<u64>(),
    ];
    for (sum, truth) in sums.into_iter().zip(truth) {
        let mean = sum / RUNS as f64;
        assert!((mean / truth as f64 - 1.0).abs() < 0.05, "{mean} instead of {truth}");
    }
}
