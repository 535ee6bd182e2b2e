//! Reads the pages of a column. Every length is checked before memory is taken for it.
//!
//! A header may claim two gigabytes for a page of ten bytes, and zstd makes such a page. So the limits are on what a page has after decompression.

use super::FileProblem;
use super::page_header::PageHeader;
use super::read::limit;
use crate::table::{ColumnKind, ColumnSpec};
use parquet::data_type::ByteArray;
use parquet::file::reader::ChunkReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page without compression. Ours have some 1 MiB, as those of most writers; `MAX_TEXT` keeps those with long texts below it.
const MAX_PAGE: u64 = 16 << 20;
/// Pages, and copies of texts, of the rows that are read at a time, all columns together.
const MAX_ROWS_BYTES: u64 = 256 << 20;
/// A header has some 30 bytes, or some hundred with statistics. Statistics may have two long texts.
const FIRST_TRY: u64 = 512;
const MAX_HEADER: u64 = 1 << 20;

/// The bytes of a file.
pub trait FileBytes: Send + Sync {
    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, FileProblem>;
}

impl<T: ChunkReader> FileBytes for T {
    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, FileProblem> {
        let length = usize::try_from(length).map_err(|_| FileProblem::Damaged("too long".to_owned()))?;
        Ok(self.get_bytes(at, length)?.to_vec())
    }
}

/// Counts the memory of the rows that are read at a time.
#[derive(Clone, Default)]
pub struct RowsBudget(Arc<AtomicU64>);

impl RowsBudget {
    pub fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub fn take(&self, bytes: u64) -> Result<(), FileProblem> {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        limit("the data of the rows that are read at a time", before.saturating_add(bytes), MAX_ROWS_BYTES)
    }
}

/// Where a column of a row group is.
#[derive(Clone, Copy, Debug)]
pub struct ColumnPlace {
    pub start: u64,
    pub bytes: u64,
    pub rows: u64,
    pub is_compressed: bool,
    pub may_be_null: bool,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEncoding {
    Plain,
    Dictionary,
    Delta,
}

/// A page, decompressed.
pub enum ColumnPage {
    Dictionary {
        bytes: ByteArray,
        values: usize,
    },
    Data {
        bytes: ByteArray,
        /// Rows, null or not.
        rows: usize,
        /// Where its definition levels are; nothing if no value may be null.
        levels: std::ops::Range<usize>,
        /// Where its values begin.
        values_at: usize,
        encoding: PageEncoding,
    },
}

/// The pages of one column of a row group.
pub struct ColumnPages {
    spec: &'static ColumnSpec,
    file: Arc<dyn FileBytes>,
    budget: RowsBudget,
    place: ColumnPlace,
    at: u64,
    end: u64,
    rows_left: u64,
    has_dictionary: bool,
}

impl ColumnPages {
    pub fn new(spec: &'static ColumnSpec, file: Arc<dyn FileBytes>, place: ColumnPlace, budget: RowsBudget) -> Self {
        let end = place.start.saturating_add(place.bytes);
        Self { spec, file, budget, place, at: place.start, end, rows_left: place.rows, has_dictionary: false }
    }

    pub fn damaged(&self, what: &str) -> FileProblem {
        FileProblem::Damaged(format!("column '{}': {what}", self.spec.name))
    }

    /// The memory that the rows read at a time may take.
    pub fn budget(&self) -> &RowsBudget {
        &self.budget
    }

    /// The next page; `None` at the end of the column.
    pub fn next(&mut self) -> Result<Option<ColumnPage>, FileProblem> {
        while self.at < self.end {
            let header = self.header()?;
            let stored = u64::try_from(header.stored_bytes).ok().filter(|bytes| *bytes <= self.end - self.at);
            let stored = stored.ok_or_else(|| self.damaged("a page ends after its column"))?;
            let begin = self.at;
            self.at += stored;
            match header.kind {
                PageHeader::DICTIONARY => return self.dictionary(&header, begin, stored).map(Some),
                PageHeader::DATA | PageHeader::DATA_2 => return self.data(&header, begin, stored).map(Some),
                PageHeader::INDEX => {}
                _ => return Err(self.damaged("a page of an unknown kind")),
            }
        }
        Ok(None)
    }

    fn header(&mut self) -> Result<PageHeader, FileProblem> {
        for most in [FIRST_TRY, MAX_HEADER] {
            let bytes = self.file.bytes(self.at, most.min(self.end - self.at))?;
            if let Some((header, length)) = PageHeader::read(&bytes) {
                self.at += length as u64;
                return Ok(header);
            }
        }
        Err(self.damaged("a page without a header"))
    }

    /// Reads the bytes of a page. The first `apart` of them are never compressed.
    fn content(&self, header: &PageHeader, begin: u64, stored: u64, apart: usize) -> Result<Vec<u8>, FileProblem> {
        let plain = u64::try_from(header.plain_bytes).map_err(|_| self.damaged("a page of less than no bytes"))?;
        limit("a page", plain, MAX_PAGE)?;
        // What does not get smaller gets a little larger.
        limit("a compressed page", stored, MAX_PAGE + MAX_PAGE / 64)?;
        self.budget.take(plain)?;
        let mut content = self.file.bytes(begin, stored)?;
        let length = usize::try_from(plain).expect("a page is below the limit");
        if self.place.is_compressed && !header.is_plain {
            if apart > content.len() || apart > length {
                return Err(self.damaged("a page is shorter than its levels"));
            }
            let mut whole = content[..apart].to_vec();
            if length > apart {
                let rest = zstd::bulk::decompress(&content[apart..], length - apart);
                whole.extend(rest.map_err(|error| self.damaged(&format!("a page cannot be decompressed: {error}")))?);
            }
            content = whole;
        }
        if content.len() == length { Ok(content) } else { Err(self.damaged("a page has another length than it says")) }
    }

    fn dictionary(&mut self, header: &PageHeader, begin: u64, stored: u64) -> Result<ColumnPage, FileProblem> {
        if self.has_dictionary || self.rows_left < self.place.rows {
            return Err(self.damaged("a dictionary that is not its first page"));
        }
        if !matches!(header.encoding, PLAIN | PLAIN_DICTIONARY) {
            return Err(self.unknown_encoding(header.encoding));
        }
        self.has_dictionary = true;
        let bytes = self.content(header, begin, stored, 0)?;
        // A text has its length in front.
        let least = if self.spec.kind == ColumnKind::Text { 4 } else { self.spec.width() };
        let values = usize::try_from(header.values).ok().filter(|values| *values <= bytes.len() / least);
        let values = values.ok_or_else(|| self.damaged("a dictionary has fewer values than it says"))?;
        self.budget.take((values * size_of::<ByteArray>()) as u64)?;
        Ok(ColumnPage::Dictionary { bytes: bytes.into(), values })
    }

    fn data(&mut self, header: &PageHeader, begin: u64, stored: u64) -> Result<ColumnPage, FileProblem> {
        let rows = u64::try_from(header.values).ok().filter(|rows| *rows <= self.rows_left);
        let rows = rows.ok_or_else(|| self.damaged("has more rows than it says"))?;
        self.rows_left -= rows;
        let is_text = self.spec.kind == ColumnKind::Text;
        let encoding = match header.encoding {
            PLAIN => PageEncoding::Plain,
            PLAIN_DICTIONARY | RLE_DICTIONARY if self.has_dictionary => PageEncoding::Dictionary,
            PLAIN_DICTIONARY | RLE_DICTIONARY => return Err(self.damaged("its dictionary is missing")),
            DELTA_BINARY_PACKED if !is_text => PageEncoding::Delta,
            other => return Err(self.unknown_encoding(other)),
        };
        let may_be_null = self.place.may_be_null;
        let no_levels = || self.damaged("a page is shorter than its levels");
        let (content, levels) = if header.kind == PageHeader::DATA_2 {
            let length = usize::try_from(header.level_bytes).map_err(|_| no_levels())?;
            if header.repetition_bytes != 0 || (!may_be_null && length > 0) {
                return Err(self.damaged("a page has levels of lists"));
            }
            let content = self.content(header, begin, stored, length)?;
            (content, 0..length)
        } else {
            let content = self.content(header, begin, stored, 0)?;
            let levels = match may_be_null {
                true if header.level_encoding != RLE => return Err(self.unknown_encoding(header.level_encoding)),
                true => {
                    let length = content.first_chunk().map(|four| u32::from_le_bytes(*four));
                    4..4usize.saturating_add(length.ok_or_else(no_levels)? as usize)
                }
                false => 0..0,
            };
            (content, levels)
        };
        if levels.end > content.len() {
            return Err(no_levels());
        }
        let (rows, values_at) = (usize::try_from(rows).map_err(|_| no_levels())?, levels.end);
        Ok(ColumnPage::Data { bytes: content.into(), rows, levels, values_at, encoding })
    }

    fn unknown_encoding(&self, number: i64) -> FileProblem {
        let name = match number {
            BIT_PACKED => "BIT_PACKED".to_owned(),
            DELTA_BINARY_PACKED => "DELTA_BINARY_PACKED".to_owned(),
            6 => "DELTA_LENGTH_BYTE_ARRAY".to_owned(),
            7 => "DELTA_BYTE_ARRAY".to_owned(),
            9 => "BYTE_STREAM_SPLIT".to_owned(),
            other => format!("encoding {other}"),
        };
        FileProblem::Encoding { column: self.spec.name, found: name }
    }
}

const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const BIT_PACKED: i64 = 4;
const DELTA_BINARY_PACKED: i64 = 5;
const RLE_DICTIONARY: i64 = 8;
