//! Writing a recording.

use super::bytes::Bytes;
use super::catalog::{self, CatalogExtent};
use super::column::ColumnPacker;
use super::events::MOST_STEPS;
use super::events_encoder::EventsEncoder;
use super::frame::{self, BLOCK_HEADER, BlockKind, FILE_HEADER};
use super::index::{self, Content, Entry};
use super::keyframe::{self, MOST_LIVE};
use super::recording::Recording;
use super::source;
use highwater_model::{Accounts, AddressLedger, Anomaly, Catalog, Event, Source};
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

/// Where a recording is written to.
pub trait Sink: Write {
    /// Cuts off what was written behind `length`, after a failed write; best effort.
    fn cut_back(&mut self, length: u64);
}

impl Sink for File {
    fn cut_back(&mut self, length: u64) {
        // A file that cannot be cut stays readable all the same: its last block is then reported as damaged.
        let _ = self.set_len(length);
    }
}

impl Sink for Vec<u8> {
    fn cut_back(&mut self, length: u64) {
        self.truncate(length as usize);
    }
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
    sink: S,
    /// The block being made.
    block: Vec<u8>,
    length: u64,
    sequence: u32,
    ledger: AddressLedger,
    encoder: EventsEncoder,
    packer: ColumnPacker,
    catalog_written: CatalogExtent,
    entries: Vec<Entry>,
    keyframe_events: u64,
    spacing: Spacing,
    failed: Option<(io::ErrorKind, String)>,
}

impl Writer<File> {
    /// Creates a file, replacing what was there.
    pub fn create(path: &Path, source: &Source) -> io::Result<Self> {
        Self::new(File::create(path)?, source)
    }
}

impl Writer<File> {
    /// Goes on with a file that holds a copy of `recording`, at whose end `accounts` are.
    pub fn resume(mut file: File, recording: &Recording, accounts: Accounts) -> io::Result<Self> {
        let entries = recording.entries().to_vec();
        // Of a damaged recording the last keyframe may be ahead of what could be read.
        let keyframe_events = recording.keyframes().next_back().map_or(0, |(_, keyframe)| keyframe.events);
        let length = entries.iter().map(Entry::end).max().unwrap_or(0).max(FILE_HEADER as u64);
        file.set_len(length)?;
        file.write_all_at(&frame::file_header(), 0)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self {
            encoder: EventsEncoder::new(&accounts),
            sink: file,
            block: Vec::new(),
            length,
            sequence: entries.last().map_or(0, |entry| entry.sequence.wrapping_add(1)),
            catalog_written: CatalogExtent::of(recording.catalog()),
            keyframe_events: keyframe_events.min(accounts.events()),
            ledger: AddressLedger::from_accounts(accounts),
            packer: ColumnPacker::new()?,
            entries,
            spacing: Spacing::default(),
            failed: None,
        })
    }

    /// Goes on in another file, which gets a copy of what was written until now; this one goes on as it was.
    pub fn fork(&mut self, mut other: File, catalog: &Catalog) -> io::Result<Self> {
        const PIECE: u64 = 1 << 20;
        self.flush(catalog)?;
        let mut piece = Vec::new();
        for start in (0..self.length).step_by(PIECE as usize) {
            piece.resize((self.length - start).min(PIECE) as usize, 0);
            self.sink.read_exact_at(&mut piece, start)?;
            other.write_all(&piece)?;
        }
        Ok(Self {
            sink: other,
            block: Vec::new(),
            length: self.length,
            sequence: self.sequence,
            ledger: self.ledger.clone(),
            encoder: EventsEncoder::new(self.ledger.accounts()),
            packer: ColumnPacker::new()?,
            catalog_written: self.catalog_written,
            entries: self.entries.clone(),
            keyframe_events: self.keyframe_events,
            spacing: self.spacing,
            failed: None,
        })
    }

    /// What was written until now, for reading.
    pub fn recording(&mut self, catalog: &Catalog) -> io::Result<Recording> {
        self.flush(catalog)?;
        let bytes = Bytes::File(self.sink.try_clone()?, self.length);
        Ok(Recording::of_known_blocks(bytes, self.entries.clone(), catalog.clone()))
    }
}

impl<S: Sink> Writer<S> {
    /// Begins a recording.
    pub fn new(sink: S, source: &Source) -> io::Result<Self> {
        let ledger = AddressLedger::default();
        let mut writer = Self {
            encoder: EventsEncoder::new(ledger.accounts()),
            sink,
            block: Vec::new(),
            length: 0,
            sequence: 0,
            ledger,
            packer: ColumnPacker::new()?,
            catalog_written: CatalogExtent::default(),
            entries: Vec::new(),
            keyframe_events: 0,
            spacing: Spacing::default(),
            failed: None,
        };
        writer.write(&frame::file_header())?;
        writer.write_source(source)?;
        Ok(writer)
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
        self.fail_again()?;
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
        self.fail_again()?;
        self.ledger.note(anomaly, count, &mut self.encoder);
        self.seal_if_full(catalog)
    }

    fn seal_if_full(&mut self, catalog: &Catalog) -> io::Result<()> {
        if self.encoder.steps() + MOST_STEPS_PER_EVENT > MOST_STEPS { self.seal(catalog) } else { Ok(()) }
    }

    /// Writes what was appended, so that a reader sees it even if this process dies.
    pub fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.seal(catalog)?;
        self.sink.flush()
    }

    fn seal(&mut self, catalog: &Catalog) -> io::Result<()> {
        self.fail_again()?;
        loop {
            frame::begin(&mut self.block);
            if !catalog::encode(catalog, &mut self.catalog_written, &mut self.packer, &mut self.block)? {
                break;
            }
            self.write_block(BlockKind::Catalog, Some(Content::Catalog))?;
        }
        if self.encoder.steps() > 0 {
            frame::begin(&mut self.block);
            let summary = self.encoder.finish(self.ledger.accounts(), &mut self.packer, &mut self.block)?;
            self.write_block(BlockKind::Events, Some(Content::Events(summary)))?;
        }
        let live_blocks = self.ledger.accounts().totals().figures.live_blocks();
        if self.ledger.accounts().events() - self.keyframe_events >= self.spacing.events(live_blocks) {
            self.keyframe()?;
        }
        Ok(())
    }

    fn keyframe(&mut self) -> io::Result<()> {
        self.keyframe_events = self.ledger.accounts().events();
        let state = self.ledger.accounts().to_state();
        frame::begin(&mut self.block);
        keyframe::encode_figures(&state, &mut self.packer, &mut self.block)?;
        self.write_block(BlockKind::Keyframe, Some(Content::Keyframe(keyframe::summary(&state))))?;
        let mut live = state.blocks.iter();
        for first in (0..state.blocks.len()).step_by(MOST_LIVE) {
            let count = MOST_LIVE.min(state.blocks.len() - first);
            frame::begin(&mut self.block);
            keyframe::encode_live(live.by_ref().take(count), count, &mut self.packer, &mut self.block)?;
            self.write_block(BlockKind::LiveBlocks, Some(Content::LiveBlocks))?;
        }
        Ok(())
    }

    fn write_source(&mut self, source: &Source) -> io::Result<()> {
        frame::begin(&mut self.block);
        source::encode(source, &mut self.block);
        self.write_block(BlockKind::Source, Some(Content::Source))
    }

    /// Ends the recording: the last keyframe, the source as it is known now, the index.
    pub fn finish(mut self, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.seal(catalog)?;
        if self.ledger.accounts().events() > self.keyframe_events {
            self.keyframe()?;
        }
        let mut source = source.clone();
        source.duration = source.duration.max(self.ledger.accounts().last_time());
        self.write_source(&source)?;
        let index_offset = self.length;
        frame::begin(&mut self.block);
        index::encode(&self.entries, &mut self.block);
        self.write_block(BlockKind::Index, None)?;
        frame::begin(&mut self.block);
        self.block.extend_from_slice(&index_offset.to_le_bytes());
        self.write_block(BlockKind::End, None)?;
        self.sink.flush()?;
        let written = Written { events: self.ledger.accounts().events(), bytes: self.length };
        Ok((written, self.sink))
    }

    /// Writes the block that was made.
    fn write_block(&mut self, kind: BlockKind, content: Option<Content>) -> io::Result<()> {
        let (offset, sequence) = (self.length, self.sequence);
        let mut block = std::mem::take(&mut self.block);
        frame::seal(&mut block, kind, sequence);
        let written = self.write(&block);
        self.block = block;
        written?;
        self.sequence = self.sequence.wrapping_add(1);
        if let Some(content) = content {
            let length = (self.block.len() - BLOCK_HEADER) as u32;
            self.entries.push(Entry { offset, length, sequence, content });
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.sink.write_all(bytes) {
            self.sink.cut_back(self.length);
            self.failed = Some((error.kind(), error.to_string()));
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn fail_again(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, message)) => Err(io::Error::new(*kind, message.clone())),
            None => Ok(()),
        }
    }
}
