//! Reads the rows of a table from a Parquet file, some thousand at a time.
//!
//! A file may come from anyone. Its footer, its columns and their types are checked before a row is read. Further columns are ignored. The library reads the
//! footer; pages are read in [`pages`](super::pages), with limits. Memory is bounded by the footer, by [`CHUNK`] rows, and by the dictionary and one page of each column.

use super::cells::{ColumnSource, check_type};
use super::pages::{ColumnPages, ColumnPlace, FileBytes, RowsBudget};
use super::{CellChunk, FileProblem, LakeRow, RowNames, SCHEMA_KEY, TABLE_KEY};
use crate::table::{ColumnSpec, SERVICE, Table};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use std::marker::PhantomData;
use std::sync::Arc;

/// Rows that are read at a time.
const CHUNK: usize = 8192;
/// The same of tables with long texts: with the longest that the writer takes, their pages and copies are still within the budget.
const CHUNK_OF_TEXTS: usize = 32;
/// Footers of our files have some kilobytes; this is room for a thousand row groups. The library reserves some 500 times the bytes of a footer that claims long lists.
const MAX_FOOTER: u64 = 4 << 20;
const MAX_ROW_GROUPS: u64 = 100_000;
const MAX_ROWS_IN_GROUP: u64 = 16 << 20;
const MAX_COLUMNS: u64 = 1_000;
/// One column of a row group, uncompressed. A million stacks of a kilobyte each fit.
const MAX_COLUMN_BYTES: u64 = 4 << 30;

/// A Parquet file of one table that is being read.
pub struct TableReader<R> {
    file: Arc<dyn FileBytes>,
    about: ParquetMetaData,
    /// The columns of the table, each with its place in the file.
    columns: Vec<(&'static ColumnSpec, usize)>,
    service: Option<String>,
    group: usize,
    sources: Vec<ColumnSource>,
    left_in_group: usize,
    budget: RowsBudget,
    names: RowNames,
    chunk: usize,
    row: PhantomData<R>,
}

static SERVICE_COLUMN: ColumnSpec = SERVICE;

impl<R: LakeRow> TableReader<R> {
    /// Checks a file. `service` is that of its path; without one, the file must have a column of this name.
    pub fn new(input: impl ChunkReader + 'static, service: Option<&str>) -> Result<Self, FileProblem> {
        check_footer_length(&input)?;
        let length = input.len();
        let about = ParquetMetaDataReader::new().parse_and_finish(&input)?;
        check_marks(&about, R::TABLE.name())?;
        let schema = about.file_metadata().schema_descr();
        limit("the number of columns", schema.num_columns() as u64, MAX_COLUMNS)?;
        let mut columns = Vec::new();
        let of_service = service.is_none().then_some(&SERVICE_COLUMN);
        for column in R::TABLE.columns().iter().chain(of_service) {
            let is_it = |at: &usize| schema.column(*at).path().parts() == [column.name];
            let at = (0..schema.num_columns()).find(is_it).ok_or(FileProblem::Missing(column.name))?;
            check_type(column, &schema.column(at))?;
            columns.push((column, at));
        }
        check_groups(&about, &columns, length)?;
        Ok(Self {
            file: Arc::new(input),
            about,
            columns,
            service: service.map(str::to_owned),
            group: 0,
            sources: Vec::new(),
            left_in_group: 0,
            budget: RowsBudget::default(),
            names: RowNames::default(),
            chunk: if matches!(R::TABLE, Table::Stacks | Table::Frames) { CHUNK_OF_TEXTS } else { CHUNK },
            row: PhantomData,
        })
    }

    /// Reads at most this many rows at a time.
    pub(crate) fn with_chunk(mut self, rows: usize) -> Self {
        self.chunk = rows.clamp(1, self.chunk);
        self
    }

    /// The number of rows, as the footer says.
    pub fn rows(&self) -> u64 {
        let groups = self.about.row_groups();
        groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    /// Whether a column has rows without a value, or may have some, as the footer says.
    pub fn may_have_nulls(&self, column: &str) -> bool {
        let nulls =
            |group: &RowGroupMetaData, at: usize| group.column(at).statistics().and_then(Statistics::null_count_opt);
        let is_whole = |at: usize| self.about.row_groups().iter().all(|group| nulls(group, at) == Some(0));
        !self.columns.iter().any(|(spec, at)| spec.name == column && is_whole(*at))
    }

    /// The next rows; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<Vec<R>>, FileProblem> {
        while self.left_in_group == 0 {
            let Some(group) = self.about.row_groups().get(self.group) else { return Ok(None) };
            self.left_in_group = usize::try_from(group.num_rows()).unwrap_or(0);
            let schema = self.about.file_metadata().schema_descr();
            self.sources.clear();
            for &(column, at) in &self.columns {
                let may_be_null = schema.column(at).max_def_level() > 0;
                let chunk = group.column(at);
                let (start, bytes) = place_of(chunk).ok_or_else(|| broken_place(column))?;
                let is_compressed = chunk.compression() != Compression::UNCOMPRESSED;
                let place = ColumnPlace { start, bytes, rows: self.left_in_group as u64, is_compressed, may_be_null };
                let pages = ColumnPages::new(column, Arc::clone(&self.file), place, self.budget.clone());
                self.sources.push(ColumnSource::new(column, may_be_null, pages));
            }
            self.group += 1;
        }
        let rows = self.left_in_group.min(self.chunk);
        self.budget.begin();
        let columns = self.sources.iter_mut().map(|source| source.read(rows)).collect::<Result<Vec<_>, _>>()?;
        self.left_in_group -= rows;
        let chunk = CellChunk { columns, rows };
        let mut out = Vec::with_capacity(rows);
        R::assemble(&chunk, self.service.as_deref(), &mut self.names, &mut out)?;
        out.iter().try_for_each(R::check)?;
        Ok(Some(out))
    }

    /// All remaining rows, if there are not too many.
    pub fn all_rows(mut self, max_rows: u64) -> Result<Vec<R>, FileProblem> {
        limit("a number of rows", self.rows(), max_rows)?;
        let mut all = Vec::new();
        while let Some(rows) = self.next_rows()? {
            all.extend(rows);
        }
        Ok(all)
    }
}

pub fn limit(what: &'static str, found: u64, limit: u64) -> Result<(), FileProblem> {
    if found <= limit { Ok(()) } else { Err(FileProblem::TooLarge { what, found, limit }) }
}

/// The last eight bytes are the footer's length and a mark.
fn check_footer_length(input: &impl ChunkReader) -> Result<(), FileProblem> {
    let length = input.len();
    if length < 12 {
        return Err(FileProblem::Damaged(format!("it has {length} bytes")));
    }
    let end = input.get_bytes(length - 8, 8)?;
    let (footer, mark) = end.split_at(4);
    if mark != b"PAR1" {
        return Err(FileProblem::Damaged("its end is missing".to_owned()));
    }
    let footer = u64::from(u32::from_le_bytes(footer.try_into().expect("four of eight bytes")));
    if footer > length - 8 {
        return Err(FileProblem::Damaged("its footer is longer than the file".to_owned()));
    }
    limit("a footer", footer, MAX_FOOTER)
}

/// Files that other tools have rewritten lack our marks. Their columns decide.
fn check_marks(about: &ParquetMetaData, wanted: &'static str) -> Result<(), FileProblem> {
    for pair in about.file_metadata().key_value_metadata().into_iter().flatten() {
        let Some(value) = &pair.value else { continue };
        if pair.key == SCHEMA_KEY {
            let schema: u64 = value.parse().map_err(|_| FileProblem::Damaged("its schema is no number".to_owned()))?;
            if schema > u64::from(crate::SCHEMA) {
                return Err(FileProblem::Newer(schema));
            }
        } else if pair.key == TABLE_KEY && value != wanted {
            let found = value.chars().filter(|char| !char.is_control()).take(40).collect();
            return Err(FileProblem::OtherTable { found, wanted });
        }
    }
    Ok(())
}

fn check_groups(
    about: &ParquetMetaData,
    columns: &[(&'static ColumnSpec, usize)],
    length: u64,
) -> Result<(), FileProblem> {
    let groups: &[RowGroupMetaData] = about.row_groups();
    limit("the number of row groups", groups.len() as u64, MAX_ROW_GROUPS)?;
    let width = about.file_metadata().schema_descr().num_columns();
    for group in groups {
        let rows = u64::try_from(group.num_rows())
            .map_err(|_| FileProblem::Damaged("a row group has less than no rows".to_owned()))?;
        limit("a row group", rows, MAX_ROWS_IN_GROUP)?;
        if group.num_columns() != width {
            return Err(FileProblem::Damaged("a row group lacks columns".to_owned()));
        }
        for &(column, at) in columns {
            let chunk = group.column(at);
            if u64::try_from(chunk.num_values()).ok() != Some(rows) {
                return Err(FileProblem::Damaged(format!("column '{}' has another number of rows", column.name)));
            }
            if !matches!(chunk.compression(), Compression::UNCOMPRESSED | Compression::ZSTD(_)) {
                return Err(FileProblem::Damaged(format!(
                    "column '{}' is compressed with {}, not with zstd",
                    column.name,
                    chunk.compression()
                )));
            }
            let (start, bytes) = place_of(chunk).ok_or_else(|| broken_place(column))?;
            if start.checked_add(bytes).is_none_or(|end| end > length) {
                return Err(broken_place(column));
            }
            let plain = u64::try_from(chunk.uncompressed_size()).map_err(|_| broken_place(column))?;
            limit("a column of a row group", plain, MAX_COLUMN_BYTES)?;
        }
    }
    Ok(())
}

/// Where the pages of a column begin, and how many bytes they have.
fn place_of(chunk: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    Some((u64::try_from(start).ok()?, u64::try_from(chunk.compressed_size()).ok()?))
}

fn broken_place(column: &ColumnSpec) -> FileProblem {
    FileProblem::Damaged(format!("column '{}' has an impossible place", column.name))
}
