//! What compactions have begun and done, as small files in `compaction/`. [`compact`](crate::compact) has the design.

use crate::error::LakeError;
use crate::incoming::short_hash;
use crate::keys::{Day, HOUR, record_prefix};
use crate::scratch::put_new;
use crate::store::{LakeStore, StoreError, StoredFile};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Millions of inputs fit.
const MAX_RECORD: u64 = 512 << 20;

const PLAN: &str = "plan";
const DONE: &str = "done";

/// A set of incoming files of one table and hour that are compacted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// The keys of the incoming files, in order.
    pub inputs: Vec<String>,
    /// Those of them that could not be read. They are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

impl CompactionRecord {
    pub const fn new(inputs: Vec<String>) -> Self {
        Self { inputs, skipped: Vec::new() }
    }

    /// The part of the outputs' names that stands for the inputs.
    pub fn hash(&self) -> String {
        let parts: Vec<&[u8]> = self.inputs.iter().map(String::as_bytes).collect();
        short_hash(&parts)
    }
}

/// One compaction of a table and an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordName {
    /// Counts the compactions of this hour.
    pub number: u64,
    pub plan: Option<StoredFile>,
    pub done: Option<StoredFile>,
}

/// The compactions of an hour, among listed files.
pub fn of_hour(listed: &[StoredFile], table: Table, hour: i64) -> Vec<RecordName> {
    let prefix = record_prefix(table, hour);
    let mut found: Vec<RecordName> = Vec::new();
    for file in listed.iter().filter(|file| file.key.starts_with(&prefix)) {
        let parts: Vec<&str> = file.key[prefix.len()..].split('.').collect();
        let [number, state, "json"] = parts[..] else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        let at = found.iter().position(|one| one.number == number).unwrap_or_else(|| {
            found.push(RecordName { number, plan: None, done: None });
            found.len() - 1
        });
        match state {
            PLAN => found[at].plan = Some(file.clone()),
            DONE => found[at].done = Some(file.clone()),
            _ => {}
        }
    }
    found.sort();
    found
}

/// The hour of a plan, from its key.
pub fn hour_of_plan(key: &str) -> Option<i64> {
    let mut parts = key.split('/').skip(2);
    let day = Day::parse(parts.next()?.strip_prefix("day=")?)?;
    let name = parts.next()?;
    let of_day: i64 = name.get(..2)?.parse().ok().filter(|hour| (0..24).contains(hour))?;
    name.ends_with(".plan.json").then(|| day.start() + of_day * HOUR)
}

pub fn plan_key(table: Table, hour: i64, number: u64) -> String {
    format!("{}{number}.{PLAN}.json", record_prefix(table, hour))
}

fn done_key(table: Table, hour: i64, number: u64) -> String {
    format!("{}{number}.{DONE}.json", record_prefix(table, hour))
}

/// Claims the next compaction of an hour. `false` if another compactor was faster.
pub fn put_plan(
    store: &dyn LakeStore,
    table: Table,
    hour: i64,
    number: u64,
    record: &CompactionRecord,
) -> Result<bool, LakeError> {
    put_new(store, &plan_key(table, hour, number), &written(record))
}

pub fn put_done(
    store: &dyn LakeStore,
    table: Table,
    hour: i64,
    number: u64,
    record: &CompactionRecord,
) -> Result<bool, LakeError> {
    put_new(store, &done_key(table, hour, number), &written(record))
}

/// The record of a compaction that is done, if it is.
pub fn read_done(
    store: &dyn LakeStore,
    table: Table,
    hour: i64,
    number: u64,
) -> Result<Option<CompactionRecord>, LakeError> {
    let key = done_key(table, hour, number);
    match store.list(&key)?.into_iter().find(|file| file.key == key) {
        Some(file) => read(store, &file),
        None => Ok(None),
    }
}

fn written(record: &CompactionRecord) -> Vec<u8> {
    serde_json::to_vec(record).expect("texts are always JSON")
}

/// Reads a record; `None` if it was deleted meanwhile.
pub fn read(store: &dyn LakeStore, file: &StoredFile) -> Result<Option<CompactionRecord>, LakeError> {
    let opened = match store.open(file) {
        Ok(opened) => opened,
        Err(StoreError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let senseless = |why: String| LakeError::Senseless { file: file.key.clone(), why };
    let mut text = Vec::new();
    opened.take(MAX_RECORD).read_to_end(&mut text).map_err(|error| senseless(error.to_string()))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| senseless(format!("no record of a compaction: {error}")))
}
