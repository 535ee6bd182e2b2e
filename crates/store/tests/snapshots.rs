//! Snapshot files: everything written is read back, or the file is refused.

mod histories;

use highwater_model::{
    AccountsState, AddressLedger, AddressSpace, AllocId, Block, Blocks, Catalog, Event, Figures, FrameId, FrameText,
    Heap, Nanos, Sites, Snapshot, Source, StackId, TagId, ThreadAccount, ThreadId, Weight, When,
};
use highwater_store::history::{HistoryIndex, Work};
use highwater_store::{EventLog, LogError, Moment, Recording, RecordingError, Writer, write_snapshot};
use histories::{doing, events};
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The state after a history.
fn state_after(events: &[Event]) -> AccountsState {
    let mut ledger = AddressLedger::default();
    events.iter().for_each(|event| ledger.record(event, &mut ()));
    ledger.accounts().to_state()
}

fn source(aggregated: bool) -> Source {
    Source {
        program: "service".to_owned(),
        executable: "/srv/bin/service-2".to_owned(),
        address_space: AddressSpace { reserved_bytes: 1 << 40, mapped_file_bytes: 12288, returned_bytes: 8192 },
        pid: 7,
        command: vec!["./service".to_owned(), "--port".to_owned()],
        duration: Nanos(1_000_000),
        usable_sizes: true,
        aggregated,
        ..Source::default()
    }
}

/// A snapshot with every block, or with figures only.
fn written(catalog: &Catalog, state: &AccountsState, aggregated: bool) -> Vec<u8> {
    let blocks = if aggregated { Blocks::default() } else { state.blocks.clone() };
    let state = AccountsState { blocks, ..state.clone() };
    let (file, written) = write_snapshot(Vec::new(), &source(aggregated), catalog, &state).unwrap();
    assert_eq!((written.bytes, written.events), (file.len() as u64, state.events));
    file
}

/// Rows after the last used one need not be stored.
fn with_all_rows(mut state: AccountsState) -> AccountsState {
    state.tags.resize(64, Figures::default());
    state
}

/// A state with a bit of everything, whose blocks are all of one thread.
fn small() -> (Catalog, AccountsState) {
    let mut catalog = Catalog::default();
    let frame = |function| FrameText { function, file: "a.c", line: 3, ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame("load"), frame("main")]);
    catalog.name_thread(ThreadId(9), "worker");
    let block = |id: u64, size, weight| Block {
        id: AllocId(id),
        address: 0x1000 * id,
        size,
        time: Nanos(id * 10),
        thread: 0,
        stack,
        tag: TagId::NONE,
        surplus: id as i32 - 4,
        weight: Weight::new(weight),
    };
    let mut state = AccountsState { next_id: 9, last_time: Nanos(500), ..AccountsState::default() };
    let mut figures = Figures { frees: 3, allocations: 3, ..Figures::default() };
    for block in [block(3, 100, 1.0), block(5, 7, 2.5), block(8, 0, 1.0)] {
        figures.allocations += block.live_blocks();
        figures.unrecorded += block.live_blocks() - 1;
        figures.add_allocated(block.live_amount());
        state.blocks.push(block);
    }
    figures.peak_bytes = figures.live_bytes();
    state.totals.figures = figures;
    *state.sites.at(stack) = figures;
    state.threads.push(ThreadAccount { id: ThreadId(9), figures, last_allocation: AllocId(8) });
    (catalog, state)
}

fn end(recording: &Recording) -> Result<Snapshot, RecordingError> {
    recording.snapshot(&When::End)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_was_written_is_read(doings in prop::collection::vec(doing(), 0..300), aggregated in any::<bool>()) {
        let (mut catalog, mapped, events) = events(&doings);
        catalog.name_thread(ThreadId(2), "worker");
        let mut state = state_after(&events);
        let recording = Recording::from_bytes(written(&catalog, &state, aggregated)).unwrap();
        let read = end(&recording).unwrap();
        prop_assert_eq!(read.violations(), Vec::<String>::new());
        prop_assert_eq!(read.at, Nanos(1_000_000));
        prop_assert_eq!(read.usable_bytes().is_some(), !aggregated);
        if aggregated {
            state.blocks = Blocks::default();
        }
        let mapped_bytes = state.tags.get(mapped.0 as usize).map_or(0, Figures::live_bytes);
        prop_assert_eq!(read.live_bytes_of(Heap::Mapped), mapped_bytes);
        prop_assert_eq!(with_all_rows(read.accounts.to_state()), with_all_rows(state));
        prop_assert_eq!(recording.source(), &Source { snapshot: true, ..source(aggregated) });
        prop_assert_eq!(recording.catalog().thread_name(ThreadId(2)), "worker");
        let report = recording.check(&mut |_| {}).unwrap();
        prop_assert_eq!((report.events, report.violations, recording.damage()), (0, vec![], vec![]));
        prop_assert!(recording.is_snapshot() && recording.stats().complete);
    }
}

#[test]
fn a_state_of_which_no_event_was_counted_is_read() {
    let (catalog, state) = small();
    for aggregated in [false, true] {
        let recording = Recording::from_bytes(written(&catalog, &state, aggregated)).unwrap();
        let expected = if aggregated { 0 } else { 3 };
        let figures = &end(&recording).unwrap().accounts.totals().figures.clone();
        assert_eq!(figures, &state.totals.figures);
        assert_eq!(&recording.final_totals().unwrap().figures, figures);
        let shown = recording.for_each_step(|_, step| panic!("{step:?}")).unwrap();
        assert_eq!((shown.blocks().count(), &shown.totals().figures), (expected, figures));
        let report = recording.check(&mut |_| {}).unwrap();
        assert_eq!((report.violations, recording.damage()), (vec![], vec![]));
    }
}

#[test]
fn more_blocks_than_fit_in_one_part_are_read() {
    let (catalog, mut state) = small();
    state.blocks = Blocks::default();
    state.next_id = 1 << 20;
    let mut figures = Figures::default();
    for number in 0..600_000u64 {
        let block = Block {
            id: AllocId(number + number / 3),
            address: 0x7f00_0000_0000 + number * 48,
            size: number % 100,
            time: Nanos(number / 2000),
            thread: 0,
            stack: StackId(1),
            tag: TagId::NONE,
            surplus: 0,
            weight: Weight::ONE,
        };
        figures.allocations += 1;
        figures.allocated_bytes += block.size;
        state.blocks.push(block);
    }
    figures.peak_bytes = figures.live_bytes();
    state.totals.figures = figures;
    state.threads[0].figures = figures;
    state.sites = Sites::default();
    *state.sites.at(StackId(1)) = figures;
    let recording = Recording::from_bytes(written(&catalog, &state, false)).unwrap();
    let read = end(&recording).unwrap().accounts.to_state();
    assert!(read.blocks == state.blocks);
    assert_eq!(read.totals, state.totals);
    // Without single blocks, their number does not make the file larger.
    assert!(written(&catalog, &state, true).len() < 1000);
}

#[test]
fn a_snapshot_has_one_instant_and_no_course() {
    let (catalog, state) = small();
    let recording = Recording::from_bytes(written(&catalog, &state, false)).unwrap();
    for when in [When::At(Nanos(1_000_000)), When::Percent(100.0)] {
        assert_eq!(recording.snapshot(&when).unwrap().accounts.totals().figures.live_samples(), 3);
    }
    let others = [When::Start, When::Peak, When::At(Nanos(5)), When::At(Nanos(u64::MAX)), When::Percent(99.0)];
    for when in others.into_iter().chain([When::Mark("loaded".to_owned())]) {
        let error = recording.snapshot(&when).unwrap_err();
        assert!(matches!(error, RecordingError::OneInstant { .. }), "{error}");
        assert!(error.to_string().contains("1.0ms") && error.to_string().contains(&when.to_string()), "{error}");
    }
    assert_eq!((recording.marks().unwrap().len(), recording.gauges().unwrap().len()), (0, 0));
}

#[test]
fn one_heap_is_known_by_blocks_only() {
    let (catalog, state) = small();
    let heap_of = |aggregated| {
        let recording = Recording::from_bytes(written(&catalog, &state, aggregated)).unwrap();
        recording.snapshot_of_heap(Moment::End, Heap::Malloc)
    };
    let alone = heap_of(false).unwrap();
    assert_eq!(alone.accounts.totals().figures.live_bytes(), state.totals.figures.live_bytes());
    assert!(matches!(heap_of(true), Err(RecordingError::NoBlocks)));
}

#[test]
fn damage_is_found_and_never_gives_another_state() {
    let (catalog, state) = small();
    for aggregated in [false, true] {
        let file = written(&catalog, &state, aggregated);
        let whole = end(&Recording::from_bytes(file.clone()).unwrap()).unwrap().accounts.to_state();
        let mut usable = 0;
        let mut read = |damaged: Vec<u8>| {
            let Ok(recording) = Recording::from_bytes(damaged) else { return };
            drop(recording.check(&mut |_| {}));
            drop(HistoryIndex::new(&recording, 1 << 20).unwrap().build(&recording, &Work::quiet()));
            match end(&recording) {
                Ok(found) => {
                    assert!(with_all_rows(found.accounts.to_state()) == with_all_rows(whole.clone()));
                    usable += 1;
                }
                Err(error) => assert!(matches!(error, RecordingError::NothingUsable), "{error}"),
            }
        };
        for at in 0..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 0x10;
            read(flipped);
            read(file[..at].to_vec());
        }
        assert!(usable > 100, "only what is hit is lost: {usable}");
    }
}

#[test]
fn a_file_that_could_not_be_read_is_not_written() {
    let (catalog, state) = small();
    let without_blocks = AccountsState { blocks: Blocks::default(), ..state.clone() };
    for (state, aggregated) in [(&state, true), (&without_blocks, false)] {
        let error = write_snapshot(Vec::new(), &source(aggregated), &catalog, state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn a_snapshot_can_be_given_names_but_not_gone_on_with() {
    let (mut catalog, state) = small();
    catalog.stacks.intern_frame(highwater_model::Frame { address: 0x40, ..Default::default() });
    for aggregated in [false, true] {
        let name = format!("snapshot-{}-{aggregated}.hw", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, written(&catalog, &state, aggregated)).unwrap();

        let recording = Recording::open(&path).unwrap();
        let mut named = recording.catalog_to_go_on().unwrap();
        assert!(named.resolve(FrameId(0), &[FrameText { function: "known now", ..FrameText::default() }]));
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let writer = Writer::resume(file, &recording, end(&recording).unwrap().accounts).unwrap();
        writer.finish(&named, recording.source()).unwrap();
        let again = Recording::open(&path).unwrap();
        assert!(again.is_snapshot() && again.check(&mut |_| {}).unwrap().violations.is_empty());
        assert_eq!(end(&again).unwrap().accounts.to_state(), end(&recording).unwrap().accounts.to_state());
        assert_eq!(again.catalog().frame_texts(StackId(1)).next().unwrap().function, "known now");
        assert!(matches!(EventLog::open(&path), Err(LogError::Snapshot(_))));
        std::fs::remove_file(&path).unwrap();
    }
}
