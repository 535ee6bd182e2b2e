//! Reads every row of a lake, and reports what cannot be.
//!
//! Memory is bounded: at most some million keys are compared at a time. Where there are more, files are read again for each further part of the keys.

use crate::error::LakeError;
use crate::key_part::{KeyPart, in_parts};
use crate::keys::{FileState, HOUR, LakeKey, SlotRange};
use crate::lake::Lake;
use crate::parquet::{FileProblem, LakeRow};
use crate::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::store::StoredFile;
use crate::table::Table;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The keys that are in memory at a time: about 300 MB.
const MOST_KEYS: usize = 4 << 20;

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
    check_in_parts(lake, MOST_KEYS, progress)
}

/// The same with another number of keys in memory.
#[doc(hidden)]
pub fn check_in_parts(
    lake: &Lake,
    most_keys: usize,
    progress: &mut dyn FnMut(Table, i64),
) -> Result<CheckSummary, LakeError> {
    let mut checker = Checker { lake, summary: CheckSummary::default(), is_repeated: false };
    checker.names()?;
    let mut unnamed: BTreeMap<i64, Unnamed> = BTreeMap::new();
    let mut bare = Unnamed::default();
    in_parts(most_keys, |part, waiting| {
        checker.is_repeated = !part.is_whole();
        let found = checker.stacks(part, waiting, &mut bare, &mut unnamed, progress);
        checker.is_repeated = false;
        found
    })?;
    if let Some((stack, site)) = bare.example {
        let count = bare.count;
        checker
            .summary
            .problems
            .push(format!("frames: {count} stacks have none, such as stack {stack} of site {site}"));
    }
    checker.hours(most_keys, &unnamed, progress)?;
    checker.skipped()?;
    Ok(checker.summary)
}

/// Stacks that lack something: how many, and the first.
#[derive(Default)]
struct Unnamed {
    count: usize,
    example: Option<(i64, i64)>,
}

impl Unnamed {
    fn add<'a>(&mut self, stacks: impl Iterator<Item = &'a (i64, i64)>) {
        for stack in stacks {
            self.count += 1;
            self.example = Some(self.example.map_or(*stack, |known| known.min(*stack)));
        }
    }
}

struct Checker<'a> {
    lake: &'a Lake,
    summary: CheckSummary,
    /// Files are read again: they are counted, and their problems reported, already.
    is_repeated: bool,
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

    /// Files that a compaction left out: their rows are in no answer.
    fn skipped(&mut self) -> Result<(), LakeError> {
        for table in Table::INCOMING {
            for file in self.lake.files(table, SlotRange::ALL)?.skipped {
                let read = match table {
                    Table::Processes => self.unread::<ProcessRow>(&file),
                    Table::Stacks => self.unread::<StackRow>(&file),
                    Table::Frames => self.unread::<ServiceFrame>(&file),
                    Table::Sites | Table::SitesHour => self.unread::<SiteRow>(&file),
                };
                let why = match read? {
                    Some(why) => format!("skipped by a compaction, its rows are missing: {why}"),
                    None => "skipped by a compaction, its rows are missing; it can be read now: 'highwater lake compact --retry' adds them".to_owned(),
                };
                self.summary.files += 1;
                self.summary.problems.push(format!("{}: {why}", file.key));
            }
        }
        Ok(())
    }

    /// Why the rows of a file cannot be compacted, if they cannot.
    fn unread<R: LakeRow>(&self, file: &StoredFile) -> Result<Option<String>, LakeError> {
        let hour = LakeKey::parse(&file.key).map_or(0, |key| key.hour);
        let read = || -> Result<(), LakeError> {
            let mut reader = self.lake.read::<R>(file)?;
            while let Some(rows) = reader.next_rows().map_err(|problem| LakeError::file(&file.key, problem))? {
                if let Some(slot) = rows.iter().filter_map(R::slot).find(|slot| !(hour..hour + HOUR).contains(slot)) {
                    return Err(LakeError::file(&file.key, FileProblem::Impossible { column: "slot", value: slot }));
                }
            }
            Ok(())
        };
        match read() {
            Ok(()) => Ok(None),
            Err(LakeError::File { problem, .. }) => Ok(Some(problem.to_string())),
            Err(error) => Err(error),
        }
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

    /// Stacks without frames, and rows of `sites` without stacks, of a part of all stacks.
    fn stacks(
        &mut self,
        part: &mut KeyPart,
        waiting: &mut Vec<KeyPart>,
        bare: &mut Unnamed,
        unnamed: &mut BTreeMap<i64, Unnamed>,
        progress: &mut dyn FnMut(Table, i64),
    ) -> Result<(), LakeError> {
        let (mut stacks, mut framed) = (HashSet::new(), HashSet::new());
        self.table::<StackRow>(progress, &mut |row| {
            let key = (row.stack_id, row.site_id);
            if part.has(&key) {
                stacks.insert(key);
            }
            while part.halve_if(stacks.len(), waiting) {
                stacks.retain(|key| part.has(key));
            }
        })?;
        self.table::<ServiceFrame>(progress, &mut |row| {
            let key = (row.frame.stack_id, row.frame.site_id);
            if stacks.contains(&key) {
                framed.insert(key);
            }
        })?;
        bare.add(stacks.difference(&framed));
        drop(framed);
        // They are counted, and what is wrong with them is reported, hour by hour below.
        let is_repeated = std::mem::replace(&mut self.is_repeated, true);
        for (hour, files) in self.by_hour(Table::Sites)? {
            let mut missing: HashSet<(i64, i64)> = HashSet::new();
            self.files::<SiteRow>(hour, &files, &mut |row| {
                let key = (row.stack_id, row.site_id);
                // Beyond, there is nothing to learn from more of them.
                if part.has(&key) && !stacks.contains(&key) && missing.len() < MOST_KEYS {
                    missing.insert(key);
                }
            })?;
            if !missing.is_empty() {
                unnamed.entry(hour).or_default().add(missing.iter());
            }
        }
        self.is_repeated = is_repeated;
        Ok(())
    }

    fn hours(
        &mut self,
        most_keys: usize,
        unnamed: &BTreeMap<i64, Unnamed>,
        progress: &mut dyn FnMut(Table, i64),
    ) -> Result<(), LakeError> {
        let [sites, processes, rolled] =
            [self.by_hour(Table::Sites)?, self.by_hour(Table::Processes)?, self.by_hour(Table::SitesHour)?];
        let none = Vec::new();
        let hours: BTreeSet<i64> = sites.keys().chain(processes.keys()).chain(rolled.keys()).copied().collect();
        for hour in hours {
            progress(Table::Sites, hour);
            let of = |files: &BTreeMap<i64, Vec<StoredFile>>| files.get(&hour).unwrap_or(&none).clone();
            let (of_sites, of_processes) = (of(&sites), of(&processes));
            let when = highwater_model::rfc3339(hour.unsigned_abs().saturating_mul(1_000_000_000));
            let when = when.get(..16).unwrap_or(&when).to_owned();
            if let Some((unnamed, (stack, site))) = unnamed.get(&hour).and_then(|all| Some((all, all.example?))) {
                let count = unnamed.count;
                let line =
                    format!("sites {when}: {count} stacks are not in stacks, such as stack {stack} of site {site}");
                self.summary.problems.push(line);
            }
            let mut compacted = 0i128;
            let mut differences = Differences::default();
            in_parts(most_keys, |part, waiting| {
                self.is_repeated = !part.is_whole();
                let bytes = self.sums(hour, &of_sites, &of_processes, (part, waiting), &mut differences)?;
                if !std::mem::take(&mut self.is_repeated) {
                    compacted = bytes;
                }
                Ok::<(), LakeError>(())
            })?;
            self.twice::<SiteRow>(most_keys, &of_sites)?;
            self.twice::<ProcessRow>(most_keys, &of_processes)?;
            let mut rolled_up = 0i128;
            self.files::<HourRow>(hour, &of(&rolled), &mut |row| rolled_up += i128::from(row.sum_bytes))?;
            // Days of sites expire first.
            if sites.contains_key(&hour) {
                self.summary.problems.extend(differences.lines(&when));
                if rolled_up != compacted && rolled.contains_key(&hour) {
                    let line = format!("sites_hour {when}: has {rolled_up} byte slots, its sites have {compacted}");
                    self.summary.problems.push(line);
                }
            }
        }
        Ok(())
    }

    /// Compares what processes are said to hold with the sums of their sites, of a part of all processes and slots. Returns the bytes of all compacted rows.
    fn sums(
        &mut self,
        hour: i64,
        sites: &[StoredFile],
        processes: &[StoredFile],
        (part, waiting): (&mut KeyPart, &mut Vec<KeyPart>),
        differences: &mut Differences,
    ) -> Result<i128, LakeError> {
        let (mut held, mut stated, mut compacted) = (Sums::new(), Sums::new(), 0i128);
        for file in sites {
            let is_compacted = !file.key.starts_with("incoming/");
            self.files::<SiteRow>(hour, std::slice::from_ref(file), &mut |row| {
                compacted += if is_compacted { i128::from(row.live_bytes) } else { 0 };
                let key = (row.process.process_id, row.slot);
                if !part.has(&key) {
                    return;
                }
                let sums = held.entry(key).or_default();
                *sums = (sums.0.saturating_add(row.live_bytes), sums.1.saturating_add(row.live_blocks));
                while part.halve_if(held.len(), waiting) {
                    held.retain(|key, _| part.has(key));
                }
            })?;
        }
        self.files::<ProcessRow>(hour, processes, &mut |row| {
            let key = (row.process.process_id, row.slot);
            if part.has(&key) {
                stated.insert(key, (row.live_bytes, row.live_blocks));
            }
            while part.halve_if(stated.len(), waiting) {
                stated.retain(|key, _| part.has(key));
                held.retain(|key, _| part.has(key));
            }
        })?;
        differences.add(&held, &stated);
        Ok(compacted)
    }

    /// Rows that are in two files, or twice in one. Their keys are compared by a hash of 64 bits.
    fn twice<R: LakeRow<Key: std::hash::Hash>>(
        &mut self,
        most_keys: usize,
        files: &[StoredFile],
    ) -> Result<(), LakeError> {
        let mut count = 0u64;
        let mut example = None;
        in_parts(most_keys, |part, waiting| {
            // By hash: the first file, how often it is there again, and the last file.
            let mut seen: HashMap<u64, (u32, u32, u32)> = HashMap::new();
            for (at, file) in files.iter().enumerate() {
                // What is wrong with a file is reported already.
                let mut reader = match self.lake.read::<R>(file) {
                    Err(LakeError::File { .. }) => continue,
                    opened => opened?,
                };
                loop {
                    let rows = match reader.next_rows().map_err(|problem| LakeError::file(&file.key, problem)) {
                        Ok(Some(rows)) => rows,
                        Ok(None) | Err(LakeError::File { .. }) => break,
                        Err(error) => return Err(error),
                    };
                    for row in rows {
                        let Some(hash) = part.hash(&(row.key(), row.service())) else { continue };
                        match seen.entry(hash) {
                            Entry::Occupied(mut known) => {
                                let (_, again, last) = known.get_mut();
                                (*again, *last) = (again.saturating_add(1), at as u32);
                            }
                            Entry::Vacant(free) => _ = free.insert((at as u32, 0, 0)),
                        }
                    }
                    while part.halve_if(seen.len(), waiting) {
                        seen.retain(|hash, _| part.has_hash(*hash));
                    }
                }
            }
            for (first, again, last) in seen.into_values().filter(|(_, again, _)| *again > 0) {
                count += u64::from(again);
                let pair = (first as usize, last as usize);
                example = Some(example.map_or(pair, |known: (usize, usize)| known.min(pair)));
            }
            Ok::<(), LakeError>(())
        })?;
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
            self.summary.files += u64::from(!self.is_repeated);
            let result = self.file::<R>(hour, file, each);
            match result {
                Err(LakeError::File { .. }) | Ok(_) if self.is_repeated => {}
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
            self.summary.rows += if self.is_repeated { 0 } else { rows.len() as u64 };
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

/// Processes whose sites do not add up to what they are said to hold.
#[derive(Default)]
struct Differences {
    count: usize,
    /// The process and the slot, what its sites hold, what it is said to hold.
    example: Option<Difference>,
    orphans: usize,
}

type Difference = ((i64, i64), (i64, i64), (i64, i64));

impl Differences {
    fn add(&mut self, held: &Sums, stated: &Sums) {
        for (key, sums) in stated {
            let found = held.get(key).copied().unwrap_or_default();
            if found != *sums {
                let differing = (*key, found, *sums);
                self.count += 1;
                self.example = Some(self.example.map_or(differing, |known| known.min(differing)));
            }
        }
        self.orphans += held.keys().filter(|key| !stated.contains_key(key)).count();
    }

    fn lines(&self, when: &str) -> impl Iterator<Item = String> {
        let differing = self.example.map(|((process, slot), found, sums)| {
            format!(
                "sites {when}: do not add up for {} slots of processes, such as slot {slot} of process {process}: {} bytes in {} blocks, \
                 not {} bytes in {} blocks",
                self.count, found.0, found.1, sums.0, sums.1
            )
        });
        let orphans = (self.orphans > 0)
            .then(|| format!("processes {when}: {} slots of processes that have sites are missing", self.orphans));
        differing.into_iter().chain(orphans)
    }
}
