//! The resident memory of a process in its recording: gauges, and breakdowns at a few instants.

use super::ProcessRecording;
use crate::breakdowns::{AboutMemory, Breakdowns, LiveCopy};
use crate::resident::RssEvery;
use highwater_model::{
    Anomaly, BreakdownReason, Catalog, EventKind, Figures, Heap, RssBreakdown, RssKind, StringId, TagId, ThreadId,
    gauge,
};

/// The names of the gauges, in the catalog of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct GaugeNames {
    rss: StringId,
    mapped: StringId,
    slack: StringId,
    free_resident: StringId,
    /// Sums beside the blocks: reservations, files, memory that was given back.
    pub beside: [StringId; 3],
}

impl GaugeNames {
    pub fn of(catalog: &mut Catalog) -> Self {
        let mut name = |name| catalog.strings.intern(name);
        Self {
            rss: name(gauge::RSS),
            mapped: name(gauge::MAPPED),
            slack: name(gauge::SLACK),
            free_resident: name(gauge::FREE_RESIDENT),
            beside: [gauge::RESERVED, gauge::FILES, gauge::RETURNED].map(name),
        }
    }
}

impl ProcessRecording {
    /// Writes the resident size as a gauge, at a time up to which all events have been read.
    pub(super) fn note_resident(&mut self, at: u64, bytes: u64) {
        let now = [bytes, self.mapped_bytes()];
        if !self.is_awake() || now == self.last_resident {
            return;
        }
        let [_, was_mapped] = std::mem::replace(&mut self.last_resident, now);
        let [_, mapped] = now;
        self.last_time = self.stamps.time(at).max(self.last_time);
        self.push_gauge(self.gauges.rss, bytes);
        if mapped > 0 || was_mapped > 0 {
            self.push_gauge(self.gauges.mapped, mapped);
        }
        // Again, though unchanged: readers then find the latest values of all gauges close together.
        for (name, value) in self.gauges.beside.into_iter().zip(self.mappings.beside().all()) {
            if value > 0 {
                self.push_gauge(name, value);
            }
        }
    }

    fn push_gauge(&mut self, name: StringId, value: u64) {
        self.push(self.last_time, ThreadId(self.about.pid.into()), EventKind::Gauge { name, value });
    }

    /// Live bytes of mappings that the program can touch.
    fn mapped_bytes(&self) -> u64 {
        let is_mapped = |tag: TagId| self.catalog.tag(tag).heap == Heap::Mapped;
        let tags = (0..).map(TagId).zip(self.ledger.accounts().tags());
        tags.filter(|(tag, _)| is_mapped(*tag)).map(|(_, figures)| Figures::live_bytes(figures)).sum()
    }

    /// Takes the breakdown that was made since the last round, if there is one. Its curves belong to the time of the copy, some milliseconds ago.
    pub(super) fn take_breakdown(&mut self) {
        let Some(breakdown) = self.breakdowns.take() else { return };
        let (curves, mark) = (curves_of(breakdown), is_mark(breakdown).then(|| breakdown.clone()));
        // Unchanged values are left out: they would be events, and there would be a next breakdown because of them.
        if let Some(curves) = curves.filter(|curves| self.is_awake() && *curves != self.last_curves) {
            self.last_curves = curves;
            let [slack, free] = curves;
            self.push_gauge(self.gauges.slack, slack);
            self.push_gauge(self.gauges.free_resident, free);
        }
        if let Some(mark) = mark {
            self.write_breakdown(&mark);
        }
        let (_, blocks) = self.events_and_blocks();
        if self.breakdowns.owed_mark(blocks) {
            self.make_breakdown(BreakdownReason::Mark);
        }
    }

    /// Has the next breakdown made, if it is due, of a time up to which all events have been read.
    pub(super) fn make_due_breakdown(&mut self, at: u64) {
        let (events, blocks) = self.events_and_blocks();
        if self.is_awake() && self.breakdowns.is_due(events, blocks) {
            self.last_time = self.stamps.time(at).max(self.last_time);
            self.make_breakdown(BreakdownReason::Request);
        }
    }

    /// Has a breakdown made at a mark that was just read.
    pub(super) fn break_down_mark(&mut self) {
        let (_, blocks) = self.events_and_blocks();
        if self.is_awake() && self.breakdowns.takes_mark(blocks) {
            self.make_breakdown(BreakdownReason::Mark);
        }
    }

    fn events_and_blocks(&self) -> (u64, usize) {
        let accounts = self.ledger.accounts();
        (accounts.events(), accounts.state().blocks.len())
    }

    fn make_breakdown(&mut self, reason: BreakdownReason) {
        let (events, _) = self.events_and_blocks();
        let accounts = self.ledger.accounts();
        let is_complete = !self.about.inherits()
            && self.source.sample_rate.is_none()
            && accounts.anomalies().get(Anomaly::DroppedEvent) == 0;
        let about = AboutMemory { agent: self.shared.agent_ranges(), knows_every_block: is_complete };
        let (ledger, catalog, at) = (&self.ledger, &self.catalog, self.last_time);
        self.breakdowns.make(events, || LiveCopy::of(ledger, catalog, at, reason, about));
    }

    /// Streams do not carry breakdowns: only files keep them.
    fn write_breakdown(&mut self, breakdown: &RssBreakdown) {
        if let Some(file) = &mut self.file {
            let written = file.add_breakdown(breakdown, &self.catalog);
            self.or_fail(written.map(|_| ()));
        }
    }

    /// Writes the breakdowns at the highest RSS and at the last look before the end. The pages of a process are gone when it has ended.
    pub(super) fn write_last_breakdowns(&mut self) {
        if let Some(mark) = self.breakdowns.settle().filter(|last| is_mark(last)).cloned() {
            self.write_breakdown(&mark);
        }
        let none = Breakdowns::of(self.about.pid, RssEvery::NEVER, None);
        for breakdown in std::mem::replace(&mut self.breakdowns, none).into_last() {
            self.write_breakdown(&breakdown);
        }
    }
}

fn is_mark(breakdown: &RssBreakdown) -> bool {
    breakdown.reason == BreakdownReason::Mark
}

/// Slack and free memory of a breakdown; `None` if they are not known, because not every block is.
fn curves_of(breakdown: &RssBreakdown) -> Option<[u64; 2]> {
    breakdown.knows_every_block.then(|| [breakdown.resident(RssKind::Slack), breakdown.free()])
}
