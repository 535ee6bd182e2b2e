//! Columns: byte strings stored one after the other, each with its own compression (docs/format.md §3).
//!
//! ```text
//!  number of columns
//!  for each: id, codec (0 as it is, 1 zstd), raw length, stored length
//!  the stored bytes of each, in the same order
//! ```
//!
//! Readers skip columns they do not know, so later versions can add some.

use super::packed::{LONGEST, Numbers};
use super::varint::{self, VarintReader};
use std::io;
use zstd::bulk::{Compressor, Decompressor};

const AS_IT_IS: u64 = 0;
const ZSTD: u64 = 1;
const LEVEL: i32 = 1;
/// The padding after every unpacked column, so that [`Numbers`] may read beyond its end.
const PADDING: [u8; LONGEST] = [0; LONGEST];
/// Shorter columns are not compressed: a zstd frame would not pay off.
const SMALLEST_COMPRESSED: usize = 64;
/// The limit of raw bytes of all columns for each stored byte. It bounds the memory that a small file can make a reader use. If columns compress
/// better, the packer adds zeros.
const MOST_RAW_PER_BYTE: u64 = 32;

/// Packs columns, reusing its buffers.
pub struct ColumnPacker {
    compressor: Compressor<'static>,
    stored: Vec<u8>,
    directory: Vec<u8>,
    count: u64,
    raw_bytes: u64,
    buffer: Vec<u8>,
}

impl ColumnPacker {
    /// A packer.
    pub fn new() -> io::Result<Self> {
        let (stored, directory, buffer) = Default::default();
        Ok(Self { compressor: Compressor::new(LEVEL)?, stored, directory, count: 0, raw_bytes: 0, buffer })
    }

    /// Adds a column; empty columns are left out.
    pub fn add(&mut self, id: u8, raw: &[u8]) -> io::Result<()> {
        if raw.is_empty() {
            return Ok(());
        }
        let mut codec = AS_IT_IS;
        let mut bytes = raw;
        if raw.len() >= SMALLEST_COMPRESSED {
            self.buffer.clear();
            self.buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
            self.compressor.compress_to_buffer(raw, &mut self.buffer)?;
            if self.buffer.len() < raw.len() {
                codec = ZSTD;
                bytes = &self.buffer;
            }
        }
        self.count += 1;
        self.raw_bytes += raw.len() as u64;
        self.directory.push(id);
        for value in [codec, raw.len() as u64, bytes.len() as u64] {
            varint::put(&mut self.directory, value);
        }
        self.stored.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends all columns added since the last call to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let least = out.len() + self.raw_bytes.div_ceil(MOST_RAW_PER_BYTE) as usize;
        varint::put(out, self.count);
        out.append(&mut self.directory);
        out.append(&mut self.stored);
        (self.count, self.raw_bytes) = (0, 0);
        if out.len() < least {
            out.resize(least, 0);
        }
    }
}

/// Unpacks columns, reusing its buffers.
pub struct ColumnUnpacker {
    decompressor: Decompressor<'static>,
    /// Raw columns by id.
    columns: Vec<Vec<u8>>,
}

impl ColumnUnpacker {
    /// An unpacker for columns with ids below `ids`.
    pub fn new(ids: u8) -> io::Result<Self> {
        Ok(Self { decompressor: Decompressor::new()?, columns: vec![Vec::new(); ids.into()] })
    }

    /// Unpacks all columns; `None` if they are malformed or one is longer than `longest`.
    pub fn unpack(&mut self, mut input: VarintReader<'_>, longest: u64) -> Option<()> {
        self.columns.iter_mut().for_each(Vec::clear);
        let mut allowed = input.length().saturating_mul(MOST_RAW_PER_BYTE);
        let mut directory = input;
        let count = directory.number()?;
        for _ in 0..count {
            directory.byte()?;
            for _ in 0..3 {
                directory.number()?;
            }
        }
        let mut stored = directory;
        input.number()?;
        for _ in 0..count {
            let id = input.byte()?;
            let (codec, raw_length, stored_length) = (input.number()?, input.number()?, input.number()?);
            let bytes = stored.bytes(stored_length)?;
            allowed = allowed.checked_sub(raw_length)?;
            if raw_length > longest {
                return None;
            }
            let Some(column) = self.columns.get_mut(usize::from(id)) else { continue };
            if !column.is_empty() {
                return None;
            }
            match codec {
                AS_IT_IS if raw_length == stored_length => column.extend_from_slice(bytes),
                ZSTD => {
                    column.reserve(raw_length as usize + PADDING.len());
                    let length = self.decompressor.decompress_to_buffer(bytes, column).ok()?;
                    if length as u64 != raw_length {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        self.columns.iter_mut().for_each(|column| column.extend_from_slice(&PADDING));
        Some(())
    }

    fn padded(&self, id: u8) -> &[u8] {
        self.columns.get(usize::from(id)).map_or(&PADDING, Vec::as_slice)
    }

    /// A column of packed numbers; empty if the block has none of this id.
    pub fn numbers(&self, id: u8) -> Numbers<'_> {
        let padded = self.padded(id);
        Numbers::new(padded, padded.len().saturating_sub(PADDING.len()))
    }

    /// Any other column; empty if the block has none of this id.
    pub fn column(&self, id: u8) -> VarintReader<'_> {
        let padded = self.padded(id);
        VarintReader::new(&padded[..padded.len().saturating_sub(PADDING.len())])
    }
}
