//! The writing half of a [`Writer`](super::writer::Writer): turns the operations of a ledger into the blocks of a file.

use super::block_writer::{BlockWriter, FileSink};
use super::events::MOST_STEPS;
use super::events_encoder::EventsEncoder;
use super::index::Content;
use super::writer::{Spacing, Written, version_for};
use highwater_model::{Accounts, Anomaly, BlockExtent, Catalog, PlainEvent, RssBreakdown, Source, Step, StepSink};
use std::io;

/// Space for one raw event that results in several steps.
const MOST_STEPS_PER_EVENT: usize = 8;

/// Writes steps as a `.hw` file. One ledger can feed several of these: see [`StepSink`].
///
/// [`event_done`](Self::event_done) must be called after each event that the ledger has recorded. A file may begin at any time in a recording, with a
/// keyframe of the live blocks. If the receiver does not keep up, events can be [left out](Self::leave_out). They are counted, and the file continues
/// with another keyframe.
pub struct StepWriter<S: FileSink> {
    pub(super) out: BlockWriter<S>,
    encoder: EventsEncoder,
    pub(super) keyframe_events: u64,
    pub(super) spacing: Spacing,
    /// The number of events that were left out.
    left_out: u64,
    /// True if events since the last keyframe are not in the file.
    is_behind: bool,
    /// The limit of steps in a block.
    most_steps: usize,
}

impl<S: FileSink> StepWriter<S> {
    /// Begins a file at the state of these accounts.
    pub fn begin(sink: S, source: &Source, accounts: &Accounts, catalog: &Catalog) -> io::Result<Self> {
        let mut pen = Self::behind(BlockWriter::new(sink, source, version_for(source))?, accounts, accounts.events());
        if accounts.last_time().0 > 0 || accounts.events() > 0 {
            pen.out.add_catalog(catalog)?;
            pen.keyframe(accounts)?;
        }
        Ok(pen)
    }

    /// Marks a stream whose sender reads the receiver's answers, and waits for an answer at the end. A receiver sends nothing to other senders: a
    /// sender that never reads would lose the end of its stream.
    pub fn expect_answers(&mut self) -> io::Result<()> {
        self.out.add_stream()
    }

    /// Continues after these blocks. Their last keyframe is after `keyframe_events` events.
    pub(super) fn behind(out: BlockWriter<S>, accounts: &Accounts, keyframe_events: u64) -> Self {
        let (encoder, spacing) = (EventsEncoder::new(accounts), Spacing::default());
        let most_steps = most_steps(out.sink());
        Self { out, encoder, keyframe_events, spacing, left_out: 0, is_behind: false, most_steps }
    }

    /// A pen that continues like this one, after a copy of the bytes written so far.
    pub(super) fn fork<T: FileSink>(&self, copy: T, accounts: &Accounts) -> io::Result<StepWriter<T>> {
        let forked = StepWriter::behind(self.out.fork(copy)?, accounts, self.keyframe_events);
        Ok(StepWriter { spacing: self.spacing, left_out: self.left_out, is_behind: self.is_behind, ..forked })
    }

    /// The encoder only, for a ledger that has no other scribe.
    #[inline(always)]
    pub fn scribe(&mut self) -> &mut impl StepSink {
        &mut self.encoder
    }

    /// The destination of the bytes.
    pub fn sink(&self) -> &S {
        self.out.sink()
    }

    /// Returns the error of an earlier failed call, if there was one.
    pub fn fail_again(&self) -> io::Result<()> {
        self.out.fail_again()
    }

    /// Updates the maximum of live bytes after an event, and writes a block if enough steps were collected.
    #[inline(always)]
    pub fn event_done(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        self.encoder.see_live_bytes(accounts.totals().figures.live_bytes());
        if self.is_full() { self.seal(accounts, catalog) } else { Ok(()) }
    }

    /// Writes plain events that the ledger has applied, at most [`room_for_plain`](Self::room_for_plain).
    pub fn plain_done(
        &mut self,
        events: &[PlainEvent],
        highest_bytes: u64,
        accounts: &Accounts,
        catalog: &Catalog,
    ) -> io::Result<()> {
        self.encoder.push_plain(events, highest_bytes, accounts.threads());
        if self.is_full() { self.seal(accounts, catalog) } else { Ok(()) }
    }

    /// How many plain events may be added before the next block must begin.
    pub fn room_for_plain(&self) -> usize {
        self.most_steps - MOST_STEPS_PER_EVENT - self.encoder.steps() + 1
    }

    /// Whether the collected steps must be written, or left out, before the next event.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.encoder.steps() + MOST_STEPS_PER_EVENT > self.most_steps
    }

    /// Writes the collected steps, so that a reader sees them even if this process dies.
    pub fn flush(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        self.seal(accounts, catalog)?;
        self.out.flush()
    }

    /// Writes the collected steps.
    pub(super) fn seal(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        if self.is_behind {
            self.leave_out(accounts);
            return self.catch_up(accounts, catalog);
        }
        self.out.add_catalog(catalog)?;
        if self.encoder.steps() > 0 {
            let encoder = &mut self.encoder;
            self.out.add(|packer, block| Ok(Some(Content::Events(encoder.finish(accounts, packer, block)?))))?;
            self.most_steps = most_steps(self.out.sink());
        }
        let live_blocks = accounts.totals().figures.live_blocks();
        if accounts.events() - self.keyframe_events >= self.spacing.events(live_blocks) {
            self.keyframe(accounts)?;
        }
        Ok(())
    }

    /// Leaves out the collected steps that were not written yet. The next block written is then a keyframe.
    pub fn leave_out(&mut self, accounts: &Accounts) {
        // Notes alone can wait: readers would ignore a keyframe with the same number of events.
        if self.is_behind || self.encoder.events() > 0 {
            self.left_out += self.encoder.forget(accounts);
            self.is_behind = true;
        }
    }

    /// Whether events were left out since the last keyframe.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// How many events were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Continues with a keyframe of a state that the events before do not lead to. There must be no collected steps.
    pub(super) fn continue_from(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        self.encoder = EventsEncoder::new(accounts);
        self.out.add_catalog(catalog)?;
        self.keyframe(accounts)
    }

    fn catch_up(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        self.out.add_catalog(catalog)?;
        self.keyframe(accounts)?;
        self.is_behind = false;
        Ok(())
    }

    fn keyframe(&mut self, accounts: &Accounts) -> io::Result<()> {
        self.keyframe_events = accounts.events();
        let mut anomalies = *accounts.anomalies();
        anomalies.add(Anomaly::DroppedEvent, self.left_out);
        self.out.add_keyframe(accounts.state(), &anomalies)
    }

    /// Writes a breakdown of resident memory, so that a reader sees it even if this process dies. Its handles refer to `catalog`. False if no file can hold
    /// it.
    pub fn add_breakdown(&mut self, breakdown: &RssBreakdown, catalog: &Catalog) -> io::Result<bool> {
        self.out.add_catalog(catalog)?;
        let is_written = self.out.add_breakdown(breakdown)?;
        self.out.flush()?;
        Ok(is_written)
    }

    /// Reports progress if there were no events for a while: writes the source, with its duration as known now.
    pub fn still_here(&mut self, source: &Source) -> io::Result<()> {
        self.out.add_source(source)?;
        self.out.flush()
    }

    /// Ends the file: the last keyframe, the source as known now, the index.
    pub fn finish(mut self, accounts: &Accounts, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.seal(accounts, catalog)?;
        let events = accounts.events();
        if events > self.keyframe_events {
            self.keyframe(accounts)?;
        }
        let mut source = source.clone();
        source.duration = source.duration.max(accounts.last_time());
        let (bytes, sink) = self.out.finish(&source)?;
        Ok((Written { events, bytes }, sink))
    }
}

impl<S: FileSink> StepWriter<S> {
    /// Ends a file whose last block did not fit on the disk: writes the catalog, in which names may have been resolved meanwhile. The collected steps
    /// are lost. If this fails, everything before is still readable.
    pub fn finish_on_a_full_disk(self, catalog: &Catalog) -> io::Result<()> {
        self.out.finish_on_a_full_disk(catalog)
    }
}

/// The limit of steps in a block. If little space is left, a block takes only a part of it. The block that finally does not fit is then small, and
/// nearly all the space is used.
fn most_steps(sink: &impl FileSink) -> usize {
    /// A step takes three to four bytes, so that a block takes a quarter of the space.
    const BYTES_OF_ROOM_PER_STEP: u64 = 16;
    const LEAST_STEPS: usize = 1024;
    let room = sink.room().map_or(MOST_STEPS as u64, |room| room / BYTES_OF_ROOM_PER_STEP);
    room.clamp(LEAST_STEPS as u64, MOST_STEPS as u64) as usize
}

impl<S: FileSink> StepSink for StepWriter<S> {
    #[inline(always)]
    fn write(&mut self, step: Step, was: BlockExtent) {
        self.encoder.write(step, was);
    }
}
