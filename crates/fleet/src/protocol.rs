//! What an engine is asked, and what it answers: one JSON line each way. DuckDB's program and Spark's speak the same.
//!
//! An engine makes two relations of each table: `TABLE_compacted`, whose files have their service in the path (`service=S`, percent-encoded), and `TABLE_incoming`, whose
//! files have it in a column. Both have the [columns](TableFiles::columns) of the request, in that order; a relation without files is empty. Then it defines
//! the views, runs the text, and answers. It knows nothing of the schema.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A question for an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineRequest {
    /// The files of each table.
    pub tables: BTreeMap<String, TableFiles>,
    /// The folder below which all files are; nothing else may be read.
    pub base: String,
    /// Views by name: `SELECT` texts over the relations. None refers to another one.
    pub views: BTreeMap<String, String>,
    /// The text: one `SELECT` over views and relations.
    pub sql: String,
    /// The most rows of an answer; what is beyond is left out, and the answer is [truncated](EngineAnswer::truncated).
    pub max_rows: u64,
    /// Memory that the engine may take.
    pub memory_bytes: u64,
    /// Threads that it may use.
    pub threads: u32,
    /// Seconds after which it gives up; 0 for never.
    #[serde(default)]
    pub seconds: u64,
}

/// The files of one table, as absolute paths below the base.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableFiles {
    /// The columns of both relations.
    pub columns: Vec<EngineColumn>,
    /// Compacted files: all columns but `service`.
    pub compacted: Vec<String>,
    /// Files from hosts: all columns.
    pub incoming: Vec<String>,
}

/// A column of a relation or of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineColumn {
    /// Its name.
    pub name: String,
    /// Its type: of relations `BIGINT`, `INT`, `STRING` or `TIMESTAMP`; of answers also `DOUBLE`, `BOOLEAN`, `DATE` and `DECIMAL`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What an engine answers: columns and rows, or an error of one line.
///
/// Whole numbers are exact; a `BIGINT` is a JSON number, a `DECIMAL` without a fraction that fits 64 bits too, others are texts. A `DOUBLE` is the shortest number that reads
/// back as the same one; those that JSON lacks are `null`. A `TIMESTAMP` is `2026-11-18T09:00:00.000000Z`, a `DATE` `2026-11-18`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineAnswer {
    /// The columns.
    #[serde(default)]
    pub columns: Vec<EngineColumn>,
    /// The rows, each with a value for each column.
    #[serde(default)]
    pub rows: Vec<Vec<Value>>,
    /// There were more rows than the request allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why there is no answer, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl EngineAnswer {
    /// The rows as objects, for answers whose columns have distinct names.
    pub fn objects(&self) -> impl Iterator<Item = Value> + '_ {
        self.rows.iter().map(|row| {
            let named = self.columns.iter().zip(row).map(|(column, value)| (column.name.clone(), value.clone()));
            Value::Object(named.collect())
        })
    }
}
