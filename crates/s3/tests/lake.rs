//! A whole lake in an object store: hosts add, two compactors work at once, and the rows are those of the same lake in a folder.

#[path = "../../lake/tests/support/mod.rs"]
mod rows;
mod support;

use highwater_lake::compact::{CompactOptions, compact};
use highwater_lake::parquet::LakeRow;
use highwater_lake::rows::{Batch, HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use highwater_lake::{Lake, SlotRange, Table};
use rows::{process, snapshot};
use std::sync::Arc;
use support::{Moto, TestFolder};

const SLOT: i64 = 1_794_873_600;
const ALL: CompactOptions = CompactOptions { until: i64::MAX, memory: 64 << 20 };

fn fill(lake: &Lake) {
    for minute in [0, 1, 60] {
        for host in ["h1", "h2"] {
            let mut batch = Batch::default();
            for (pid, service) in [(1, "api"), (2, "a/b ä%")] {
                snapshot(&mut batch, &process(service, host, pid), SLOT + minute * 60, 12);
            }
            lake.add(host, &batch).unwrap();
        }
    }
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

fn assert_same(lake: &Lake, expected: &Lake) {
    assert_eq!(rows_of::<SiteRow>(lake), rows_of(expected));
    assert_eq!(rows_of::<ProcessRow>(lake), rows_of(expected));
    assert_eq!(rows_of::<HourRow>(lake), rows_of(expected));
    assert_eq!(rows_of::<StackRow>(lake), rows_of(expected));
    assert_eq!(rows_of::<ServiceFrame>(lake), rows_of(expected));
}

#[test]
fn two_compactors_at_once_lose_nothing_and_count_nothing_twice() {
    let (moto, folder, plain) = (Moto::start(), TestFolder::new(), rows::TestFolder::new());
    let open = || Lake::create_or_open(Arc::new(folder.store("s3://lakes/fleet", moto.address))).unwrap();
    let (one, two, expected) = (open(), open(), plain.lake());
    fill(&one);
    fill(&expected);
    // Sent again, as after an answer that was lost.
    fill(&two);
    assert!(!rows_of::<SiteRow>(&one).is_empty());
    assert_eq!(rows_of::<SiteRow>(&one), rows_of(&expected));
    compact(&expected, &ALL, &mut |_, _| {}).unwrap();
    std::thread::scope(|scope| {
        for lake in [&one, &two] {
            scope.spawn(|| compact(lake, &ALL, &mut |_, _| {}).unwrap());
        }
    });
    for lake in [&one, &two, &open()] {
        assert_same(lake, &expected);
        assert!(lake.store().list("incoming/").unwrap().is_empty());
        assert!(lake.files(Table::Sites, SlotRange::ALL).unwrap().incoming.is_empty());
    }
    let names = |lake: &Lake| -> Vec<String> {
        Table::ALL
            .iter()
            .flat_map(|table| lake.store().list(&format!("{table}/")).unwrap())
            .map(|file| file.key)
            .collect()
    };
    assert_eq!(names(&one), names(&expected), "the same files from every compactor");
}

#[test]
fn footers_are_checked_without_the_rows() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let lake = Lake::create_or_open(Arc::new(folder.store("s3://lakes/footers", moto.address))).unwrap();
    fill(&lake);
    let damaged = folder.file("damaged", 5000);
    let key = "incoming/sites/day=2026-11-17/h9-0000-00ff.parquet";
    lake.store().put(key, &damaged).unwrap();
    let files = lake.files(Table::Sites, SlotRange::ALL).unwrap().incoming;
    for (file, checked) in files.iter().zip(lake.check_footers::<SiteRow>(&files).unwrap()) {
        match checked {
            Ok(()) => assert_ne!(file.key, key),
            Err(error) => {
                assert_eq!(error.to_string(), format!("{key}: damaged, or no Parquet file: its end is missing"))
            }
        }
    }
    let of_others = lake.check_footers::<ProcessRow>(&files).unwrap();
    assert!(of_others.iter().all(|checked| checked.is_err()), "columns are checked");
    let kept = std::fs::read_dir(folder.path("cache/files")).unwrap().count();
    assert!(kept <= 1, "only lake.json is in the cache, not {kept} files");
}
