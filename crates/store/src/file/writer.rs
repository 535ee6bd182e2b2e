//! Writing a recording.

use super::block_writer::{BlockWriter, FileSink};
use super::bytes::Bytes;
use super::catalog::CatalogExtent;
use super::frame;
use super::recording::Recording;
use super::step_writer::StepWriter;
use crate::new_file::open_or_replace;
use highwater_model::{Accounts, AddressLedger, Anomaly, Catalog, Clock, Event, RssBreakdown, Source, SourceKind};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The distance between keyframes, in events.
///
/// Dense keyframes make large files, sparse ones long replays. A keyframe takes some nine bytes for each live block, an event less than three, and a
/// million events are replayed in less than a tenth of a second. So keyframes are far apart as long as replays stay short; beyond that, their distance
/// is proportional to the number of live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    /// The least distance.
    pub least: u64,
    /// The least distance for each live block.
    pub least_per_live_block: u64,
    /// The distance for each live block …
    pub most_per_live_block: u64,
    /// … but at most this, unless the least distance is larger.
    pub most: u64,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { least: 1 << 20, least_per_live_block: 14, most_per_live_block: 64, most: 12 << 20 }
    }
}

impl Spacing {
    /// Always the same number of events, independent of live blocks.
    pub fn every(events: u64) -> Self {
        Self { least: events, least_per_live_block: 0, most_per_live_block: 0, most: events }
    }

    pub(super) fn events(&self, live_blocks: u64) -> u64 {
        let generous = live_blocks.saturating_mul(self.most_per_live_block).min(self.most);
        self.least.max(live_blocks.saturating_mul(self.least_per_live_block)).max(generous)
    }
}

/// The version of a file from this source: the lowest one whose readers understand the file correctly.
pub fn version_for(source: &Source) -> u16 {
    let is_estimate = source.sample_rate.is_some() || source.word_sampling.is_some();
    let is_profile = source.known.is_some() || matches!(source.clock, Clock::Instructions | Clock::Bytes);
    match () {
        () if is_profile => frame::WITH_PROFILES,
        () if is_estimate || source.kind == SourceKind::MEMTRACE => frame::WITH_ESTIMATES,
        () => frame::PLAIN,
    }
}

/// Statistics of a finished file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events.
    pub events: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// Writes events as a `.hw` file: append-only, a block at a time.
///
/// The writer keeps the ledger, since a file says which allocation died, not which address. Its memory therefore grows with the live blocks, not with
/// the file. After an error every call fails with the same message, and the file is truncated to its last whole block: it can be opened, and holds
/// everything written until then.
pub struct Writer<S: FileSink> {
    ledger: AddressLedger,
    pen: StepWriter<S>,
}

impl Writer<File> {
    /// Creates a file for its owner only, and replaces an existing one: a link is replaced, not followed.
    pub fn create(path: &Path, source: &Source) -> io::Result<Self> {
        Self::new(open_or_replace(path)?, source)
    }
}

impl Writer<File> {
    /// Continues a file that holds a copy of `recording`; `accounts` is the state at its end. If only figures are known ([`Source::aggregated`]),
    /// names can be added, but no events.
    pub fn resume(mut file: File, recording: &Recording, accounts: Accounts) -> io::Result<Self> {
        let entries = recording.entries().to_vec();
        // In a damaged recording, the last keyframe may be ahead of the readable events.
        let keyframe_events = recording.keyframes().next_back().map_or(0, |(_, keyframe)| keyframe.events);
        let after = recording.after_last_block()?;
        let length = after.offset;
        file.set_len(length)?;
        let version = match recording.stats().version {
            // The added events may have estimates, whose sums are rounded last.
            frame::WITH_SAMPLES => frame::WITH_ESTIMATES,
            version => version.max(version_for(recording.source())),
        };
        file.write_all_at(&frame::file_header(version), 0)?;
        file.seek(SeekFrom::Start(length))?;
        let out = BlockWriter::behind(file, length, after.sequence, entries, CatalogExtent::of(recording.catalog()))?;
        let pen = StepWriter::behind(out, &accounts, keyframe_events.min(accounts.events()));
        Ok(Self { ledger: AddressLedger::from_accounts(accounts), pen })
    }

    /// Continues in another file, which gets a copy of everything written so far. This writer is not changed.
    pub fn fork(&mut self, mut other: File, catalog: &Catalog) -> io::Result<Self> {
        const PIECE: u64 = 1 << 20;
        self.flush(catalog)?;
        let mut piece = Vec::new();
        let length = self.pen.out.length();
        for start in (0..length).step_by(PIECE as usize) {
            piece.resize((length - start).min(PIECE) as usize, 0);
            self.pen.sink().read_exact_at(&mut piece, start)?;
            other.write_all(&piece)?;
        }
        Ok(Self { pen: self.pen.fork(other, self.ledger.accounts())?, ledger: self.ledger.clone() })
    }

    /// Everything written so far, for reading.
    pub fn recording(&mut self, catalog: &Catalog) -> io::Result<Recording> {
        self.flush(catalog)?;
        let out = &self.pen.out;
        let bytes = Bytes::File(out.sink().try_clone()?, out.length());
        Ok(Recording::of_known_blocks(bytes, out.entries().to_vec(), catalog.clone()))
    }
}

impl<S: FileSink> Writer<S> {
    /// Begins a recording.
    pub fn new(sink: S, source: &Source) -> io::Result<Self> {
        Self::of_version(sink, source, version_for(source))
    }

    /// Begins a recording with promotions or estimates, whatever its source.
    pub fn with_samples(sink: S, source: &Source) -> io::Result<Self> {
        Self::of_version(sink, source, frame::WITH_ESTIMATES)
    }

    fn of_version(sink: S, source: &Source, version: u16) -> io::Result<Self> {
        let ledger = AddressLedger::default();
        let pen = StepWriter::behind(BlockWriter::new(sink, source, version)?, ledger.accounts(), 0);
        Ok(Self { ledger, pen })
    }

    /// Sets the distance between keyframes from now on.
    pub fn set_spacing(&mut self, spacing: Spacing) {
        self.pen.spacing = spacing;
    }

    /// The ledger after everything appended so far.
    pub fn ledger(&self) -> &AddressLedger {
        &self.ledger
    }

    /// Appends events. Their handles refer to `catalog`. An event that is earlier than one before it gets the time of that one, and is counted.
    pub fn append(&mut self, events: &[Event], catalog: &Catalog) -> io::Result<()> {
        self.pen.fail_again()?;
        for event in events {
            self.ledger.record(event, self.pen.scribe());
            self.pen.event_done(self.ledger.accounts(), catalog)?;
        }
        Ok(())
    }

    /// Counts anomalies that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) -> io::Result<()> {
        self.pen.fail_again()?;
        self.ledger.note(anomaly, count, self.pen.scribe());
        self.pen.event_done(self.ledger.accounts(), catalog)
    }

    /// Writes a breakdown of resident memory. Its handles refer to `catalog`. False if no file can hold it.
    pub fn add_breakdown(&mut self, breakdown: &RssBreakdown, catalog: &Catalog) -> io::Result<bool> {
        self.pen.add_breakdown(breakdown, catalog)
    }

    /// Writes the appended events, so that a reader sees them even if this process dies.
    pub fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.pen.flush(self.ledger.accounts(), catalog)
    }

    /// Ends the recording: the last keyframe, the source as known now, the index.
    pub fn finish(self, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.pen.finish(self.ledger.accounts(), catalog, source)
    }
}
