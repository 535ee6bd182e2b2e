//! Values of columns, between rows and Parquet.

use super::FileProblem;
use super::decode::{DeltaDecoder, RunDecoder};
use super::pages::{ColumnPage, ColumnPages, PageEncoding};
use crate::table::{ColumnKind, ColumnSpec};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};
use std::ops::Range;
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
    pages: ColumnPages,
    may_be_null: bool,
    dictionary: ColumnDictionary,
    page: Option<OpenPage>,
}

/// The distinct values of a column.
enum ColumnDictionary {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

/// A data page, and how far it is read.
struct OpenPage {
    bytes: ByteArray,
    rows_left: usize,
    levels: Option<RunDecoder>,
    values: PageValues,
}

enum PageValues {
    Plain { at: usize },
    Dictionary(RunDecoder),
    Delta(DeltaDecoder),
}

impl ColumnSource {
    pub fn new(spec: &'static ColumnSpec, may_be_null: bool, pages: ColumnPages) -> Self {
        let dictionary = match spec.kind {
            ColumnKind::Text => ColumnDictionary::Texts(Vec::new()),
            _ => ColumnDictionary::Numbers(Vec::new()),
        };
        Self { spec, pages, may_be_null, dictionary, page: None }
    }

    /// Reads exactly this number of rows.
    pub fn read(&mut self, rows: usize) -> Result<Cells, FileProblem> {
        let (mut numbers, mut texts, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = 0;
        while done < rows {
            let mut page = match self.page.take() {
                Some(page) => page,
                None => match self.next_page()? {
                    Some(page) => page,
                    None => return Err(self.pages.damaged("ends early")),
                },
            };
            let count = page.rows_left.min(rows - done);
            let before = levels.len();
            let mut present = count;
            if let Some(runs) = &mut page.levels {
                runs.read(page.bytes.data(), count, &mut levels).ok_or_else(|| self.pages.damaged(UNREADABLE))?;
                if levels[before..].iter().any(|level| *level > 1) {
                    return Err(self.pages.damaged(UNREADABLE));
                }
                present = levels[before..].iter().filter(|level| **level == 1).count();
            }
            let read = match &self.dictionary {
                ColumnDictionary::Numbers(values) => page.numbers(self.spec.width(), values, present, &mut numbers),
                ColumnDictionary::Texts(values) => page.texts(values, present, &mut texts),
            };
            read.ok_or_else(|| self.pages.damaged(UNREADABLE))?;
            done += count;
            page.rows_left -= count;
            self.page = (page.rows_left > 0).then_some(page);
        }
        let name = self.spec.name;
        Ok(match self.spec.kind {
            ColumnKind::OptionalLong => Cells::Optional(match self.may_be_null {
                true => spread(&numbers, &levels),
                false => numbers.into_iter().map(Some).collect(),
            }),
            ColumnKind::Long | ColumnKind::Time => Cells::Long(required(numbers, rows, name)?),
            ColumnKind::Int => {
                // Values of four bytes; only differences may leave their range, and then they wrap.
                Cells::Int(required(numbers, rows, name)?.into_iter().map(|value| value as i32).collect())
            }
            ColumnKind::Text => {
                // Rows have copies of their texts, and one text of a dictionary may be that of all rows.
                self.pages.budget().take(texts.iter().map(|text: &ByteArray| text.len() as u64).sum())?;
                Cells::Text(required(texts, rows, name)?)
            }
        })
    }

    /// Opens the next page that has rows. A dictionary is read on the way.
    fn next_page(&mut self) -> Result<Option<OpenPage>, FileProblem> {
        while let Some(page) = self.pages.next()? {
            match page {
                ColumnPage::Dictionary { bytes, values } => {
                    let mut page =
                        OpenPage { bytes, rows_left: values, levels: None, values: PageValues::Plain { at: 0 } };
                    let read = match &mut self.dictionary {
                        ColumnDictionary::Numbers(all) => page.numbers(self.spec.width(), &[], values, all),
                        ColumnDictionary::Texts(all) => page.texts(&[], values, all),
                    };
                    read.ok_or_else(|| self.pages.damaged(UNREADABLE))?;
                }
                ColumnPage::Data { rows: 0, .. } => {}
                ColumnPage::Data { bytes, rows, levels, values_at, encoding } => {
                    let opened = OpenPage::new(bytes, rows, self.may_be_null.then_some(levels), values_at, encoding);
                    return opened.ok_or_else(|| self.pages.damaged(UNREADABLE)).map(Some);
                }
            }
        }
        Ok(None)
    }
}

const UNREADABLE: &str = "a page cannot be decoded";

impl OpenPage {
    fn new(
        bytes: ByteArray,
        rows: usize,
        levels: Option<Range<usize>>,
        values_at: usize,
        encoding: PageEncoding,
    ) -> Option<Self> {
        let levels = match levels {
            Some(levels) => Some(RunDecoder::new(1, levels.start, levels.end)?),
            None => None,
        };
        let values = match encoding {
            PageEncoding::Plain => PageValues::Plain { at: values_at },
            // A page of nothing but nulls may have no values, not even their width.
            _ if values_at == bytes.len() => PageValues::Plain { at: values_at },
            PageEncoding::Dictionary => PageValues::Dictionary(RunDecoder::with_width(bytes.data(), values_at)?),
            PageEncoding::Delta => PageValues::Delta(DeltaDecoder::new(bytes.data(), values_at)?),
        };
        Some(Self { bytes, rows_left: rows, levels, values })
    }

    /// Appends numbers of four or eight bytes.
    fn numbers(&mut self, width: usize, dictionary: &[i64], count: usize, out: &mut Vec<i64>) -> Option<()> {
        let bytes = self.bytes.data();
        match &mut self.values {
            PageValues::Plain { at } => {
                let end = at.checked_add(count.checked_mul(width)?)?;
                let part = bytes.get(*at..end)?;
                *at = end;
                if width == 4 {
                    let (values, _) = part.as_chunks::<4>();
                    out.extend(values.iter().map(|four| i64::from(i32::from_le_bytes(*four))));
                } else {
                    let (values, _) = part.as_chunks::<8>();
                    out.extend(values.iter().map(|eight| i64::from_le_bytes(*eight)));
                }
                Some(())
            }
            PageValues::Dictionary(places) => chosen(places, bytes, dictionary, count, out),
            PageValues::Delta(differences) => differences.read(bytes, count, out),
        }
    }

    /// Appends texts. They are parts of the page or of the dictionary's page.
    fn texts(&mut self, dictionary: &[ByteArray], count: usize, out: &mut Vec<ByteArray>) -> Option<()> {
        match &mut self.values {
            PageValues::Plain { at } => {
                for _ in 0..count {
                    let begin = at.checked_add(4)?;
                    let length =
                        self.bytes.data().get(*at..begin)?.first_chunk().map(|four| u32::from_le_bytes(*four))?;
                    let end = begin.checked_add(length as usize).filter(|end| *end <= self.bytes.len())?;
                    out.push(self.bytes.slice(begin, end - begin));
                    *at = end;
                }
                Some(())
            }
            PageValues::Dictionary(places) => chosen(places, self.bytes.data(), dictionary, count, out),
            PageValues::Delta(_) => None,
        }
    }
}

/// Values of a dictionary, by their places.
fn chosen<T: Clone>(
    places: &mut RunDecoder,
    bytes: &[u8],
    dictionary: &[T],
    count: usize,
    out: &mut Vec<T>,
) -> Option<()> {
    let mut found = Vec::with_capacity(count);
    places.read(bytes, count, &mut found)?;
    for place in found {
        out.push(dictionary.get(place as usize)?.clone());
    }
    Some(())
}

fn required<T>(values: Vec<T>, rows: usize, name: &'static str) -> Result<Vec<T>, FileProblem> {
    if values.len() == rows { Ok(values) } else { Err(FileProblem::Null(name)) }
}

fn spread(values: &[i64], levels: &[u32]) -> Vec<Option<i64>> {
    let mut rest = values.iter();
    levels.iter().map(|level| if *level > 0 { rest.next().copied() } else { None }).collect()
}
