//! Asking everything that can be asked of what the readers made of some bytes.

use crate::heap::within_limit;
use highwater_formats::events::recorded::{RecordedItem, RecordedLinesReader};
use highwater_formats::events::{EventLine, EventLinesReader};
use highwater_model::{Accounts, AddressLedger, Catalog, Heap, Nanos, NumberLedger, Step, When, laws};
use highwater_store::history::{HistoryIndex, Work};
use highwater_store::{Moment, Recording, is_usable_state};

/// Opens a recording and asks it everything. Whatever the file says, the answers must keep the laws.
pub fn examine_recording(file: &[u8]) {
    within_limit(file.len(), || match Recording::from_bytes(file.to_vec()) {
        Ok(recording) => ask_everything(&recording),
        Err(error) => drop(error.to_string()),
    });
}

fn ask_everything(recording: &Recording) {
    let duration = recording.source().duration;
    let instants = [
        When::Start,
        When::Peak,
        When::RssPeak,
        When::End,
        When::Percent(50.0),
        When::At(Nanos(duration.0 / 2)),
        When::At(Nanos(duration.0.saturating_add(1))),
        When::Mark("x".to_owned()),
    ];
    for when in instants {
        match recording.snapshot(&when) {
            Ok(snapshot) => assert_eq!(snapshot.violations(), Vec::<String>::new(), "{when}"),
            Err(error) => drop(error.to_string()),
        }
        // Of a recording this replays everything; the end is enough.
        if when == When::End
            && let Ok(snapshot) = recording.snapshot_of_heap(Moment::End, Heap::Mapped)
        {
            assert_eq!(snapshot.violations(), Vec::<String>::new(), "one heap");
        }
    }
    if let Ok(index) = HistoryIndex::new(recording, 1 << 20)
        && index.build(recording, &Work::quiet()).is_ok()
    {
        assert!(index.slices().is_sorted_by_key(|slice| slice.last), "the slices are out of order");
    }
    drop(recording.marks());
    drop(recording.gauges());
    for breakdown in recording.breakdowns().unwrap_or_default() {
        assert!(breakdown.rows.iter().all(|row| row.resident <= row.size), "{breakdown:?}");
        assert!(breakdown.free() <= breakdown.sum(), "{breakdown:?}");
        let sites = breakdown.sites.iter();
        assert!(sites.map(|site| site.live + site.usable + site.pinned).sum::<u64>() < u64::MAX, "{breakdown:?}");
    }
    drop(recording.catalog_to_go_on());
    drop(recording.final_totals().map(|totals| totals.figures.live_blocks()));
    if let Ok(last) = recording.for_each_step(|ledger, step| look_at(ledger.accounts(), step)) {
        match recording.source().aggregated {
            true => assert_eq!(laws::violations_of_figures(&last), Vec::<String>::new(), "after every step"),
            false => assert_lawful(&last, "after every step"),
        }
    }
    drop(recording.check(&mut |part| assert!((0.0..=1.0).contains(&part), "{part} is no part")));
    recording.damage().iter().for_each(|damage| drop(damage.to_string()));
    let stats = recording.stats();
    assert!(stats.event_bytes + stats.keyframe_bytes + stats.catalog_bytes <= stats.file_bytes, "{stats:?}");
}

fn look_at(before: &Accounts, step: &Step) {
    let figures = &before.totals().figures;
    assert!(figures.live_bytes() <= figures.peak_bytes, "{figures:?} before {step:?}");
}

fn assert_lawful(accounts: &Accounts, when: &str) {
    assert_eq!(laws::violations(accounts), Vec::<String>::new(), "{when}");
}

/// Reads the lines of a recording to the end and replays them. Whatever state they begin with, the accounts must keep the laws.
pub fn examine_recorded_lines(input: &[u8]) {
    within_limit(input.len(), || {
        let (mut catalog, mut ledger) = (Catalog::default(), NumberLedger::default());
        let mut reader = RecordedLinesReader::new(input);
        while let Some(line) = reader.next(&mut catalog, &ledger) {
            match line {
                Ok(RecordedItem::Step(step)) => ledger.replay(&step),
                Ok(RecordedItem::State(state)) if is_usable_state(&state) => ledger = NumberLedger::from_state(*state),
                Ok(_) => {}
                Err(error) => drop(error.to_string()),
            }
        }
        assert_lawful(ledger.accounts(), "after every line");
    });
}

/// Reads event lines to the end and keeps accounts of them, which must keep the laws.
pub fn examine_lines(input: &[u8]) {
    within_limit(input.len(), || {
        let (mut catalog, mut ledger) = (Catalog::default(), AddressLedger::default());
        let mut reader = EventLinesReader::new(input);
        let mut number = 0;
        while let Some(line) = reader.next(&mut catalog) {
            assert!(reader.line_number() > number, "line {number} was read twice");
            number = reader.line_number();
            match line {
                Ok(EventLine::Event(event)) => ledger.record(&event, &mut ()),
                Ok(EventLine::ThreadName(_) | EventLine::Source) => {}
                Err(error) => drop(error.to_string()),
            }
        }
        assert_lawful(ledger.accounts(), "after the last line");
    });
}
