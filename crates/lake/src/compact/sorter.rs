//! Sorts rows by service and key, with bounded memory.
//!
//! Each error is one of a temporary file, and ends the compaction: rows that were handed over are in no other place.

use super::weight::RowWeights;
use crate::error::LakeError;
use crate::keys::kept_service;
use crate::parquet::{FileProblem, LakeRow, TableReader, TableWriter};
use crate::scratch::ScratchFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::BufWriter;

/// Runs that are merged at a time: each has a page of each column in memory.
const MAX_RUNS: usize = 32;
/// Rows of a row group in a temporary file, and their bytes in memory.
const RUN_GROUP: usize = 1 << 15;
const RUN_GROUP_BYTES: u64 = 16 << 20;
/// Bytes of rows that are read at a time from each temporary file, or one row.
const RUN_CHUNK_BYTES: u64 = 4 << 20;

/// Collects rows.
pub struct Sorter<R> {
    services: BTreeMap<String, ServiceRows<R>>,
    weight: u64,
    limit: u64,
}

struct ServiceRows<R> {
    rows: Vec<R>,
    weight: u64,
    weights: RowWeights,
    runs: Vec<RunFile>,
}

/// Sorted rows in a temporary file without a name.
struct RunFile {
    file: File,
    /// The bytes of its heaviest row.
    heaviest: u64,
}

impl<R: LakeRow> Sorter<R> {
    pub fn new(limit: u64) -> Self {
        Self { services: BTreeMap::new(), weight: 0, limit }
    }

    pub fn push(&mut self, row: R) -> Result<(), LakeError> {
        let service = kept_service(row.service());
        if !self.services.contains_key(service) {
            let empty = ServiceRows { rows: Vec::new(), weight: 0, weights: RowWeights::default(), runs: Vec::new() };
            self.services.insert(service.to_owned(), empty);
        }
        let of_service = self.services.get_mut(service).expect("inserted above");
        let weight = of_service.weights.of(&row);
        of_service.rows.push(row);
        of_service.weight += weight;
        self.weight += weight;
        if self.weight <= self.limit {
            return Ok(());
        }
        let largest = self.services.iter_mut().max_by_key(|(_, rows)| rows.weight);
        let (service, rows) = largest.expect("one was inserted above");
        self.weight -= rows.weight;
        rows.spill(service)
    }

    /// The rows of each service in order, each key once.
    pub fn into_services(self) -> impl Iterator<Item = (String, Result<SortedRows<R>, LakeError>)> {
        self.services.into_iter().map(|(service, rows)| {
            let sorted = rows.sorted(&service);
            (service, sorted)
        })
    }
}

impl<R: LakeRow> ServiceRows<R> {
    fn spill(&mut self, service: &str) -> Result<(), LakeError> {
        self.weight = 0;
        self.weights.clear();
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(R::key);
        self.runs.push(written(rows.into_iter().map(Ok))?);
        if self.runs.len() == MAX_RUNS {
            let merged: SortedRows<R> = SortedRows::merge(std::mem::take(&mut self.runs), service)?;
            self.runs.push(written(merged)?);
        }
        Ok(())
    }

    fn sorted(mut self, service: &str) -> Result<SortedRows<R>, LakeError> {
        if self.runs.is_empty() {
            self.rows.sort_by_key(R::key);
            return Ok(SortedRows { source: Source::Memory(self.rows.into_iter()), last: None });
        }
        if !self.rows.is_empty() {
            self.spill(service)?;
        }
        SortedRows::merge(self.runs, service)
    }
}

/// Writes rows to a temporary file without a name.
fn written<R: LakeRow>(rows: impl Iterator<Item = Result<R, LakeError>>) -> Result<RunFile, LakeError> {
    let scratch = ScratchFile::new()?;
    let path = scratch.path().display().to_string();
    let file = scratch.into_unnamed()?;
    let failed = |problem: FileProblem| LakeError::scratch(&path, problem);
    let copy = file.try_clone().map_err(|error| failed(error.into()))?;
    let mut writer = TableWriter::new(BufWriter::new(copy), false).map_err(failed)?.with_row_group(RUN_GROUP);
    let (mut heaviest, mut in_group) = (0, 0);
    let mut weights = RowWeights::default();
    for row in rows {
        let row = row?;
        let weight = weights.of(&row);
        writer.push(row).map_err(failed)?;
        heaviest = weight.max(heaviest);
        in_group += weight;
        if in_group >= RUN_GROUP_BYTES {
            writer.flush().map_err(failed)?;
            weights.clear();
            in_group = 0;
        }
    }
    let (out, _) = writer.finish().map_err(failed)?;
    out.into_inner().map_err(|error| failed(error.into_error().into()))?;
    Ok(RunFile { file, heaviest })
}

/// Rows in order, each key once.
pub struct SortedRows<R: LakeRow> {
    source: Source<R>,
    last: Option<R::Key>,
}

enum Source<R: LakeRow> {
    Memory(std::vec::IntoIter<R>),
    Runs { runs: Vec<Run<R>>, next: BinaryHeap<Reverse<(R::Key, usize)>> },
}

struct Run<R> {
    reader: TableReader<R>,
    rows: std::iter::Peekable<std::vec::IntoIter<R>>,
}

fn of_run(problem: FileProblem) -> LakeError {
    LakeError::scratch("a temporary file", problem)
}

impl<R: LakeRow> Run<R> {
    /// The key of its next row.
    fn key(&mut self) -> Result<Option<R::Key>, LakeError> {
        while self.rows.peek().is_none() {
            match self.reader.next_rows().map_err(of_run)? {
                Some(rows) => self.rows = rows.into_iter().peekable(),
                None => return Ok(None),
            }
        }
        Ok(self.rows.peek().map(R::key))
    }
}

impl<R: LakeRow> SortedRows<R> {
    fn merge(files: Vec<RunFile>, service: &str) -> Result<Self, LakeError> {
        let (mut runs, mut next) = (Vec::new(), BinaryHeap::new());
        for RunFile { file, heaviest } in files {
            let chunk = usize::try_from(RUN_CHUNK_BYTES / heaviest.max(1)).unwrap_or(usize::MAX);
            let reader = TableReader::new(file, Some(service)).map_err(of_run)?.with_chunk(chunk);
            let mut run = Run { reader, rows: Vec::new().into_iter().peekable() };
            // Of equal rows the one of the first run comes first.
            next.extend(run.key()?.map(|key| Reverse((key, runs.len()))));
            runs.push(run);
        }
        Ok(Self { source: Source::Runs { runs, next }, last: None })
    }

    fn next_row(&mut self) -> Result<Option<R>, LakeError> {
        match &mut self.source {
            Source::Memory(rows) => Ok(rows.next()),
            Source::Runs { runs, next } => {
                let Some(Reverse((_, at))) = next.pop() else { return Ok(None) };
                let row = runs[at].rows.next();
                next.extend(runs[at].key()?.map(|key| Reverse((key, at))));
                Ok(row)
            }
        }
    }
}

impl<R: LakeRow> Iterator for SortedRows<R> {
    type Item = Result<R, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.next_row().transpose()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let key = row.key();
            if self.last != Some(key) {
                self.last = Some(key);
                return Some(Ok(row));
            }
        }
    }
}
