//! Writing a recording.

use super::block_writer::{BlockWriter, Sink};
use super::bytes::Bytes;
use super::catalog::CatalogExtent;
use super::events::MOST_STEPS;
use super::events_encoder::EventsEncoder;
use super::frame::{self, FILE_HEADER};
use super::index::{Content, Entry};
use super::recording::Recording;
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

    fn events(&self, live_blocks: u64) -> u64 {
        let generous = live_blocks.saturating_mul(self.most_per_live_block).min(self.most);
        self.least.max(live_blocks.saturating_mul(self.least_per_live_block)).max(generous)
    }
}

/// Room for one raw event that gives several steps.
const MOST_STEPS_PER_EVENT: usize = 8;

/// The version of a file from this source: an older reader must not be given what it would misunderstand, nor be kept from what
/// it would not.
pub fn version_for(source: &Source) -> u16 {
    if source.kind == SourceKind::Memtrace { frame::WITH_SAMPLES } else { frame::PLAIN }
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
    out: BlockWriter<S>,
    ledger: AddressLedger,
    encoder: EventsEncoder,
    keyframe_events: u64,
    spacing: Spacing,
}

impl Writer<File> {
    /// Creates a file, replacing what was there.
    pub fn create(path: &Path, source: &Source) -> io::Result<Self> {
        Self::new(File::create(path)?, source)
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
        file.write_all_at(&frame::file_header(recording.stats().version), 0)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self {
            encoder: EventsEncoder::new(&accounts),
            out: BlockWriter::behind(file, length, entries, CatalogExtent::of(recording.catalog()))?,
            keyframe_events: keyframe_events.min(accounts.events()),
            ledger: AddressLedger::from_accounts(accounts),
            spacing: Spacing::default(),
        })
    }

    /// Goes on in another file, which gets a copy of what was written until now; this one goes on as it was.
    pub fn fork(&mut self, mut other: File, catalog: &Catalog) -> io::Result<Self> {
        const PIECE: u64 = 1 << 20;
        self.flush(catalog)?;
        let mut piece = Vec::new();
        let length = self.out.length();
        for start in (0..length).step_by(PIECE as usize) {
            piece.resize((length - start).min(PIECE) as usize, 0);
            self.out.sink().read_exact_at(&mut piece, start)?;
            other.write_all(&piece)?;
        }
        Ok(Self {
            out: self.out.fork(other)?,
            ledger: self.ledger.clone(),
            encoder: EventsEncoder::new(self.ledger.accounts()),
            keyframe_events: self.keyframe_events,
            spacing: self.spacing,
        })
    }

    /// What was written until now, for reading.
    pub fn recording(&mut self, catalog: &Catalog) -> io::Result<Recording> {
        self.flush(catalog)?;
        let bytes = Bytes::File(self.out.sink().try_clone()?, self.out.length());
        Ok(Recording::of_known_blocks(bytes, self.out.entries().to_vec(), catalog.clone()))
    }
}

impl<S: Sink> Writer<S> {
    /// Begins a recording.
    pub fn new(sink: S, source: &Source) -> io::Result<Self> {
        Self::of_version(sink, source, version_for(source))
    }

    /// Begins a recording with promotions or counted samples, whatever its source.
    pub fn with_samples(sink: S, source: &Source) -> io::Result<Self> {
        Self::of_version(sink, source, frame::WITH_SAMPLES)
    }

    fn of_version(sink: S, source: &Source, version: u16) -> io::Result<Self> {
        let ledger = AddressLedger::default();
        Ok(Self {
            out: BlockWriter::new(sink, source, version)?,
            encoder: EventsEncoder::new(ledger.accounts()),
            ledger,
            keyframe_events: 0,
            spacing: Spacing::default(),
        })
    }

    /// Sets how far keyframes are apart from now on.
    pub fn set_spacing(&mut self, spacing: Spacing) {
        self.spacing = spacing;
    }

    /// The ledger after everything appended so far.
    pub fn ledger(&self) -> &AddressLedger {
        &self.ledger
    }

    /// Appends events, whose handles are `catalog`'s. An event earlier than one before it is taken as happening at that
    /// one's time, and counted.
    pub fn append(&mut self, events: &[Event], catalog: &Catalog) -> io::Result<()> {
        self.out.fail_again()?;
        for event in events {
            self.ledger.record(event, &mut self.encoder);
            self.encoder.see_live_bytes(self.ledger.accounts().totals().figures.live_bytes());
            self.seal_if_full(catalog)?;
        }
        Ok(())
    }

    /// As [`AddressLedger::set_aside`]: nothing of it is in the file.
    pub fn set_aside(&mut self, address: u64, other: u64) -> bool {
        self.ledger.set_aside(address, other)
    }

    /// Counts oddities that only the source knows of.
    pub fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) -> io::Result<()> {
        self.out.fail_again()?;
        self.ledger.note(anomaly, count, &mut self.encoder);
        self.seal_if_full(catalog)
    }

    fn seal_if_full(&mut self, catalog: &Catalog) -> io::Result<()> {
        if self.encoder.steps() + MOST_STEPS_PER_EVENT > MOST_STEPS { self.seal(catalog) } else { Ok(()) }
    }

    /// Writes what was appended, so that a reader sees it even if this process dies.
    pub fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.seal(catalog)?;
        self.out.flush()
    }

    fn seal(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.out.add_catalog(catalog)?;
        if self.encoder.steps() > 0 {
            let (encoder, accounts) = (&mut self.encoder, self.ledger.accounts());
            self.out.add(|packer, block| Ok(Some(Content::Events(encoder.finish(accounts, packer, block)?))))?;
        }
        let live_blocks = self.ledger.accounts().totals().figures.live_blocks();
        if self.ledger.accounts().events() - self.keyframe_events >= self.spacing.events(live_blocks) {
            self.keyframe()?;
        }
        Ok(())
    }

    fn keyframe(&mut self) -> io::Result<()> {
        self.keyframe_events = self.ledger.accounts().events();
        self.out.add_keyframe(&self.ledger.accounts().to_state())
    }

    /// Ends the recording: the last keyframe, the source as it is known now, the index.
    pub fn finish(mut self, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.seal(catalog)?;
        let events = self.ledger.accounts().events();
        if events > self.keyframe_events {
            self.keyframe()?;
        }
        let mut source = source.clone();
        source.duration = source.duration.max(self.ledger.accounts().last_time());
        let (bytes, sink) = self.out.finish(&source)?;
        Ok((Written { events, bytes }, sink))
    }
}
