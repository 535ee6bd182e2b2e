//! Writes the rows of a table as a Parquet file.

use super::cells::schema_field;
use super::read::limit;
use super::{FileProblem, RowCells, SCHEMA_KEY, TABLE_KEY};
use crate::table::{ColumnKind, ColumnSpec, SERVICE};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::io::Write;
use std::sync::Arc;

/// Larger row groups save next to nothing, and cost memory on both sides.
const ROW_GROUP: usize = 1 << 20;
/// Rows whose values are handed to the library at a time.
const SLICE: usize = 8192;
/// Bytes of texts that are handed to it at a time: it closes a page of more than 1 MiB only between two of these.
const TEXT_SLICE: usize = 1 << 20;
/// A text that is longer is not written, because 32 of them would not be read ([`super::read`]). Deep recursion through long names makes some hundred kilobytes.
pub const MAX_TEXT: u64 = 3 << 20;

/// A Parquet file of one table that is being written. Rows are written in the order in which they come.
pub struct TableWriter<W: Write + Send, R> {
    file: SerializedFileWriter<W>,
    columns: Vec<ColumnSpec>,
    rows: Vec<R>,
    row_group: usize,
    written: u64,
}

impl<W: Write + Send, R: RowCells> TableWriter<W, R> {
    /// Starts a file. The files of hosts have a column `service`; compacted ones have it in their path.
    pub fn new(out: W, has_service: bool) -> Result<Self, FileProblem> {
        let mut columns = [R::table().columns(), R::more_columns()].concat();
        if has_service {
            columns.push(SERVICE);
        }
        let fields = columns.iter().map(schema_field).collect();
        let schema = Type::group_type_builder(R::table().name()).with_fields(fields).build()?;
        let meta = |key: &str, value: String| KeyValue { key: key.to_owned(), value: Some(value) };
        let about = vec![meta(SCHEMA_KEY, crate::SCHEMA.to_string()), meta(TABLE_KEY, R::table().name().to_owned())];
        let mut properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_created_by(concat!("highwater ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(about));
        for column in columns.iter().filter(|column| column.is_delta) {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(Self { file, columns, rows: Vec::new(), row_group: ROW_GROUP, written: 0 })
    }

    /// Makes row groups smaller, so that the file is written and read with less memory.
    pub fn with_row_group(mut self, rows: usize) -> Self {
        self.row_group = rows.clamp(1, ROW_GROUP);
        self
    }

    /// Appends a row.
    pub fn push(&mut self, row: R) -> Result<(), FileProblem> {
        self.rows.push(row);
        if self.rows.len() >= self.row_group { self.flush() } else { Ok(()) }
    }

    /// Appends rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = R>) -> Result<(), FileProblem> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }

    /// Completes the file. Returns what it was written to, and the number of rows.
    pub fn finish(mut self) -> Result<(W, u64), FileProblem> {
        self.flush()?;
        Ok((self.file.into_inner()?, self.written))
    }

    /// Writes the rows that are in memory, as a row group.
    pub fn flush(&mut self) -> Result<(), FileProblem> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (index, column) in self.columns.iter().enumerate() {
            let mut writer = group.next_column()?.expect("the schema has as many columns");
            write_column(&mut writer, column, index, &self.rows)?;
            writer.close()?;
        }
        group.close()?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }
}

fn write_column<R: RowCells>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &ColumnSpec,
    index: usize,
    rows: &[R],
) -> Result<(), FileProblem> {
    // Neighbours mostly have the same text: one buffer for all of them.
    let mut last = ByteArray::from("");
    for slice in rows.chunks(SLICE) {
        let cells = slice.iter().map(|row| row.cell(index));
        match column.kind {
            ColumnKind::Long | ColumnKind::Time => {
                let values: Vec<i64> = cells.map(|cell| cell.long()).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            ColumnKind::Int => {
                let values: Vec<i32> = cells.map(|cell| cell.int()).collect();
                writer.typed::<Int32Type>().write_batch(&values, None, None)?;
            }
            ColumnKind::Text => {
                let mut values = Vec::with_capacity(slice.len());
                let mut bytes = 0;
                for cell in cells {
                    let text = cell.text();
                    if last.data() != text.as_bytes() {
                        limit("a text", text.len() as u64, MAX_TEXT)?;
                        last = ByteArray::from(text);
                    }
                    values.push(last.clone());
                    bytes += text.len();
                    if bytes >= TEXT_SLICE {
                        writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                        values.clear();
                        bytes = 0;
                    }
                }
                if !values.is_empty() {
                    writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
            }
            ColumnKind::OptionalLong => {
                let mut levels = Vec::with_capacity(slice.len());
                let mut values = Vec::with_capacity(slice.len());
                for cell in cells {
                    let value = cell.optional();
                    levels.push(i16::from(value.is_some()));
                    values.extend(value);
                }
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
        }
    }
    Ok(())
}
