//! A lake: its files, and rows that are added.

use crate::error::LakeError;
use crate::incoming::incoming_files;
use crate::keys::{Day, FileState, LakeKey, SlotRange};
use crate::parquet::{LakeRow, TableReader};
use crate::records;
use crate::rows::Batch;
use crate::scratch::put_new;
use crate::store::{LakeStore, StoreError, StoredFile};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const LAKE_FILE: &str = "lake.json";
/// What is brought of a file to check its footer. Ours have some kilobytes.
const END_BYTES: u64 = 64 << 10;
/// Ends that are open at a time.
const ENDS_AT_ONCE: usize = 100;
/// Listings that are made again because a compaction ended between two of them.
const TRIES: usize = 10;

/// A lake.
#[derive(Clone)]
pub struct Lake {
    store: Arc<dyn LakeStore>,
}

/// The content of `lake.json`. What later versions add is ignored: the schema says whether it matters.
#[derive(Serialize, Deserialize)]
struct LakeFile {
    schema: u64,
}

/// The files that together have every row of a table exactly once, but for stacks and frames, which may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LakeFiles {
    /// Compacted files.
    pub compacted: Vec<StoredFile>,
    /// Files of hosts that are not compacted yet.
    pub incoming: Vec<StoredFile>,
    /// Files of hosts that a compaction could not read. Their rows are in no other file, and are missing until a compaction [tries again](crate::compact::compact_with_skipped).
    pub skipped: Vec<StoredFile>,
}

impl std::fmt::Debug for Lake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lake").field(&self.store.name()).finish()
    }
}

impl Lake {
    /// Opens a lake.
    pub fn open(store: Arc<dyn LakeStore>) -> Result<Self, LakeError> {
        let listed = store.list(LAKE_FILE)?;
        let Some(file) = listed.into_iter().find(|file| file.key == LAKE_FILE) else {
            return Err(LakeError::NoLake(store.name().to_owned()));
        };
        let senseless = |why: String| LakeError::Senseless { file: LAKE_FILE.to_owned(), why };
        let mut text = Vec::new();
        store.open(&file)?.take(1 << 16).read_to_end(&mut text).map_err(|error| senseless(error.to_string()))?;
        let about: LakeFile =
            serde_json::from_slice(&text).map_err(|error| senseless(format!("not that of a lake: {error}")))?;
        if about.schema > u64::from(crate::SCHEMA) {
            return Err(LakeError::Newer { name: store.name().to_owned(), schema: about.schema });
        }
        Ok(Self { store })
    }

    /// Opens a lake, or makes an empty one.
    pub fn create_or_open(store: Arc<dyn LakeStore>) -> Result<Self, LakeError> {
        match Self::open(Arc::clone(&store)) {
            Err(LakeError::NoLake(_)) => {
                let content = serde_json::to_vec(&LakeFile { schema: crate::SCHEMA.into() });
                put_new(&*store, LAKE_FILE, &content.expect("a number is always JSON"))?;
                Self::open(store)
            }
            opened => opened,
        }
    }

    /// Its files.
    pub fn store(&self) -> &dyn LakeStore {
        &*self.store
    }

    /// Adds rows: one file for each table and hour. Returns the keys. The same rows may be added again: they are in the lake once.
    pub fn add(&self, host: &str, batch: &Batch) -> Result<Vec<String>, LakeError> {
        let files = incoming_files(host, batch)?;
        for file in &files {
            put_new(self.store(), &file.key, &file.content)?;
        }
        Ok(files.into_iter().map(|file| file.key).collect())
    }

    /// The files with the rows of some slots. Of stacks and frames these are all files: a stack may have been sent on any day.
    ///
    /// A compaction may delete incoming files of this list later. A reader that misses one lists again.
    pub fn files(&self, table: Table, range: SlotRange) -> Result<LakeFiles, LakeError> {
        for _ in 0..TRIES {
            if let Some(files) = self.listed(table, range, "")? {
                return Ok(files);
            }
        }
        Err(LakeError::Unsteady(self.store.name().to_owned()))
    }

    /// The files of a day, also of stacks and frames. Nothing else is listed, so this costs the same however many days the lake has.
    pub(crate) fn files_of_day(&self, table: Table, day: Day) -> Result<LakeFiles, LakeError> {
        let below = format!("day={}/", day.text());
        for _ in 0..TRIES {
            if let Some(files) = self.listed(table, SlotRange::ALL, &below)? {
                return Ok(files);
            }
        }
        Err(LakeError::Unsteady(self.store.name().to_owned()))
    }

    /// `below` is a prefix of the keys within each table. `None` if a compaction ended meanwhile. The order of the listings matters: what is hidden of one must be in a later one.
    fn listed(&self, table: Table, range: SlotRange, below: &str) -> Result<Option<LakeFiles>, LakeError> {
        let incoming = match Table::INCOMING.contains(&table) {
            true => self.store.list(&format!("incoming/{table}/{below}"))?,
            false => Vec::new(),
        };
        // The roll-up is written by the compaction of sites.
        let compacted_as = if table == Table::SitesHour { Table::Sites } else { table };
        let records = self.store.list(&format!("compaction/{compacted_as}/{below}"))?;
        let compacted = self.store.list(&format!("{table}/{below}"))?;

        let is_wanted = |key: &LakeKey| !table.has_slots() || range.meets_hour(key.hour);
        let mut hours = BTreeSet::new();
        let mut found = LakeFiles::default();
        for file in incoming {
            if let Some(key) = LakeKey::parse(&file.key).filter(is_wanted) {
                hours.insert(key.hour);
                found.incoming.push(file);
            }
        }
        let mut with_plans: BTreeSet<i64> = BTreeSet::new();
        let mut names = Vec::new();
        for file in compacted {
            let Some(key) = LakeKey::parse(&file.key).filter(is_wanted) else { continue };
            let FileState::Compacted { inputs, .. } = key.state else { continue };
            with_plans.insert(key.hour);
            names.push((key.hour, inputs, file));
        }
        // By key, whether the last compaction that had it as an input skipped it.
        let mut inputs_of_done: HashMap<String, bool> = HashMap::new();
        let mut unfinished: HashSet<(i64, String)> = HashSet::new();
        for hour in hours.iter().chain(&with_plans).copied().collect::<BTreeSet<i64>>() {
            for name in records::of_hour(&records, compacted_as, hour) {
                let (file, is_done) = match (&name.done, &name.plan) {
                    // Nothing of its inputs was listed.
                    (Some(_), _) if !hours.contains(&hour) => continue,
                    (Some(done), _) => (done, true),
                    (None, Some(plan)) => (plan, false),
                    (None, None) => continue,
                };
                let Some(record) = records::read(self.store(), file)? else { return Ok(None) };
                if is_done {
                    inputs_of_done.extend(record.inputs.into_iter().map(|key| (key, false)));
                    inputs_of_done.extend(record.skipped.into_iter().map(|key| (key, true)));
                } else {
                    unfinished.insert((hour, record.hash()));
                }
            }
        }
        for file in std::mem::take(&mut found.incoming) {
            match inputs_of_done.get(&file.key) {
                None => found.incoming.push(file),
                Some(true) => found.skipped.push(file),
                Some(false) => {}
            }
        }
        let is_finished =
            |(hour, inputs, _): &(i64, String, StoredFile)| !unfinished.contains(&(*hour, inputs.clone()));
        found.compacted = names.into_iter().filter(is_finished).map(|(_, _, file)| file).collect();
        Ok(Some(found))
    }

    /// Opens a file of the lake: checks its footer and columns.
    pub fn read<R: LakeRow>(&self, file: &StoredFile) -> Result<TableReader<R>, LakeError> {
        reader(file, self.store.open(file)?)
    }

    /// The same, of the file at its path on this machine, for callers that give the path to an engine.
    pub fn read_at_path<R: LakeRow>(&self, file: &StoredFile) -> Result<TableReader<R>, LakeError> {
        let path = self.store.local_path(file)?;
        let opened = File::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => StoreError::NotFound(file.key.clone()),
            _ => StoreError::System { path: path.display().to_string(), error },
        })?;
        reader(file, opened)
    }

    /// Checks footers and columns of files, of which an object store sends only the ends. The result of each.
    pub fn check_footers<R: LakeRow>(&self, files: &[StoredFile]) -> Result<Vec<Result<(), LakeError>>, LakeError> {
        let mut checked = Vec::new();
        for files in files.chunks(ENDS_AT_ONCE) {
            for (file, end) in files.iter().zip(self.store.ends(files, END_BYTES)?) {
                let is_there = footer_length(file, &end).map_err(|error| LakeError::file(&file.key, error.into()))?;
                checked.push(match is_there <= END_BYTES {
                    true => reader::<R>(file, end).map(drop),
                    // A footer is seldom so long, unless someone wants it to be.
                    false => self.read::<R>(file).map(drop),
                });
            }
        }
        Ok(checked)
    }
}

/// The bytes at the end of a file that a footer needs, as the file says; 0 if it has none.
fn footer_length(file: &StoredFile, end: &File) -> std::io::Result<u64> {
    let Some(at) = file.bytes.checked_sub(8) else { return Ok(0) };
    let mut last = [0; 8];
    end.read_exact_at(&mut last, at)?;
    let [a, b, c, d, ending @ ..] = last;
    let length = u64::from(u32::from_le_bytes([a, b, c, d])) + 8;
    // A damaged file may claim any length: it must not be fetched whole for that.
    Ok(if ending == *b"PAR1" && length <= file.bytes { length } else { 0 })
}

fn reader<R: LakeRow>(file: &StoredFile, opened: File) -> Result<TableReader<R>, LakeError> {
    let service = match LakeKey::parse(&file.key).map(|key| key.state) {
        Some(FileState::Compacted { service, .. }) => Some(service),
        _ => None,
    };
    TableReader::new(opened, service.as_deref()).map_err(|problem| LakeError::file(&file.key, problem))
}
