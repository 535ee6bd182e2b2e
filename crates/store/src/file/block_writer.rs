//! Writing the blocks of a file: the part that recordings and snapshots have in common.

use super::catalog::{self, CatalogExtent};
use super::column::ColumnPacker;
use super::frame::{self, BLOCK_HEADER, BlockKind};
use super::index::{self, Content, Entry};
use super::keyframe;
use super::live_blocks::{LiveEncoder, MOST_LIVE};
use super::rss_block;
use super::source;
use highwater_model::{AccountsState, Anomalies, Catalog, RssBreakdown, Source};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// The destination of a recording.
pub trait FileSink: Write {
    /// Removes everything after `length` bytes, after a failed write; best effort.
    fn cut_back(&mut self, length: u64);

    /// How many bytes can still be written, if that is known: blocks are made smaller when it is little.
    fn room(&self) -> Option<u64> {
        None
    }
}

impl FileSink for File {
    fn room(&self) -> Option<u64> {
        let there = rustix::fs::fstatvfs(self).ok().filter(|there| there.f_blocks > 0)?;
        let is_file = self.metadata().is_ok_and(|about| about.is_file());
        is_file.then(|| there.f_bavail.saturating_mul(there.f_frsize))
    }

    fn cut_back(&mut self, length: u64) {
        // If truncation fails, the file is still readable: its last block is then reported as damaged.
        let _ = self.set_len(length).and_then(|()| self.seek(SeekFrom::Start(length)));
    }
}

impl FileSink for Vec<u8> {
    fn cut_back(&mut self, length: u64) {
        self.truncate(length as usize);
    }
}

/// Appends blocks to a file and keeps its index.
///
/// After an error every call fails with the same message, and the file is cut back to its last whole block.
pub struct BlockWriter<S: FileSink> {
    sink: S,
    /// The block being made.
    block: Vec<u8>,
    length: u64,
    sequence: u32,
    packer: ColumnPacker,
    catalog_written: CatalogExtent,
    entries: Vec<Entry>,
    failed: Option<(io::ErrorKind, String)>,
}

impl<S: FileSink> BlockWriter<S> {
    /// Begins a file of a version: writes its header and its source.
    pub fn new(sink: S, source: &Source, version: u16) -> io::Result<Self> {
        let mut writer = Self::behind(sink, 0, 0, Vec::new(), CatalogExtent::default())?;
        writer.write(&frame::file_header(version))?;
        writer.add_source(source)?;
        Ok(writer)
    }

    /// Continues after `length` bytes with these blocks, which hold the catalog up to `catalog_written`. The next block gets the number `sequence`.
    pub fn behind(
        sink: S,
        length: u64,
        sequence: u32,
        entries: Vec<Entry>,
        catalog_written: CatalogExtent,
    ) -> io::Result<Self> {
        let (block, packer) = (Vec::new(), ColumnPacker::new()?);
        Ok(Self { sink, block, length, sequence, packer, catalog_written, entries, failed: None })
    }

    /// A writer that continues like this one, after a copy of the bytes written so far.
    pub fn fork<T: FileSink>(&self, copy: T) -> io::Result<BlockWriter<T>> {
        BlockWriter::behind(copy, self.length, self.sequence, self.entries.clone(), self.catalog_written)
    }

    /// The destination of the bytes.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// How many bytes were written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The blocks that were written.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Makes the written bytes visible to other processes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Appends a block. `make` appends its payload to the given bytes and returns its content, or `None` for no block. Returns whether there was a
    /// block.
    pub fn add(
        &mut self,
        make: impl FnOnce(&mut ColumnPacker, &mut Vec<u8>) -> io::Result<Option<Content>>,
    ) -> io::Result<bool> {
        self.fail_again()?;
        frame::begin(&mut self.block);
        let Some(content) = make(&mut self.packer, &mut self.block)? else { return Ok(false) };
        let (offset, sequence) = (self.length, self.sequence);
        self.write_block(content.kind())?;
        let length = (self.block.len() - BLOCK_HEADER) as u32;
        self.entries.push(Entry { offset, length, sequence, content });
        Ok(true)
    }

    /// Appends the new entries of the catalog.
    pub fn add_catalog(&mut self, catalog: &Catalog) -> io::Result<()> {
        loop {
            let mut written = self.catalog_written;
            let is_more = self.add(|packer, block| {
                let is_more = catalog::encode(catalog, &mut written, packer, block)?;
                Ok(is_more.then_some(Content::Catalog))
            })?;
            if !is_more {
                return Ok(());
            }
            self.catalog_written = written;
        }
    }

    /// Appends a keyframe, with these anomalies in place of those of the state.
    pub fn add_keyframe(&mut self, state: &AccountsState, anomalies: &Anomalies) -> io::Result<()> {
        self.add(|packer, block| {
            let summary = keyframe::summary(state);
            keyframe::encode_figures(&summary, state, anomalies, packer, block)?;
            Ok(Some(Content::Keyframe(summary)))
        })?;
        let mut encoder = LiveEncoder::with_room_for(state.blocks.len().min(MOST_LIVE));
        let mut live = state.blocks.by_number();
        for first in (0..state.blocks.len()).step_by(MOST_LIVE) {
            let count = MOST_LIVE.min(state.blocks.len() - first);
            self.add(|packer, block| {
                encoder.encode(live.by_ref().take(count), count, packer, block)?;
                Ok(Some(Content::LiveBlocks))
            })?;
        }
        Ok(())
    }

    /// Appends the source as known now.
    pub fn add_source(&mut self, source: &Source) -> io::Result<()> {
        self.add(|_, block| {
            source::encode(source, block);
            Ok(Some(Content::Source))
        })?;
        Ok(())
    }

    /// Appends a breakdown of resident memory; its handles must be in the catalog that was written. False if no file can hold it: a hostile program can make
    /// its figures absurd.
    pub fn add_breakdown(&mut self, breakdown: &RssBreakdown) -> io::Result<bool> {
        self.fail_again()?;
        if !rss_block::is_sound(breakdown) {
            return Ok(false);
        }
        frame::begin(&mut self.block);
        rss_block::encode(breakdown, &mut self.packer, &mut self.block)?;
        self.write_block(BlockKind::Rss)?;
        Ok(true)
    }

    /// Marks the stream: its sender reads the answers of the receiver.
    pub fn add_stream(&mut self) -> io::Result<()> {
        self.fail_again()?;
        frame::begin(&mut self.block);
        self.write_block(BlockKind::Stream)
    }

    /// Ends the file: the source as known now, the index. Returns its length.
    pub fn finish(mut self, source: &Source) -> io::Result<(u64, S)> {
        self.add_source(source)?;
        let index_offset = self.length;
        frame::begin(&mut self.block);
        index::encode(&self.entries, &mut self.block);
        self.write_block(BlockKind::Index)?;
        frame::begin(&mut self.block);
        self.block.extend_from_slice(&index_offset.to_le_bytes());
        self.write_block(BlockKind::End)?;
        self.sink.flush()?;
        Ok((self.length, self.sink))
    }

    /// Ends a file after a block did not fit on the disk: writes the catalog as it is now. If that does not fit either, the last blocks of events are
    /// removed to make room, up to half of the file: names of functions are worth more than the last events. There is no index: readers report that
    /// the file was cut before its end.
    pub fn finish_on_a_full_disk(mut self, catalog: &Catalog) -> io::Result<()> {
        let least = self.length / 2;
        loop {
            self.failed = None;
            let (length, sequence, blocks, written) =
                (self.length, self.sequence, self.entries.len(), self.catalog_written);
            let Err(error) = self.add_catalog(catalog).and_then(|()| self.flush()) else { return Ok(()) };
            self.entries.truncate(blocks);
            (self.length, self.sequence, self.catalog_written) = (length, sequence, written);
            // Remove the failed attempt, and one block of events if possible.
            let last = self.entries.pop_if(|last| matches!(last.content, Content::Events(_)) && last.offset > least);
            if let Some(last) = &last {
                (self.length, self.sequence) = (last.offset, last.sequence);
            }
            self.sink.cut_back(self.length);
            if last.is_none() || error.kind() != io::ErrorKind::StorageFull {
                return Err(error);
            }
        }
    }

    /// Writes the finished block.
    fn write_block(&mut self, kind: BlockKind) -> io::Result<()> {
        let mut block = std::mem::take(&mut self.block);
        frame::seal(&mut block, kind, self.sequence);
        let written = self.write(&block);
        self.block = block;
        written?;
        self.sequence = self.sequence.wrapping_add(1);
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

    /// Returns the error of an earlier failed call, if there was one.
    pub fn fail_again(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, message)) => Err(io::Error::new(*kind, message.clone())),
            None => Ok(()),
        }
    }
}
