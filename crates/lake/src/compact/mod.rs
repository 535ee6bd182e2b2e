//! Compaction: the files of many hosts become a few sorted ones, by day, service and hour, with a roll-up of each hour.
//!
//! # Design
//!
//! All incoming files of one table and hour that are there are compacted together. The result is one file for each service, named after the inputs. Files that arrive
//! later are compacted later, into further files of the same hour. Nothing is ever rewritten.
//!
//! Readers must see each row once at every instant, also while a compaction runs, after it was killed, and while another compactor works on the same
//! hour. A store can only put one whole file under a new key, and delete. So a compaction writes down what it does, as `compaction/TABLE/day=D/HH-N.*.json`:
//!
//! | step | in the lake afterwards | a reader uses |
//! |---|---|---|
//! | 1. put `HH-N.plan.json`, which lists the inputs | plan, inputs | the inputs |
//! | 2. put one file for each service, and its roll-up | plan, inputs, some outputs | the inputs; files named after the inputs of a plan are not read |
//! | 3. put `HH-N.done.json`, a copy of the plan | plan, done, inputs, outputs | the outputs; inputs of what is done are not read |
//! | 4. delete the inputs | plan, done, some inputs, outputs | the outputs |
//! | 5. delete the plan | done, outputs | the outputs |
//!
//! Killed after any step, the next compaction continues there: it completes every plan of an hour, with exactly the inputs that the plan lists, before it makes another one.
//! The outputs of a plan depend on the plan alone. One that exists already was written by a compactor that was killed, or by another one that completes the same plan.
//!
//! *Two plans never share an input.* A plan has a number, and its put fails if that number exists. A compactor lists the incoming files first and the records of the hour
//! second, and leaves out the inputs of all records, except those that the last of them skipped and that are to be tried again. A plan that was put in between has the number that the compactor would use, so its own put fails, and it looks again.
//! Records of what is done stay until their day expires. They are also why a file that a host sends again after its compaction is deleted and not counted.
//!
//! Engines that know nothing of this read the tables' folders only. They see no row twice. They miss what is not compacted yet, and in step 2 some services.
//!
//! An input that is damaged is left where it is, and the record of what is done lists it as skipped: one bad host does not stop the others. [`Lake::files`] and
//! [`check`](crate::check) name it from then on. If the user asks for that, a later plan has it as an input again; then the last record that names it counts. An error of
//! the system, such as one of a network file system, is no damage: it ends the compaction, which a later one continues.
//!
//! *Memory.* Rows are collected by service. When they take more than the limit, those of the largest service are sorted and written to a temporary file; such runs are merged
//! at the end. Inputs are sorted already, which the sort makes use of. Rows with the same key are kept once: of those, the one in the first input.

mod execute;
mod rollup;
mod sorter;
mod weight;

use crate::error::LakeError;
use crate::keys::{Day, FileState, HOUR, LakeKey};
use crate::lake::Lake;
use crate::parquet::{FileProblem, LakeRow};
use crate::records::{self, CompactionRecord};
use crate::rows::{ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::store::StoredFile;
use crate::table::Table;
use execute::{Execution, Executor};
use std::collections::{BTreeMap, HashSet};

/// Compactors that were faster, after which one gives up.
const TRIES: usize = 100;

/// What is compacted, and with how much memory.
#[derive(Clone, Copy, Debug)]
pub struct CompactOptions {
    /// Hours that end at or before this second are compacted.
    pub until: i64,
    /// About the most memory for rows, in bytes.
    pub memory: u64,
}

/// What a compaction has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactSummary {
    /// Tables and hours of which files were compacted.
    pub hours: u64,
    /// Files that were read.
    pub files_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Rows of them.
    pub rows_read: u64,
    /// Files that were written.
    pub files_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Rows of them, without the roll-up.
    pub rows_written: u64,
    /// Rows of the roll-up.
    pub hour_rows: u64,
    /// Files that could not be read, and why.
    pub skipped: Vec<SkippedFile>,
    /// Files that an earlier compaction could not read, and that are still there.
    pub skipped_before: Vec<String>,
}

/// An incoming file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// Its path in the lake.
    pub key: String,
    /// Why, in one line.
    pub why: String,
}

/// Compacts all hours that are over. `progress` is called before each hour of a table.
pub fn compact(
    lake: &Lake,
    options: &CompactOptions,
    progress: &mut dyn FnMut(Table, i64),
) -> Result<CompactSummary, LakeError> {
    compact_all(lake, options, false, progress)
}

/// The same, and files that earlier compactions skipped are tried again: they may have been repaired, or be readable for this version.
pub fn compact_with_skipped(
    lake: &Lake,
    options: &CompactOptions,
    progress: &mut dyn FnMut(Table, i64),
) -> Result<CompactSummary, LakeError> {
    compact_all(lake, options, true, progress)
}

fn compact_all(
    lake: &Lake,
    options: &CompactOptions,
    retry: bool,
    progress: &mut dyn FnMut(Table, i64),
) -> Result<CompactSummary, LakeError> {
    let mut summary = CompactSummary::default();
    let mut compactor = Compactor { lake, options, retry, summary: &mut summary };
    // Names first: a site without a name is worse than a name without a site.
    compactor.table::<ServiceFrame>(progress)?;
    compactor.table::<StackRow>(progress)?;
    compactor.table::<ProcessRow>(progress)?;
    compactor.table::<SiteRow>(progress)?;
    Ok(summary)
}

struct Compactor<'a> {
    lake: &'a Lake,
    options: &'a CompactOptions,
    /// Skipped files are inputs again.
    retry: bool,
    summary: &'a mut CompactSummary,
}

impl Compactor<'_> {
    fn table<R: Execution>(&mut self, progress: &mut dyn FnMut(Table, i64)) -> Result<(), LakeError> {
        let store = self.lake.store();
        let mut hours: BTreeMap<i64, Vec<StoredFile>> = BTreeMap::new();
        for file in store.list(&format!("incoming/{}/", R::TABLE))? {
            let Some(key) = LakeKey::parse(&file.key) else { continue };
            if key.hour.saturating_add(HOUR) <= self.options.until {
                hours.entry(key.hour).or_default().push(file);
            }
        }
        // A compactor may have been killed after it deleted the inputs.
        for file in store.list(&format!("compaction/{}/", R::TABLE))? {
            if let Some(hour) = records::hour_of_plan(&file.key) {
                hours.entry(hour).or_default();
            }
        }
        for (hour, files) in hours {
            progress(R::TABLE, hour);
            self.hour::<R>(hour, files)?;
        }
        Ok(())
    }

    /// Completes what was begun, then compacts the rest. The files were listed before.
    fn hour<R: Execution>(&mut self, hour: i64, files: Vec<StoredFile>) -> Result<(), LakeError> {
        let store = self.lake.store();
        let mut inputs = HourInputs { files, skipped: Vec::new() };
        for _ in 0..TRIES {
            let listed = store.list(&crate::keys::record_prefix(R::TABLE, hour))?;
            let names = records::of_hour(&listed, R::TABLE, hour);
            let next = names.last().map_or(0, |name| name.number + 1);
            let mut is_steady = true;
            for name in names {
                if let Some(done) = &name.done {
                    let Some(record) = records::read(store, done)? else { continue };
                    self.clean::<R>(hour, name.number, &record, &mut inputs, name.plan.is_some())?;
                } else if let Some(plan) = &name.plan {
                    // Deleted meanwhile: another compactor has completed it, and there is a record of that now.
                    let Some(record) = records::read(store, plan)? else {
                        is_steady = false;
                        continue;
                    };
                    self.complete::<R>(hour, name.number, record, &mut inputs)?;
                }
            }
            if !is_steady {
                continue;
            }
            if self.retry {
                let skipped_now = |file: &StoredFile| self.summary.skipped.iter().any(|now| now.key == file.key);
                let (kept, again) = std::mem::take(&mut inputs.skipped).into_iter().partition(skipped_now);
                inputs.skipped = kept;
                inputs.files.extend::<Vec<StoredFile>>(again);
            }
            if inputs.files.is_empty() {
                self.note_skipped(&inputs);
                return Ok(());
            }
            let record = CompactionRecord::new(inputs.files.iter().map(|file| file.key.clone()).collect());
            if records::put_plan(store, R::TABLE, hour, next, &record)? {
                self.complete::<R>(hour, next, record, &mut inputs)?;
                self.note_skipped(&inputs);
                return Ok(());
            }
        }
        Err(LakeError::Unsteady(store.name().to_owned()))
    }

    fn note_skipped(&mut self, inputs: &HourInputs) {
        let summary = &mut *self.summary;
        let is_new = |file: &&StoredFile| summary.skipped.iter().any(|now| now.key == file.key);
        let before = inputs.skipped.iter().filter(|file| !is_new(file)).map(|file| file.key.clone());
        summary.skipped_before.extend(before);
    }

    /// Steps 2 to 5.
    fn complete<R: Execution>(
        &mut self,
        hour: i64,
        number: u64,
        mut record: CompactionRecord,
        inputs: &mut HourInputs,
    ) -> Result<(), LakeError> {
        let store = self.lake.store();
        let executor = Executor { lake: self.lake, hour, number, memory: self.options.memory };
        let done = executor.run::<R>(&record)?;
        record.skipped = done.skipped.iter().map(|file| file.key.clone()).collect();
        if records::put_done(store, R::TABLE, hour, number, &record)? {
            let sum = &mut *self.summary;
            sum.hours += 1;
            sum.files_read += done.files_read;
            sum.bytes_read += done.bytes_read;
            sum.rows_read += done.rows_read;
            sum.files_written += done.files_written;
            sum.bytes_written += done.bytes_written;
            sum.rows_written += done.rows_written;
            sum.hour_rows += done.hour_rows;
            sum.skipped.extend(done.skipped);
        } else if let Some(other) = records::read_done(store, R::TABLE, hour, number)? {
            // The record that is there counts.
            record = other;
        }
        self.clean::<R>(hour, number, &record, inputs, true)
    }

    /// Steps 4 and 5.
    fn clean<R: LakeRow>(
        &self,
        hour: i64,
        number: u64,
        record: &CompactionRecord,
        inputs: &mut HourInputs,
        has_plan: bool,
    ) -> Result<(), LakeError> {
        let store = self.lake.store();
        store.delete_all(&inputs.used_by(record))?;
        if has_plan {
            store.delete(&records::plan_key(R::TABLE, hour, number))?;
        }
        Ok(())
    }
}

/// Incoming files of a table and hour.
struct HourInputs {
    /// Those that no record names.
    files: Vec<StoredFile>,
    /// Those that the last record that names them skipped.
    skipped: Vec<StoredFile>,
}

impl HourInputs {
    /// Takes the files of what is done away, and returns the keys of those that were used. Records come in their order.
    fn used_by(&mut self, record: &CompactionRecord) -> Vec<String> {
        let skipped: HashSet<&str> = record.skipped.iter().map(String::as_str).collect();
        let inputs: HashSet<&str> = record.inputs.iter().map(String::as_str).collect();
        let mut used = Vec::new();
        // In the order of the listing, so that a compaction of a folder touches one file after the other.
        let (before, new) = (std::mem::take(&mut self.skipped), std::mem::take(&mut self.files));
        for (file, was_skipped) in
            before.into_iter().map(|file| (file, true)).chain(new.into_iter().map(|file| (file, false)))
        {
            let is_skipped = skipped.contains(&*file.key);
            if inputs.contains(&*file.key) && !is_skipped {
                used.push(file.key);
            } else if is_skipped || was_skipped {
                self.skipped.push(file);
            } else {
                self.files.push(file);
            }
        }
        used
    }
}

/// The compacted files of a table and day that are complete, by service, but for those of one compaction.
fn complete_files(lake: &Lake, table: Table, hour: i64) -> Result<BTreeMap<String, Vec<StoredFile>>, LakeError> {
    let mut services: BTreeMap<String, Vec<StoredFile>> = BTreeMap::new();
    for file in lake.files_of_day(table, Day::of(hour))?.compacted {
        let Some(LakeKey { state: FileState::Compacted { service, .. }, .. }) = LakeKey::parse(&file.key) else {
            continue;
        };
        services.entry(service).or_default().push(file);
    }
    Ok(services)
}

fn outside_hour(slot: i64) -> FileProblem {
    FileProblem::Impossible { column: "slot", value: slot }
}
