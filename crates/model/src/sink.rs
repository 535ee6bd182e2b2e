//! The receiver of a source's events.

use crate::anomalies::Anomaly;
use crate::catalog::Catalog;
use crate::event::Event;
use crate::snapshot::Source;

/// Takes the events of a source, in the order of their times.
///
/// Every reader of a foreign format passes its events to one of these. The reader does not depend on what the sink does with them: keep a ledger, or
/// write a recording.
pub trait EventSink {
    /// The source, before its first event. Its duration may be known only at the end.
    fn begin(&mut self, _source: &Source) {}

    /// An event. Its handles refer to the catalog.
    fn event(&mut self, event: Event, catalog: &Catalog);

    /// An anomaly of the source that is not an event.
    fn note(&mut self, _anomaly: Anomaly, _count: u64, _catalog: &Catalog) {}
}

impl<F: FnMut(Event, &Catalog)> EventSink for F {
    #[inline]
    fn event(&mut self, event: Event, catalog: &Catalog) {
        self(event, catalog);
    }
}
