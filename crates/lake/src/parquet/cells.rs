//! Values of columns, between rows and Parquet.

use super::FileProblem;
use crate::table::{ColumnKind, ColumnSpec};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};
use std::sync::Arc;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    Long(i64),
    Int(i32),
    Text(&'a str),
    Optional(Option<i64>),
}

impl Cell<'_> {
    pub fn long(self) -> i64 {
        match self {
            Self::Long(value) => value,
            _ => unreachable!("the row gives the type of its column"),
        }
    }

    pub fn int(self) -> i32 {
        match self {
            Self::Int(value) => value,
            _ => unreachable!("the row gives the type of its column"),
        }
    }

    pub fn optional(self) -> Option<i64> {
        match self {
            Self::Optional(value) => value,
            _ => unreachable!("the row gives the type of its column"),
        }
    }
}

impl<'a> Cell<'a> {
    pub fn text(self) -> &'a str {
        match self {
            Self::Text(value) => value,
            _ => unreachable!("the row gives the type of its column"),
        }
    }
}

/// The type of a column, in a schema that is written.
pub fn schema_field(column: &ColumnSpec) -> TypePtr {
    let (physical, logical, repetition) = match column.kind {
        ColumnKind::Long => (Physical::INT64, None, Repetition::REQUIRED),
        ColumnKind::Time => (Physical::INT64, Some(utc_micros()), Repetition::REQUIRED),
        ColumnKind::Int => (Physical::INT32, None, Repetition::REQUIRED),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        ColumnKind::OptionalLong => (Physical::INT64, None, Repetition::OPTIONAL),
    };
    let field = Type::primitive_type_builder(column.name, physical).with_logical_type(logical);
    Arc::new(field.with_repetition(repetition).build().expect("the columns of the tables are valid"))
}

fn utc_micros() -> LogicalType {
    LogicalType::timestamp(true, TimeUnit::MICROS)
}

/// Checks that a column of a file holds what it should. Nulls are found when they are read: other tools declare every column nullable.
pub fn check_type(column: &ColumnSpec, found: &ColumnDescriptor) -> Result<(), FileProblem> {
    let logical = found.logical_type_ref();
    let converted = found.converted_type();
    let is_plain = |bits| match logical {
        None => matches!(converted, ConvertedType::NONE | ConvertedType::INT_64 | ConvertedType::INT_32),
        Some(logical) => *logical == LogicalType::integer(bits, true),
    };
    let physical = found.physical_type();
    let (is_right, wanted) = match column.kind {
        ColumnKind::Long | ColumnKind::OptionalLong => {
            (physical == Physical::INT64 && is_plain(64), "a 64-bit integer")
        }
        ColumnKind::Time => {
            let is_time = logical.map_or(converted == ConvertedType::TIMESTAMP_MICROS, |one| *one == utc_micros());
            (physical == Physical::INT64 && is_time, "a time in microseconds, UTC")
        }
        ColumnKind::Int => (physical == Physical::INT32 && is_plain(32), "a 32-bit integer"),
        ColumnKind::Text => {
            let is_text = logical.map_or(converted == ConvertedType::UTF8, |one| *one == LogicalType::String);
            (physical == Physical::BYTE_ARRAY && is_text, "text")
        }
    };
    if is_right && found.max_rep_level() == 0 && found.max_def_level() <= 1 {
        return Ok(());
    }
    let nested = if found.max_rep_level() > 0 || found.max_def_level() > 1 { "nested " } else { "" };
    let found = match logical {
        Some(logical) => format!("{nested}{physical} ({logical:?})"),
        None => format!("{nested}{physical}"),
    };
    Err(FileProblem::OtherType { column: column.name, found, wanted })
}

/// Some rows of a file, as columns.
pub struct CellChunk {
    pub columns: Vec<Cells>,
    pub rows: usize,
}

/// Values of one column.
pub enum Cells {
    Long(Vec<i64>),
    Int(Vec<i32>),
    Text(Vec<ByteArray>),
    Optional(Vec<Option<i64>>),
}

impl CellChunk {
    pub fn longs(&self, column: usize) -> &[i64] {
        match &self.columns[column] {
            Cells::Long(values) => values,
            _ => unreachable!("the reader has checked the columns"),
        }
    }

    pub fn ints(&self, column: usize) -> &[i32] {
        match &self.columns[column] {
            Cells::Int(values) => values,
            _ => unreachable!("the reader has checked the columns"),
        }
    }

    pub fn texts(&self, column: usize) -> &[ByteArray] {
        match &self.columns[column] {
            Cells::Text(values) => values,
            _ => unreachable!("the reader has checked the columns"),
        }
    }

    pub fn optionals(&self, column: usize) -> &[Option<i64>] {
        match &self.columns[column] {
            Cells::Optional(values) => values,
            _ => unreachable!("the reader has checked the columns"),
        }
    }
}

/// Reads one column of a row group, some rows at a time.
pub struct ColumnSource {
    spec: &'static ColumnSpec,
    reader: TypedSource,
    may_be_null: bool,
    levels: Vec<i16>,
}

enum TypedSource {
    Long(ColumnReaderImpl<Int64Type>),
    Int(ColumnReaderImpl<Int32Type>),
    Text(ColumnReaderImpl<ByteArrayType>),
}

impl ColumnSource {
    pub fn new(spec: &'static ColumnSpec, found: &ColumnDescriptor, reader: ColumnReader) -> Result<Self, FileProblem> {
        let reader = match reader {
            ColumnReader::Int64ColumnReader(reader) => TypedSource::Long(reader),
            ColumnReader::Int32ColumnReader(reader) => TypedSource::Int(reader),
            ColumnReader::ByteArrayColumnReader(reader) => TypedSource::Text(reader),
            _ => return Err(FileProblem::Damaged(format!("column '{}' has two types", spec.name))),
        };
        Ok(Self { spec, reader, may_be_null: found.max_def_level() > 0, levels: Vec::new() })
    }

    /// Reads exactly this number of rows.
    pub fn read(&mut self, rows: usize) -> Result<Cells, FileProblem> {
        let (name, may_be_null) = (self.spec.name, self.may_be_null);
        let levels = &mut self.levels;
        match &mut self.reader {
            TypedSource::Long(reader) => {
                let values = read_values(reader, rows, may_be_null, levels, name)?;
                if self.spec.kind == ColumnKind::OptionalLong {
                    return spread(&values, levels, may_be_null, rows).map(Cells::Optional);
                }
                required(values, rows, name).map(Cells::Long)
            }
            TypedSource::Int(reader) => {
                required(read_values(reader, rows, may_be_null, levels, name)?, rows, name).map(Cells::Int)
            }
            TypedSource::Text(reader) => {
                required(read_values(reader, rows, may_be_null, levels, name)?, rows, name).map(Cells::Text)
            }
        }
    }
}

fn read_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    may_be_null: bool,
    levels: &mut Vec<i16>,
    name: &str,
) -> Result<Vec<T::T>, FileProblem> {
    let mut values = Vec::with_capacity(rows);
    levels.clear();
    let mut done = 0;
    while done < rows {
        let (records, _, _) =
            reader.read_records(rows - done, may_be_null.then_some(&mut *levels), None, &mut values)?;
        if records == 0 {
            return Err(FileProblem::Damaged(format!("column '{name}' ends early")));
        }
        done += records;
    }
    Ok(values)
}

fn required<T>(values: Vec<T>, rows: usize, name: &'static str) -> Result<Vec<T>, FileProblem> {
    if values.len() == rows { Ok(values) } else { Err(FileProblem::Null(name)) }
}

fn spread(values: &[i64], levels: &[i16], may_be_null: bool, rows: usize) -> Result<Vec<Option<i64>>, FileProblem> {
    if !may_be_null {
        return Ok(values.iter().copied().map(Some).collect());
    }
    let mut rest = values.iter();
    let spread: Vec<Option<i64>> =
        levels.iter().map(|level| if *level > 0 { rest.next().copied() } else { None }).collect();
    if spread.len() == rows { Ok(spread) } else { Err(FileProblem::Damaged("a column ends early".to_owned())) }
}
