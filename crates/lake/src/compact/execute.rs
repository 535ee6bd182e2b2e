//! Step 2 of a compaction: from the inputs of a plan to its outputs.

use super::rollup::RollUp;
use super::sorter::{SortedRows, Sorter};
use super::weight::RowWeights;
use super::{CompactSummary, SkippedFile, complete_files, outside_hour};
use crate::error::LakeError;
use crate::keys::{HOUR, compacted_key};
use crate::lake::Lake;
use crate::parquet::{FileProblem, LakeRow, TableReader, TableWriter, limit};
use crate::records::{self, CompactionRecord};
use crate::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::scratch::{ScratchFile, put_file};
use crate::store::{StoreError, StoredFile};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::hash::Hash;
use std::io::BufWriter;

/// Inputs that an object store is asked for at once.
const FILES_AHEAD: usize = 64;
/// Files with fewer rows are read once, into memory, if they fit.
const SMALL_FILE: u64 = 1 << 20;
/// The bytes of a file's rows in memory. A file of some kilobytes can claim terabytes: one long text of a dictionary for a million rows. Those of an
/// honest host with a thousand processes, in an hour, are some gigabytes.
const MAX_FILE_WEIGHT: u64 = 8 << 30;
/// Rows of a row group in memory, if the user allows less.
const LEAST_GROUP_BYTES: u64 = 1 << 20;

/// A row that is compacted.
pub trait Execution: LakeRow {
    /// Writes the rows of a service.
    fn write(output: &mut Output<'_>, service: &str, rows: SortedRows<Self>) -> Result<(), LakeError>;
}

impl Execution for SiteRow {
    fn write(output: &mut Output<'_>, service: &str, rows: SortedRows<Self>) -> Result<(), LakeError> {
        let mut hours = OutputFile::<HourRow>::new(output)?;
        let mut sums = RollUp::default();
        output.write(service, rows, |row| sums.push(row).map_or(Ok(()), |row| hours.push(row)))?;
        if let Some(row) = sums.finish() {
            hours.push(row)?;
        }
        let rows = hours.finish(output, service)?;
        output.done.hour_rows += rows;
        Ok(())
    }
}

impl Execution for ProcessRow {
    fn write(output: &mut Output<'_>, service: &str, rows: SortedRows<Self>) -> Result<(), LakeError> {
        output.write(service, rows, |_| Ok(()))
    }
}

impl Execution for StackRow {
    fn write(output: &mut Output<'_>, service: &str, rows: SortedRows<Self>) -> Result<(), LakeError> {
        output.write_new(service, rows)
    }
}

impl Execution for ServiceFrame {
    fn write(output: &mut Output<'_>, service: &str, rows: SortedRows<Self>) -> Result<(), LakeError> {
        output.write_new(service, rows)
    }
}

/// Executes one plan.
pub struct Executor<'a> {
    pub lake: &'a Lake,
    pub hour: i64,
    pub number: u64,
    pub memory: u64,
}

/// Where the rows of a plan go.
pub struct Output<'a> {
    executor: &'a Executor<'a>,
    inputs: String,
    /// Compacted files of the day, by service, for tables whose rows are facts.
    known: BTreeMap<String, Vec<StoredFile>>,
    done: CompactSummary,
}

impl Executor<'_> {
    pub fn run<R: Execution>(&self, record: &CompactionRecord) -> Result<CompactSummary, LakeError> {
        // Sorting and writing need as much again.
        let mut sorter = Sorter::<R>::new(self.memory / 2);
        let mut done = CompactSummary::default();
        let listed: BTreeMap<String, StoredFile> = self.listed_inputs(record)?;
        for (number, key) in record.inputs.iter().enumerate() {
            if number % FILES_AHEAD == 0 {
                self.bring(&listed, &record.inputs[number..record.inputs.len().min(number + FILES_AHEAD)])?;
            }
            let read = match listed.get(key) {
                Some(file) => self.read_input(file, &mut sorter, &mut done),
                None => Err(StoreError::NotFound(key.clone()).into()),
            };
            match read {
                Ok(()) => {}
                Err(LakeError::Store(StoreError::NotFound(_)))
                    if records::read_done(self.lake.store(), R::TABLE, self.hour, self.number)?.is_some() =>
                {
                    // Another compactor has completed this plan.
                    return Ok(CompactSummary::default());
                }
                // Only what is wrong with the file itself. A store that is away, or a full disk for temporary files, ends the compaction: nothing is deleted then.
                Err(error @ (LakeError::File { .. } | LakeError::Store(StoreError::NotFound(_)))) => {
                    let why = error.to_string();
                    let why = why.strip_prefix(key).and_then(|why| why.strip_prefix(": ")).unwrap_or(&why);
                    done.skipped.push(SkippedFile { key: key.clone(), why: why.to_owned() });
                }
                Err(error) => return Err(error),
            }
        }
        let known =
            if R::TABLE.has_slots() { BTreeMap::new() } else { complete_files(self.lake, R::TABLE, self.hour)? };
        let mut output = Output { executor: self, inputs: record.hash(), known, done };
        for (service, rows) in sorter.into_services() {
            R::write(&mut output, &service, rows?)?;
        }
        Ok(output.done)
    }

    /// An object store is asked for several inputs at once: each takes as long as a round trip.
    fn bring(&self, listed: &BTreeMap<String, StoredFile>, keys: &[String]) -> Result<(), LakeError> {
        let files: Vec<StoredFile> = keys.iter().filter_map(|key| listed.get(key).cloned()).collect();
        match self.lake.store().bring(&files) {
            // Found again when it is read.
            Err(StoreError::NotFound(_)) => Ok(()),
            brought => Ok(brought?),
        }
    }

    fn listed_inputs(&self, record: &CompactionRecord) -> Result<BTreeMap<String, StoredFile>, LakeError> {
        let Some(folder) = record.inputs.first().and_then(|key| key.rsplit_once('/')) else {
            return Ok(BTreeMap::new());
        };
        let files = self.lake.store().list(&format!("{}/", folder.0))?;
        Ok(files.into_iter().map(|file| (file.key.clone(), file)).collect())
    }

    /// Adds all rows of a file, or none.
    fn read_input<R: LakeRow>(
        &self,
        file: &StoredFile,
        sorter: &mut Sorter<R>,
        done: &mut CompactSummary,
    ) -> Result<(), LakeError> {
        let mut reader: TableReader<R> = self.lake.read(file)?;
        let mut collected = (reader.rows() <= SMALL_FILE).then(Vec::new);
        let (mut rows_read, mut weight, mut weights) = (0, 0, RowWeights::default());
        self.each_chunk(file, &mut reader, |chunk| {
            rows_read += chunk.len() as u64;
            weight += chunk.iter().map(|row| weights.of(row)).sum::<u64>();
            limit("the memory for the rows of a file", weight, MAX_FILE_WEIGHT)
                .map_err(|problem| LakeError::file(&file.key, problem))?;
            match &mut collected {
                Some(rows) if weight <= self.memory / 4 => rows.extend(chunk),
                _ => {
                    collected = None;
                    weights.clear();
                }
            }
            Ok(())
        })?;
        match collected {
            Some(rows) => rows.into_iter().try_for_each(|row| sorter.push(row))?,
            // It was sound. Some of its rows are handed over when it proves to be damaged now, so it cannot be left out any more.
            None => self
                .each_chunk(file, &mut self.lake.read(file)?, |chunk| {
                    chunk.into_iter().try_for_each(|row| sorter.push(row))
                })
                .map_err(|error| match error {
                    LakeError::File { file, problem } => {
                        LakeError::Senseless { file, why: format!("changed while it was compacted: {problem}") }
                    }
                    error => error,
                })?,
        }
        done.files_read += 1;
        done.bytes_read += file.bytes;
        done.rows_read += rows_read;
        Ok(())
    }

    fn each_chunk<R: LakeRow>(
        &self,
        file: &StoredFile,
        reader: &mut TableReader<R>,
        mut each: impl FnMut(Vec<R>) -> Result<(), LakeError>,
    ) -> Result<(), LakeError> {
        let failed = |problem| LakeError::file(&file.key, problem);
        while let Some(rows) = reader.next_rows().map_err(failed)? {
            let hour = self.hour..self.hour + HOUR;
            if let Some(slot) = rows.iter().filter_map(R::slot).find(|slot| !hour.contains(slot)) {
                return Err(failed(outside_hour(slot)));
            }
            each(rows)?;
        }
        Ok(())
    }
}

impl Output<'_> {
    fn write<R: LakeRow>(
        &mut self,
        service: &str,
        rows: impl Iterator<Item = Result<R, LakeError>>,
        mut each: impl FnMut(&R) -> Result<(), LakeError>,
    ) -> Result<(), LakeError> {
        let mut file = OutputFile::<R>::new(self)?;
        for row in rows {
            let row = row?;
            each(&row)?;
            file.push(row)?;
        }
        let rows = file.finish(self, service)?;
        self.done.rows_written += rows;
        Ok(())
    }

    /// Writes rows that the day does not have yet.
    fn write_new<R: LakeRow<Key: Hash>>(&mut self, service: &str, rows: SortedRows<R>) -> Result<(), LakeError> {
        let mut known: HashSet<R::Key> = HashSet::new();
        for file in self.known.remove(service).unwrap_or_default() {
            let mut reader = match self.executor.lake.read::<R>(&file) {
                Ok(reader) => reader,
                // A damaged file makes nothing known.
                Err(LakeError::File { .. } | LakeError::Store(StoreError::NotFound(_))) => continue,
                Err(error) => return Err(error),
            };
            loop {
                match reader.next_rows().map_err(|problem| LakeError::file(&file.key, problem)) {
                    Ok(Some(rows)) => known.extend(rows.iter().map(R::key)),
                    Ok(None) | Err(LakeError::File { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let is_new = |row: &Result<R, LakeError>| row.as_ref().map_or(true, |row| !known.contains(&row.key()));
        self.write(service, rows.filter(is_new), |_| Ok(()))
    }
}

/// One output that is being written, as a temporary file.
struct OutputFile<R> {
    scratch: ScratchFile,
    writer: TableWriter<BufWriter<File>, R>,
    /// The rows of the row group, which are in memory.
    weights: RowWeights,
    weight: u64,
    most: u64,
}

impl<R: LakeRow> OutputFile<R> {
    fn new(output: &Output<'_>) -> Result<Self, LakeError> {
        let scratch = ScratchFile::new()?;
        let copy = scratch.as_file().try_clone().map_err(|error| scratch.failed(error))?;
        let most = (output.executor.memory / 4).max(LEAST_GROUP_BYTES);
        let writer = TableWriter::new(BufWriter::new(copy), false).map_err(|problem| failed(&scratch, problem))?;
        Ok(Self { scratch, writer, weights: RowWeights::default(), weight: 0, most })
    }

    fn push(&mut self, row: R) -> Result<(), LakeError> {
        self.weight += self.weights.of(&row);
        let pushed = self.writer.push(row);
        let pushed = match self.weight >= self.most {
            true => {
                self.weight = 0;
                self.weights.clear();
                pushed.and_then(|()| self.writer.flush())
            }
            false => pushed,
        };
        pushed.map_err(|problem| failed(&self.scratch, problem))
    }

    /// Puts the file into the lake, unless it has no rows. Returns their number.
    fn finish(self, output: &mut Output<'_>, service: &str) -> Result<u64, LakeError> {
        let (out, rows) = self.writer.finish().map_err(|problem| failed(&self.scratch, problem))?;
        let file = out.into_inner().map_err(|error| self.scratch.failed(error.into_error()))?;
        if rows == 0 {
            return Ok(0);
        }
        let bytes = file.metadata().map_err(|error| self.scratch.failed(error))?.len();
        let key = compacted_key(R::TABLE, output.executor.hour, service, &output.inputs);
        put_file(output.executor.lake.store(), &key, &self.scratch)?;
        output.done.files_written += 1;
        output.done.bytes_written += bytes;
        Ok(rows)
    }
}

fn failed(scratch: &ScratchFile, problem: FileProblem) -> LakeError {
    LakeError::scratch(&scratch.path().display().to_string(), problem)
}
