//! Writing a recording.

use super::block_writer::{BlockWriter, Sink};
use super::bytes::Bytes;
use super::catalog::CatalogExtent;
use super::frame::{self, FILE_HEADER};
use super::index::Entry;
use super::pen::Pen;
use super::recording::Recording;
use crate::new_file::open_or_replace;
use highwater_model::{Accounts, AddressLedger, Anomaly, Catalog, Event, Source, SourceKind};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How far keyframes are apart, in events.
///
/// Dense keyframes make large files, sparse ones long replays. A keyframe takes some nine bytes for each live block,
/// an event less than three, and a million events are replayed in less than a tenth of a second. So keyframes are spaced generously
/// as long as replays stay short, and in proportion to what is live beyond that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    /// Never fewer than this.
    pub least: u64,
    /// Nor fewer than this for each live block.
    pub least_per_live_block: u64,
    /// As many as this for each live block …
    pub most_per_live_block: u64,
    /// … but no more than this, unless the least demands it.
    pub most: u64,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { least: 1 << 20, least_per_live_block: 14, most_per_live_block: 64, most: 12 << 20 }
    }
}

impl Spacing {
    /// Always the same number of events, whatever is live.
    pub fn every(events: u64) -> Self {
        Self { least: events, least_per_live_block: 0, most_per_live_block: 0, most: events }
    }

    pub(super) fn events(&self, live_blocks: u64) -> u64 {
        let generous = live_blocks.saturating_mul(self.most_per_live_block).min(self.most);
        self.least.max(live_blocks.saturating_mul(self.least_per_live_block)).max(generous)
    }
}

/// The version of a file from this source: an older reader must not be given what it would misunderstand, nor be kept from what
/// it would not.
pub fn version_for(source: &Source) -> u16 {
    let is_estimate = source.sample_rate.is_some() || source.word_sampling.is_some();
    if is_estimate || source.kind == SourceKind::MEMTRACE { frame::WITH_ESTIMATES } else { frame::PLAIN }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events.
    pub events: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// Writes events as a `.hw` file: append-only, a block at a time.
///
/// The writer keeps the ledger, since a file says which allocation died, not which address; so its memory grows with
/// what is live, not with what was written. After an error every call fails with the same message, and the file is cut
/// back to its last whole block: it can be opened, and holds everything written until then.
pub struct Writer<S: Sink> {
    ledger: AddressLedger,
    pen: Pen<S>,
}

impl Writer<File> {
    /// Creates a file for its owner alone, in the place of what was there: a link is replaced, not followed.
    pub fn create(path: &Path, source: &Source) -> io::Result<Self> {
        Self::new(open_or_replace(path)?, source)
    }
}

impl Writer<File> {
    /// Goes on with a file that holds a copy of `recording`, at whose end `accounts` are. Where only figures are known
    /// ([`Source::aggregated`]), names can be added, but no events.
    pub fn resume(mut file: File, recording: &Recording, accounts: Accounts) -> io::Result<Self> {
        let entries = recording.entries().to_vec();
        // Of a damaged recording the last keyframe may be ahead of what could be read.
        let keyframe_events = recording.keyframes().next_back().map_or(0, |(_, keyframe)| keyframe.events);
        let length = entries.iter().map(Entry::end).max().unwrap_or(0).max(FILE_HEADER as u64);
        file.set_len(length)?;
        let version = match recording.stats().version {
            // What is added may have estimates, whose sums are rounded last.
            frame::WITH_SAMPLES => frame::WITH_ESTIMATES,
            version => version.max(version_for(recording.source())),
        };
        file.write_all_at(&frame::file_header(version), 0)?;
        file.seek(SeekFrom::Start(length))?;
        let out = BlockWriter::behind(file, length, entries, CatalogExtent::of(recording.catalog()))?;
        let pen = Pen::behind(out, &accounts, keyframe_events.min(accounts.events()));
        Ok(Self { ledger: AddressLedger::from_accounts(accounts), pen })
    }

    /// Goes on in another file, which gets a copy of what was written until now; this one goes on as it was.
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

    /// What was written until now, for reading.
    pub fn recording(&mut self, catalog: &Catalog) -> io::Result<Recording> {
        self.flush(catalog)?;
        let out = &self.pen.out;
        let bytes = Bytes::File(out.sink().try_clone()?, out.length());
        Ok(Recording::of_known_blocks(bytes, out.entries().to_vec(), catalog.clone()))
    }
}

impl<S: Sink> Writer<S> {
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
        let pen = Pen::behind(BlockWriter::new(sink, source, version)?, ledger.accounts(), 0);
        Ok(Self { ledger, pen })
    }

    /// Sets how far keyframes are apart from now on.
    pub fn set_spacing(&mut self, spacing: Spacing) {
        self.pen.spacing = spacing;
    }

    /// The ledger after everything appended so far.
    pub fn ledger(&self) -> &AddressLedger {
        &self.ledger
    }

    /// Appends events, whose handles are `catalog`'s. An event earlier than one before it is taken as happening at that
    /// one's time, and counted.
    pub fn append(&mut self, events: &[Event], catalog: &Catalog) -> io::Result<()> {
        self.pen.fail_again()?;
        for event in events {
            self.ledger.record(event, self.pen.scribe());
            self.pen.event_done(self.ledger.accounts(), catalog)?;
        }
        Ok(())
    }

    /// Counts oddities that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) -> io::Result<()> {
        self.pen.fail_again()?;
        self.ledger.note(anomaly, count, self.pen.scribe());
        self.pen.event_done(self.ledger.accounts(), catalog)
    }

    /// Writes what was appended, so that a reader sees it even if this process dies.
    pub fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.pen.flush(self.ledger.accounts(), catalog)
    }

    /// Ends the recording: the last keyframe, the source as it is known now, the index.
    pub fn finish(self, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.pen.finish(self.ledger.accounts(), catalog, source)
    }
}
