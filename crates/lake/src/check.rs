//! Reads every row of a lake, and reports what cannot be.
//!
//! Memory is bounded by the rows of one hour and the number of stacks.

use crate::error::LakeError;
use crate::keys::{FileState, HOUR, LakeKey, SlotRange};
use crate::lake::Lake;
use crate::parquet::LakeRow;
use crate::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::store::StoredFile;
use crate::table::Table;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Files.
    pub files: u64,
    /// Rows.
    pub rows: u64,
    /// What is wrong, a line each.
    pub problems: Vec<String>,
}

/// Checks all files that are visible, and the names of all others.
pub fn check(lake: &Lake, progress: &mut dyn FnMut(Table, i64)) -> Result<CheckSummary, LakeError> {
    let mut checker = Checker { lake, summary: CheckSummary::default() };
    checker.names()?;
    let (mut stacks, mut framed) = (HashSet::new(), HashSet::new());
    checker.table::<StackRow>(progress, &mut |row| {
        stacks.insert((row.stack_id, row.site_id));
    })?;
    checker.table::<ServiceFrame>(progress, &mut |row| {
        framed.insert((row.frame.stack_id, row.frame.site_id));
    })?;
    let bare: Vec<_> = stacks.difference(&framed).collect();
    if let Some((stack, site)) = bare.first() {
        let count = bare.len();
        checker
            .summary
            .problems
            .push(format!("frames: {count} stacks have none, such as stack {stack} of site {site}"));
    }
    checker.hours(&stacks, progress)?;
    Ok(checker.summary)
}

struct Checker<'a> {
    lake: &'a Lake,
    summary: CheckSummary,
}

/// Live bytes and blocks of a process at a slot.
type Sums = HashMap<(i64, i64), (i64, i64)>;

impl Checker<'_> {
    fn names(&mut self) -> Result<(), LakeError> {
        for file in self.lake.store().list("")? {
            let is_known = LakeKey::parse(&file.key).is_some()
                || file.key == "lake.json"
                || (file.key.starts_with("compaction/") && file.key.ends_with(".json"));
            if !is_known {
                self.summary.problems.push(format!("{}: not a file of a lake", file.key));
            }
        }
        Ok(())
    }

    fn table<R: LakeRow>(
        &mut self,
        progress: &mut dyn FnMut(Table, i64),
        each: &mut dyn FnMut(&R),
    ) -> Result<(), LakeError> {
        for (hour, files) in self.by_hour(R::TABLE)? {
            progress(R::TABLE, hour);
            self.files::<R>(hour, &files, each)?;
        }
        Ok(())
    }

    fn by_hour(&self, table: Table) -> Result<BTreeMap<i64, Vec<StoredFile>>, LakeError> {
        let files = self.lake.files(table, SlotRange::ALL)?;
        let mut hours: BTreeMap<i64, Vec<StoredFile>> = BTreeMap::new();
        for file in files.compacted.into_iter().chain(files.incoming) {
            if let Some(key) = LakeKey::parse(&file.key) {
                hours.entry(key.hour).or_default().push(file);
            }
        }
        Ok(hours)
    }

    fn hours(&mut self, stacks: &HashSet<(i64, i64)>, progress: &mut dyn FnMut(Table, i64)) -> Result<(), LakeError> {
        let [sites, processes, rolled] =
            [self.by_hour(Table::Sites)?, self.by_hour(Table::Processes)?, self.by_hour(Table::SitesHour)?];
        let none = Vec::new();
        let hours: BTreeSet<i64> = sites.keys().chain(processes.keys()).chain(rolled.keys()).copied().collect();
        for hour in hours {
            progress(Table::Sites, hour);
            let of = |files: &BTreeMap<i64, Vec<StoredFile>>| files.get(&hour).unwrap_or(&none).clone();
            let (mut held, mut stated, mut rolled_up) = (Sums::new(), Sums::new(), 0i128);
            let mut unnamed: BTreeSet<(i64, i64)> = BTreeSet::new();
            let mut compacted = 0i128;
            for file in of(&sites) {
                let is_compacted = !file.key.starts_with("incoming/");
                self.files::<SiteRow>(hour, std::slice::from_ref(&file), &mut |row| {
                    let sums = held.entry((row.process.process_id, row.slot)).or_default();
                    *sums = (sums.0.saturating_add(row.live_bytes), sums.1.saturating_add(row.live_blocks));
                    compacted += if is_compacted { i128::from(row.live_bytes) } else { 0 };
                    if !stacks.contains(&(row.stack_id, row.site_id)) {
                        unnamed.insert((row.stack_id, row.site_id));
                    }
                })?;
            }
            self.twice::<SiteRow>(&of(&sites))?;
            self.twice::<ProcessRow>(&of(&processes))?;
            self.files::<ProcessRow>(hour, &of(&processes), &mut |row| {
                stated.insert((row.process.process_id, row.slot), (row.live_bytes, row.live_blocks));
            })?;
            self.files::<HourRow>(hour, &of(&rolled), &mut |row| rolled_up += i128::from(row.sum_bytes))?;
            let when = highwater_model::rfc3339(hour.unsigned_abs().saturating_mul(1_000_000_000));
            let when = when.get(..16).unwrap_or(&when).to_owned();
            if let Some((stack, site)) = unnamed.first() {
                let count = unnamed.len();
                let line =
                    format!("sites {when}: {count} stacks are not in stacks, such as stack {stack} of site {site}");
                self.summary.problems.push(line);
            }
            // Days of sites expire first.
            if sites.contains_key(&hour) {
                self.compare(&when, &held, &stated);
                if rolled_up != compacted && rolled.contains_key(&hour) {
                    let line = format!("sites_hour {when}: has {} byte slots, its sites have {compacted}", rolled_up);
                    self.summary.problems.push(line);
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, when: &str, held: &Sums, stated: &Sums) {
        let wrong = |(key, sums): (&(i64, i64), &(i64, i64))| {
            let found = held.get(key).copied().unwrap_or_default();
            (found != *sums).then_some((*key, found, *sums))
        };
        let mut differing: Vec<_> = stated.iter().filter_map(wrong).collect();
        differing.sort_unstable();
        if let Some(((process, slot), found, sums)) = differing.first() {
            self.summary.problems.push(format!(
                "sites {when}: do not add up for {} slots of processes, such as slot {slot} of process {process}: {} bytes in {} blocks, \
                 not {} bytes in {} blocks",
                differing.len(), found.0, found.1, sums.0, sums.1
            ));
        }
        let orphans = held.keys().filter(|key| !stated.contains_key(key)).count();
        if orphans > 0 {
            self.summary
                .problems
                .push(format!("processes {when}: {orphans} slots of processes that have sites are missing"));
        }
    }

    /// Rows that are in two files, or twice in one. Their keys are compared by a hash of 64 bits, in memory.
    fn twice<R: LakeRow<Key: std::hash::Hash>>(&mut self, files: &[StoredFile]) -> Result<(), LakeError> {
        use std::hash::BuildHasher;
        let hasher = std::collections::hash_map::RandomState::new();
        let mut seen: HashMap<u64, u32> = HashMap::new();
        let mut count = 0u64;
        let mut example = None;
        for (at, file) in files.iter().enumerate() {
            let Ok(mut reader) = self.lake.read::<R>(file) else { continue };
            while let Ok(Some(rows)) = reader.next_rows() {
                for row in rows {
                    match seen.entry(hasher.hash_one((row.key(), row.service()))) {
                        Entry::Occupied(first) => {
                            count += 1;
                            example.get_or_insert((*first.get() as usize, at));
                        }
                        Entry::Vacant(free) => {
                            free.insert(at as u32);
                        }
                    }
                }
            }
        }
        if let Some((first, second)) = example {
            let (first, second) = (&files[first].key, &files[second].key);
            self.summary.problems.push(format!("{second}: {count} rows are there twice, such as one of {first}"));
        }
        Ok(())
    }

    /// Reads files: columns, hour, order.
    fn files<R: LakeRow>(
        &mut self,
        hour: i64,
        files: &[StoredFile],
        each: &mut dyn FnMut(&R),
    ) -> Result<(), LakeError> {
        for file in files {
            self.summary.files += 1;
            let result = self.file::<R>(hour, file, each);
            match result {
                Ok(None) => {}
                Ok(Some(line)) => self.summary.problems.push(format!("{}: {line}", file.key)),
                Err(error @ LakeError::File { .. }) => self.summary.problems.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn file<R: LakeRow>(
        &mut self,
        hour: i64,
        file: &StoredFile,
        each: &mut dyn FnMut(&R),
    ) -> Result<Option<String>, LakeError> {
        let is_compacted =
            LakeKey::parse(&file.key).is_some_and(|key| matches!(key.state, FileState::Compacted { .. }));
        let mut reader = self.lake.read::<R>(file)?;
        let mut last: Option<R::Key> = None;
        let (mut unsorted, mut outside) = (0u64, 0u64);
        while let Some(rows) = reader.next_rows().map_err(|problem| LakeError::file(&file.key, problem))? {
            self.summary.rows += rows.len() as u64;
            for row in &rows {
                let key = row.key();
                // Two services of an incoming file may have the same stack.
                unsorted += u64::from(last.is_some_and(|last| if is_compacted { last >= key } else { last > key }));
                last = Some(key);
                outside += u64::from(row.slot().is_some_and(|slot| !(hour..hour + HOUR).contains(&slot)));
                each(row);
            }
        }
        Ok(match (unsorted, outside) {
            (0, 0) => None,
            (0, outside) => Some(format!("{outside} rows are outside of its hour")),
            (unsorted, _) => Some(format!("{unsorted} rows are not in order, or are there twice")),
        })
    }
}
