//! What `highwater lake expire`, `info` and `check` find and do.

mod support;

use highwater_lake::check::{check, check_in_parts};
use highwater_lake::compact::{CompactOptions, compact};
use highwater_lake::expire::{ExpireOptions, expire};
use highwater_lake::info::info;
use highwater_lake::rows::Batch;
use highwater_lake::{Day, Lake, Table};
use std::fs;
use support::{TestFolder, paths, process, run_python, snapshot};

const SLOT: i64 = 1_794_873_600;
const DAY: i64 = 86_400;

fn fill(lake: &Lake, slot: i64) {
    let mut batch = Batch::default();
    snapshot(&mut batch, &process("api", "h", 1), slot, 12);
    snapshot(&mut batch, &process("db", "h", 2), slot, 5);
    lake.add("h", &batch).unwrap();
}

fn compacted(lake: &Lake) {
    compact(lake, &CompactOptions { until: i64::MAX, memory: 1 << 20 }, &mut |_, _| {}).unwrap();
}

fn problems(lake: &Lake) -> Vec<String> {
    let found = check(lake, &mut |_, _| {}).unwrap();
    // With little memory it finds the same, in more passes.
    for most_keys in [1, 5] {
        assert_eq!(check_in_parts(lake, most_keys, &mut |_, _| {}).unwrap(), found, "{most_keys} keys");
    }
    found.problems
}

#[test]
fn old_days_are_deleted() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    for day in [0, 5, 40] {
        fill(&lake, SLOT - day * DAY);
    }
    compacted(&lake);
    fill(&lake, SLOT - 41 * DAY);
    let options = ExpireOptions { now: SLOT + DAY, minutes: 3 * DAY, hours: 30 * DAY, dry_run: true };
    let planned = expire(&lake, &options).unwrap();
    let mut days: Vec<(Table, String)> = planned.days.iter().map(|one| (one.table, one.day.text())).collect();
    days.sort();
    let [five, forty, older] = [5, 40, 41].map(|day| Day::of(SLOT - day * DAY).text());
    let mut wanted = vec![(Table::Sites, five)];
    for table in Table::ALL {
        wanted.push((table, forty.clone()));
        if table != Table::SitesHour {
            wanted.push((table, older.clone()));
        }
    }
    wanted.sort();
    assert_eq!(days, wanted);
    assert_eq!(info(&lake).unwrap()[0].days.len(), 4, "a dry run deletes nothing");

    fs::create_dir_all(folder.path().join("unfinished")).unwrap();
    fs::write(folder.path().join("unfinished/1-2"), "x").unwrap();
    let done = expire(&lake, &ExpireOptions { dry_run: false, ..options }).unwrap();
    assert_eq!((done.days, done.leftovers), (planned.days, 0), "a file of today may still be written");
    let days: Vec<usize> = info(&lake).unwrap().iter().map(|about| about.days.len()).collect();
    assert_eq!(days, [1, 2, 2, 2, 2]);
    assert_eq!(problems(&lake), Vec::<String>::new());
}

#[test]
fn info_counts_what_others_count() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    fill(&lake, SLOT);
    compacted(&lake);
    fill(&lake, SLOT + 60);
    for about in info(&lake).unwrap() {
        let paths: Vec<String> = paths(&lake, about.table).iter().map(|path| path.display().to_string()).collect();
        let arguments: Vec<&str> = paths.iter().map(String::as_str).collect();
        let program = "import sys, os, pyarrow.parquet as pq\n\
                       print(sum(pq.read_metadata(f).num_rows for f in sys.argv[1:]), sum(os.path.getsize(f) for f in sys.argv[1:]))";
        let (done, new) = (about.compacted, about.incoming);
        let wanted = format!("{} {}\n", done.rows + new.rows, done.bytes + new.bytes);
        assert_eq!(run_python(program, &arguments), wanted, "{}", about.table);
        assert_eq!(done.files + new.files, paths.len() as u64);
        assert_eq!(about.services.iter().collect::<Vec<_>>(), ["api", "db"]);
    }
}

#[test]
fn a_check_finds_what_is_wrong() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    fill(&lake, SLOT);
    assert_eq!(problems(&lake), Vec::<String>::new());
    compacted(&lake);
    assert_eq!(problems(&lake), Vec::<String>::new());
    let change = |table: Table, change: &str| {
        let path = paths(&lake, table).remove(0);
        let original = fs::read(&path).unwrap();
        let program = format!(
            "import sys, pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc\n\
             path = sys.argv[1]\nt = pq.read_table(path, partitioning=None)\n{change}\npq.write_table(t, path, compression='zstd')"
        );
        run_python(&program, &[path.to_str().unwrap()]);
        let found = problems(&lake);
        fs::write(&path, original).unwrap();
        found
    };
    for (table, what, wanted) in [
        (Table::Sites, "t = t.slice(1)", "do not add up for 1 slots of processes"),
        (Table::Sites, "t = t.take([1, 0, *range(2, len(t))])", "rows are not in order"),
        (Table::Sites, "t = pa.concat_tables([t.slice(0, 1), t])", "1 rows are there twice"),
        (Table::Sites, "t = t.set_column(0, 'slot', pc.add(t['slot'], 7200))", "rows are outside of its hour"),
        (Table::SitesHour, "t = t.slice(1)", "byte slots, its sites have"),
        (Table::Stacks, "t = t.slice(1)", "1 stacks are not in stacks"),
        (Table::Frames, "t = t.filter(pc.not_equal(t['stack_id'], t['stack_id'][0]))", "1 stacks have none"),
        (Table::Processes, "t = t.slice(1)", "1 slots of processes that have sites are missing"),
        (Table::Processes, "t = t.drop_columns(['pid'])", "has no column 'pid'"),
    ] {
        let found = change(table, what);
        assert!(found.iter().any(|line| line.contains(wanted)), "{what}: {found:?}");
        assert!(found.iter().all(|line| !line.contains('\n')), "{found:?}");
    }
    fs::write(folder.path().join("sites/x.parquet"), "PAR1").unwrap();
    assert_eq!(problems(&lake), ["sites/x.parquet: not a file of a lake"]);
}
