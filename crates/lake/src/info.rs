//! What a lake has: tables, days, services, files, rows and bytes.

use crate::error::LakeError;
use crate::keys::{Day, FileState, LakeKey, SlotRange};
use crate::lake::Lake;
use crate::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::store::StoredFile;
use crate::table::Table;
use std::collections::BTreeSet;

/// What a lake has of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The table.
    pub table: Table,
    /// The days, in order.
    pub days: BTreeSet<Day>,
    /// The services of compacted files.
    pub services: BTreeSet<String>,
    /// Compacted files.
    pub compacted: FileSums,
    /// Files that are not compacted yet, with those that a compaction could not read.
    pub incoming: FileSums,
    /// Files that cannot be used, a line each.
    pub problems: Vec<String>,
}

/// Sums over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSums {
    /// The number of files.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Looks into the footer of every file.
pub fn info(lake: &Lake) -> Result<Vec<TableInfo>, LakeError> {
    let mut tables = Vec::new();
    for table in Table::ALL {
        let files = lake.files(table, SlotRange::ALL)?;
        let mut about = TableInfo {
            table,
            days: BTreeSet::new(),
            services: BTreeSet::new(),
            compacted: FileSums::default(),
            incoming: FileSums::default(),
            problems: Vec::new(),
        };
        let skipped = |file: &StoredFile| format!("{}: skipped by a compaction, its rows are missing", file.key);
        about.problems.extend(files.skipped.iter().map(skipped));
        for file in files.compacted.iter().chain(&files.incoming).chain(&files.skipped) {
            let Some(key) = LakeKey::parse(&file.key) else { continue };
            about.days.insert(key.day());
            let sums = match key.state {
                FileState::Compacted { service, .. } => {
                    about.services.insert(service);
                    &mut about.compacted
                }
                FileState::Incoming => &mut about.incoming,
            };
            sums.files += 1;
            sums.bytes += file.bytes;
            match rows_of(lake, table, file) {
                Ok(rows) => sums.rows += rows,
                Err(error @ LakeError::File { .. }) => about.problems.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        tables.push(about);
    }
    Ok(tables)
}

fn rows_of(lake: &Lake, table: Table, file: &StoredFile) -> Result<u64, LakeError> {
    Ok(match table {
        Table::Sites => lake.read::<SiteRow>(file)?.rows(),
        Table::SitesHour => lake.read::<HourRow>(file)?.rows(),
        Table::Processes => lake.read::<ProcessRow>(file)?.rows(),
        Table::Stacks => lake.read::<StackRow>(file)?.rows(),
        Table::Frames => lake.read::<ServiceFrame>(file)?.rows(),
    })
}
