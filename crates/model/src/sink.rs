//! Where the events of a source go.

use crate::anomalies::Anomaly;
use crate::catalog::Catalog;
use crate::event::Event;
use crate::snapshot::Source;

/// Takes the events of a source, in the order of their times.
///
/// Every reader of a foreign format gives its events to one of these. It never asks what becomes of them: a ledger that is kept, a recording that is written.
pub trait EventSink {
    /// The source, before its first event. How long it lasts may be known only at the end.
    fn begin(&mut self, _source: &Source) {}

    /// An event, whose handles are the catalog's.
    fn event(&mut self, event: Event, catalog: &Catalog);

    /// Something odd about the source that is no event of it.
    fn note(&mut self, _anomaly: Anomaly, _count: u64, _catalog: &Catalog) {}
}

impl<F: FnMut(Event, &Catalog)> EventSink for F {
    #[inline]
    fn event(&mut self, event: Event, catalog: &Catalog) {
        self(event, catalog);
    }
}
