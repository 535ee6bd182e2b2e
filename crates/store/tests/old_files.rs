//! Files of earlier versions: read with their original meaning, and written again identically if nothing newer is used.

use highwater_model::{
    AddressLedger, Catalog, Event, EventKind, FrameText, Heap, Nanos, Placement, Source, StackId, Tag, TagId, ThreadId,
    When,
};
use highwater_store::{Recording, Spacing, Writer};

/// Written by Highwater 0.1.0, before heaps, usable sizes, weights and resolutions were added.
const BEFORE_NATIVE: &[u8] = include_bytes!("fixtures/before_native.hw");

/// Its contents, the same at each call.
fn history() -> (Catalog, Vec<Event>) {
    let mut catalog = Catalog::default();
    let stacks: Vec<StackId> = (0..9)
        .map(|site| {
            let inner = format!("make_{site}");
            let frame = |function, line| FrameText {
                function,
                file: "main.c",
                line,
                module: "/bin/demo",
                ..FrameText::default()
            };
            catalog.intern_stack(&[
                FrameText { inlined: true, ..frame(&inner, site) },
                frame("run", 7),
                frame("main", 3),
            ])
        })
        .collect();
    let (variable, type_name) = (catalog.strings.intern("buffer"), catalog.strings.intern("Vec<u8>"));
    let tag = catalog.intern_tag(Tag { variable, type_name, ..Tag::default() });
    let name = catalog.strings.intern("phase");
    catalog.name_thread(ThreadId(1), "worker");
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % bound
    };
    let mut time = 0;
    let mut happen = |_| {
        time += random(400);
        let address = 0x7f00_0000_0000 + random(60) * 48;
        let stack = stacks[random(9) as usize];
        let tag = if random(3) == 0 { tag } else { TagId::NONE };
        let place = Placement { address, size: 24 + random(4) * 100, stack, tag, ..Placement::default() };
        let old_address = 0x7f00_0000_0000 + random(60) * 48;
        let kind = match random(20) {
            0 => EventKind::Mark { name },
            1 => EventKind::Gauge { name, value: random(1 << 40) },
            2 | 3 => EventKind::Reallocate { old_address, claimed_old_size: None, new: place },
            4..=11 => EventKind::free(address, Some(24)),
            12 if random(10) == 0 => EventKind::Dropped { count: 3 },
            _ => EventKind::Allocate(place),
        };
        Event { time: Nanos(time), thread: ThreadId(1 + random(3)), kind }
    };
    let events = (0..2000).map(&mut happen).collect();
    (catalog, events)
}

fn written() -> Vec<u8> {
    let (catalog, events) = history();
    let source = Source { program: "history".to_owned(), pid: 77, host: "here".to_owned(), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(600));
    for part in events.chunks(500) {
        writer.append(part, &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    writer.finish(&catalog, &source).unwrap().1
}

#[test]
fn a_file_from_before_native_recordings_is_read_as_it_was_meant() {
    let recording = Recording::from_bytes(BEFORE_NATIVE.to_vec()).unwrap();
    let report = recording.check(&mut |_| {}).unwrap();
    assert_eq!((report.events, report.violations, recording.damage()), (1993, vec![], vec![]));
    let (catalog, events) = history();
    let mut ledger = AddressLedger::default();
    events.iter().for_each(|event| ledger.record(event, &mut ()));
    let end = recording.snapshot(&When::End).unwrap();
    assert_eq!(end.accounts.to_state().blocks, ledger.accounts().to_state().blocks);
    assert_eq!(end.accounts.totals(), ledger.accounts().totals());
    assert!(end.accounts.blocks().all(|block| block.surplus == 0 && block.weight.is_one()));
    assert!(!end.is_estimate());
    assert_eq!((end.usable_bytes(), end.catalog.tag(TagId(1)).heap), (None, Heap::Malloc));
    assert_eq!((&end.source.command, end.source.parent_pid), (&vec![], 0));
    assert_eq!(end.catalog.modules, catalog.modules);
    let stack = end.accounts.blocks().next().unwrap().stack;
    assert!(end.catalog.frame_texts(stack).eq(catalog.frame_texts(stack)));
}

#[test]
fn a_file_that_uses_nothing_new_is_written_as_before() {
    let (before, now) = (BEFORE_NATIVE, written());
    assert_eq!(before.iter().zip(&now).position(|(a, b)| a != b), None, "first offset that differs");
    assert_eq!(before.len(), now.len());
}

/// Written by a Highwater that rounded estimates for each record: version 2, with weights of 2.3 blocks and samples 26⅔ bytes apart.
const BEFORE_ESTIMATES: &[u8] = include_bytes!("fixtures/before_estimates.hw");

#[test]
fn estimates_of_an_old_file_are_those_that_it_stored() {
    let recording = Recording::from_bytes(BEFORE_ESTIMATES.to_vec()).unwrap();
    let report = recording.check(&mut |_| {}).unwrap();
    assert_eq!((report.violations, recording.damage(), recording.stats().version), (vec![], vec![], 2));
    let end = recording.snapshot(&When::End).unwrap();
    let figures = end.accounts.totals().figures;
    let bytes = [figures.allocated_bytes, figures.freed_bytes, figures.live_bytes(), figures.peak_bytes];
    assert_eq!(bytes, [28_808, 16_945, 11_863, 12_215]);
    let mut sites: Vec<(u64, u64)> =
        end.accounts.sites().figures().iter().map(|site| (site.live_bytes(), site.allocated_bytes)).collect();
    sites.retain(|site| site.1 > 0);
    sites.sort_unstable();
    assert_eq!(sites, [(2815, 7558), (2914, 6326), (3065, 8057), (3069, 6867)]);
    let middle = recording.snapshot(&When::Percent(50.0)).unwrap().accounts.totals().figures;
    assert_eq!((middle.allocated_bytes, middle.live_bytes()), (15_011, 6283));
    // The sum over its blocks is the same as the stored figure.
    assert_eq!(
        end.accounts.blocks().map(|block| block.live_amount()).sum::<highwater_model::ByteSum>(),
        figures.live()
    );
}
