//! The remarks in a recording: marks and gauges.

use super::errors::RecordingError;
use super::events::EventsSummary;
use super::events_decoder::EventsDecoder;
use super::recording::Recording;
use highwater_model::{
    AddressSpace, GaugeReading, NamedInstant, Nanos, Op, Snapshot, SourceKind, Step, StringId, StringTable, gauge,
};
use std::io;

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

    /// Sets the address space of the program at the instant of a snapshot, which is shown beside its figures. A native recording has it in its gauges.
    pub fn add_address_space(&self, snapshot: &mut Snapshot) -> Result<(), RecordingError> {
        if snapshot.source.kind == SourceKind::NATIVE && !snapshot.source.snapshot {
            let gauges = self.gauges_at(snapshot.at)?;
            let latest = |name| gauges.iter().find(|reading| reading.name == name).map_or(0, |reading| reading.value);
            snapshot.source.address_space = AddressSpace {
                reserved_bytes: latest(gauge::RESERVED),
                mapped_file_bytes: latest(gauge::FILES),
                returned_bytes: latest(gauge::RETURNED),
            };
        }
        Ok(())
    }

    fn names(&self) -> Names<'_> {
        let bytes_left = self.stats().file_bytes.saturating_mul(MOST_NAME_BYTES_PER_BYTE);
        Names { strings: &self.catalog().strings, bytes_left }
    }

    /// Visits the steps of all event blocks that a time lies in. Returns the number of these.
    pub fn visit_steps_at(&self, time: Nanos, mut visit: impl FnMut(&Step)) -> io::Result<usize> {
        let lies_in = |summary: &EventsSummary| (summary.first_time..=summary.last_time).contains(&time);
        self.visit_blocks(lies_in, |_, step| visit(step))?;
        Ok(self.summaries().filter(|summary| lies_in(summary)).count())
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
