//! Histories of other tools, through the registry of inputs.

use crate::heap::within_limit;
use highwater_input::{FORMATS, InputStream, Read};
use highwater_model::{AddressLedger, Anomaly, Catalog, Event, EventSink, Nanos, laws};
use std::path::Path;

#[derive(Default)]
struct Ledger {
    ledger: AddressLedger,
    latest: Nanos,
}

impl EventSink for Ledger {
    fn event(&mut self, event: Event, _: &Catalog) {
        assert!(event.time >= self.latest, "events are out of order");
        self.latest = event.time;
        self.ledger.record(&event, &mut ());
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, _: &Catalog) {
        self.ledger.note(anomaly, count, &mut ());
    }
}

/// Reads any bytes as a history of a format: it is refused, or its events are in order and keep the laws, and every stack is known.
pub fn examine_history(key: &str, bytes: &[u8]) {
    let format = FORMATS.iter().find(|format| format.key() == key).expect("a format with this key");
    let Read::History(read) = format.read() else { panic!("{key} is no history") };
    format.recognizes(bytes);
    within_limit(bytes.len(), || {
        let (mut content, mut sink) = (bytes, Ledger::default());
        let mut go_on = |_: &str, part: f64| {
            assert!(part.is_finite(), "{part} is no part");
            true
        };
        match read(&mut InputStream::new(&mut content, Path::new("-"), &mut go_on), &mut sink) {
            Ok(history) => {
                let accounts = sink.ledger.accounts();
                assert_eq!(laws::violations(accounts), Vec::<String>::new());
                assert!(history.source.duration >= sink.latest, "it ends before its last event");
                for (stack, _) in accounts.sites().iter() {
                    history.catalog.frame_texts(stack).for_each(|frame| assert!(frame.function.len() < bytes.len()));
                }
            }
            Err(error) => drop(error.to_string()),
        }
    });
}
