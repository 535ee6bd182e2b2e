//! A batch as files of `incoming/`.

use crate::error::LakeError;
use crate::keys::{HOUR, incoming_key, kept_service};
use crate::parquet::{Cell, FileProblem, LakeRow, TableWriter};
use crate::rows::{Batch, LakeProcess, ServiceFrame};
use crate::table::{ColumnKind, SERVICE, Table};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file for `incoming/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingFile {
    /// Its path in the lake. It ends in a hash of the rows: the same rows have the same key, and are in the lake once however often they are sent, and by whichever version.
    pub key: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// The files of a batch, in the order in which they should be put: names before what refers to them. There is one for each table and hour.
pub fn incoming_files(host: &str, batch: &Batch) -> Result<Vec<IncomingFile>, LakeError> {
    let slots = batch.sites.iter().map(|row| row.slot).chain(batch.processes.iter().map(|row| row.slot));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed());
    let first = slots.min().unwrap_or_else(now);
    let mut files = Vec::new();
    let mut stacks = batch.stacks.clone();
    for stack in &mut stacks {
        stack.service = kept_service(&stack.service).to_owned();
    }
    add_table(host, first, service_frames(batch), &mut files)?;
    add_table(host, first, stacks, &mut files)?;
    let mut kept = KeptProcesses::default();
    let processes = batch.processes.iter().cloned().map(|mut row| {
        row.process = kept.of(&row.process);
        row
    });
    add_table(host, first, processes.collect(), &mut files)?;
    let sites = batch.sites.iter().cloned().map(|mut row| {
        row.process = kept.of(&row.process);
        row
    });
    add_table(host, first, sites.collect(), &mut files)?;
    Ok(files)
}

/// Rows with values that cannot be.
#[derive(Debug)]
pub struct ImpossibleRows {
    /// How many they are.
    pub count: usize,
    /// The table of the first one.
    pub table: Table,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// The rows of a batch that a lake takes, and a line for each of the others.
pub fn possible_rows(batch: &Batch) -> (Batch, Option<ImpossibleRows>) {
    let mut left_out = None;
    let possible = Batch {
        processes: kept(&batch.processes, &mut left_out, Table::Processes, LakeRow::check),
        sites: kept(&batch.sites, &mut left_out, Table::Sites, LakeRow::check),
        stacks: kept(&batch.stacks, &mut left_out, Table::Stacks, LakeRow::check),
        frames: kept(&batch.frames, &mut left_out, Table::Frames, |frame| {
            ServiceFrame { service: String::new(), frame: frame.clone() }.check()
        }),
    };
    (possible, left_out)
}

fn kept<R: Clone>(
    rows: &[R],
    left_out: &mut Option<ImpossibleRows>,
    table: Table,
    check: impl Fn(&R) -> Result<(), FileProblem>,
) -> Vec<R> {
    let mut is_possible = |row: &&R| match (check(row), &mut *left_out) {
        (Ok(()), _) => true,
        (Err(_), Some(known)) => {
            known.count += 1;
            false
        }
        (Err(problem), none) => {
            *none = Some(ImpossibleRows { count: 1, table, problem });
            false
        }
    };
    rows.iter().filter(|row| is_possible(row)).cloned().collect()
}

/// Processes with a service that can be kept.
#[derive(Default)]
struct KeptProcesses(HashMap<i64, Arc<LakeProcess>>);

impl KeptProcesses {
    fn of(&mut self, process: &Arc<LakeProcess>) -> Arc<LakeProcess> {
        let service = kept_service(&process.labels.service);
        if service == process.labels.service {
            return Arc::clone(process);
        }
        let kept = self.0.entry(process.process_id).or_insert_with(|| {
            let mut changed = LakeProcess::clone(process);
            changed.labels.service = service.to_owned();
            Arc::new(changed)
        });
        Arc::clone(kept)
    }
}

/// The frames of each stack, for each service that has the stack.
fn service_frames(batch: &Batch) -> Vec<ServiceFrame> {
    let mut services: HashMap<(i64, i64), Vec<&str>> = HashMap::new();
    for stack in &batch.stacks {
        services.entry((stack.stack_id, stack.site_id)).or_default().push(kept_service(&stack.service));
    }
    let mut frames = Vec::with_capacity(batch.frames.len());
    for frame in &batch.frames {
        let of_stack = services.get(&(frame.stack_id, frame.site_id));
        for service in of_stack.map_or(&[kept_service("")][..], Vec::as_slice) {
            frames.push(ServiceFrame { service: (*service).to_owned(), frame: frame.clone() });
        }
    }
    frames
}

fn add_table<R: LakeRow>(host: &str, first: i64, rows: Vec<R>, files: &mut Vec<IncomingFile>) -> Result<(), LakeError> {
    let mut hours: BTreeMap<i64, Vec<R>> = BTreeMap::new();
    for row in rows {
        row.check().map_err(LakeError::Rows)?;
        let slot = row.slot().unwrap_or(first);
        hours.entry(slot.div_euclid(HOUR)).or_default().push(row);
    }
    for mut rows in hours.into_values() {
        let slot = rows.iter().filter_map(R::slot).min().unwrap_or(first);
        rows.sort_by(|a, b| a.key().cmp(&b.key()).then_with(|| a.service().cmp(b.service())));
        rows.dedup_by(|b, a| a.key() == b.key() && a.service() == b.service());
        let key = incoming_key(R::TABLE, host, slot, &hash_of_rows(&rows));
        let mut writer = TableWriter::new(Vec::new(), true).map_err(LakeError::Rows)?;
        writer.extend(rows).map_err(LakeError::Rows)?;
        let (content, _) = writer.finish().map_err(LakeError::Rows)?;
        files.push(IncomingFile { key, content });
    }
    Ok(())
}

/// A hash of the values of rows, column by column. The bytes of a file differ from version to version of Highwater. A column without values is left out, so that one that a
/// later version adds changes nothing.
fn hash_of_rows<R: LakeRow>(rows: &[R]) -> String {
    let mut hash = Sha256::new();
    let mut values = Vec::new();
    for (index, column) in R::TABLE.columns().iter().chain([&SERVICE]).enumerate() {
        values.clear();
        for row in rows {
            match row.cell(index) {
                Cell::Long(value) => values.extend_from_slice(&value.to_le_bytes()),
                Cell::Int(value) => values.extend_from_slice(&value.to_le_bytes()),
                Cell::Text(text) => {
                    values.extend_from_slice(&(text.len() as u64).to_le_bytes());
                    values.extend_from_slice(text.as_bytes());
                }
                Cell::Optional(None) => values.push(0),
                Cell::Optional(Some(value)) => {
                    values.push(1);
                    values.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
        let is_optional = matches!(column.kind, ColumnKind::OptionalLong);
        if is_optional && values.iter().all(|byte| *byte == 0) {
            continue;
        }
        for part in [column.name.as_bytes(), values.as_slice()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    short(hash)
}

/// 64 bits of a hash, in hexadecimal digits.
pub(crate) fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    short(hash)
}

fn short(hash: Sha256) -> String {
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::SiteRow;

    fn batch(live_bytes: i64, alloc_bytes: Option<i64>) -> Batch {
        let site = |site_id| SiteRow {
            slot: 60,
            process: Arc::default(),
            stack_id: 1,
            site_id,
            sample_period: 0,
            live_bytes,
            live_blocks: 1,
            alloc_bytes,
            alloc_blocks: None,
        };
        Batch { sites: vec![site(1), site(2)], ..Batch::default() }
    }

    #[test]
    fn a_name_is_made_of_the_rows_and_not_of_how_they_are_written() {
        let key = |batch: &Batch| incoming_files("h", batch).unwrap().remove(0).key;
        // Each version must give these rows this name: a shipper may have sent them before it was replaced.
        assert_eq!(key(&batch(7, None)), "incoming/sites/day=1970-01-01/h-0001-94cfefef8852c328.parquet");
        assert_ne!(key(&batch(7, None)), key(&batch(8, None)));
        assert_ne!(key(&batch(7, None)), key(&batch(7, Some(0))));
        let mut turned = batch(7, None);
        turned.sites.reverse();
        assert_eq!(key(&turned), key(&batch(7, None)));
    }
}
