//! Files made to harm their reader: every checksum is right, and nothing else is.

use highwater_model::{
    Catalog, Event, EventKind, FrameId, FrameText, Heap, Nanos, Placement, Source, StackId, TagId, ThreadId, When,
};
use highwater_store::history::{HistoryIndex, Work};
use highwater_store::{Recording, Spacing, Writer};
use std::fs::{self, File};

const SOURCE: u8 = 1;
const CATALOG: u8 = 2;
const EVENTS: u8 = 3;
const KEYFRAME: u8 = 4;
const LIVE_BLOCKS: u8 = 5;

/// A file of the given blocks, made independently of the library (docs/format.md §1 and §2).
fn file(blocks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x89HW\r\n\x1a\x01\x00".to_vec();
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file.extend([0; 4]);
    for (sequence, (kind, payload)) in blocks.iter().enumerate() {
        let mut header = b"HWB1".to_vec();
        header.extend([*kind, 0, 0, 0]);
        for number in [payload.len() as u32, sequence as u32, crc32fast::hash(payload)] {
            header.extend(number.to_le_bytes());
        }
        header.extend(crc32fast::hash(&header).to_le_bytes());
        file.extend(header);
        file.extend(payload);
    }
    file
}

fn varints(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for &value in values {
        let mut rest = value;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out
}

/// Columns as they are (docs/format.md §3).
fn plain(columns: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let columns: Vec<_> = columns.iter().map(|(id, raw)| (*id, 0, raw.len(), raw.clone())).collect();
    stored(&columns)
}

/// One column in a Zstandard frame.
fn compressed(id: u8, raw: &[u8]) -> Vec<u8> {
    stored(&[(id, 1, raw.len(), zstd::bulk::compress(raw, 1).unwrap())])
}

fn stored(columns: &[(u8, u64, usize, Vec<u8>)]) -> Vec<u8> {
    let mut out = varints(&[columns.len() as u64]);
    for (id, codec, raw_length, bytes) in columns {
        out.extend(varints(&[u64::from(*id), *codec, *raw_length as u64, bytes.len() as u64]));
    }
    columns.iter().for_each(|(_, _, _, bytes)| out.extend(bytes));
    out
}

/// A keyframe at the start of everything, with these totals and columns.
fn keyframe(totals: [u64; 9], columns: &[u8]) -> Vec<u8> {
    keyframe_at(0, 0, totals, columns)
}

fn keyframe_at(time: u64, parts: u64, totals: [u64; 9], columns: &[u8]) -> Vec<u8> {
    let (events, next_allocation, high, anomalies) = (0, 1, [0, 0, 0, 0], 0);
    let numbers = [&[events, time, parts, next_allocation], &totals[..], &high, &[anomalies]].concat();
    [&varints(&numbers), columns].concat()
}

/// Makes the usual first queries; the answers must obey the laws.
fn ask(recording: &Recording) {
    for when in [When::Start, When::Peak, When::End] {
        if let Ok(snapshot) = recording.snapshot(&when) {
            assert_eq!(snapshot.violations(), Vec::<String>::new(), "{when}");
        }
    }
    recording.final_totals().unwrap().figures.live_blocks();
    HistoryIndex::new(recording, 1 << 20).unwrap().build(recording, &Work::quiet()).unwrap();
    recording.check(&mut |_| {}).unwrap();
}

#[test]
fn a_keyframe_with_counts_that_could_not_be_added_is_damage() {
    let totals = [u64::MAX, 0, 1, 0, 0, 0, 0, 0, 0];
    let recording = Recording::from_bytes(file(&[(KEYFRAME, keyframe(totals, &[0]))])).unwrap();
    ask(&recording);
    assert_eq!(recording.damage().len(), 1);
}

#[test]
fn a_keyframe_with_a_tag_that_had_more_than_everything_is_damage() {
    // Only the empty tag exists so far: add one more.
    let catalog = [varints(&[1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0]), plain(&[(4, vec![0, 0])])].concat();
    let row = varints(&[1, 0, 0, 0, 0, u64::MAX, u64::MAX, 0, 0, 0]);
    let keyframe = keyframe([0; 9], &plain(&[(2, row)]));
    // One allocation of 10 bytes by thread 7, with that tag.
    let (another_thread, has_tag) = (1 << 3, 1 << 5);
    let columns = [
        (0, vec![another_thread | has_tag]),
        (1, vec![0]),
        (2, vec![0]),
        (3, vec![10 << 2]),
        (4, vec![0, 0]),
        (5, vec![1 << 2]),
        (6, vec![0]),
    ];
    let events = [varints(&[0, 1, 1, 1, 0, 0, 10, 1, 10, 0, 0, 1, 7]), plain(&columns)].concat();
    let recording = Recording::from_bytes(file(&[(CATALOG, catalog), (KEYFRAME, keyframe), (EVENTS, events)])).unwrap();
    ask(&recording);
    assert_eq!(recording.damage().len(), 1, "{:?}", recording.damage());
    let end = recording.snapshot(&When::End).unwrap();
    assert_eq!(end.accounts.tags()[1].allocated_bytes, 10);
}

#[test]
fn a_keyframe_with_a_block_from_later_is_damage() {
    let one_block = [1, 0, 0, 0, 10, 0, 10, 0, 0];
    let (thread, site) = ([&[7, 1], &one_block[..]].concat(), [&[0], &one_block[..]].concat());
    let columns = plain(&[(0, varints(&thread)), (1, varints(&site))]);
    let damage_of = |block_time: u8| {
        let columns_of_block = [0, block_time << 2, 0, 10 << 2, 0, 0, 0];
        let live: Vec<_> = (0..).zip(columns_of_block.map(|byte| vec![byte])).collect();
        let live = [varints(&[1]), plain(&live)].concat();
        let keyframe = keyframe_at(5, 1, one_block, &columns);
        let recording = Recording::from_bytes(file(&[(KEYFRAME, keyframe), (LIVE_BLOCKS, live)])).unwrap();
        ask(&recording);
        recording.damage().len()
    };
    assert_eq!((damage_of(5), damage_of(6)), (0, 1));
}

/// Entries of all tables but the modules and the thread names.
fn entries(catalog: &Catalog) -> usize {
    catalog.strings.len() + catalog.stacks.frames().len() + catalog.stacks.nodes().len() + catalog.tags().len()
}

#[test]
fn catalog_entries_that_the_file_has_no_room_for_were_not_lost() {
    let block =
        |first: u64| (CATALOG, [varints(&[first, 0, first, 0, first, 0, 0, 0, first, 0, 0, 0]), vec![0]].concat());
    let file = file(&[block(1 << 20), block(1 << 21), block(1 << 22)]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    assert!(entries(recording.catalog()) <= 2 * file.len(), "{}", entries(recording.catalog()));
    assert_eq!(recording.damage().len(), 3);
}

#[test]
fn a_few_compressed_bytes_are_no_great_catalog() {
    // Empty strings.
    let payload = [varints(&[1, 65_536, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), compressed(0, &[0; 65_536])].concat();
    let file = file(&[(CATALOG, payload)]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    assert!(entries(recording.catalog()) <= 2 * file.len(), "{}", entries(recording.catalog()));
    assert_eq!(recording.damage().len(), 1);
}

#[test]
fn a_few_compressed_bytes_are_not_many_threads() {
    const THREAD: usize = 11;
    let file = file(&[(KEYFRAME, keyframe([0; 9], &compressed(0, &[0; THREAD * 10_000])))]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    ask(&recording);
    let threads = recording.snapshot(&When::End).unwrap().accounts.threads().len();
    assert!(threads <= 3 * file.len(), "{threads}");
}

#[test]
fn a_long_name_is_not_repeated_beyond_all_measure() {
    let long = [varints(&[30_000]), vec![b'x'; 30_000]].concat();
    let mut catalog = [varints(&[1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), compressed(0, &long)].concat();
    catalog.resize(1000, 0);
    const MARKS: usize = 4000;
    let count = MARKS as u64;
    let columns = [(0, [4; MARKS]), (1, [0; MARKS]), (8, [1 << 2; MARKS])].map(|(id, raw)| (id, raw.to_vec()));
    let events = [varints(&[0, count, count, 0, 0, 0, 0, 0, 0, count, 0, 0]), plain(&columns)].concat();
    let file = file(&[(CATALOG, catalog), (EVENTS, events)]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    let marks = recording.marks().unwrap();
    assert_eq!((marks.len(), marks[0].name.len(), recording.damage()), (MARKS, 30_000, vec![]));
    let bytes: usize = marks.iter().map(|mark| mark.name.len()).sum();
    assert!(bytes <= 130 * file.len(), "{bytes}");
}

#[test]
fn handles_that_the_file_has_no_room_for_were_not_lost() {
    let far = [vec![3], (1u64 << 17).to_le_bytes().to_vec()].concat();
    let stack_and_tag = [(0, vec![1 << 3 | 1 << 5]), (4, [vec![0], far.clone()].concat()), (5, far.clone())];
    let usual = [(1, vec![0]), (2, vec![0]), (3, vec![10 << 2]), (6, vec![0])];
    let allocation = varints(&[0, 1, 1, 0, 0, 0, 10, 1, 10, 0, 0, 1, 7]);
    let allocation = [allocation, plain(&[&stack_and_tag[..], &usual].concat())].concat();
    let mark = varints(&[1, 1, 1, 1, 0, 0, 10, 1, 10, 1, 0, 0]);
    let mark = [mark, plain(&[(0, vec![4]), (1, vec![0]), (8, far)])].concat();
    let file = file(&[(EVENTS, allocation), (EVENTS, mark)]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    ask(&recording);
    let end = recording.snapshot(&When::End).unwrap().accounts;
    assert_eq!((end.events(), end.totals().figures.live_bytes()), (2, 10));
    assert!(end.sites().len() + end.tags().len() <= 4 * file.len());
    assert!(entries(&recording.catalog_to_go_on().unwrap()) <= 6 * file.len());
}

#[test]
fn a_recording_whose_last_keyframe_is_ahead_of_it_can_be_gone_on_with() {
    let keyframe = [varints(&[1000, 0, 1]), keyframe([0; 9], &[0])].concat();
    let file = file(&[(KEYFRAME, keyframe)]);
    let recording = Recording::from_bytes(file).unwrap();
    let end = recording.snapshot(&When::End).unwrap().accounts;
    let path = std::env::temp_dir().join(format!("highwater-hostile-{}.hw", std::process::id()));
    let mut writer = Writer::resume(File::create(&path).unwrap(), &recording, end).unwrap();
    fs::remove_file(&path).unwrap();
    let kind = EventKind::Allocate(Placement { address: 16, size: 10, ..Placement::default() });
    writer.append(&[Event { time: Nanos(5), thread: ThreadId(1), kind }], &Catalog::default()).unwrap();
    writer.flush(&Catalog::default()).unwrap();
    assert_eq!(writer.ledger().accounts().events(), 1);
}

#[test]
fn a_column_stored_twice_is_damage() {
    let payload = [varints(&[1, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), plain(&[(0, vec![0]), (0, vec![0])])].concat();
    let recording = Recording::from_bytes(file(&[(CATALOG, payload)])).unwrap();
    assert_eq!((recording.damage().len(), recording.catalog().strings.len()), (1, 1));
}

#[test]
fn honest_files_that_compress_extremely_well_are_not_taken_for_hostile_ones() {
    let mut catalog = Catalog::default();
    // One function that calls itself: a stack for every depth.
    let mut stack = StackId::UNKNOWN;
    let once = catalog.intern_stack(&[FrameText { function: "again", ..FrameText::default() }]);
    let frame = catalog.stacks.nodes()[once.0 as usize].frame;
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    writer.set_spacing(Spacing::every(u64::MAX));
    for depth in 0..200_000 {
        stack = catalog.stacks.intern_child(stack, frame);
        let place = Placement { address: 0x1000 + depth * 32, size: 24, stack, ..Placement::default() };
        let kind = EventKind::Allocate(place);
        writer.append(&[Event { time: Nanos(depth), thread: ThreadId(1), kind }], &catalog).unwrap();
    }
    let file = writer.finish(&catalog, &Source::default()).unwrap().1;
    let recording = Recording::from_bytes(file).unwrap();
    let report = recording.check(&mut |_| {}).unwrap();
    assert_eq!((report.events, report.keyframes, report.violations), (200_000, 1, vec![]));
    assert_eq!(recording.damage(), []);
    assert_eq!(recording.catalog().stacks.nodes().len(), 200_001);
}

/// A catalog block with one tag, one module and two frames, and these columns of remarks.
fn remarks(columns: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let tables = [(1, vec![0; 10]), (3, vec![0; 5]), (4, vec![0, 0])];
    let numbers = varints(&[1, 0, 0, 2, 1, 0, 0, 1, 1, 1, 0, 0]);
    [numbers, plain(&[&tables, columns].concat())].concat()
}

#[test]
fn remarks_on_entries_that_are_not_there_are_left_out() {
    let far = u64::from(u32::MAX);
    let heaps = varints(&[0, 1, 1, 99, 1, 1, 2, 1, far, 1]);
    // Valid are the first, the one that removes a resolution, and the last but one; the last has more frames than allowed.
    let resolutions =
        varints(&[0, 1, 1, 2, 0, 1, 0, 2, 1, 0, 1, 2, 0, far, far, 1, 0, 0, far, far, 1, 1, 0, 2, 0, 0, 257]);
    let times = varints(&[0, 7, 9, 1, 7, 9, far, 1, 1]);
    let payload = remarks(&[(6, heaps), (7, resolutions), (8, times)]);
    let recording = Recording::from_bytes(file(&[(CATALOG, payload)])).unwrap();
    assert_eq!(recording.damage(), []);
    let catalog = recording.catalog();
    assert_eq!((catalog.tag(TagId(0)).heap, catalog.tag(TagId(1)).heap), (Heap::Malloc, Heap::Mapped));
    assert_eq!((catalog.modules[0].loaded, catalog.modules[0].unloaded), (Nanos(7), Some(Nanos(8))));
    assert_eq!(catalog.stacks.resolutions().len(), 3);
    assert_eq!((catalog.stacks.frame_ids(FrameId(0)), catalog.stacks.frame_ids(FrameId(1))), (1..2, 0..2));
    assert_eq!(catalog.stacks.frame_ids(FrameId(2)), 0..0);
}

#[test]
fn remarks_that_end_too_early_are_damage_and_those_before_are_used() {
    for (id, numbers) in [(6, vec![1, 1, 1]), (7, vec![0, 1, 1, 0, 1]), (8, vec![0, 1, 1, 0])] {
        let recording = Recording::from_bytes(file(&[(CATALOG, remarks(&[(id, varints(&numbers))]))])).unwrap();
        assert_eq!(recording.damage().len(), 1, "column {id}");
        let catalog = recording.catalog();
        let used = [
            catalog.tag(TagId(1)).heap == Heap::Mapped,
            catalog.stacks.is_resolved(FrameId(0)),
            catalog.modules[0].loaded == Nanos(1),
        ];
        assert!(used[usize::from(id) - 6], "column {id}");
    }
}

#[test]
fn a_few_compressed_bytes_are_not_many_resolutions() {
    let numbers = varints(&[1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0]);
    let raw = [0; 3 * 60_000];
    let packed = zstd::bulk::compress(&raw, 1).unwrap();
    let columns = stored(&[(1, 0, 5, vec![0; 5]), (7, 1, raw.len(), packed)]);
    let mut payload = [numbers, columns].concat();
    // Long enough for the unpacked size of its columns.
    payload.resize(6000, 0);
    let file = file(&[(CATALOG, payload)]);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    let resolutions = recording.catalog().stacks.resolutions().len();
    assert!(resolutions > 0 && resolutions <= 2 * file.len(), "{resolutions}");
    assert_eq!(recording.damage().len(), 1);
}

/// An events block of two allocations of 10 bytes by thread 7, with more columns.
fn two_allocations(more: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let columns = [
        (0, vec![1 << 3, 1 << 7]),
        (1, vec![0, 0]),
        (2, vec![0]),
        (3, vec![10 << 2]),
        (4, vec![0, 0, 0]),
        (6, vec![1 << 3, 2 << 3]),
    ];
    [varints(&[0, 2, 2, 0, 0, 0, 20, 2, 20, 0, 0, 1, 7]), plain(&[&columns[..], more].concat())].concat()
}

#[test]
fn surpluses_and_weights_that_cannot_be_are_damage_and_the_steps_before_are_used() {
    let long = |value: u64| [vec![3], value.to_le_bytes().to_vec()].concat();
    let cases = [
        // A value is missing; it does not fit in 32 bits; a weight does not fit in 22.
        (9, vec![1 << 2]),
        (9, [vec![1 << 2], long(1 << 32)].concat()),
        (10, [vec![1 << 2], long(1 << 22)].concat()),
    ];
    for (id, column) in cases {
        let recording = Recording::from_bytes(file(&[(EVENTS, two_allocations(&[(id, column)]))])).unwrap();
        ask(&recording);
        let end = recording.snapshot(&When::End).unwrap().accounts;
        assert_eq!((end.events(), end.totals().figures.live_bytes()), (1, 10));
        assert_eq!(recording.damage().len(), 1, "column {id}");
    }
}

#[test]
fn weights_beyond_all_measure_do_not_wrap() {
    let most = (1u64 << 22) - 1;
    let exception = [vec![3], most.to_le_bytes().to_vec()].concat();
    let weights = [vec![0], exception.clone(), vec![0], exception].concat();
    let mut payloads = Vec::new();
    for block in 0..300u64 {
        let mut payload = two_allocations(&[(10, weights.clone())]);
        // The same block again and again, each with its own first event and first allocation.
        let head = varints(&[0, 2, 2, 0, 0, 0, 20, 2, 20, 0, 0, 1, 7]).len();
        let numbers = varints(&[block * 2, 2, 2, block * 2, 0, 0, 20, 2, 20, 0, 0, 1, 7]);
        payload.splice(..head, numbers);
        payloads.push((EVENTS, payload));
    }
    let recording = Recording::from_bytes(file(&payloads)).unwrap();
    ask(&recording);
    let end = recording.snapshot(&When::End).unwrap().accounts;
    let figures = &end.totals().figures;
    assert_eq!((end.events(), figures.live_samples()), (600, 600));
    assert!(figures.live_blocks() <= 1 << 40, "{}", figures.live_blocks());
}

#[test]
fn a_keyframe_with_samples_that_it_cannot_have_is_damage() {
    let one_block = [1, 0, 0, 0, 10, 0, 10, 0, 0];
    let (thread, site) = ([&[7, 1], &one_block[..]].concat(), [&[0], &one_block[..]].concat());
    let damage_of = |samples: &[u64]| {
        let columns = [(0, varints(&thread)), (1, varints(&site)), (3, varints(samples)), (4, varints(samples))];
        let live: Vec<_> = (0..).zip([0, 0, 0, 10 << 2, 0, 0, 0].map(|byte| vec![byte])).collect();
        let live = [varints(&[1]), plain(&live)].concat();
        let keyframe = keyframe_at(5, 1, one_block, &plain(&columns));
        let recording = Recording::from_bytes(file(&[(KEYFRAME, keyframe), (LIVE_BLOCKS, live)])).unwrap();
        ask(&recording);
        recording.damage().len()
    };
    // Unchanged; none though a block is live; more than there are blocks; truncated; more freed than allocated.
    let all = [&[1, 0][..], &[0, 0], &[2, 0], &[1], &[1, 1]].map(damage_of);
    assert_eq!(all, [0, 1, 1, 1, 1]);
}

#[test]
fn a_source_whose_last_fields_are_cut_is_damage() {
    let fields = |more: &[u64]| varints(&[&[0, 7, 0, 0, 0, 0, 0], more].concat());
    let open = |more: &[u64]| {
        let recording = Recording::from_bytes(file(&[(SOURCE, fields(more))])).unwrap();
        (recording.source().pid, recording.source().parent_pid, recording.damage().len())
    };
    assert_eq!(open(&[]), (7, 0, 0));
    assert_eq!(open(&[5, 1, 0]), (7, 5, 0));
    assert_eq!(open(&[5, 1, u64::MAX]), (0, 0, 1));
    assert_eq!(open(&[5]), (0, 0, 1));
}

#[test]
fn figures_alone_that_cannot_be_are_damage() {
    const SNAPSHOT: u64 = 2;
    const AGGREGATED: u64 = 4;
    let source = |flags| (SOURCE, varints(&[0, 7, 0, 5, 0, 0, 0, 0, flags, 0]));
    let columns = |figures: [u64; 9]| {
        let (thread, site) = ([&[7, 1], &figures[..]].concat(), [&[0], &figures[..]].concat());
        plain(&[(0, varints(&thread)), (1, varints(&site))])
    };
    let live: Vec<_> = (0..).zip([0, 0, 0, 10 << 2, 0, 0, 0].map(|byte| vec![byte])).collect();
    let live = (LIVE_BLOCKS, [varints(&[1]), plain(&live)].concat());
    let damage_of = |flags: u64, of_totals: [u64; 9], of_owners: [u64; 9], parts: u64| {
        let keyframe = (KEYFRAME, keyframe_at(5, parts, of_totals, &columns(of_owners)));
        let blocks = [source(flags), keyframe, live.clone()];
        let recording = Recording::from_bytes(file(&blocks[..2 + parts as usize])).unwrap();
        ask(&recording);
        assert_eq!(recording.snapshot(&When::End).is_ok(), recording.damage().is_empty());
        recording.damage().len()
    };
    let sound = [2, 1, 0, 0, 30, 20, 10, 0, 0];
    let more_blocks_freed = [2, 3, 0, 0, 30, 20, 10, 0, 0];
    let more_bytes_freed = [2, 1, 0, 0, 30, 31, 10, 0, 0];
    let both = SNAPSHOT | AGGREGATED;
    assert_eq!(damage_of(both, sound, sound, 0), 0);
    assert_eq!(damage_of(both, more_blocks_freed, more_blocks_freed, 0), 1);
    assert_eq!(damage_of(both, more_bytes_freed, more_bytes_freed, 0), 1);
    // The owners do not add up; there is a block although none is expected; there is none although one is expected.
    assert_eq!(damage_of(both, sound, more_bytes_freed, 0), 1);
    assert_eq!(damage_of(both, sound, sound, 1), 1);
    assert_eq!((damage_of(SNAPSHOT, sound, sound, 0), damage_of(SNAPSHOT, sound, sound, 1)), (1, 0));
}

const RSS: u8 = 9;

/// The fields of an rss block before its columns: 20 numbers and an empty name (docs/format.md §17).
fn rss(columns: &[(u8, Vec<u8>)]) -> (u8, Vec<u8>) {
    (RSS, [varints(&[0; 21]), plain(columns)].concat())
}

#[test]
fn malformed_breakdowns_of_resident_memory_are_damage() {
    const BYTES: u64 = 1 << 60;
    let area = |start: u64, runs: u64| varints(&[0, start, runs]);
    let run = |pages, live, owner| vec![(4, varints(&[pages])), (5, varints(&[live])), (6, varints(&[owner]))];
    let with_area = |area: Vec<u8>, run: Vec<(u8, Vec<u8>)>| rss(&[vec![(3, area)], run].concat());
    let malformed = [
        (RSS, Vec::new()),
        (RSS, varints(&[1 << 62; 20])),
        rss(&[(0, varints(&[3, 1, 1, 0, 2, 1, 1, 0]))]),
        rss(&[(0, varints(&[3, u64::MAX, 1, 0]))]),
        rss(&[(0, varints(&[3, BYTES, 0, 0, 4, BYTES, 0, 0]))]),
        rss(&[(0, varints(&[3, 1]))]),
        rss(&[(1, varints(&[1 << 32, 0, 0, 0, 0, 0, 0]))]),
        rss(&[(1, varints(&[0, 0, BYTES + 1, 0, 0, 0, 0]))]),
        rss(&[(2, varints(&[200]))]),
        with_area(area(1, 1), run(0, 0, 0)),
        with_area(area(1, 1), run(1, 4097, 0)),
        with_area(area(1, 1), run(1, 0, 4)),
        with_area(area(1, 1), run(1 << 32, 0, 0)),
        with_area(area(1 << 52, 1), run(1, 0, 0)),
        with_area(area((1 << 52) - 1, 1), run(9, 0, 0)),
        with_area(area(1, 0), run(1, 0, 0)),
        with_area(area(1, u64::MAX), run(1, 0, 0)),
        rss(&[(3, varints(&[0, 5, 0, 0, 4, 0]))]),
    ];
    for (number, block) in malformed.into_iter().enumerate() {
        let recording = Recording::from_bytes(file(&[(SOURCE, varints(&[0; 7])), block])).unwrap();
        assert_eq!(recording.breakdowns().unwrap(), [], "block {number}");
        let damage = recording.damage();
        assert!(damage.len() == 1 && damage[0].what.contains("malformed"), "block {number}: {damage:?}");
    }
}

#[test]
fn kinds_of_later_versions_are_added_to_what_is_not_explained() {
    use highwater_model::{BreakdownReason, RssKind, RssRow};
    let rows = varints(&[1, 4096, 0, 0, 16, 100, 10, 1, 17, 200, 20, 2, u64::MAX, 300, 30, 3]);
    let payload = [varints(&[5, 77, 1 << 40]), varints(&[0; 18]), plain(&[(0, rows)])].concat();
    let recording = Recording::from_bytes(file(&[(SOURCE, varints(&[0; 7])), (RSS, payload)])).unwrap();
    let [breakdown] = &recording.breakdowns().unwrap()[..] else { panic!("{:?}", recording.damage()) };
    let other = RssRow { kind: RssKind::Other, resident: 600, size: 660, swapped: 6 };
    assert_eq!((breakdown.rows[1], breakdown.rows.len(), breakdown.sum()), (other, 2, 4696));
    assert_eq!((breakdown.reason, recording.damage()), (BreakdownReason::Request, vec![]));
}

#[test]
fn a_breakdown_of_forged_stacks_shows_them_as_unknown() {
    let site = varints(&[1 << 31, 1 << 31, 1, 8, 8, 8, 4096]);
    let recording = Recording::from_bytes(file(&[(SOURCE, varints(&[0; 7])), rss(&[(1, site)])])).unwrap();
    let breakdowns = recording.breakdowns().unwrap();
    let found = breakdowns[0].sites[0];
    assert_eq!((found.stack, found.tag, found.live), (StackId::UNKNOWN, TagId::NONE, 8));
    assert!(recording.damage()[0].what.contains("lost"));
}

#[test]
fn a_column_that_unpacks_to_far_more_than_it_takes_is_refused() {
    let runs = vec![1; 1 << 20];
    let payload = [varints(&[0; 21]), compressed(4, &runs)].concat();
    let recording = Recording::from_bytes(file(&[(SOURCE, varints(&[0; 7])), (RSS, payload)])).unwrap();
    assert_eq!((recording.breakdowns().unwrap().len(), recording.damage().len()), (0, 1));
}
