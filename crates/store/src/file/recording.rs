//! Reading a recording: open, seek in time, replay.

use super::bytes::Bytes;
use super::catalog;
use super::checkpoints::Checkpoints;
use super::errors::OpenError;
use super::events::EventsSummary;
use super::frame::{self, BLOCK_HEADER, BlockHeader, BlockKind, FILE_HEADER, FileHeader};
use super::handles::Handles;
use super::index::{self, Content, Entry};
use super::keyframe::KeyframeSummary;
use super::scan::scan;
use super::source;
use highwater_model::{Catalog, Damage, Nanos, Source};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Facts about the file itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Format version.
    pub version: u16,
    /// Length of the file.
    pub file_bytes: u64,
    /// Events in the readable blocks.
    pub events: u64,
    /// Blocks of events.
    pub event_blocks: u64,
    /// Bytes of those.
    pub event_bytes: u64,
    /// Keyframes.
    pub keyframes: u64,
    /// Bytes of those, live blocks included.
    pub keyframe_bytes: u64,
    /// Bytes of the catalog.
    pub catalog_bytes: u64,
    /// True if the recording was finished properly; false if it was cut off by a crash.
    pub complete: bool,
}

/// An opened `.hw` file. Memory grows with the live blocks at the requested instant, not with the file.
///
/// Damaged parts are left out and listed in [`damage`](Self::damage). Parts that the index lists are checked only when they are read, so the list can
/// grow.
#[derive(Debug)]
pub struct Recording {
    bytes: Bytes,
    version: u16,
    complete: bool,
    entries: Vec<Entry>,
    source: Source,
    catalog: Arc<Catalog>,
    /// By offset.
    damage: Mutex<BTreeMap<u64, Damage>>,
    checkpoints: RwLock<Checkpoints>,
}

/// True if a file with these first bytes is a recording, perhaps a damaged one.
pub fn is_recording(first_bytes: &[u8]) -> bool {
    frame::judge_file_header(first_bytes) != FileHeader::Foreign
}

impl Recording {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::from(Bytes::of_file(File::open(path)?)?)
    }

    /// Opens a recording in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, OpenError> {
        Self::from(Bytes::Memory(bytes))
    }

    /// Opens a file from its handle, such as one without a name.
    pub fn from_file(file: File) -> Result<Self, OpenError> {
        Self::from(Bytes::of_file(file)?)
    }

    fn from(bytes: Bytes) -> Result<Self, OpenError> {
        if bytes.length() == 0 {
            return Err(OpenError::Empty);
        }
        let mut head = Vec::new();
        bytes.read(0, (FILE_HEADER + 4).min(bytes.length() as usize), &mut head)?;
        let (version, header_damage) = match frame::judge_file_header(&head) {
            FileHeader::Foreign => return Err(OpenError::NotARecording),
            FileHeader::Sound(version) if version > frame::VERSION => return Err(OpenError::TooNew(version)),
            FileHeader::Sound(version) => (version, None),
            FileHeader::Damaged => {
                let length = bytes.length().min(FILE_HEADER as u64);
                (frame::VERSION, Some(Damage { offset: 0, length, what: "the file's header is damaged".into() }))
            }
        };
        let mut recording = Self {
            bytes,
            version,
            complete: true,
            entries: Vec::new(),
            source: Source::default(),
            catalog: Arc::default(),
            damage: Mutex::new(header_damage.into_iter().map(|damage| (damage.offset, damage)).collect()),
            checkpoints: RwLock::default(),
        };
        recording.find_blocks()?;
        recording.read_catalog()?;
        Ok(recording)
    }

    /// A recording that is still being written: its blocks and catalog are known.
    pub(super) fn of_known_blocks(bytes: Bytes, entries: Vec<Entry>, catalog: Catalog) -> Self {
        let mut recording = Self {
            bytes,
            version: frame::VERSION,
            complete: false,
            entries,
            source: Source::default(),
            catalog: Arc::new(catalog),
            damage: Mutex::default(),
            checkpoints: RwLock::default(),
        };
        recording.source.duration = recording.end_of_events();
        recording
    }

    fn end_of_events(&self) -> Nanos {
        let of_events = self.event_blocks().next_back().map_or(Nanos(0), |(_, summary)| summary.last_time);
        of_events.max(self.keyframes().next_back().map_or(Nanos(0), |(_, summary)| summary.time))
    }

    /// When it begins: 0, or the time at which a stream was joined.
    pub fn begins_at(&self) -> Nanos {
        self.beginning().map_or(Nanos(0), |(_, summary)| summary.time).min(self.source.duration)
    }

    fn find_blocks(&mut self) -> Result<(), OpenError> {
        if let Some(entries) = self.read_index()? {
            self.entries = entries;
            return Ok(());
        }
        let mut found = scan(&self.bytes)?;
        if let Some(cut) = found.cut_at
            && self.bytes.are_growing()?
        {
            found.damage.retain(|damage| damage.offset != cut);
        }
        if found.entries.is_empty() {
            return Err(OpenError::NothingUsable);
        }
        self.entries = found.entries;
        self.complete = found.complete;
        self.damaged().extend(found.damage.into_iter().map(|damage| (damage.offset, damage)));
        Ok(())
    }

    fn read_index(&self) -> io::Result<Option<Vec<Entry>>> {
        const END_PAYLOAD: usize = 8;
        let Some(end) = self.bytes.length().checked_sub((BLOCK_HEADER + END_PAYLOAD) as u64) else {
            return Ok(None);
        };
        let mut payload = Vec::new();
        if self.block_at(end, &mut payload)? != Some(BlockKind::End) {
            return Ok(None);
        }
        let Ok(offset) = payload.as_slice().try_into().map(u64::from_le_bytes) else { return Ok(None) };
        if self.block_at(offset, &mut payload)? != Some(BlockKind::Index) {
            return Ok(None);
        }
        Ok(index::decode(&payload, self.bytes.length()))
    }

    /// Reads the block at an offset. Returns its kind if it is sound.
    fn block_at(&self, offset: u64, payload: &mut Vec<u8>) -> io::Result<Option<BlockKind>> {
        if !self.bytes.read(offset, BLOCK_HEADER, payload)? {
            return Ok(None);
        }
        let Some(header) = BlockHeader::parse(payload) else { return Ok(None) };
        let sound = self.bytes.read(offset + BLOCK_HEADER as u64, header.payload_length as usize, payload)?
            && crc32fast::hash(payload) == header.payload_crc;
        Ok(if sound { header.kind } else { None })
    }

    /// Reads an entry's block. If it does not match the entry, returns false and records damage.
    pub(super) fn read_entry(&self, entry: &Entry, payload: &mut Vec<u8>) -> io::Result<bool> {
        let kind = self.block_at(entry.offset, payload)?;
        let sound = kind == Some(entry.content.kind()) && payload.len() == entry.length as usize;
        if !sound {
            self.note_damage(entry, "a block's checksum is wrong");
        }
        Ok(sound)
    }

    fn damaged(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Damage>> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_damage(&self, entry: &Entry, what: &'static str) {
        self.note_damage_between(entry.offset, entry.end(), what);
    }

    pub(super) fn note_damage_between(&self, offset: u64, end: u64, what: &'static str) {
        self.damaged().entry(offset).or_insert(Damage { offset, length: end - offset, what: what.into() });
    }

    fn read_catalog(&mut self) -> io::Result<()> {
        let mut catalog = Catalog::default();
        let mut payload = Vec::new();
        for entry in &self.entries {
            if !matches!(entry.content, Content::Source | Content::Catalog) || !self.read_entry(entry, &mut payload)? {
                continue;
            }
            if entry.content == Content::Catalog {
                if catalog::decode(&payload, entry.offset, &mut catalog).is_none() {
                    self.note_damage(entry, "the catalog is malformed");
                }
            } else {
                match source::decode(&payload) {
                    Some(source) => self.source = source,
                    None => self.note_damage(entry, "the source is malformed"),
                }
            }
        }
        self.source.duration = self.source.duration.max(self.end_of_events());
        self.catalog = Arc::new(catalog);
        Ok(())
    }

    /// Lets replays keep checkpoints in memory, about `most_bytes` in all, wherever there is none within `spacing` events. For callers that look at
    /// many instants.
    pub fn keep_checkpoints(&self, most_bytes: usize, spacing: u64) {
        self.checkpoints_mut().allow(most_bytes, spacing);
    }

    /// The memory that checkpoints take, in bytes.
    pub fn checkpoint_bytes(&self) -> usize {
        self.checkpoints().bytes()
    }

    pub(super) fn checkpoints(&self) -> RwLockReadGuard<'_, Checkpoints> {
        self.checkpoints.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn checkpoints_mut(&self) -> RwLockWriteGuard<'_, Checkpoints> {
        self.checkpoints.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source of the memory.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The catalog that the handles refer to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The same recording with a catalog to which names were added. The handles of its events must mean the same there.
    #[must_use]
    pub fn with_catalog(self, catalog: Catalog) -> Self {
        Self { catalog: Arc::new(catalog), ..self }
    }

    /// The damage found so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.damaged().values().cloned().collect()
    }

    /// True if the file holds the state of one instant only, as written by [`write_snapshot`](crate::write_snapshot).
    pub fn is_snapshot(&self) -> bool {
        self.source.snapshot && self.event_blocks().next().is_none()
    }

    /// True for the keyframe that a snapshot or a stream begins with: no event precedes it.
    pub(super) fn begins_with(&self, at: usize) -> bool {
        let leads_on = |entry: &Entry| matches!(entry.content, Content::Events(_) | Content::Keyframe(_));
        !self.entries[..at].iter().any(leads_on)
    }

    /// The keyframe that the recording begins with, if it does not begin with an empty state. If a block before the keyframe is missing, there may
    /// have been events in it.
    pub(super) fn beginning(&self) -> Option<(usize, &KeyframeSummary)> {
        let is_first = |at: usize| self.begins_with(at) && self.entries[at].sequence as usize == at;
        self.keyframes().next().filter(|&(at, _)| is_first(at))
    }

    /// Facts about the file.
    pub fn stats(&self) -> FileStats {
        let mut stats = FileStats {
            version: self.version,
            file_bytes: self.bytes.length(),
            complete: self.complete,
            ..FileStats::default()
        };
        for entry in &self.entries {
            let size = entry.end() - entry.offset;
            match entry.content {
                Content::Source => {}
                Content::Catalog => stats.catalog_bytes += size,
                Content::Events(summary) => {
                    stats.events += summary.events;
                    stats.event_blocks += 1;
                    stats.event_bytes += size;
                }
                Content::Keyframe(_) => {
                    stats.keyframes += 1;
                    stats.keyframe_bytes += size;
                }
                Content::LiveBlocks => stats.keyframe_bytes += size,
            }
        }
        stats
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn event_blocks(&self) -> impl DoubleEndedIterator<Item = (&Entry, &EventsSummary)> {
        self.entries.iter().filter_map(|entry| match &entry.content {
            Content::Events(summary) => Some((entry, summary)),
            _ => None,
        })
    }

    /// The index of an event block among the entries, by its index among the event blocks; after the last one, the end.
    pub(super) fn place_of(&self, block: usize) -> usize {
        let entry = self.event_blocks().nth(block).map(|(entry, _)| entry.offset);
        entry.map_or(self.entries.len(), |offset| self.entries.partition_point(|entry| entry.offset < offset))
    }

    /// The summaries of the event blocks, in order.
    pub fn summaries(&self) -> impl Iterator<Item = &EventsSummary> {
        self.event_blocks().map(|(_, summary)| summary)
    }

    /// The keyframes with their index among the entries.
    pub(super) fn keyframes(&self) -> impl DoubleEndedIterator<Item = (usize, &KeyframeSummary)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| match &entry.content {
            Content::Keyframe(summary) => Some((at, summary)),
            _ => None,
        })
    }

    /// The handles that are in the catalog.
    pub(super) fn known(&self) -> Handles {
        Handles {
            stacks: self.catalog.stacks.nodes().len() as u32,
            tags: self.catalog.tags().len() as u32,
            strings: self.catalog.strings.len() as u32,
        }
    }

    /// The handles that are accepted, though the catalog may have lost them.
    pub(super) fn believed(&self) -> Handles {
        self.known().with_lost(self.bytes.length())
    }

    /// The catalog for continuing the recording: lost entries that events refer to keep their numbers.
    pub fn catalog_to_go_on(&self) -> io::Result<Catalog> {
        let mut catalog = Catalog::clone(&self.catalog);
        if !self.damaged().is_empty() {
            let mut used = Handles::default();
            self.visit_blocks(|_| true, |_, step| used.see(&step.op))?;
            catalog::reserve(&mut catalog, &used);
        }
        Ok(catalog)
    }
}
