//! Reading an object log in every way.

use crate::heap::within_bytes;
use highwater_formats::objlog::{
    LogProgress, ObjectGrouping, ObjectLogReader, Observer, ReadUntil, SurvivingObjects, Translator, Trust, pattern,
    rows,
};
use highwater_model::{AddressLedger, Anomaly, Catalog, Event, EventSink, Nanos, laws};

/// Buffers, and pages for ids far apart.
const BYTES_FOR_ANY_LOG: usize = 24 << 20;
const BYTES_PER_BYTE: usize = 1024;
/// Sums below this are cut by nobody.
const SMALL: u64 = 1 << 60;

struct Ledger(AddressLedger);

impl EventSink for Ledger {
    fn event(&mut self, event: Event, _: &Catalog) {
        self.0.record(&event, &mut ());
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, _: &Catalog) {
        self.0.note(anomaly, count, &mut ());
    }
}

fn read(bytes: &[u8], piece: usize, until: ReadUntil, observer: &mut impl Observer) -> ObjectLogReader {
    let mut reader = ObjectLogReader::until(until);
    for mut part in bytes.chunks(piece) {
        while reader.read(&mut part, observer).expect("memory can be read") == LogProgress::More {}
    }
    reader.finish(observer);
    reader
}

/// Reads bytes as a log, whole, in pieces and in part, and makes a history of them.
pub fn examine_log(bytes: &[u8]) {
    within_bytes(bytes.len().saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES_FOR_ANY_LOG), || {
        let mut translator = Translator::new(Ledger(AddressLedger::default()));
        let whole = read(bytes, usize::MAX, ReadUntil::End, &mut translator);
        let piece = bytes.get(3).map_or(1, |byte| usize::from(*byte) + 1);
        let pieces = read(bytes, piece, ReadUntil::End, &mut ());
        let (counts, matcher) = (whole.counts(), whole.matcher());
        assert_eq!(counts.lines, counts.object_lines + counts.noise_lines + counts.malformed);
        assert_eq!(counts.lines, bytes.split_inclusive(|byte| *byte == b'\n').count() as u64);
        let total = matcher.total();
        assert_eq!(total, pieces.matcher().total(), "in pieces of {piece}");
        assert_eq!(counts.bad(), pieces.counts().bad(), "in pieces of {piece}");
        let mut live = (0u64, 0u64);
        matcher.for_each_survivor(|one| live = (live.0 + 1, live.1 + one.bytes));
        assert_eq!((live, matcher.live()), ((total.live(), total.live_bytes()), live));
        let survivors = SurvivingObjects::of(matcher);
        drop(Trust::of(&whole, &survivors));
        for by in [ObjectGrouping::Type, ObjectGrouping::Place, ObjectGrouping::Both] {
            let sum: u64 = rows(matcher, &survivors, by).iter().map(|row| row.tally.live_bytes()).sum();
            assert_eq!(sum, live.1);
        }
        for (_, spans) in survivors.by_type(matcher) {
            drop(pattern(&spans));
        }
        for until in [ReadUntil::Events(3), ReadUntil::Line(2), ReadUntil::Time(Nanos(1_000_000)), ReadUntil::Steps(2)]
        {
            read(bytes, usize::MAX, until, &mut ());
        }
        let (Ledger(ledger), _) = translator.finish(&whole);
        assert_eq!(laws::violations(ledger.accounts()), Vec::<String>::new());
        let figures = &ledger.accounts().totals().figures;
        assert_eq!(figures.live_blocks(), live.0, "the history of a log has other objects");
        let moved = total.allocated_bytes.saturating_add(total.grown_bytes).saturating_add(total.shrunk_bytes);
        if moved.saturating_mul(1 + total.resizes) < SMALL {
            assert_eq!(figures.live_bytes(), live.1, "the history of a log has other sizes");
        }
    });
}
