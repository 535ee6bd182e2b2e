//! Reading a trace in every way, and writing what was read.

use crate::heap::within_bytes;
use highwater_formats::memtrace::{Decoder, NotATrace, TraceWriter, Version};
use highwater_model::{AddressLedger, Catalog, Event, Nanos, laws};

/// What any trace may take: stacks may have half a million nodes, whatever the trace, and 512 domains tables of their own.
const BYTES_FOR_ANY_TRACE: usize = 96 << 20;
/// What may be taken for each byte of it: eight nodes, and whatever an event makes of a byte, in two readings and a copy.
const BYTES_PER_BYTE: usize = 2048;

/// What a reading came to.
struct Read {
    decoder: Decoder,
    catalog: Catalog,
    events: Vec<Event>,
    outcome: Result<(), NotATrace>,
}

fn read(bytes: &[u8], piece: usize, mut decoder: Decoder) -> Read {
    let (mut catalog, mut events) = (Catalog::default(), Vec::new());
    let mut receive = |event: Event, _: &Catalog| events.push(event);
    let mut push = || {
        for part in bytes.chunks(piece) {
            decoder.push(part, &mut catalog, &mut receive)?;
        }
        decoder.finish(&mut catalog, &mut receive)
    };
    let outcome = push();
    Read { decoder, catalog, events, outcome }
}

/// Reads bytes as a trace, whole and in pieces, keeps account of what was read, writes it, and reads that.
pub fn examine_trace(bytes: &[u8]) {
    within_bytes(bytes.len().saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES_FOR_ANY_TRACE), || {
        let whole = read(bytes, usize::MAX, Decoder::default());
        let piece = bytes.get(5).map_or(1, |byte| usize::from(*byte) + 1);
        let pieces = read(bytes, piece, Decoder::default());
        assert_eq!(whole.outcome, pieces.outcome, "in pieces of {piece}");
        whole.decoder.damage().iter().for_each(|damage| drop(damage.to_string()));
        if let Err(why) = &whole.outcome {
            return drop(why.to_string());
        }
        assert_eq!(whole.events, pieces.events, "in pieces of {piece}");
        assert_eq!(whole.decoder.damage(), pieces.decoder.damage(), "in pieces of {piece}");
        assert!(whole.events.is_sorted_by_key(|event| event.time), "events are out of order");
        let mut ledger = AddressLedger::default();
        whole.events.iter().for_each(|event| ledger.record(event, &mut ()));
        assert_eq!(laws::violations(ledger.accounts()), Vec::<String>::new());
        write_and_read(&whole);
    });
}

fn write_and_read(read_first: &Read) {
    let Some(source) = read_first.decoder.source() else { return };
    let write = |version| {
        let mut writer = TraceWriter::new(Vec::new(), &source, version).expect("memory has room");
        for event in &read_first.events {
            writer.write_event(event, &read_first.catalog).expect("memory has room");
        }
        writer.finish(&read_first.catalog).expect("memory has room")
    };
    for version in [Version::V2, Version::V3] {
        let (left_out, written) = write(version);
        let again = read(&written, usize::MAX, Decoder::default());
        assert_eq!((again.outcome, again.decoder.damage()), (Ok(()), vec![]), "{version:?}");
        // What is said of objects that are not known is left out, and what is allocated twice is collected before.
        let least = read_first.events.len() as u64 - left_out.unmatched;
        assert!(again.events.len() as u64 >= least, "{} of {least}", again.events.len());
        let last = |events: &[Event]| events.last().map_or(Nanos(0), |event| event.time);
        assert!(last(&again.events) <= last(&read_first.events));
    }
}
