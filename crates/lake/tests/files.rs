//! What is added is what is read, and what is not ours is refused in one line.

mod support;

use highwater_lake::parquet::{LakeRow, TableReader, TableWriter};
use highwater_lake::rows::{Batch, ProcessRow, ServiceFrame, SiteRow, StackRow};
use highwater_lake::store::FolderStore;
use highwater_lake::{Lake, SlotRange, Table};
use std::fs::{self, File};
use std::sync::Arc;
use support::{TestFolder, paths, process, run_python, snapshot};

const SLOT: i64 = 1_794_873_600;

fn rows_of<R: LakeRow>(lake: &Lake) -> Vec<R> {
    let files = lake.files(R::TABLE, SlotRange::ALL).unwrap();
    let all = files.compacted.iter().chain(&files.incoming);
    all.flat_map(|file| lake.read::<R>(file).unwrap().all_rows(1 << 20).unwrap()).collect()
}

#[test]
fn rows_come_back() {
    let folder = TestFolder::new();
    let lake = folder.lake();
    let mut batch = Batch::default();
    snapshot(&mut batch, &process("", "h", 1), SLOT, 20);
    snapshot(&mut batch, &process("s", "h", 2), SLOT + 3600, 9_000);
    let keys = lake.add("a/b", &batch).unwrap();
    assert_eq!(keys.len(), 6, "sites and processes of two hours, stacks and frames once");
    assert_eq!(lake.add("a/b", &batch).unwrap(), keys, "the same rows again are the same files");

    let mut sites: Vec<SiteRow> = rows_of(&lake);
    assert_eq!(sites.len(), 9_020);
    assert!(sites.iter().all(|row| row.process.labels.container.is_empty()));
    assert_eq!(sites.iter().filter(|row| row.service() == "unknown").count(), 20);
    let strip = |row: &SiteRow| (row.key(), row.live_bytes, row.live_blocks, row.alloc_bytes, row.alloc_blocks);
    sites.sort_by_key(SiteRow::key);
    let mut wanted = batch.sites.clone();
    wanted.sort_by_key(SiteRow::key);
    assert!(sites.iter().map(strip).eq(wanted.iter().map(strip)));
    let processes: Vec<ProcessRow> = rows_of(&lake);
    assert_eq!(processes.iter().find(|row| row.slot > SLOT), batch.processes.iter().find(|row| row.slot > SLOT));
    assert_eq!(rows_of::<StackRow>(&lake).len(), batch.stacks.len());
    // Both services have the first twenty stacks.
    assert_eq!(rows_of::<ServiceFrame>(&lake).len(), batch.frames.len());

    let hour = |from| lake.files(Table::Sites, SlotRange { from, until: from + 60 }).unwrap().incoming.len();
    assert_eq!((hour(SLOT), hour(SLOT + 3660), hour(SLOT + 7200)), (1, 1, 0));
}

#[test]
fn impossible_rows_are_not_added() {
    let folder = TestFolder::new();
    let mut batch = Batch::default();
    snapshot(&mut batch, &process("s", "h", 1), SLOT, 2);
    batch.sites[1].live_bytes = -1;
    let error = folder.lake().add("h", &batch).unwrap_err().to_string();
    assert_eq!(error, "rows cannot be added to the lake: column 'live_bytes' has the impossible value -1");
}

#[test]
fn lakes_have_versions() {
    let folder = TestFolder::new();
    let store = || Arc::new(FolderStore::new(folder.path()));
    let name = folder.path().display();
    assert_eq!(Lake::open(store()).unwrap_err().to_string(), format!("{name}: no lake (it has no lake.json)"));
    folder.lake();
    let file = folder.path().join("lake.json");
    assert_eq!(fs::read_to_string(&file).unwrap(), r#"{"schema":1}"#);
    fs::write(&file, r#"{"schema":0,"later":true}"#).unwrap();
    Lake::open(store()).unwrap();
    fs::write(&file, r#"{"schema":2}"#).unwrap();
    let wanted = format!("{name}: the lake has schema 2; this version of Highwater reads up to 1");
    assert_eq!(Lake::open(store()).unwrap_err().to_string(), wanted);
    fs::write(&file, "{").unwrap();
    assert!(Lake::open(store()).unwrap_err().to_string().starts_with("lake.json: not that of a lake"));
}

/// Changes a file of `sites` with pyarrow, and returns what our reader says.
fn said_of(change: &str) -> Result<Vec<SiteRow>, String> {
    let folder = TestFolder::new();
    let lake = folder.lake();
    let mut batch = Batch::default();
    snapshot(&mut batch, &process("s", "h", 1), SLOT, 5);
    lake.add("h", &batch).unwrap();
    let path = paths(&lake, Table::Sites).remove(0);
    let program = format!(
        "import sys, pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc\n\
         path = sys.argv[1]\nt = pq.read_table(path, partitioning=None)\n{change}\npq.write_table(t, path, compression='zstd')\n"
    );
    run_python(&program, &[path.to_str().unwrap()]);
    let file = lake.files(Table::Sites, SlotRange::ALL).unwrap().incoming.remove(0);
    let reader = lake.read::<SiteRow>(&file).map_err(|error| error.to_string())?;
    reader.all_rows(1000).map_err(|error| error.to_string())
}

#[test]
fn files_of_other_tools() {
    let same = said_of("t = t.append_column('more', t['slot'])").unwrap();
    assert_eq!(same.len(), 5);
    for (change, wanted) in [
        ("t = t.drop_columns(['host'])", "has no column 'host'"),
        (
            "t = t.set_column(0, 'slot', t['slot'].cast(pa.string()))",
            "column 'slot' is BYTE_ARRAY (String), not a 64-bit integer",
        ),
        ("t = t.set_column(0, 'slot', t['slot'].cast(pa.uint64()))", "not a 64-bit integer"),
        (
            "t = t.set_column(5, 'start', t['start'].cast(pa.timestamp('ms', 'UTC'), safe=False))",
            "not a time in microseconds, UTC",
        ),
        (
            "t = t.set_column(0, 'slot', pa.array([None] + [1] * 4, pa.int64()))",
            "column 'slot' has a row without a value",
        ),
        ("t = t.set_column(0, 'slot', pa.array([-5] * 5, pa.int64()))", "column 'slot' has the impossible value -5"),
        ("t = t.set_column(0, 'slot', pa.array([[1]] * 5))", "has no column 'slot'"),
        (
            "t = t.replace_schema_metadata({'highwater.schema': '9'})",
            "has schema 9; this version of Highwater reads up to 1",
        ),
        (
            "t = t.replace_schema_metadata({'highwater.table': 'frames'})",
            "is a file of the table 'frames', not of 'sites'",
        ),
    ] {
        let said = said_of(change).unwrap_err();
        assert!(said.contains(wanted) && !said.contains('\n'), "{change}: {said}");
    }
}

#[test]
fn truncated_and_damaged_files() {
    let mut batch = Batch::default();
    snapshot(&mut batch, &process("s", "h", 1), SLOT, 300);
    let mut writer = TableWriter::new(Vec::new(), false).unwrap().with_row_group(100);
    writer.extend(batch.sites.clone()).unwrap();
    let (bytes, rows) = writer.finish().unwrap();
    assert_eq!(rows, 300);
    let folder = TestFolder::new();
    let path = folder.path().join("x.parquet");
    let read = |bytes: &[u8]| -> Result<Vec<SiteRow>, String> {
        fs::write(&path, bytes).unwrap();
        let reader = TableReader::new(File::open(&path).unwrap(), Some("s")).map_err(|error| error.to_string())?;
        reader.all_rows(1000).map_err(|error| error.to_string())
    };
    assert_eq!(read(&bytes).unwrap().len(), 300);
    for length in (0..bytes.len()).step_by(97) {
        let said = read(&bytes[..length]).unwrap_err();
        assert!(said.starts_with("damaged, or no Parquet file: ") && !said.contains('\n'), "{said}");
    }
    // Any byte may be wrong: rows or one line, never a panic.
    for at in (0..bytes.len()).step_by(13) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        if let Err(said) = read(&changed) {
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
