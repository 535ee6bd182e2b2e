//! The tables as Parquet files: one writer and one reader for all of them.

mod cells;
mod decode;
mod page_header;
mod pages;
mod read;
mod row;
mod write;

pub use read::TableReader;
pub use row::{LakeRow, RowCells};
pub use write::TableWriter;

pub(crate) use cells::{Cell, CellChunk};
pub(crate) use read::limit;
pub(crate) use row::RowNames;

use parquet::errors::ParquetError;

/// Key in a file's metadata: the version of the schema.
const SCHEMA_KEY: &str = "highwater.schema";
/// Key in a file's metadata: the table.
const TABLE_KEY: &str = "highwater.table";

/// Why a file is not a file of a table. One line, without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// It is not Parquet, or damaged.
    #[error("damaged, or no Parquet file: {0}")]
    Damaged(String),
    /// It was written by a newer version.
    #[error("has schema {0}; this version of Highwater reads up to {supported}", supported = crate::SCHEMA)]
    Newer(u64),
    /// It is of another table.
    #[error("is a file of the table '{found}', not of '{wanted}'")]
    OtherTable {
        /// The table that it names.
        found: String,
        /// The table that was asked for.
        wanted: &'static str,
    },
    /// A column is missing.
    #[error("has no column '{0}'")]
    Missing(&'static str),
    /// A column has another type.
    #[error("column '{column}' is {found}, not {wanted}")]
    OtherType {
        /// The column.
        column: &'static str,
        /// Its type in the file.
        found: String,
        /// The type that it should have.
        wanted: &'static str,
    },
    /// Values are written in a way that is not read.
    #[error("column '{column}' is encoded as {found}; plain values, dictionaries and differences of numbers are read")]
    Encoding {
        /// The column.
        column: &'static str,
        /// Its encoding.
        found: String,
    },
    /// A value that must be there is not.
    #[error("column '{0}' has a row without a value")]
    Null(&'static str),
    /// A value that cannot be.
    #[error("column '{column}' has the impossible value {value}")]
    Impossible {
        /// The column.
        column: &'static str,
        /// The value.
        value: i64,
    },
    /// More than a reader takes on.
    #[error("{what} of {found} is more than the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The system failed to read or write.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<ParquetError> for FileProblem {
    fn from(error: ParquetError) -> Self {
        let error = match error {
            // Only the system's own errors have a number. Others of this type are the library's words for damage.
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(inner) if inner.raw_os_error().is_some() => return Self::System(*inner),
                Ok(inner) => ParquetError::External(inner),
                Err(inner) => ParquetError::External(inner),
            },
            error => error,
        };
        let mut text = error.to_string();
        // Some of the library's messages have several lines.
        text.retain(|char| !char.is_control());
        Self::Damaged(text)
    }
}
