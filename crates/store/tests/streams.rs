//! Files that begin in the middle of a recording, and files from which events were left out: the streams of late and slow clients.
#![allow(missing_docs)]

mod histories;

use highwater_model::{
    Accounts, AccountsState, AddressLedger, Anomaly, Catalog, Event, EventKind, Heap, Nanos, Placement, Source,
    SourceKind, ThreadId, When, laws,
};
use highwater_store::history::{HistoryIndex, Work};
use highwater_store::{BlockTooLong, Follower, Moment, Recording, RecordingError, StepWriter};
use histories::{doing, events};
use proptest::prelude::*;

fn source() -> Source {
    Source { kind: SourceKind::MEMTRACE, program: "streamed".into(), ..Source::default() }
}

/// The stream of a client that joins after `joined` events, and for which the events `left_out` are left out.
fn stream(
    catalog: &Catalog,
    events: &[Event],
    joined: usize,
    left_out: std::ops::Range<usize>,
) -> (Accounts, u64, Vec<u8>) {
    let mut ledger = AddressLedger::default();
    events[..joined].iter().for_each(|event| ledger.record(event, &mut ()));
    let mut pen = StepWriter::begin(Vec::new(), &source(), ledger.accounts(), catalog).unwrap();
    for (number, event) in events.iter().enumerate().skip(joined) {
        if number == left_out.start {
            pen.flush(ledger.accounts(), catalog).unwrap();
        }
        ledger.record(event, &mut pen);
        pen.event_done(ledger.accounts(), catalog).unwrap();
        if number + 1 == left_out.end && !left_out.is_empty() {
            pen.leave_out(ledger.accounts());
            pen.flush(ledger.accounts(), catalog).unwrap();
        }
        if number % 7 == 0 && !left_out.contains(&number) {
            pen.flush(ledger.accounts(), catalog).unwrap();
        }
    }
    let (accounts, dropped) = (ledger.accounts().clone(), pen.left_out());
    (accounts, dropped, pen.finish(ledger.accounts(), catalog, &source()).unwrap().1)
}

fn comparable(accounts: &Accounts, dropped: u64) -> AccountsState {
    let mut state = accounts.to_state();
    state.tags.resize(8, Default::default());
    state.anomalies.add(Anomaly::DroppedEvent, dropped);
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_stream_that_is_joined_late_knows_everything(
        doings in prop::collection::vec(doing(), 2..200), joined in 0..200usize, at in 0..200usize, gap in 0..200usize, length in 0..60usize,
    ) {
        let (catalog, _, mut events) = events(&doings);
        // Other tests cover the effect of promotions on a single heap.
        events.retain(|event| !matches!(event.kind, EventKind::Promote { .. }));
        events.iter_mut().zip(1..).for_each(|(event, number)| event.time = Nanos(number * 10));
        prop_assume!(!events.is_empty());
        let joined = joined.min(events.len() - 1);
        let from = gap.clamp(joined, events.len());
        let gap = from..(from + length).min(events.len());
        let (end, dropped, bytes) = stream(&catalog, &events, joined, gap.clone());
        let recording = Recording::from_bytes(bytes.clone()).unwrap();
        prop_assert_eq!(comparable(&recording.snapshot(&When::End).unwrap().accounts, 0), comparable(&end, dropped));
        // Every instant that is not in the gap.
        let time = |number: usize| Nanos(number as u64 * 10);
        let asked = at.clamp(joined, events.len());
        if !(gap.start + 1..gap.end).contains(&asked) && asked != gap.start {
            let mut ledger = AddressLedger::default();
            events.iter().filter(|event| event.time <= time(asked)).for_each(|event| ledger.record(event, &mut ()));
            let read = recording.snapshot(&When::At(time(asked))).unwrap();
            let dropped = if asked >= gap.end && !gap.is_empty() { dropped } else { 0 };
            prop_assert_eq!(comparable(&read.accounts, 0), comparable(ledger.accounts(), dropped));
        }
        // The beginning.
        let mut ledger = AddressLedger::default();
        events[..joined].iter().for_each(|event| ledger.record(event, &mut ()));
        let start = recording.snapshot(&When::Start).unwrap();
        prop_assert_eq!((comparable(&start.accounts, 0), start.at), (comparable(ledger.accounts(), 0), time(joined)));
        // The other queries.
        let report = recording.check(&mut |_| {}).unwrap();
        prop_assert_eq!((report.violations, recording.damage()), (vec![], vec![]));
        match recording.snapshot(&When::Peak) {
            Ok(peak) => prop_assert_eq!(peak.accounts.totals().figures.live_bytes(), end.totals().figures.peak_bytes),
            Err(error) => prop_assert!(matches!(error, RecordingError::PeakOutside { .. }), "{}", error),
        }
        let index = HistoryIndex::new(&recording, 1 << 20).unwrap();
        index.build(&recording, &Work::quiet()).unwrap();
        if let Some((first, last)) = index.slices().first().zip(index.slices().last()) {
            prop_assert!(first.first >= time(joined));
            let live = last.bin.live.unwrap().0.last.rounded();
            // What follows dropped events is in the last keyframe alone.
            prop_assert!(dropped > 0 || live == end.totals().figures.live_bytes());
        }
        for heap in [Heap::Malloc, Heap::Mapped] {
            let whole = recording.snapshot(&When::End).unwrap();
            let alone = recording.snapshot_of_heap(Moment::End, heap).unwrap();
            prop_assert_eq!(laws::violations(&alone.accounts), Vec::<String>::new());
            let live = |blocks: Vec<highwater_model::Block>| blocks.iter().map(|block| block.id.0).collect::<Vec<_>>();
            let mut of_whole = live(whole.blocks_of(heap).collect());
            let mut of_alone = live(alone.accounts.blocks().collect());
            of_whole.sort_unstable();
            of_alone.sort_unstable();
            prop_assert_eq!(of_alone, of_whole);
        }
        // As the bytes arrive, in pieces of any size.
        let (mut follower, mut whole) = (Follower::default(), Vec::new());
        bytes.chunks(13).for_each(|piece| follower.take(piece, &mut whole).unwrap());
        prop_assert_eq!((whole == bytes, follower.pending(), follower.followed().complete), (true, 0, true));
        prop_assert_eq!(follower.followed().live_bytes, end.totals().figures.live_bytes());
        prop_assert_eq!(follower.followed().dropped, dropped);
    }
}

#[test]
fn a_stream_is_readable_whenever_it_is_cut() {
    let place = |address| Placement { address, size: 100, ..Placement::default() };
    let events: Vec<Event> = (1..=50)
        .map(|time| Event { time: Nanos(time * 10), thread: ThreadId(1), kind: EventKind::Allocate(place(time << 12)) })
        .collect();
    let catalog = Catalog::default();
    let (_, _, bytes) = stream(&catalog, &events, 10, 50..50);
    let mut follower = Follower::default();
    let mut whole = Vec::new();
    for piece in bytes.chunks(11) {
        follower.take(piece, &mut whole).unwrap();
        if follower.followed().source.is_none() {
            continue;
        }
        let recording = Recording::from_bytes(whole.clone()).unwrap();
        assert_eq!(recording.damage(), vec![]);
        // A keyframe is passed on together with its live blocks, or not yet.
        let live = recording.snapshot(&When::End).unwrap().accounts.totals().figures.live_blocks();
        let known = follower.followed().live_blocks;
        assert!(live == known || (live == 0 && follower.pending() > 0), "{live} of {known}");
        assert_eq!(recording.damage(), vec![]);
    }
    let recording = Recording::from_bytes(bytes).unwrap();
    assert_eq!(recording.begins_at(), Nanos(100));
    let before = recording.snapshot(&When::At(Nanos(50))).unwrap_err();
    assert!(before.to_string().contains("begins at 100ns"), "{before}");
}

#[test]
fn a_block_that_claims_too_much_is_refused_when_its_header_has_come() {
    let place = Placement { address: 4096, size: 100, ..Placement::default() };
    let events = [Event { time: Nanos(10), thread: ThreadId(1), kind: EventKind::Allocate(place) }];
    let (_, _, sound) = stream(&Catalog::default(), &events, 0, 1..1);
    // The header of a block, with a correct checksum.
    let mut forged = b"HWB1\x03\0\0\0".to_vec();
    forged.extend(u32::MAX.to_le_bytes());
    forged.extend([0; 8]);
    forged.extend(crc32fast::hash(&forged).to_le_bytes());
    let bytes = [sound.clone(), forged, vec![0; 1000]].concat();
    for piece in [1, 7, bytes.len()] {
        let (mut follower, mut whole) = (Follower::default(), Vec::new());
        let refused = bytes.chunks(piece).find_map(|piece| follower.take(piece, &mut whole).err());
        let expected = BlockTooLong { offset: sound.len() as u64, claimed: u32::MAX };
        assert_eq!(refused, Some(expected));
        // Everything before it is there.
        assert_eq!(whole, sound);
        assert!(follower.pending() <= 24 + 1000);
        assert!(!follower.followed().is_damaged);
    }
    let line = BlockTooLong { offset: 16, claimed: u32::MAX }.to_string();
    assert!(line.contains("offset 16 claims 4294967295 bytes"), "{line}");
}

#[test]
fn a_sender_that_reads_answers_says_so_and_readers_pass_over_it() {
    let (ledger, catalog) = (AddressLedger::default(), Catalog::default());
    let mut pen = StepWriter::begin(Vec::new(), &source(), ledger.accounts(), &catalog).unwrap();
    pen.expect_answers().unwrap();
    let (_, bytes) = pen.finish(ledger.accounts(), &catalog, &source()).unwrap();
    let (mut follower, mut whole) = (Follower::default(), Vec::new());
    follower.take(&bytes, &mut whole).unwrap();
    assert!(follower.followed().expects_answers && follower.followed().complete);
    assert_eq!(whole, bytes);
    // With its index, and without.
    for bytes in [&bytes[..], &bytes[..bytes.len() - 8]] {
        let recording = Recording::from_bytes(bytes.to_vec()).unwrap();
        let damage = recording.damage();
        assert!(damage.iter().all(|damage| damage.what.contains("cut")), "{damage:?}");
    }
}

#[test]
fn a_quiet_stream_says_how_far_things_have_got() {
    let (ledger, catalog) = (AddressLedger::default(), Catalog::default());
    let mut pen = StepWriter::begin(Vec::new(), &source(), ledger.accounts(), &catalog).unwrap();
    pen.still_here(&Source { duration: Nanos(5_000), ..source() }).unwrap();
    let recording = Recording::from_bytes(pen.sink().clone()).unwrap();
    assert_eq!((recording.source().duration, recording.damage()), (Nanos(5_000), vec![]));
}
