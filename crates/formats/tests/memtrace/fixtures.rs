//! Real traces, with known facts about them.

use highwater_formats::memtrace::{Decoder, MemtraceReader};
use highwater_model::{Accounts, AddressLedger, Catalog, Event};
use serde_json::Value;
use std::path::PathBuf;

/// The sound traces.
pub const GOOD: [&str; 10] = [
    "steady",
    "deep",
    "extern",
    "full",
    "longrun-pause",
    "multidom",
    "multidom-par",
    "tcp-client",
    "old-v1",
    "mirage-client",
];

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/memtrace", name].iter().collect()
}

/// The bytes of a trace.
pub fn bytes(name: &str) -> Vec<u8> {
    let packed = std::fs::read(path(&format!("{name}.ctf.zst"))).unwrap();
    zstd::decode_all(&packed[..]).unwrap()
}

/// The reference reader's output for it.
pub fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path(&format!("{name}.expected.json"))).unwrap()).unwrap()
}

/// A text file beside it.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// A trace that was read to its end.
pub struct Read {
    pub decoder: Decoder,
    pub catalog: Catalog,
    pub accounts: Accounts,
    pub events: Vec<Event>,
}

/// Reads a trace to its end.
pub fn read(bytes: &[u8]) -> Read {
    let (mut catalog, mut ledger, mut events) = (Catalog::default(), AddressLedger::default(), Vec::new());
    let mut reader = MemtraceReader::new(bytes);
    let mut receive = |event: Event, _: &Catalog| {
        ledger.record(&event, &mut ());
        events.push(event);
    };
    while reader.step(&mut catalog, &mut receive).unwrap() {}
    for (anomaly, count) in reader.decoder().oddities() {
        ledger.note(anomaly, count, &mut ());
    }
    Read { decoder: reader.decoder().clone(), catalog, accounts: ledger.into_accounts(), events }
}
