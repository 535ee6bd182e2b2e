//! No row is lost and none is counted twice, whenever a compaction is killed and while other compactors run.

mod support;

use highwater_lake::check::check;
use highwater_lake::compact::{CompactOptions, CompactSummary, compact, compact_with_skipped};
use highwater_lake::info::info;
use highwater_lake::parquet::LakeRow;
use highwater_lake::rows::{Batch, HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use highwater_lake::store::{FolderStore, LakeStore, StoreError, StoredFile};
use highwater_lake::{Lake, LakeError, SlotRange, Table};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use support::{TestFolder, process, snapshot};

const SLOT: i64 = 1_794_873_600;
const ALL: CompactOptions = CompactOptions { until: i64::MAX, memory: 64 << 20 };

fn run(lake: &Lake, options: &CompactOptions) -> Result<CompactSummary, LakeError> {
    compact(lake, options, &mut |_, _| {})
}

fn rows_of<R: LakeRow>(lake: &Lake) -> Vec<R> {
    let files = lake.files(R::TABLE, SlotRange::ALL).unwrap();
    let mut rows = Vec::new();
    for file in files.compacted.iter().chain(&files.incoming) {
        rows.extend(lake.read::<R>(file).unwrap().all_rows(1 << 24).unwrap());
    }
    rows.sort_by(|a, b| a.key().cmp(&b.key()).then_with(|| a.service().cmp(b.service())));
    rows
}

/// Everything that a reader sees. Stacks and frames may repeat.
#[derive(Debug, PartialEq)]
struct Seen {
    sites: Vec<SiteRow>,
    processes: Vec<ProcessRow>,
    stacks: BTreeSet<StackRow>,
    frames: BTreeSet<ServiceFrame>,
}

fn seen(lake: &Lake) -> Seen {
    Seen {
        sites: rows_of(lake),
        processes: rows_of(lake),
        stacks: rows_of(lake).into_iter().collect(),
        frames: rows_of(lake).into_iter().collect(),
    }
}

/// Three services on two hosts, two hours.
fn fill(lake: &Lake) {
    for minute in [0, 1, 60] {
        for host in ["h1", "h2"] {
            let mut batch = Batch::default();
            for (pid, service) in [(1, "api"), (2, "db"), (3, "a/b ä")] {
                snapshot(&mut batch, &process(service, host, pid), SLOT + minute * 60, 12);
            }
            lake.add(host, &batch).unwrap();
        }
    }
}

/// A store whose process is killed: after some changes, nothing works any more.
struct MortalStore {
    inner: FolderStore,
    left: AtomicI64,
    /// The last change happens, but its caller does not learn of it.
    is_late: bool,
}

impl MortalStore {
    fn change(&self, change: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 {
            return change();
        }
        if left == 0 && self.is_late {
            change()?;
        }
        Err(StoreError::Away("killed".to_owned()))
    }
}

impl LakeStore for MortalStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        self.change(|| self.inner.put(key, file))
    }
    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.change(|| self.inner.delete(key))
    }
    fn open(&self, file: &StoredFile) -> Result<File, StoreError> {
        self.inner.open(file)
    }
    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError> {
        self.inner.local_path(file)
    }
    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError> {
        self.inner.list(prefix)
    }
    fn name(&self) -> &str {
        self.inner.name()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).map(drop).unwrap()
        }
    }
}

fn keys_below(lake: &Lake, prefix: &str) -> Vec<String> {
    lake.store().list(prefix).unwrap().into_iter().map(|file| file.key).collect()
}

/// What a foreign engine reads: every file below the tables' folders, whatever the records say.
fn no_row_twice_in_folders(lake: &Lake) {
    let mut keys = BTreeSet::new();
    for file in lake.store().list("sites/").unwrap() {
        for row in lake.read::<SiteRow>(&file).unwrap().all_rows(1 << 20).unwrap() {
            assert!(keys.insert(row.key()), "{}", file.key);
        }
    }
}

#[test]
fn killed_at_every_step() {
    let original = TestFolder::new();
    fill(&original.lake());
    let wanted = seen(&original.lake());
    assert_eq!(wanted.sites.len(), 3 * 2 * 3 * 12);
    let mut steps = 0;
    for is_late in [false, true] {
        for kill_at in 0.. {
            let folder = TestFolder::new();
            copy(original.path(), folder.path());
            let inner = FolderStore::new(folder.path());
            let store = MortalStore { inner, left: AtomicI64::new(kill_at), is_late };
            let result = run(&Lake::open(Arc::new(store)).unwrap(), &ALL);
            let lake = folder.lake();
            assert_eq!(seen(&lake), wanted, "killed at {kill_at}");
            no_row_twice_in_folders(&lake);
            // A host sends a file again, and another one is late: both must be as if nothing had happened.
            let mut late = Batch::default();
            snapshot(&mut late, &process("late", "h3", 9), SLOT + 180, 3);
            if kill_at % 3 == 0 {
                fill(&lake);
                lake.add("h3", &late).unwrap();
            }
            assert_eq!(seen(&lake).sites.len(), wanted.sites.len() + if kill_at % 3 == 0 { 3 } else { 0 });
            run(&lake, &ALL).unwrap();
            let after = seen(&lake);
            let is_old = |service: &str| service != "late";
            assert!(after.sites.iter().filter(|row| is_old(row.service())).eq(&wanted.sites), "killed at {kill_at}");
            no_row_twice_in_folders(&lake);
            assert_eq!(keys_below(&lake, "incoming/"), Vec::<String>::new());
            assert!(keys_below(&lake, "compaction/").iter().all(|key| key.ends_with(".done.json")));
            if result.is_ok() {
                break;
            }
            steps += 1;
        }
    }
    assert!(steps > 100, "{steps} steps");
}

#[test]
fn two_compactors_at_once() {
    let folder = TestFolder::new();
    fill(&folder.lake());
    let wanted = seen(&folder.lake());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| run(&folder.lake(), &ALL).unwrap());
        }
        // Readers meanwhile see every row once, or miss a file and ask again.
        for _ in 0..20 {
            let lake = folder.lake();
            let files = lake.files(Table::Sites, SlotRange::ALL).unwrap();
            let mut rows = 0;
            let mut is_complete = true;
            for file in files.compacted.iter().chain(&files.incoming) {
                match lake.read::<SiteRow>(file) {
                    Ok(reader) => rows += reader.rows(),
                    Err(LakeError::Store(StoreError::NotFound(_))) => is_complete = false,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(!is_complete || rows == wanted.sites.len() as u64, "{rows}");
        }
    });
    assert_eq!(seen(&folder.lake()), wanted);
    no_row_twice_in_folders(&folder.lake());
    assert_eq!(keys_below(&folder.lake(), "incoming/"), Vec::<String>::new());
}

#[test]
fn hours_that_are_not_over_stay() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    fill(&lake);
    let done = run(&lake, &CompactOptions { until: SLOT + 3600, memory: 1 << 20 }).unwrap();
    assert_eq!((done.files_read, done.skipped.len()), (4 * 4, 0));
    let left = keys_below(&lake, "incoming/");
    assert!(left.len() == 8 && left.iter().all(|key| key.contains("-0100-")), "{left:?}");
    let compacted = lake.files(Table::Stacks, SlotRange::ALL).unwrap().compacted;
    assert_eq!(compacted.len(), 3);
    // The next hour brings the same stacks: nothing new.
    run(&lake, &ALL).unwrap();
    assert_eq!(lake.files(Table::Stacks, SlotRange::ALL).unwrap().compacted, compacted);
    let hours = rows_of::<HourRow>(&lake);
    assert_eq!(hours.len(), 2 * 2 * 3 * 12);
}

#[test]
fn damaged_files_do_not_stop_the_others() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    fill(&lake);
    let bad = keys_below(&lake, "incoming/sites/").remove(0);
    let path = folder.path().join(&bad);
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..content.len() - 5]).unwrap();
    let done = run(&lake, &ALL).unwrap();
    assert_eq!(done.skipped.len(), 1);
    assert_eq!(done.skipped[0].key, bad);
    assert!(done.skipped[0].why.starts_with("damaged, or no Parquet file: "), "{}", done.skipped[0].why);
    assert_eq!(keys_below(&lake, "incoming/"), [&*bad]);
    assert_eq!(rows_of::<SiteRow>(&lake).len(), 3 * 2 * 3 * 12 - 36);
    assert_eq!(run(&lake, &ALL).unwrap(), CompactSummary { skipped_before: vec![bad], ..CompactSummary::default() });
}

#[test]
fn a_skipped_file_is_named_until_its_rows_are_there() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    fill(&lake);
    let wanted = seen(&lake);
    let bad = keys_below(&lake, "incoming/sites/").remove(0);
    let path = folder.path().join(&bad);
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..content.len() - 5]).unwrap();
    assert_eq!(run(&lake, &ALL).unwrap().skipped.len(), 1);
    let named = |said: &[String]| said.iter().filter(|line| line.starts_with(&bad)).cloned().collect::<Vec<_>>();
    let skipped = || -> Vec<String> {
        lake.files(Table::Sites, SlotRange::ALL).unwrap().skipped.into_iter().map(|file| file.key).collect()
    };
    let problems = || check(&lake, &mut |_, _| {}).unwrap().problems;

    assert_eq!(skipped(), [&*bad]);
    let about = info(&lake).unwrap().remove(0);
    assert_eq!((about.table, about.incoming.files), (Table::Sites, 1));
    assert!(named(&about.problems)[0].contains("skipped by a compaction"), "{:?}", about.problems);
    let line = named(&problems()).concat();
    assert!(line.contains("its rows are missing: damaged, or no Parquet file"), "{line}");
    // Tried again, it is skipped again.
    let again = compact_with_skipped(&lake, &ALL, &mut |_, _| {}).unwrap();
    assert_eq!((again.skipped.len(), again.skipped_before.len()), (1, 0));
    assert_eq!(skipped(), [&*bad]);

    fs::write(&path, &content).unwrap();
    assert_eq!(run(&lake, &ALL).unwrap().skipped_before, [&*bad], "only on request");
    assert!(named(&problems())[0].contains("it can be read now"));
    let done = compact_with_skipped(&lake, &ALL, &mut |_, _| {}).unwrap();
    assert_eq!((done.files_read, done.skipped.len(), done.skipped_before.len()), (1, 0, 0));
    assert_eq!(seen(&lake), wanted);
    no_row_twice_in_folders(&lake);
    assert!(!path.exists() && skipped().is_empty());
    assert_eq!(problems(), Vec::<String>::new());
    // The host sends it again: it is known, whatever the first record says.
    fs::write(&path, &content).unwrap();
    assert_eq!(seen(&lake), wanted);
    assert_eq!(compact_with_skipped(&lake, &ALL, &mut |_, _| {}).unwrap(), CompactSummary::default());
    assert!(!path.exists());
    assert_eq!(seen(&lake), wanted);
}

/// A store on a network file system that is away for a moment: one file can be opened and not be read.
struct AwayStore {
    inner: FolderStore,
    bad: String,
}

impl LakeStore for AwayStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        self.inner.put(key, file)
    }
    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key)
    }
    fn open(&self, file: &StoredFile) -> Result<File, StoreError> {
        if file.key != self.bad {
            return self.inner.open(file);
        }
        // It has a length, and each read of it fails.
        let opened = File::options().write(true).open(self.local_path(file)?).unwrap();
        Ok(opened)
    }
    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError> {
        self.inner.local_path(file)
    }
    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError> {
        self.inner.list(prefix)
    }
    fn name(&self) -> &str {
        self.inner.name()
    }
}

#[test]
fn an_error_of_the_system_is_no_damage() {
    let folder = TestFolder::new();
    fill(&folder.lake());
    let wanted = seen(&folder.lake());
    let bad = keys_below(&folder.lake(), "incoming/sites/").remove(1);
    let away = Lake::open(Arc::new(AwayStore { inner: FolderStore::new(folder.path()), bad: bad.clone() })).unwrap();
    let is_system =
        |error: &LakeError| matches!(error, LakeError::Store(StoreError::System { path, .. }) if *path == bad);
    let error = run(&away, &ALL).unwrap_err();
    assert!(is_system(&error), "{error:?}");
    let error = check(&away, &mut |_, _| {}).unwrap_err();
    assert!(is_system(&error), "{error:?}");
    // Nothing is lost, and the next compaction has it all.
    assert_eq!(seen(&folder.lake()), wanted);
    let done = run(&folder.lake(), &ALL).unwrap();
    assert_eq!((done.skipped, done.skipped_before), (Vec::new(), Vec::new()));
    assert_eq!(seen(&folder.lake()), wanted);
}

/// Sites with figures that cannot be compressed.
fn many_sites(host: &str, count: i64) -> Batch {
    let process = process("api", host, 1);
    let random = |number: i64| number.wrapping_mul(-7_046_029_254_386_353_131).rotate_left(29).wrapping_mul(7_919);
    let site = |number: i64| SiteRow {
        slot: SLOT + number % 60 * 60,
        process: Arc::clone(&process),
        stack_id: random(number),
        site_id: random(number + 1),
        sample_period: 0,
        live_bytes: random(number + 2) & ((1 << 49) - 1),
        live_blocks: 1,
        alloc_bytes: None,
        alloc_blocks: None,
    };
    Batch { sites: (0..count).map(site).collect(), ..Batch::default() }
}

const FULL_DISK: &str = "HIGHWATER_TEST_FULL_DISK";

#[test]
fn a_full_disk_for_temporary_files_loses_no_row() {
    let options = CompactOptions { until: i64::MAX, memory: 1 << 20 };
    if let Some(folder) = std::env::var_os(FULL_DISK) {
        // The child: files end at some kilobytes.
        let lake = Lake::open(Arc::new(FolderStore::new(Path::new(&folder)))).unwrap();
        let error = run(&lake, &options).expect_err("the temporary file was too large");
        assert!(matches!(error, LakeError::Scratch { .. }), "{error:?}");
        return;
    }
    let folder = TestFolder::new();
    let lake = folder.lake();
    // The rows of the first file are in memory when those of the second make a temporary file.
    for (host, count) in [("a", 5_900), ("b", 400), ("c", 10)] {
        lake.add(host, &many_sites(host, count)).unwrap();
    }
    let wanted = seen(&lake);
    let name = "a_full_disk_for_temporary_files_loses_no_row";
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$0\" --exact \"$1\"";
    let mut child = std::process::Command::new("sh");
    child.args(["-c", limited]).arg(std::env::current_exe().unwrap()).arg(name).env(FULL_DISK, folder.path());
    let said = child.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    assert!(String::from_utf8_lossy(&said.stdout).contains("1 passed"), "the child has run no test");
    assert_eq!(seen(&lake), wanted);
    assert!(run(&lake, &options).unwrap().skipped.is_empty());
    assert_eq!(seen(&lake), wanted);
}

/// Counts what is listed.
struct CountingStore {
    inner: FolderStore,
    listed: std::sync::Mutex<Vec<String>>,
}

impl LakeStore for CountingStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        self.inner.put(key, file)
    }
    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete(key)
    }
    fn open(&self, file: &StoredFile) -> Result<File, StoreError> {
        self.inner.open(file)
    }
    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError> {
        self.inner.local_path(file)
    }
    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError> {
        let files = self.inner.list(prefix)?;
        self.listed.lock().unwrap().extend(files.iter().map(|file| file.key.clone()));
        Ok(files)
    }
    fn name(&self) -> &str {
        self.inner.name()
    }
}

#[test]
fn a_compaction_lists_its_own_days_only() {
    let folder = TestFolder::new();
    fill(&folder.lake());
    run(&folder.lake(), &ALL).unwrap();
    let mut next_day = Batch::default();
    snapshot(&mut next_day, &process("api", "h1", 1), SLOT + 86_400, 5);
    folder.lake().add("h1", &next_day).unwrap();
    let store = Arc::new(CountingStore { inner: FolderStore::new(folder.path()), listed: std::sync::Mutex::default() });
    let done = run(&Lake::open(Arc::<CountingStore>::clone(&store)).unwrap(), &ALL).unwrap();
    assert_eq!(done.files_read, 4);
    let day = format!("/day={}/", highwater_lake::Day::of(SLOT).text());
    let is_compacted = |key: &&String| key.starts_with("stacks/") || key.starts_with("frames/");
    let listed = store.listed.lock().unwrap();
    let others: Vec<&String> = listed.iter().filter(is_compacted).filter(|key| key.contains(&day)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The roll-up, by the definitions of its columns.
fn naive(sites: &[SiteRow]) -> Vec<HourRow> {
    let mut groups: BTreeMap<(i64, i64, i64, i64), Vec<&SiteRow>> = BTreeMap::new();
    for row in sites {
        let hour = row.slot / 3600 * 3600;
        groups.entry((row.site_id, row.process.process_id, row.stack_id, hour)).or_default().push(row);
    }
    let fits = |sum: i128| i64::try_from(sum).ok();
    groups
        .into_iter()
        .map(|((site_id, _, stack_id, hour), rows)| {
            let sum = |of: &dyn Fn(&SiteRow) -> i128| rows.iter().map(|row| of(row)).sum::<i128>();
            let x = |row: &SiteRow| i128::from(row.slot - hour);
            let y = |row: &SiteRow| i128::from(row.live_blocks);
            HourRow {
                hour,
                process: Arc::clone(&rows[0].process),
                stack_id,
                site_id,
                sample_period: rows.iter().map(|row| row.sample_period).max().unwrap(),
                n: i64::try_from(rows.len()).unwrap(),
                min_bytes: rows.iter().map(|row| row.live_bytes).min().unwrap(),
                max_bytes: rows.iter().map(|row| row.live_bytes).max().unwrap(),
                sum_bytes: fits(sum(&|row| i128::from(row.live_bytes))).unwrap(),
                sum_blocks: fits(sum(&y)).unwrap(),
                sx: fits(sum(&x)).unwrap(),
                sxx: fits(sum(&|row| x(row) * x(row))).unwrap(),
                sxy: fits(sum(&|row| x(row) * y(row))),
                syy: fits(sum(&|row| y(row) * y(row))),
            }
        })
        .collect()
}

type Drawn = (u8, u8, u16, i64, i64, i64, Option<i64>);

fn drawn_row() -> impl Strategy<Value = Drawn> {
    let figure = prop_oneof![0..10i64, 0..(1i64 << 50), Just((1 << 50) - 1)];
    (0..4u8, 0..5u8, 0..180u16, 0..4i64, figure.clone(), figure.clone(), proptest::option::of(figure))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn compaction_keeps_every_row(
        batches in prop::collection::vec(prop::collection::vec(drawn_row(), 0..120), 1..6),
        memory in prop_oneof![Just(4_000u64), Just(1 << 20)],
    ) {
        let folder = TestFolder::new();
        let lake = folder.lake();
        #[allow(clippy::type_complexity, reason = "the key of a row, used here only")]
        let mut wanted: BTreeMap<(String, (i64, i64, i64, i64)), SiteRow> = BTreeMap::new();
        for rows in &batches {
            let mut batch = Batch::default();
            let mut in_batch = BTreeSet::new();
            for &(service, pid, minute, site, live_bytes, live_blocks, alloc) in rows {
                // Two services never share a process.
                let mut process = (*process(["", "a", "b c", "ö"][usize::from(service)], "h", i32::from(pid) + 10 * i32::from(service))).clone();
                process.labels.container.clear();
                let row = SiteRow {
                    slot: SLOT + i64::from(minute) * 60,
                    process: Arc::new(process),
                    stack_id: site % 3,
                    site_id: site,
                    sample_period: site * 1024,
                    live_bytes,
                    live_blocks,
                    alloc_bytes: alloc,
                    alloc_blocks: alloc,
                };
                // What is sent twice must be equal: a host takes one snapshot of a process and slot.
                let key = (row.service().to_owned(), row.key());
                if in_batch.insert(key.clone()) {
                    batch.sites.push(wanted.entry(key).or_insert(row).clone());
                }
            }
            lake.add("h", &batch).unwrap();
        }
        let mut wanted: Vec<SiteRow> = wanted.into_values().collect();
        for row in wanted.iter_mut().filter(|row| row.service().is_empty()) {
            Arc::make_mut(&mut row.process).labels.service = "unknown".to_owned();
        }
        wanted.sort_by_key(SiteRow::key);
        run(&lake, &CompactOptions { until: SLOT + 3600, memory }).unwrap();
        run(&lake, &CompactOptions { until: i64::MAX, memory }).unwrap();
        prop_assert_eq!(&rows_of::<SiteRow>(&lake), &wanted);
        prop_assert_eq!(rows_of::<HourRow>(&lake), naive(&wanted));
        for file in lake.files(Table::Sites, SlotRange::ALL).unwrap().compacted {
            let rows = lake.read::<SiteRow>(&file).unwrap().all_rows(1 << 20).unwrap();
            prop_assert!(rows.is_sorted_by_key(SiteRow::key));
        }
    }
}
