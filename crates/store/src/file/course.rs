//! The history of a recording over time: timeline, marks, gauges.

use super::errors::RecordingError;
use super::events::EventsSummary;
use super::events_decoder::EventsDecoder;
use super::recording::Recording;
use highwater_model::{
    Accounts, GaugeReading, Heap, Lifetimes, NamedInstant, Nanos, Op, Step, StringId, StringTable, Timeline,
    TimelinePoint,
};
use std::io;

/// Recordings with at most this number of events are replayed for their timeline. Longer ones have enough blocks: their summaries are used.
const MOST_REPLAYED: u64 = 1 << 24;
/// The limit of bytes of all returned names for each byte of the file: a small file that repeats one long name often would otherwise fill any memory.
const MOST_NAME_BYTES_PER_BYTE: u64 = 128;

impl Recording {
    /// The marks, in order.
    pub fn marks(&self) -> Result<Vec<NamedInstant>, RecordingError> {
        let (mut marks, mut names) = (Vec::new(), self.names());
        self.visit_blocks(
            |summary| summary.marks > 0,
            |event, step| {
                if let Op::Mark { name } = step.op {
                    marks.push(NamedInstant { time: step.time, event, name: names.give(name) });
                }
            },
        )?;
        Ok(marks)
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<Vec<GaugeReading>, RecordingError> {
        let (mut gauges, mut names) = (Vec::new(), self.names());
        self.visit_blocks(
            |summary| summary.gauges > 0,
            |_, step| {
                if let Op::Gauge { name, value } = step.op {
                    gauges.push(GaugeReading { time: step.time, name: names.give(name), value });
                }
            },
        )?;
        Ok(gauges)
    }

    /// The latest reading of each gauge at an instant. Only the last few blocks with readings before it are read, not a whole long recording, so a
    /// gauge without a reading in them is missing.
    pub fn gauges_at(&self, instant: Nanos) -> Result<Vec<GaugeReading>, RecordingError> {
        const MOST_BLOCKS: usize = 4;
        let mut names = self.names();
        let mut latest: Vec<(StringId, Nanos, u64)> = Vec::new();
        let with_readings = |summary: &EventsSummary| summary.gauges > 0 && summary.first_time <= instant;
        let blocks: Vec<u64> =
            self.event_blocks().filter(|(_, summary)| with_readings(summary)).map(|(_, s)| s.first_event).collect();
        let first = blocks.get(blocks.len().saturating_sub(MOST_BLOCKS)).copied().unwrap_or(u64::MAX);
        self.visit_blocks(
            |summary| with_readings(summary) && summary.first_event >= first,
            |_, step| {
                if let Op::Gauge { name, value } = step.op
                    && step.time <= instant
                {
                    match latest.iter_mut().find(|(of, ..)| *of == name) {
                        Some(reading) => *reading = (name, step.time, value),
                        None => latest.push((name, step.time, value)),
                    }
                }
            },
        )?;
        Ok(latest.into_iter().map(|(name, time, value)| GaugeReading { time, name: names.give(name), value }).collect())
    }

    fn names(&self) -> Names<'_> {
        let bytes_left = self.stats().file_bytes.saturating_mul(MOST_NAME_BYTES_PER_BYTE);
        Names { strings: &self.catalog().strings, bytes_left }
    }

    /// Visits the steps of the blocks that `wanted` accepts, with the number of events up to and including each step.
    pub(super) fn visit_blocks(
        &self,
        wanted: impl Fn(&EventsSummary) -> bool,
        mut visit: impl FnMut(u64, &Step),
    ) -> io::Result<()> {
        let mut decoder = EventsDecoder::new()?;
        let mut payload = Vec::new();
        for (entry, summary) in self.event_blocks().filter(|(_, summary)| wanted(summary)) {
            if !self.read_entry(entry, &mut payload)? {
                continue;
            }
            let Some(steps) = decoder.open(&payload, self.known(), self.believed()) else { continue };
            let mut event = summary.first_event;
            for step in steps {
                event += u64::from(step.op.is_event());
                visit(event, &step);
            }
        }
        Ok(())
    }

    /// Live memory over time in about `points` equal spans. A snapshot has none.
    pub fn timeline(&self, points: usize) -> Result<Timeline, RecordingError> {
        if self.is_snapshot() {
            return Err(RecordingError::NoCourse);
        }
        let mut stretches = Stretches::new(points, self.begins_at(), self.source().duration);
        if self.stats().events <= MOST_REPLAYED {
            let mut latest = self.begins_at();
            let last = self.for_each_step(|ledger, step| {
                stretches.add_figures(latest, ledger.accounts());
                latest = step.time;
            })?;
            stretches.add_figures(latest, &last);
        } else {
            for (_, summary) in self.event_blocks() {
                stretches.add(summary.last_time, summary.live_bytes, summary.live_blocks, summary.highest_bytes);
            }
        }
        Ok(Timeline {
            start: self.begins_at(),
            points: stretches.finish(),
            marks: self.marks()?,
            gauges: self.gauges()?,
        })
    }
}

impl Recording {
    /// The lifetimes of the blocks that were freed until an instant, of one heap only if one is given. Replays the recording. A snapshot has none.
    pub fn lifetimes(&self, until: Nanos, heap: Option<Heap>) -> Result<Lifetimes, RecordingError> {
        if self.is_snapshot() {
            return Err(RecordingError::NoCourse);
        }
        let mut lifetimes = Lifetimes::default();
        let catalog = self.catalog();
        self.for_each_step(|ledger, step| {
            if let Op::Free { id } = step.op
                && step.time <= until
                && let Some(block) = ledger.find(id)
                && heap.is_none_or(|heap| catalog.tag(block.tag).heap == heap)
            {
                let age = Nanos(step.time.0.saturating_sub(block.time.0));
                lifetimes.add(age, block.live_blocks(), block.live_amount());
            }
        })?;
        Ok(lifetimes)
    }
}

/// Returns copies of names as long as their total is in proportion to the file.
struct Names<'a> {
    strings: &'a StringTable,
    bytes_left: u64,
}

impl Names<'_> {
    fn give(&mut self, name: StringId) -> String {
        let text = self.strings.get(name);
        match self.bytes_left.checked_sub(text.len() as u64) {
            Some(left) => {
                self.bytes_left = left;
                text.to_owned()
            }
            None => "[too long]".to_owned(),
        }
    }
}

/// Equal spans of time, each with the live memory at its end and the highest within it.
struct Stretches {
    points: Vec<TimelinePoint>,
    start: u64,
    width: u64,
    at: usize,
    latest: (u64, u64),
}

impl Stretches {
    fn new(count: usize, start: Nanos, end: Nanos) -> Self {
        let count = count.clamp(1, 1 << 20) as u64;
        let length = end.0.saturating_sub(start.0);
        let width = (length / count).saturating_add(1);
        let stretches = (length / width + 1) as usize;
        let behind = |index: usize| (index as u64 + 1).checked_mul(width).map_or(u64::MAX, |behind| behind - 1);
        let time = |index: usize| Nanos(start.0 + behind(index).min(length));
        let points = (0..stretches).map(|index| TimelinePoint { time: time(index), ..TimelinePoint::default() });
        Self { points: points.collect(), start: start.0, width, at: 0, latest: (0, 0) }
    }

    fn add_figures(&mut self, time: Nanos, accounts: &Accounts) {
        let figures = &accounts.totals().figures;
        self.add(time, figures.live_bytes(), figures.live_blocks(), 0);
    }

    /// Sets the live memory from `time` on. Within this span, at most `highest_bytes` were live until then.
    fn add(&mut self, time: Nanos, live_bytes: u64, live_blocks: u64, highest_bytes: u64) {
        let at = ((time.0.saturating_sub(self.start) / self.width) as usize).min(self.points.len() - 1);
        while self.at < at {
            self.close();
        }
        let point = &mut self.points[self.at];
        point.highest_bytes = point.highest_bytes.max(live_bytes).max(highest_bytes);
        self.latest = (live_bytes, live_blocks);
    }

    fn close(&mut self) {
        let point = &mut self.points[self.at];
        (point.live_bytes, point.live_blocks) = self.latest;
        self.at += 1;
        if let Some(next) = self.points.get_mut(self.at) {
            next.highest_bytes = self.latest.0;
        }
    }

    fn finish(mut self) -> Vec<TimelinePoint> {
        while self.at < self.points.len() {
            self.close();
        }
        self.points
    }
}
