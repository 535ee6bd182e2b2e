//! Takes the snapshots of a slot, and makes rows of them.

use crate::container::container_id;
use crate::label_rules::LabelRules;
use crate::process_start::BootClock;
use crate::stack_book::{CatalogNumbers, KnownStack, StackBook, is_jit};
use highwater_collector::Environment;
use highwater_collector::protocol::{Detail, ProcessInfo, ProcessState};
use highwater_collector::{CollectorClient, CollectorError};
use highwater_lake::identity::process_id;
use highwater_lake::rows::{Batch, LakeProcess, ProcessRow, SiteRow};
use highwater_model::{Figures, FrameId, Naming, SiteTypes, Snapshot, StackId, When};
use highwater_resident::process_memory;
use highwater_session::PerfMapFile;
use highwater_store::Recording;
use highwater_symbols::perf_map::{PerfMap, resolve_jit_frames};
use highwater_symbols::{DebuginfodServers, Symbolizer, add_type_facts, resolve_frames};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::HashSet;
use std::sync::Arc;

/// Debug information stays open for this many slots after it was last needed: a program that shows new stacks each minute is not read anew each minute.
const SLOTS_OPEN: u32 = 10;
/// The figures of a limit are read again after this many slots. Reading them takes longer than the rest, since the list of all mounts is read.
const LIMIT_SLOTS: u32 = 10;
/// Seconds of a day: stacks are shipped once in each.
const DAY: i64 = 86_400;

/// A slot's rows.
#[derive(Debug, Default)]
pub struct MadeBatch {
    /// The rows.
    pub batch: Batch,
    /// Lines for the user, each about a problem that is new.
    pub problems: Vec<String>,
}

/// Makes the batches of one host.
pub struct BatchMaker {
    rules: LabelRules,
    boot: BootClock,
    servers: DebuginfodServers,
    /// All stacks of a batch are in it.
    all_stacks: bool,
    book: StackBook,
    processes: FxHashMap<(u32, u64), KnownProcess>,
    symbolizer: Option<Symbolizer>,
    slots_unused: u32,
    /// The day, and what was shipped in it: services, and stacks of the book.
    shipped: (i64, FxHashSet<(Arc<str>, u32)>),
}

/// A process, and what is found out about it once.
struct KnownProcess {
    process: Arc<LakeProcess>,
    service: Arc<str>,
    /// The limit, and for how many more slots it counts.
    limit: (Option<i64>, u32),
    /// The names of code that it made. `None` until it has such code.
    map: Option<(PerfMapFile, PerfMap)>,
    has_problem: bool,
}

impl BatchMaker {
    /// Has not met any process yet. With `all_stacks`, each batch has all stacks of its rows, otherwise those that were not shipped on the same day.
    pub fn new(rules: LabelRules, boot: BootClock, servers: DebuginfodServers, all_stacks: bool) -> Self {
        Self {
            rules,
            boot,
            servers,
            all_stacks,
            book: StackBook::default(),
            processes: FxHashMap::default(),
            symbolizer: None,
            slots_unused: 0,
            shipped: (0, FxHashSet::default()),
        }
    }

    /// Takes a snapshot of each live process whose name contains one of the texts; of all if there are none.
    pub fn make(
        &mut self,
        client: &mut CollectorClient,
        slot: i64,
        names: &[String],
    ) -> Result<MadeBatch, CollectorError> {
        let mut made = MadeBatch::default();
        let processes = live_ones(client.processes()?, names);
        self.begin(slot, &processes);
        for info in &processes {
            match client.snapshot(info.pid, Detail::Sites, None) {
                // It ended meanwhile: what it held then is not what it holds in this slot.
                Ok(taken) if taken.cut.exited => {}
                Ok(taken) => {
                    if !taken.cut.verified || taken.cut.untracked > 0 {
                        self.problem(
                            info,
                            "its figures are not complete: its table is full, or was disturbed",
                            &mut made,
                        );
                    }
                    let read = Recording::from_file(taken.file).map_err(|error| error.to_string());
                    let snapshot = read.and_then(|read| read.snapshot(&When::End).map_err(|error| error.to_string()));
                    match snapshot {
                        Ok(snapshot) => self.add(info, slot, snapshot, &mut made),
                        Err(error) => self.problem(info, &error, &mut made),
                    }
                }
                Err(CollectorError::Failed(line)) => {
                    if std::fs::exists(format!("/proc/{}", info.pid)).unwrap_or(false) {
                        self.problem(info, &line, &mut made);
                    }
                }
                // The collector itself is gone or stuck: the slot goes on with what was taken.
                Err(error) if made.batch.processes.is_empty() => return Err(error),
                Err(error) => {
                    made.problems.push(format!("slot {slot} lacks some processes: {error}"));
                    break;
                }
            }
        }
        Ok(made)
    }

    /// Ships all names again with the next rows: those that were shipped before are lost.
    pub fn ship_names_again(&mut self) {
        self.shipped.1.clear();
    }

    /// Forgets what is gone.
    fn begin(&mut self, slot: i64, processes: &[ProcessInfo]) {
        let live: FxHashSet<(u32, u64)> = processes.iter().map(key_of).collect();
        self.processes.retain(|key, _| live.contains(key));
        if self.book.make_room() || self.shipped.0 != slot.div_euclid(DAY) {
            self.shipped = (slot.div_euclid(DAY), FxHashSet::default());
        }
        self.slots_unused += 1;
        if self.slots_unused > SLOTS_OPEN {
            self.symbolizer = None;
        }
    }

    /// Adds a line about a process, once.
    fn problem(&mut self, info: &ProcessInfo, line: &str, made: &mut MadeBatch) {
        let known = self.known(info);
        if !std::mem::replace(&mut known.has_problem, true) {
            made.problems.push(format!("process {} ({}): {line}", info.pid, info.name));
        }
    }

    fn known(&mut self, info: &ProcessInfo) -> &mut KnownProcess {
        let Self { processes, rules, boot, .. } = self;
        processes.entry(key_of(info)).or_insert_with(|| {
            let groups = std::fs::read(format!("/proc/{}/cgroup", info.pid)).unwrap_or_default();
            let labels = rules.labels(&Environment::of_program(info.pid), &info.name, container_id(&groups).as_deref());
            let since = i64::try_from(info.since_unix_ns / 1000).unwrap_or(i64::MAX);
            let (identity, start_us) = boot.start_of(info.pid).unwrap_or((since, since));
            let pid = i32::try_from(info.pid).unwrap_or(i32::MAX);
            let process_id = process_id(&labels.host, &boot.boot_id, pid, identity);
            let service = Arc::from(labels.service.as_str());
            let process = Arc::new(LakeProcess { labels, pid, start_us, process_id });
            KnownProcess { process, service, limit: (None, 0), map: None, has_problem: false }
        })
    }

    fn add(&mut self, info: &ProcessInfo, slot: i64, mut snapshot: Snapshot, made: &mut MadeBatch) {
        let (rss_bytes, limit_bytes) = self.memory(info);
        self.read_map(info, &snapshot);
        let key = key_of(info);
        let map = self.processes.get(&key).and_then(|known| Some(&known.map.as_ref()?.1));
        let numbers = self.book.numbers(&snapshot.catalog, map);
        self.name_new_stacks(key, &numbers, &mut snapshot);
        let known = &self.processes[&key];
        let (process, service) = (Arc::clone(&known.process), Arc::clone(&known.service));
        let sample_period = snapshot.source.sample_rate.map_or(0, signed);
        let first = made.batch.sites.len();
        let mut rows: FxHashMap<(i64, i64), usize> = FxHashMap::default();
        for (stack, figures) in live_sites(&snapshot) {
            let number = numbers.of(stack);
            let Some(known) = self.book.known(number).map(Arc::clone) else { continue };
            let row = *rows.entry((known.stack_id, known.site_id)).or_insert_with(|| {
                made.batch.sites.push(SiteRow {
                    slot,
                    process: Arc::clone(&process),
                    stack_id: known.stack_id,
                    site_id: known.site_id,
                    sample_period,
                    live_bytes: 0,
                    live_blocks: 0,
                    alloc_bytes: None,
                    alloc_blocks: None,
                });
                made.batch.sites.len() - 1
            });
            let row = &mut made.batch.sites[row];
            row.live_bytes = row.live_bytes.saturating_add(signed(figures.live_bytes()));
            row.live_blocks = row.live_blocks.saturating_add(signed(figures.live_blocks()));
            if self.shipped.1.insert((Arc::clone(&service), number)) || self.all_stacks {
                self.ship_stack(&known, &service, &mut made.batch);
            }
        }
        let sites = &made.batch.sites[first..];
        let sum = |of: fn(&SiteRow) -> i64| sites.iter().map(of).fold(0, i64::saturating_add);
        made.batch.processes.push(ProcessRow {
            slot,
            sample_period,
            // The sum of the rows. For samples it may differ from the rounded sum of a snapshot by some bytes.
            live_bytes: sum(|row| row.live_bytes),
            live_blocks: sum(|row| row.live_blocks),
            process,
            rss_bytes,
            limit_bytes,
        });
    }

    fn ship_stack(&self, stack: &KnownStack, service: &str, batch: &mut Batch) {
        batch.stacks.push(self.book.stack_row(stack, service));
        batch.frames.extend(self.book.frame_rows(stack));
    }

    /// The resident set of a process, and the limit of its group.
    fn memory(&mut self, info: &ProcessInfo) -> (Option<i64>, Option<i64>) {
        let known = self.known(info);
        if known.limit.1 > 0 {
            known.limit.1 -= 1;
            return (resident(info.pid), known.limit.0);
        }
        let memory = process_memory(info.pid).ok();
        known.limit = (memory.as_ref().and_then(|memory| Some(signed(memory.limit?.bytes))), LIMIT_SLOTS);
        (memory.map(|memory| signed(memory.rss)), known.limit.0)
    }

    /// Reads what the runtime of a process has written about the code that it made, if there is such code in its stacks.
    fn read_map(&mut self, info: &ProcessInfo, snapshot: &Snapshot) {
        let catalog = &snapshot.catalog;
        if !catalog.stacks.frames().iter().any(|frame| is_jit(catalog, frame)) {
            return;
        }
        let known = self.known(info);
        if known.map.is_none() {
            known.map = PerfMapFile::of(info.pid).map(|file| (file, PerfMap::default()));
        }
        if let Some((file, map)) = &mut known.map {
            // What cannot be read has no names.
            let _ = file.read_on(map);
        }
    }

    /// Looks up the names of stacks that no process had before.
    fn name_new_stacks(&mut self, key: (u32, u64), numbers: &CatalogNumbers, snapshot: &mut Snapshot) {
        let is_new = |(stack, _): &(StackId, &Figures)| self.book.known(numbers.of(*stack)).is_none();
        let new: Vec<StackId> = live_sites(snapshot).filter(is_new).map(|(stack, _)| stack).collect();
        if new.is_empty() {
            return;
        }
        self.slots_unused = 0;
        let symbolizer = self.symbolizer.get_or_insert_with(|| Symbolizer::for_user(&self.servers));
        let stacks = &snapshot.catalog.stacks;
        let wanted: HashSet<FrameId> = new.iter().flat_map(|stack| stacks.recorded_frames_of(*stack)).collect();
        let catalog = Arc::make_mut(&mut snapshot.catalog);
        resolve_frames(catalog, symbolizer, |frame| wanted.contains(&frame));
        if let Some((_, map)) = self.processes.get(&key).and_then(|known| known.map.as_ref()) {
            resolve_jit_frames(catalog, map, |frame| wanted.contains(&frame));
        }
        add_type_facts(catalog, symbolizer, &snapshot.accounts);
        let mut types = SiteTypes::new(catalog, &Naming::default());
        for stack in new {
            let number = numbers.of(stack);
            if self.book.known(number).is_none() {
                self.book.add(number, catalog, stack, &mut types);
            }
        }
    }
}

/// The live processes, each pid once, whose names contain one of the texts.
fn live_ones(mut all: Vec<ProcessInfo>, names: &[String]) -> Vec<ProcessInfo> {
    let is_chosen = |info: &ProcessInfo| names.is_empty() || names.iter().any(|name| info.name.contains(name.as_str()));
    all.retain(|info| info.state == ProcessState::Live && is_chosen(info));
    // A process that has just executed another program may have two tables for a moment.
    all.sort_by_key(|info| (info.pid, std::cmp::Reverse(info.since_unix_ns)));
    all.dedup_by_key(|info| info.pid);
    all
}

fn key_of(info: &ProcessInfo) -> (u32, u64) {
    (info.pid, info.since_unix_ns)
}

/// The sites that hold something. The row of all that was freed before holds nothing.
fn live_sites(snapshot: &Snapshot) -> impl Iterator<Item = (StackId, &Figures)> {
    let sites = snapshot.accounts.sites().iter();
    sites.filter(|(_, figures)| figures.live_blocks() > 0 || figures.live_bytes() > 0)
}

/// The resident set alone.
fn resident(pid: u32) -> Option<i64> {
    let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_ascii_whitespace().next()?;
    kilobytes.parse::<i64>().ok()?.checked_mul(1024)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod day;
