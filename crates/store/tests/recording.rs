//! The recording file: everything written is read back, at every instant, whole or damaged.

use highwater_model::{
    Accounts, AddressLedger, Anomaly, Block, Catalog, Event, EventKind, Frame, FrameText, Nanos, Op, Placement, Source,
    StackId, Tag, ThreadId, When,
};
use highwater_store::history::{HistoryIndex, Moment, Work};
use highwater_store::{
    EventLog, FigureCheckpoint, FileSink, OpenError, Recording, RecordingError, ReplayUntil, Spacing, WalkItem, Writer,
};
use proptest::prelude::*;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// A history with all kinds of events and its catalog: the same for the same seed.
fn history(seed: u64, length: usize) -> (Catalog, Vec<Event>) {
    let mut catalog = Catalog::default();
    let stacks: Vec<StackId> = (0..6)
        .map(|site| {
            let inner = format!("make_{site}");
            let frame =
                |function| FrameText { function, file: "main.rs", line: 7, module: "demo", ..FrameText::default() };
            catalog.intern_stack(&[frame(&inner), frame("main")])
        })
        .collect();
    let (variable, type_name) = (catalog.strings.intern("buffer"), catalog.strings.intern("Vec<u8>"));
    let tag = catalog.intern_tag(Tag { variable, type_name, ..Tag::default() });
    let name = catalog.strings.intern("phase");
    catalog.name_thread(ThreadId(1), "worker");
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % bound
    };
    let mut time = 0;
    let mut events = Vec::new();
    for _ in 0..length {
        time += random(400);
        let address = 0x7f00_0000_0000 + random(60) * 48;
        let mut place = Placement { address, size: 24 + random(4) * 100, ..Placement::default() };
        place.stack = stacks[random(6) as usize];
        place.tag = if random(3) == 0 { tag } else { place.tag };
        let kind = match random(20) {
            0 => EventKind::Mark { name },
            1 => EventKind::Gauge { name, value: random(1 << 40) },
            2 | 3 => EventKind::Reallocate {
                old_address: 0x7f00_0000_0000 + random(60) * 48,
                claimed_old_size: None,
                new: place,
            },
            // Most frees have a stack.
            4..=11 => {
                let stack = if time % 3 == 0 { StackId::UNKNOWN } else { place.stack };
                EventKind::Deallocate { address, claimed_size: Some(24), stack }
            }
            12 if random(10) == 0 => EventKind::Dropped { count: 3 },
            _ => EventKind::Allocate(place),
        };
        events.push(Event { time: Nanos(time), thread: ThreadId(1 + random(3)), kind });
    }
    (catalog, events)
}

fn source() -> Source {
    Source { program: "history".to_owned(), pid: 77, host: "here".to_owned(), ..Source::default() }
}

/// A recording in memory whose keyframes are `every` events apart and whose blocks end every `flush` events.
fn written(catalog: &Catalog, events: &[Event], every: u64, flush: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &source()).unwrap();
    writer.set_spacing(Spacing::every(every));
    for part in events.chunks(flush) {
        writer.append(part, catalog).unwrap();
        writer.flush(catalog).unwrap();
    }
    writer.finish(catalog, &source()).unwrap().1
}

/// The accounts after the events up to and including `time`, made without any file.
fn accounts_at(events: &[Event], time: Nanos) -> Accounts {
    let mut ledger = AddressLedger::default();
    events.iter().filter(|event| event.time <= time).for_each(|event| ledger.record(event, &mut ()));
    ledger.into_accounts()
}

fn assert_same(read: &Accounts, direct: &Accounts, what: &str) {
    let (mut read, mut direct) = (read.to_state(), direct.to_state());
    // Rows after the last used one need not be stored.
    for rows in [&mut read.tags, &mut direct.tags] {
        rows.resize(64, Default::default());
    }
    assert_eq!(read, direct, "{what}");
}

#[test]
fn every_instant_is_what_it_was() {
    let (catalog, events) = history(1, 3000);
    let file = written(&catalog, &events, 700, 250);
    let recording = Recording::from_bytes(file).unwrap();
    assert!(recording.stats().keyframes >= 3, "{:?}", recording.stats());
    for event in events.iter().step_by(97) {
        let snapshot = recording.snapshot(&When::At(event.time)).unwrap();
        assert_same(&snapshot.accounts, &accounts_at(&events, event.time), &format!("{}", event.time));
    }
    let end = recording.snapshot(&When::End).unwrap();
    assert_same(&end.accounts, &accounts_at(&events, Nanos(u64::MAX)), "end");
    assert_eq!(recording.snapshot(&When::Start).unwrap().accounts.events(), 0);
    assert_eq!(recording.source().program, "history");
    assert_eq!(recording.catalog().thread_name(ThreadId(1)), "worker");
}

fn indexed(recording: &Recording) -> HistoryIndex {
    let index = HistoryIndex::new(recording, 1 << 20).unwrap();
    index.build(recording, &Work::quiet()).unwrap();
    index
}

#[test]
fn the_peak_is_the_instant_with_the_most_bytes() {
    let (catalog, events) = history(2, 2000);
    let recording = Recording::from_bytes(written(&catalog, &events, 500, 100)).unwrap();
    let peak = recording.snapshot(&When::Peak).unwrap();
    let mut ledger = AddressLedger::default();
    let mut most = 0;
    for event in &events {
        ledger.record(event, &mut ());
        most = most.max(ledger.accounts().totals().figures.live_bytes());
    }
    assert_eq!(peak.accounts.totals().figures.live_bytes(), most);
    let index = indexed(&recording);
    let highest = index.slices().iter().filter_map(|slice| slice.bin.live).map(|(bytes, _)| bytes.high.rounded()).max();
    assert_eq!(highest, Some(most));
}

#[test]
fn marks_and_gauges_are_found_and_unknown_ones_named() {
    let mut catalog = Catalog::default();
    let (loaded, rss) = (catalog.strings.intern("loaded"), catalog.strings.intern("rss"));
    let event = |time, kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
    let place = |address| EventKind::Allocate(Placement { address, size: 10, ..Placement::default() });
    let events = [
        event(5, place(16)),
        event(5, EventKind::Mark { name: loaded }),
        event(5, place(32)),
        event(9, EventKind::Gauge { name: rss, value: 4096 }),
    ];
    let recording = Recording::from_bytes(written(&catalog, &events, 100, 100)).unwrap();
    let at_mark = recording.snapshot(&When::Mark("loaded".to_owned())).unwrap();
    // At the same time as the mark, but after it.
    assert_eq!(at_mark.accounts.totals().figures.live_blocks(), 1);
    assert_eq!(recording.gauges().unwrap()[0].value, 4096);
    let error = recording.snapshot(&When::Mark("unloaded".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "no mark is named 'unloaded'; there are: loaded");
    let error = recording.snapshot(&When::At(Nanos(10))).unwrap_err();
    assert!(matches!(error, RecordingError::TimeOutside { .. }), "{error}");
}

#[test]
fn a_block_that_dies_unseen_is_still_there_until_its_address_is_given_out_again() {
    let place = |size| EventKind::Allocate(Placement { address: 16, size, ..Placement::default() });
    let event = |time, kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
    let events = [event(1, place(10)), event(50, place(20))];
    let recording = Recording::from_bytes(written(&Catalog::default(), &events, 100, 100)).unwrap();
    let live = |time| recording.snapshot(&When::At(Nanos(time))).unwrap().accounts.totals().figures.live_bytes();
    assert_eq!((live(0), live(1), live(49), live(50)), (0, 10, 10, 20));
}

#[test]
fn check_finds_nothing_in_a_sound_recording_and_names_a_broken_law() {
    let (catalog, events) = history(3, 2000);
    let file = written(&catalog, &events, 400, 150);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    let report = recording.check(&mut |_| {}).unwrap();
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.keyframes >= 4 && recording.damage().is_empty());

    // Two recordings spliced together: every checksum is right, but the second half belongs to another history.
    let (_, other) = history(4, 2000);
    let other = written(&catalog, &other, 400, 150);
    let second = |file: &[u8]| nth_block(file, 3, 9);
    let (from, to) = (second(&other), second(&file));
    let spliced = [&file[..to.0], &other[from.0..from.1], &file[to.1..]].concat();
    let recording = Recording::from_bytes(spliced).unwrap();
    let report = recording.check(&mut |_| {}).unwrap();
    assert!(!report.violations.is_empty() || !recording.damage().is_empty());
}

/// Where the `n`th block of a kind begins and ends.
fn nth_block(file: &[u8], kind: u8, n: usize) -> (usize, usize) {
    blocks(file).into_iter().filter(|(start, _)| file[start + 4] == kind).nth(n).unwrap()
}

/// Where the blocks begin and end, read independently of the library.
fn blocks(file: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 16;
    while at + 24 <= file.len() {
        assert_eq!(&file[at..at + 4], b"HWB1");
        let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        found.push((at, at + 24 + length));
        at += 24 + length;
    }
    found
}

/// How many events can be read.
fn events_in(recording: &Recording) -> u64 {
    let mut events = 0;
    recording.for_each_step(|_, step| events += u64::from(step.op.is_event())).unwrap();
    events
}

const EVENTS: u8 = 3;

#[test]
fn a_file_cut_anywhere_gives_all_events_of_its_whole_blocks() {
    let (catalog, events) = history(5, 600);
    let file = written(&catalog, &events, 200, 60);
    let all = blocks(&file);
    let sizes = events_per_block(&file, &all);
    for length in 0..file.len() {
        let expected: u64 =
            all.iter().zip(&sizes).filter(|((_, end), _)| *end <= length).map(|(_, events)| events).sum();
        match Recording::from_bytes(file[..length].to_vec()) {
            Ok(recording) => {
                assert_eq!(events_in(&recording), expected, "cut at {length}");
                let at_block_end = length == 16 || all.iter().any(|(_, end)| *end == length);
                assert_eq!(recording.damage().is_empty(), at_block_end, "cut at {length}: {:?}", recording.damage());
                assert!(!recording.stats().complete);
                if let Some(damage) = recording.damage().first() {
                    let start = all.iter().map(|(start, _)| *start).rfind(|start| *start <= length).unwrap();
                    assert_eq!(damage.offset, start as u64, "cut at {length}");
                }
                let end = recording.snapshot(&When::End).unwrap();
                assert_eq!(end.accounts.events(), expected, "cut at {length}");
            }
            Err(error) => assert_eq!(expected, 0, "cut at {length}: {error}"),
        }
    }
}

/// How many events each block holds, found by cutting the file after it.
fn events_per_block(file: &[u8], all: &[(usize, usize)]) -> Vec<u64> {
    let mut before = 0;
    let mut added = |&(start, end): &(usize, usize)| {
        if file[start + 4] != EVENTS {
            return 0;
        }
        let until = events_in(&Recording::from_bytes(file[..end].to_vec()).unwrap());
        until - std::mem::replace(&mut before, until)
    };
    all.iter().map(&mut added).collect()
}

#[test]
fn any_flipped_byte_costs_at_most_its_block_and_is_named() {
    let (catalog, events) = history(6, 500);
    let file = written(&catalog, &events, 200, 60);
    let all = blocks(&file);
    let sizes = events_per_block(&file, &all);
    let whole: u64 = sizes.iter().sum();
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x5a;
        let recording = Recording::from_bytes(damaged).unwrap_or_else(|error| panic!("flipped at {at}: {error}"));
        let hit = all.iter().position(|&(start, end)| (start..end).contains(&at));
        let lost = hit.map_or(0, |block| sizes[block]);
        assert_eq!(events_in(&recording), whole - lost, "flipped at {at}");
        let report = recording.check(&mut |_| {}).unwrap();
        assert!(report.violations.is_empty(), "flipped at {at}: {:?}", report.violations);
        let damage = recording.damage();
        let start = hit.map_or(0, |block| all[block].0 as u64);
        // A damaged index or end does no harm: the blocks are found without it.
        assert!(damage.iter().any(|damage| damage.offset == start), "flipped at {at} ({start}): {damage:?}");
    }
}

#[test]
fn after_lost_events_the_next_keyframe_sets_the_figures_right() {
    let (catalog, events) = history(7, 2000);
    let file = written(&catalog, &events, 500, 100);
    let (start, _) = nth_block(&file, EVENTS, 2);
    let mut damaged = file.clone();
    damaged[start + 40] ^= 1;
    let recording = Recording::from_bytes(damaged).unwrap();
    let end = recording.snapshot(&When::End).unwrap();
    assert_same(&end.accounts, &accounts_at(&events, Nanos(u64::MAX)), "end");
}

#[test]
fn files_that_are_not_ours_are_refused_in_words() {
    let open = |bytes: &[u8]| Recording::from_bytes(bytes.to_vec()).map(|_| ()).unwrap_err();
    assert!(matches!(open(b""), OpenError::Empty));
    assert!(matches!(open(b"\x7fELF and so on, for a while"), OpenError::NotARecording));
    assert!(matches!(open(b"{\"event\":\"allocate\"}"), OpenError::NotARecording));
    let (catalog, events) = history(8, 10);
    let mut newer = written(&catalog, &events, 100, 100);
    newer[6] = 9;
    let crc = crc32fast::hash(&newer[..8]);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    assert!(open(&newer).to_string().contains("version 9 is newer"), "{}", open(&newer));
}

/// A disk with a limited number of bytes.
struct SmallDisk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.room - self.bytes.len());
        if fits == 0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
        }
        self.bytes.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shared with the test, which looks at it after the writer failed.
struct Disk(std::rc::Rc<std::cell::RefCell<SmallDisk>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileSink for Disk {
    fn cut_back(&mut self, length: u64) {
        self.0.borrow_mut().bytes.truncate(length as usize);
    }
}

#[test]
fn a_full_disk_gives_one_error_and_leaves_a_readable_file() {
    let (catalog, events) = history(9, 2000);
    let whole = written(&catalog, &events, 500, 100);
    for room in (0..whole.len()).step_by(211) {
        let disk = std::rc::Rc::new(std::cell::RefCell::new(SmallDisk { bytes: Vec::new(), room }));
        let result = Writer::new(Disk(std::rc::Rc::clone(&disk)), &source()).and_then(|mut writer| {
            writer.set_spacing(Spacing::every(500));
            for part in events.chunks(100) {
                writer.append(part, &catalog)?;
                writer.flush(&catalog)?;
            }
            writer.finish(&catalog, &source())
        });
        let error = result.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let bytes = disk.borrow().bytes.clone();
        if let Ok(recording) = Recording::from_bytes(bytes) {
            assert!(recording.damage().is_empty(), "room for {room}: {:?}", recording.damage());
            let read = events_in(&recording);
            assert!(room < 400 || read > 0 || room < whole.len() / 8, "room for {room}: {read} events");
        }
    }
}

/// A long `write` becomes visible page by page. A reader that opens the file meanwhile sees a part of a block.
#[test]
fn a_block_that_is_being_written_is_no_damage() {
    let (catalog, events) = history(12, 2000);
    let whole = written(&catalog, &events, 500, 100);
    let path = std::env::temp_dir().join(format!("highwater-growing-{}.hw", std::process::id()));
    let half = whole.len() / 2;
    std::fs::write(&path, &whole[..half]).unwrap();
    let cut = Recording::open(&path).unwrap();
    assert!(cut.damage()[0].what.contains("cut in a block"), "{:?}", cut.damage());

    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(&whole[half..=half]).unwrap();
    let writer = std::thread::spawn({
        let rest = whole[half + 1..].to_vec();
        move || {
            for part in rest.chunks(64) {
                std::thread::sleep(std::time::Duration::from_millis(2));
                file.write_all(part).unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let growing = Recording::open(&path).unwrap();
        assert_eq!(growing.damage(), []);
        assert!(events_in(&growing) > 0);
    }
    writer.join().unwrap();
    assert_eq!(Recording::open(&path).unwrap().damage(), []);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_writer_that_failed_fails_again_with_the_same_words() {
    let (catalog, events) = history(10, 200);
    let disk = std::rc::Rc::new(std::cell::RefCell::new(SmallDisk { bytes: Vec::new(), room: 300 }));
    let mut writer = Writer::new(Disk(disk), &source()).unwrap();
    writer.append(&events, &catalog).unwrap();
    let first = writer.flush(&catalog).unwrap_err().to_string();
    let second = writer.append(&events, &catalog).unwrap_err().to_string();
    assert_eq!((first.as_str(), second.as_str()), ("no space left on device", "no space left on device"));
}

#[test]
fn states_that_replays_leave_behind_lead_to_the_same_instants() {
    let (catalog, events) = history(11, 3000);
    let bytes = written(&catalog, &events, 800, 90);
    let recording = Recording::from_bytes(bytes.clone()).unwrap();
    recording.keep_checkpoints(1 << 20, 150);
    let end = events.last().unwrap().time.0;
    // Not in order: some replays use checkpoints that others left, some leave checkpoints for others.
    for part in (0..200u64).map(|at| at * 73 % 200) {
        let time = Nanos(end * part / 199);
        let read = recording.snapshot(&When::At(time)).unwrap();
        assert_same(&read.accounts, &accounts_at(&events, time), &format!("at {time:?}"));
    }
    let plain = Recording::from_bytes(bytes).unwrap();
    for least in [1, 500] {
        let steps = |recording: &Recording| {
            let mut steps = 0;
            for segment in recording.segments(Nanos(end / 3), Nanos(end), least) {
                let last = recording.walk_segment(&segment, |seen| {
                    steps += u64::from(matches!(seen, WalkItem::Step(..)));
                    ControlFlow::Continue(())
                });
                assert!(last.unwrap().events() > 0);
            }
            steps
        };
        assert_eq!(steps(&recording), steps(&plain));
    }
    for (from, to) in [(0, end), (end / 3, end / 2), (end / 7, end / 7), (end / 2, end / 2 + 5000)] {
        let (from, to) = (Nanos(from), Nanos(to));
        let highest = recording.highest_between(from, to).unwrap();
        assert_eq!(highest, plain.highest_between(from, to).unwrap());
        let then = recording.snapshot_at(Moment::Event(highest.event)).unwrap();
        assert_eq!(then.accounts.totals().figures.live_bytes(), highest.bytes);
        let before = if from == Nanos(0) { Moment::Start } else { Moment::At(Nanos(from.0 - 1)) };
        let (before, after) = (recording.snapshot_at(before).unwrap(), recording.snapshot_at(Moment::At(to)).unwrap());
        let between = after.since(&before);
        let happened = events.iter().filter(|event| (from..=to).contains(&event.time));
        let happened = happened.filter(|event| !matches!(event.kind, EventKind::Dropped { .. })).count() as u64;
        assert_eq!(between.accounts.events(), happened);
    }
}

#[test]
fn figures_and_the_blocks_that_go_lead_to_the_figures_of_every_instant_until_then() {
    let (catalog, events) = history(12, 2000);
    let recording = Recording::from_bytes(written(&catalog, &events, 700, 150)).unwrap();
    // Before each block of events: its index, the figures, and every live block.
    let mut before = Vec::new();
    recording
        .walk(|seen| {
            if let WalkItem::Block(ledger, _) = seen {
                let threads = ledger.accounts().threads();
                let owner = |block: &Block| threads[block.thread as usize].id;
                let live: Vec<(Block, ThreadId)> =
                    ledger.accounts().blocks().map(|block| (block, owner(&block))).collect();
                before.push((FigureCheckpoint::of(ledger.accounts()).unwrap(), live));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(before.len() > 10);
    for (place, (standing, live)) in before.iter().enumerate() {
        let end = before.get(place + 1).map_or(recording.stats().events, |(next, _)| next.events);
        // Blocks that are dead or changed before the next block of events.
        let after = recording.snapshot_at(Moment::Event(end)).unwrap();
        let stays: Vec<Block> = after.accounts.blocks().collect();
        let stays = |block: &Block| stays.contains(&Block { thread: block.thread, ..*block });
        let mut going: Vec<(Block, ThreadId)> = live.iter().filter(|(block, _)| !stays(block)).copied().collect();
        going.sort_by_key(|(block, _)| block.id);
        for event in standing.events..=end {
            let ledger = recording.resume(standing, going.iter().copied()).unwrap();
            let reached = recording.go_on(ledger, place, ReplayUntil::Event(event)).unwrap().into_accounts();
            let expected = recording.snapshot_at(Moment::Event(event)).unwrap().accounts;
            assert_eq!(reached.figures_alone().to_state(), expected.figures_alone().to_state(), "event {event}");
        }
    }
    let (standing, live) = &before[before.len() / 2];
    let strangers = live.iter().map(|(block, _)| (*block, ThreadId(u64::MAX)));
    assert!(recording.resume(standing, strangers).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_was_written_is_read_in_order(seed in any::<u64>(), length in 0usize..800, flush in 1usize..400, every in 1u64..500) {
        let (catalog, events) = history(seed, length);
        let recording = Recording::from_bytes(written(&catalog, &events, every, flush)).unwrap();
        let mut steps = Vec::new();
        let mut ledger = AddressLedger::default();
        events.iter().for_each(|event| ledger.record(event, &mut steps));
        let mut read = Vec::new();
        recording.for_each_step(|_, step| read.push(*step)).unwrap();
        prop_assert_eq!(read, steps);
        prop_assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    }

    #[test]
    fn many_flipped_bytes_never_break_the_reader(seed in any::<u64>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let (catalog, events) = history(seed, 400);
        let mut file = written(&catalog, &events, 100, 50);
        for (at, value) in flips {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Ok(recording) = Recording::from_bytes(file) {
            let _ = recording.snapshot(&When::End);
            let _ = recording.snapshot(&When::Peak);
            let index = HistoryIndex::new(&recording, 1 << 20).unwrap();
            let _ = index.build(&recording, &Work::quiet());
            recording.check(&mut |_| {}).unwrap();
        }
    }
}

#[test]
fn addresses_and_numbers_at_the_edges_survive() {
    let event = |time, thread, kind| Event { time: Nanos(time), thread: ThreadId(thread), kind };
    let place = |address, size| EventKind::Allocate(Placement { address, size, ..Placement::default() });
    let events = [
        event(0, u64::MAX, place(u64::MAX, 0)),
        event(u64::MAX - 1, 0, place(0, 1)),
        event(u64::MAX - 1, 0, place(1 << 63, u64::MAX - 1)),
        event(u64::MAX, 1, EventKind::free(u64::MAX, None)),
        event(u64::MAX, 1, EventKind::free(12345, None)),
    ];
    let recording = Recording::from_bytes(written(&Catalog::default(), &events, 2, 1)).unwrap();
    let mut addresses = Vec::new();
    let steps = recording.for_each_step(|_, step| {
        if let Op::Allocate(place) = step.op {
            addresses.push(place.address);
        }
    });
    assert_eq!(steps.unwrap().totals().figures.live_bytes(), u64::MAX);
    assert_eq!(addresses, [u64::MAX, 0, 1 << 63]);
    assert_eq!(indexed(&recording).slices().last().unwrap().last, Nanos(u64::MAX));
}

#[test]
fn notes_have_times_and_nothing_after_them_is_earlier() {
    let event = |time, kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
    let place = |address| EventKind::Allocate(Placement { address, size: 8, ..Placement::default() });
    let events = [
        event(10, place(16)),
        event(500, EventKind::Dropped { count: 2 }),
        event(20, place(32)),
        event(600, place(48)),
    ];
    let recording = Recording::from_bytes(written(&Catalog::default(), &events, 100, 100)).unwrap();
    let end = recording.snapshot(&When::End).unwrap();
    assert_eq!((end.accounts.totals().figures.live_blocks(), end.at), (3, Nanos(600)));
    assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    assert_eq!(recording.snapshot(&When::At(Nanos(499))).unwrap().accounts.totals().figures.live_blocks(), 1);
}

#[test]
fn any_number_of_notes_can_be_written() {
    let mut writer = Writer::new(Vec::new(), &source()).unwrap();
    for _ in 0..300_000 {
        writer.note(Anomaly::TruncatedStack, 1, &Catalog::default()).unwrap();
    }
    let (_, file) = writer.finish(&Catalog::default(), &source()).unwrap();
    let recording = Recording::from_bytes(file).unwrap();
    let end = recording.snapshot(&When::End).unwrap();
    assert_eq!(end.accounts.anomalies().get(Anomaly::TruncatedStack), 300_000);
    assert!(recording.damage().is_empty());
}

#[test]
fn frames_interned_long_before_their_stacks_are_written_before_them() {
    let mut catalog = Catalog::default();
    let frames: Vec<_> =
        (0..150_000).map(|address| catalog.stacks.intern_frame(Frame { address, ..Frame::default() })).collect();
    let stack = catalog.stacks.intern_child(StackId::UNKNOWN, frames[149_999]);
    let place = Placement { address: 16, size: 8, stack, ..Placement::default() };
    let events = [Event { time: Nanos(1), thread: ThreadId(1), kind: EventKind::Allocate(place) }];
    let recording = Recording::from_bytes(written(&catalog, &events, 10, 10)).unwrap();
    assert!(recording.damage().is_empty(), "{:?}", recording.damage());
    assert_eq!(recording.catalog().stacks.frames_of(stack).map(|frame| frame.address).collect::<Vec<_>>(), [149_999]);
}

/// The file with one byte of a block's payload flipped.
fn with_damaged_block(file: &[u8], kind: u8, n: usize) -> Vec<u8> {
    let (start, _) = nth_block(file, kind, n);
    let mut damaged = file.to_vec();
    damaged[start + 30] ^= 1;
    damaged
}

#[test]
fn a_lost_catalog_leaves_its_stacks_unknown_and_gives_their_numbers_to_no_other() {
    const CATALOG: u8 = 2;
    let mut catalog = Catalog::default();
    let frame = |function| [FrameText { function, ..FrameText::default() }];
    let event = |address, stack| {
        let place = Placement { address, size: 8, stack, ..Placement::default() };
        Event { time: Nanos(address), thread: ThreadId(1), kind: EventKind::Allocate(place) }
    };
    let mut writer = Writer::new(Vec::new(), &source()).unwrap();
    writer.set_spacing(Spacing::every(1));
    for (address, function) in [(16, "alpha"), (32, "beta")] {
        let stack = catalog.intern_stack(&frame(function));
        writer.append(&[event(address, stack)], &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    let (_, file) = writer.finish(&catalog, &source()).unwrap();
    let path = std::env::temp_dir().join(format!("highwater-test-{}-lost-catalog.hw", std::process::id()));
    std::fs::write(&path, with_damaged_block(&file, CATALOG, 1)).unwrap();

    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    let (log, _) = EventLog::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let gamma = log.change_catalog(|catalog| catalog.intern_stack(&frame("gamma")));
    log.record(event(48, gamma));
    let end = log.to_recording(&source()).unwrap().snapshot(&When::End).unwrap();
    let function_at = |address| {
        let block = end.accounts.blocks().find(|block| block.address == address).unwrap();
        end.catalog.frame_texts(block.stack).next().map(|frame| frame.function.to_owned())
    };
    assert_eq!(function_at(16).as_deref(), Some("alpha"));
    assert_eq!(function_at(32), None, "lost, and nobody else's");
    assert_eq!(function_at(48).as_deref(), Some("gamma"));
}

#[test]
fn damage_before_a_keyframe_is_no_violation_with_or_without_an_index() {
    let (catalog, events) = history(11, 1000);
    let file = written(&catalog, &events, 100, 100);
    let last_event_block = blocks(&file).iter().filter(|(start, _)| file[start + 4] == EVENTS).count() - 1;
    for n in [0, 3, last_event_block] {
        let damaged = with_damaged_block(&file, EVENTS, n);
        let without_index = damaged[..damaged.len() - 1].to_vec();
        for file in [damaged, without_index] {
            let recording = Recording::from_bytes(file).unwrap();
            assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new(), "block {n}");
            let end = recording.snapshot(&When::End).unwrap();
            assert_same(&end.accounts, &accounts_at(&events, Nanos(u64::MAX)), "the last keyframe knows");
        }
    }
}

#[test]
fn blocks_of_a_later_version_are_skipped_and_not_missed() {
    let (catalog, events) = history(12, 300);
    let file = written(&catalog, &events, 100, 50);
    let (start, end) = nth_block(&file, EVENTS, 2);
    // A block of an unknown later kind, between two others and numbered with them; no index, as after a crash.
    let mut later = b"HWB1\xc8\0\0\0\x03\0\0\0".to_vec();
    later.extend_from_slice(&file[start + 12..start + 16]);
    later.extend_from_slice(&crc32fast::hash(b"new").to_le_bytes());
    let crc = crc32fast::hash(&later);
    later.extend_from_slice(&crc.to_le_bytes());
    later.extend_from_slice(b"new");
    let mut spliced = [&file[..start], &later].concat();
    for (start, end) in blocks(&file).into_iter().filter(|block| block.0 >= start && file[block.0 + 4] < 6) {
        let mut block = file[start..end].to_vec();
        let sequence = u32::from_le_bytes(block[12..16].try_into().unwrap()) + 1;
        block[12..16].copy_from_slice(&sequence.to_le_bytes());
        let crc = crc32fast::hash(&block[..20]);
        block[20..24].copy_from_slice(&crc.to_le_bytes());
        spliced.extend_from_slice(&block);
    }
    assert!(end > start);
    let recording = Recording::from_bytes(spliced).unwrap();
    assert!(recording.damage().is_empty(), "{:?}", recording.damage());
    assert_eq!(events_in(&recording), recording.snapshot(&When::End).unwrap().accounts.events());
}
