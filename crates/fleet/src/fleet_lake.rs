//! A lake with an engine: which files a question reads, and its answer.
//!
//! Files of a lake may come from anyone. An engine fails on the first bad one, or takes the types of its columns from it. So the footer of each file is read here
//! before an engine sees it, and bad files are left out, with a line each. A file whose footer is good may have damaged rows: the engine names it then, and it is left out too.

use crate::engine::{EngineLimits, FleetEngine};
use crate::error::FleetError;
use crate::label_filter::{FleetLabel, label_passes};
use crate::local_files::LocalFiles;
use crate::protocol::{EngineAnswer, EngineRequest, TableFiles};
use crate::questions::{FleetInstant, SiteTable, slot_sql, top_sql};
use crate::schema::{columns, views, views_of};
use crate::scope::FleetScope;
use highwater_lake::keys::{FileState, LakeKey};
use highwater_lake::parquet::LakeRow;
use highwater_lake::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use highwater_lake::store::{StoreError, StoredFile};
use highwater_lake::{Day, Lake, LakeError, LakeFiles, SlotRange, Table};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// A compaction may delete files while they are read; then they are listed again.
const TRIES: usize = 5;
/// The most damaged files that are left out of one answer; beyond, something else is wrong.
const MOST_DAMAGED: usize = 50;

/// How DuckDB's errors about damaged pages begin.
const DAMAGE: [&str; 3] = ["Invalid Error", "IO Error", "Invalid Input Error"];

/// A lake, and the engine that answers questions about it.
pub struct FleetLake {
    lake: Lake,
    engine: Box<dyn FleetEngine>,
    limits: EngineLimits,
    /// Whether a file is good, by key and tag: a viewer asks often, and files never change.
    checked: Mutex<HashMap<(String, String), Option<String>>>,
}

/// A text, and what is read for it.
struct FleetQuestion<'a> {
    sql: &'a str,
    scope: &'a FleetScope,
    views: &'a BTreeMap<String, String>,
    /// The only slots of `sites` that count, if they are known.
    slots: Option<&'a [i64]>,
    /// Hours whose compacted slots are not read: the roll-up has their sums.
    rolled_up: Option<&'a FleetScope>,
    max_rows: u64,
}

/// An answer, and how it was found.
#[derive(Clone, Debug, Default)]
pub struct FleetAnswer {
    /// The answer.
    pub answer: EngineAnswer,
    /// Files that could not be used, each with the reason.
    pub left_out: Vec<String>,
    /// The number of files that were read.
    pub files: usize,
}

impl FleetLake {
    /// A lake and an engine.
    pub fn new(lake: Lake, engine: Box<dyn FleetEngine>, limits: EngineLimits) -> Self {
        Self { lake, engine, limits, checked: Mutex::default() }
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// The answer to a text. Only files are read that can have rows of the scope; the text itself has its conditions.
    pub fn ask(
        &self,
        sql: &str,
        scope: &FleetScope,
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<FleetAnswer, FleetError> {
        self.answer(&FleetQuestion { sql, scope, views: &views(), slots: None, rolled_up: None, max_rows }, go_on)
    }

    /// The answer to a text that has the figures of sites from one of the tables that [`site_table`](Self::site_table) chooses.
    pub fn ask_sites(
        &self,
        sql: &str,
        scope: &FleetScope,
        table: SiteTable,
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<FleetAnswer, FleetError> {
        let inner = scope.inner_hours().filter(|_| table == SiteTable::Edges);
        let rolled_up = inner.as_ref();
        self.answer(&FleetQuestion { sql, scope, views: &views(), slots: None, rolled_up, max_rows }, go_on)
    }

    /// The answer to a user's text, for which the tables have only the rows of the scope.
    pub fn ask_within(
        &self,
        sql: &str,
        scope: &FleetScope,
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<FleetAnswer, FleetError> {
        self.answer(
            &FleetQuestion { sql, scope, views: &views_of(scope), slots: None, rolled_up: None, max_rows },
            go_on,
        )
    }

    /// The answer to a text that takes from `sites` only rows of some slots. Files of other hours are not read, which an object store would have to bring.
    pub fn ask_slots(
        &self,
        sql: &str,
        scope: &FleetScope,
        slots: &[i64],
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<FleetAnswer, FleetError> {
        self.answer(
            &FleetQuestion { sql, scope, views: &views(), slots: Some(slots), rolled_up: None, max_rows },
            go_on,
        )
    }

    /// Which call sites hold the most at one instant? The slot is found first, so that only sites of its hour are read.
    pub fn top(
        &self,
        scope: &FleetScope,
        at: FleetInstant,
        top: usize,
        max_rows: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<FleetAnswer, FleetError> {
        let found = self.ask(&slot_sql(scope, at), scope, 1, go_on)?;
        let slot = found.answer.rows.first().and_then(|row| row.first()?.as_i64());
        let slots: Vec<i64> = slot.into_iter().collect();
        let mut answer = self.ask_slots(&top_sql(scope, at, top), scope, &slots, max_rows, go_on)?;
        answer.left_out =
            found.left_out.into_iter().chain(answer.left_out).collect::<BTreeSet<String>>().into_iter().collect();
        Ok(answer)
    }

    fn answer(&self, question: &FleetQuestion<'_>, go_on: &dyn Fn() -> bool) -> Result<FleetAnswer, FleetError> {
        let mut damaged: BTreeMap<String, String> = BTreeMap::new();
        let mut tries = 0;
        loop {
            let listed = self.listed(question)?;
            let mut found = FleetAnswer::default();
            let mut good: BTreeMap<Table, LakeFiles> = BTreeMap::new();
            let mut is_gone = false;
            for (table, files) in listed {
                // An object store may take long to bring them.
                if !go_on() {
                    return Err(FleetError::Cancelled);
                }
                let all: Vec<StoredFile> = files.compacted.iter().chain(&files.incoming).cloned().collect();
                // With their paths, if the engine opens them on this machine: what has a path stays, however full the cache gets meanwhile.
                let brought = match self.engine.reads_objects() {
                    true => self.check_footers(table, &all),
                    false => self.lake.store().local_paths(&all).map(drop).map_err(LakeError::from),
                };
                match brought {
                    Err(LakeError::Store(StoreError::NotFound(_))) => {
                        is_gone = true;
                        continue;
                    }
                    brought => brought?,
                }
                let skipped = |file: &StoredFile| {
                    format!(
                        "{}: damaged when it was compacted; 'highwater lake compact --retry' reads it again",
                        file.key
                    )
                };
                found.left_out.extend(files.skipped.iter().map(skipped));
                let mut kept = LakeFiles::default();
                for (list, into) in [(files.compacted, &mut kept.compacted), (files.incoming, &mut kept.incoming)] {
                    for file in list {
                        match self.problem(table, &file, &damaged) {
                            Ok(None) => into.push(file),
                            Ok(Some(line)) => found.left_out.push(line),
                            Err(LakeError::Store(StoreError::NotFound(_))) => is_gone = true,
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                good.insert(table, kept);
            }
            tries += 1;
            match is_gone {
                true if tries < TRIES => continue,
                true => return Err(LakeError::Unsteady(self.lake.store().name().to_owned()).into()),
                false => {}
            }
            found.files = good.values().map(|files| files.compacted.len() + files.incoming.len()).sum();
            let local = match self.paths(&good) {
                Err(FleetError::Lake(LakeError::Store(StoreError::NotFound(_)))) if tries < TRIES => continue,
                made => made?,
            };
            match self.engine.ask(&self.request(question, &local), go_on) {
                Ok(answer) => return Ok(FleetAnswer { answer, ..found }),
                Err(FleetError::Engine(line)) => match local.named_in(&line) {
                    Some((key, path)) if !path.exists() && tries < TRIES => drop(key),
                    Some((key, _)) if damaged.len() < MOST_DAMAGED => {
                        let reason = format!("{key}: damaged: {}", line.replace(&local.base(), ""));
                        damaged.insert(key, reason);
                    }
                    // Some errors of damaged pages do not name their file.
                    None if DAMAGE.iter().any(|kind| line.starts_with(kind)) => {
                        let known = damaged.len();
                        damaged.extend(self.damaged_files(&good)?);
                        if damaged.len() == known {
                            return Err(FleetError::Engine(line));
                        }
                    }
                    _ => return Err(FleetError::Engine(line)),
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// The files as the engine finds them.
    fn paths(&self, files: &BTreeMap<Table, LakeFiles>) -> Result<LocalFiles, FleetError> {
        match self.lake.store().name().strip_prefix("s3://") {
            Some(bucket) if self.engine.reads_objects() => Ok(LocalFiles::objects(bucket, files)),
            _ => LocalFiles::new(self.lake.store(), files),
        }
    }

    /// Files with rows that cannot be read, found by reading all of them.
    fn damaged_files(&self, files: &BTreeMap<Table, LakeFiles>) -> Result<BTreeMap<String, String>, FleetError> {
        let mut damaged = BTreeMap::new();
        for (table, files) in files {
            for file in files.compacted.iter().chain(&files.incoming) {
                let read = match table {
                    Table::Sites => self.read_all::<SiteRow>(file),
                    Table::SitesHour => self.read_all::<HourRow>(file),
                    Table::Processes => self.read_all::<ProcessRow>(file),
                    Table::Stacks => self.read_all::<StackRow>(file),
                    Table::Frames => self.read_all::<ServiceFrame>(file),
                };
                match read {
                    Ok(()) => {}
                    Err(error @ (LakeError::File { .. } | LakeError::Store(StoreError::NotFound(_)))) => {
                        damaged.insert(file.key.clone(), error.to_string());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(damaged)
    }

    fn read_all<R: LakeRow>(&self, file: &StoredFile) -> Result<(), LakeError> {
        let mut reader = self.lake.read::<R>(file)?;
        let damaged = |problem| LakeError::file(&file.key, problem);
        while reader.next_rows().map_err(damaged)?.is_some() {}
        Ok(())
    }

    fn request(&self, question: &FleetQuestion<'_>, local: &LocalFiles) -> EngineRequest {
        let mut views = question.views.clone();
        views.retain(|name, _| local.tables().contains_key(name.as_str()));
        let table = |(name, (compacted, incoming)): (&'static str, &(Vec<String>, Vec<String>))| {
            let files = TableFiles { columns: columns(name), compacted: compacted.clone(), incoming: incoming.clone() };
            (name.to_owned(), files)
        };
        EngineRequest {
            tables: local.tables().iter().map(|(name, files)| table((name, files))).collect(),
            base: local.base(),
            views,
            sql: question.sql.to_owned(),
            max_rows: question.max_rows,
            memory_bytes: self.limits.memory_bytes,
            threads: self.limits.threads,
            seconds: self.limits.seconds,
        }
    }

    /// The files of all tables that a text, or a view that it names, names.
    fn listed(&self, question: &FleetQuestion<'_>) -> Result<BTreeMap<Table, LakeFiles>, FleetError> {
        let FleetQuestion { sql, scope, views, slots, rolled_up, .. } = *question;
        let is_rolled_up = |file: &StoredFile| {
            let hour = LakeKey::parse(&file.key).map(|key| key.hour);
            rolled_up.zip(hour).is_some_and(|(hours, hour)| hours.has_hour(hour))
        };
        let in_slots = |file: &StoredFile| {
            let hour = LakeKey::parse(&file.key).map(|key| key.hour);
            slots
                .is_none_or(|slots| hour.is_none_or(|hour| slots.iter().any(|slot| (hour..hour + 3600).contains(slot))))
        };
        let text = sql.to_ascii_lowercase();
        let mut words = words(&text);
        let named: Vec<&String> =
            views.iter().filter(|(name, _)| words.contains(name.as_str())).map(|(_, text)| text).collect();
        words.extend(named.into_iter().flat_map(|text| self::words(text)));
        let names = |table: Table, suffix: &str| words.contains(format!("{table}{suffix}").as_str());
        for _ in 0..TRIES {
            let before = self.lake.files(Table::SitesHour, range(scope))?;
            let mut listed = BTreeMap::new();
            for table in Table::ALL {
                let (all, compacted, incoming) =
                    (names(table, ""), names(table, "_compacted"), names(table, "_incoming"));
                if !(all || compacted || incoming) {
                    continue;
                }
                let mut files = self.lake.files(table, range(scope))?;
                if !all && !compacted {
                    files.compacted.clear();
                }
                files.compacted.retain(|file| service_passes(file, scope));
                if table == Table::Sites {
                    files.compacted.retain(|file| in_slots(file) && !is_rolled_up(file));
                    files.incoming.retain(in_slots);
                    files.skipped.retain(in_slots);
                }
                listed.insert(table, files);
            }
            // The roll-up and the slots that are not in it yet are two listings: together they are complete only if no compaction ended between them.
            let is_mixed = listed.contains_key(&Table::SitesHour) && listed.contains_key(&Table::Sites);
            if !is_mixed || self.lake.files(Table::SitesHour, range(scope))? == before {
                return Ok(listed);
            }
        }
        Err(LakeError::Unsteady(self.lake.store().name().to_owned()).into())
    }

    /// Why a file cannot be used; `None` if it can.
    fn problem(
        &self,
        table: Table,
        file: &StoredFile,
        damaged: &BTreeMap<String, String>,
    ) -> Result<Option<String>, LakeError> {
        if let Some(line) = damaged.get(&file.key) {
            return Ok(Some(line.clone()));
        }
        let name = (file.key.clone(), file.tag.clone());
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = checked().get(&name) {
            return Ok(known.clone());
        }
        let problem = problem_of(match table {
            Table::Sites => self.lake.read_at_path::<SiteRow>(file).map(drop),
            Table::SitesHour => self.lake.read_at_path::<HourRow>(file).map(drop),
            Table::Processes => self.lake.read_at_path::<ProcessRow>(file).map(drop),
            Table::Stacks => self.lake.read_at_path::<StackRow>(file).map(drop),
            Table::Frames => self.lake.read_at_path::<ServiceFrame>(file).map(drop),
        })?;
        checked().insert(name, problem.clone());
        Ok(problem)
    }

    /// Checks files that stay where they are, for engines that read them there. Notes what [`problem`](Self::problem) says of each.
    fn check_footers(&self, table: Table, files: &[StoredFile]) -> Result<(), LakeError> {
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |file: &&StoredFile| !checked().contains_key(&(file.key.clone(), file.tag.clone()));
        let new: Vec<StoredFile> = files.iter().filter(is_new).cloned().collect();
        let found = match table {
            Table::Sites => self.lake.check_footers::<SiteRow>(&new),
            Table::SitesHour => self.lake.check_footers::<HourRow>(&new),
            Table::Processes => self.lake.check_footers::<ProcessRow>(&new),
            Table::Stacks => self.lake.check_footers::<StackRow>(&new),
            Table::Frames => self.lake.check_footers::<ServiceFrame>(&new),
        };
        for (file, opened) in new.into_iter().zip(found?) {
            let problem = problem_of(opened)?;
            checked().insert((file.key, file.tag), problem);
        }
        Ok(())
    }

    /// The table for a question that sums over time, and its scope.
    ///
    /// The roll-up by hour is much smaller and has the same sums. It is used if the scope has whole hours, if it may be widened, or if it begins before the slots that are
    /// kept; then it is widened to whole hours. Otherwise it is used for the whole hours within the scope.
    pub fn site_table(&self, scope: &FleetScope, may_widen: bool) -> Result<(SiteTable, FleetScope), FleetError> {
        let (hours, slots) =
            (self.lake.files(Table::SitesHour, range(scope))?, self.lake.files(Table::Sites, range(scope))?);
        let parts = |files: &[StoredFile]| -> BTreeSet<(i64, String)> {
            let part =
                |file: &StoredFile| Some((LakeKey::parse(&file.key)?.hour, file.key.split_once('/')?.1.to_owned()));
            files.iter().filter(|file| service_passes(file, scope)).filter_map(part).collect()
        };
        let (hours, slots_compacted) = (parts(&hours.compacted), parts(&slots.compacted));
        let incoming = slots.incoming.iter().filter_map(|file| LakeKey::parse(&file.key));
        let first_slot = slots_compacted.iter().map(|(hour, _)| *hour).chain(incoming.map(|key| key.hour)).min();
        let is_older = hours.iter().next().is_some_and(|(hour, _)| first_slot.is_none_or(|first| *hour < first));
        let is_complete = !hours.is_empty() && slots_compacted.is_subset(&hours);
        if is_older || (is_complete && (may_widen || scope.has_whole_hours())) {
            return Ok((SiteTable::Hours, scope.in_whole_hours()));
        }
        let is_inner_complete = scope.inner_hours().is_some_and(|inner| {
            let mut slots = slots_compacted.iter().filter(|(hour, _)| inner.has_hour(*hour)).peekable();
            slots.peek().is_some() && slots.all(|part| hours.contains(part))
        });
        let table = if is_inner_complete { SiteTable::Edges } else { SiteTable::Minutes };
        Ok((table, scope.clone()))
    }

    /// The same for a question that fits lines. The roll-up lacks sums of hundreds of millions of blocks, which the slots still have; then all slots are read, so that the answer
    /// is that of the slots.
    pub fn line_table(&self, scope: &FleetScope, may_widen: bool) -> Result<(SiteTable, FleetScope), FleetError> {
        let found = self.site_table(scope, may_widen)?;
        let (SiteTable::Edges, Some(inner)) = (found.0, scope.inner_hours()) else { return Ok(found) };
        let mut files = self.lake.files(Table::SitesHour, range(&inner))?.compacted;
        files.retain(|file| service_passes(file, scope));
        self.lake.store().local_paths(&files).map_err(LakeError::from)?;
        for file in &files {
            match self.lake.read_at_path::<HourRow>(file) {
                Ok(reader) if !reader.may_have_nulls("syy") => {}
                Ok(_) | Err(LakeError::File { .. }) => return Ok((SiteTable::Minutes, scope.clone())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// The first slot whose call sites are kept, if a scope begins before it.
    ///
    /// Days of `sites` expire before those of `processes`. A question that takes its slot from `processes` must not take one of those days.
    pub fn sites_kept_since(&self, scope: &FleetScope) -> Result<Option<i64>, FleetError> {
        let first_hour = |table: Table| -> Result<Option<i64>, FleetError> {
            let files = self.lake.files(table, range(scope))?;
            let files = files.compacted.iter().filter(|file| service_passes(file, scope)).chain(&files.incoming);
            Ok(files.filter_map(|file| Some(LakeKey::parse(&file.key)?.hour)).min())
        };
        let Some(first_process) = first_hour(Table::Processes)? else { return Ok(None) };
        let first_site = first_hour(Table::Sites)?.ok_or(FleetError::SitesExpired)?;
        // Within a day all hours expire together: a first hour without sites is one in which nothing was held.
        let is_expired = Day::of(first_process) < Day::of(first_site);
        Ok(is_expired.then_some(first_site))
    }

    /// The first and the last day of `processes`, by the names of its files: for a question without rows.
    pub fn days(&self) -> Result<Option<(String, String)>, FleetError> {
        let files = self.lake.files(Table::Processes, SlotRange::ALL)?;
        let keys = files.compacted.iter().chain(&files.incoming).filter_map(|file| LakeKey::parse(&file.key));
        let days: BTreeSet<Day> = keys.map(|key| key.day()).collect();
        Ok(days.first().zip(days.last()).map(|(first, last)| (first.text(), last.text())))
    }

    /// The services that the lake has, in order: for a question without rows. Files of hosts have several services, so the engine reads them.
    pub fn services(&self) -> Result<Vec<String>, FleetError> {
        let sql = "SELECT DISTINCT service FROM processes ORDER BY service LIMIT 1000";
        let found = self.ask(sql, &FleetScope::default(), 1000, &|| true)?;
        let names = found.answer.rows.iter().filter_map(|row| row.first()?.as_str());
        Ok(names.map(str::to_owned).collect())
    }
}

/// Why a file cannot be used; `None` if it can.
fn problem_of(opened: Result<(), LakeError>) -> Result<Option<String>, LakeError> {
    match opened {
        Ok(()) => Ok(None),
        Err(error @ LakeError::File { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The words of a text.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

fn range(scope: &FleetScope) -> SlotRange {
    SlotRange { from: scope.since.unwrap_or(i64::MIN), until: scope.until.unwrap_or(i64::MAX) }
}

/// Whether a compacted file can have rows of a scope, by the service in its path.
fn service_passes(file: &StoredFile, scope: &FleetScope) -> bool {
    match LakeKey::parse(&file.key).map(|key| key.state) {
        Some(FileState::Compacted { service, .. }) => label_passes(&scope.labels, FleetLabel::Service, &service),
        _ => true,
    }
}
