//! Batches and lakes for tests.
#![allow(dead_code, reason = "each test uses a part")]

use highwater_lake::identity::process_id;
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use highwater_lake::store::FolderStore;
use highwater_lake::{Lake, SlotRange, Table};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder for one test, removed at its end.
pub struct TestFolder(PathBuf);

static FOLDERS: AtomicU64 = AtomicU64::new(0);

impl TestFolder {
    pub fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        // A file system in memory, if there is one: these tests sync thousands of files.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
        let path = base.join(format!("highwater-lake-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn lake(&self) -> Lake {
        Lake::create_or_open(Arc::new(FolderStore::new(&self.0))).unwrap()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn process(service: &str, host: &str, pid: i32) -> Arc<LakeProcess> {
    let start_us = 1_790_000_000_123_456 + i64::from(pid);
    Arc::new(LakeProcess {
        labels: Labels {
            service: service.to_owned(),
            version: "1.42.0".to_owned(),
            region: "eu".to_owned(),
            host: host.to_owned(),
            container: "pod-1".to_owned(),
        },
        pid,
        start_us,
        process_id: process_id(host, "boot", pid, start_us),
    })
}

/// A process at one slot: some sites, with their stacks and frames.
pub fn snapshot(batch: &mut Batch, process: &Arc<LakeProcess>, slot: i64, sites: i64) {
    let mut total = (0, 0);
    for site in 0..sites {
        let (live_blocks, stack_id) = (site % 7 + slot / 60 % 10, site + 1_000);
        let live_bytes = live_blocks * 64;
        total = (total.0 + live_bytes, total.1 + live_blocks);
        batch.sites.push(SiteRow {
            slot,
            process: Arc::clone(process),
            stack_id,
            site_id: -(site / 2),
            sample_period: 0,
            live_bytes,
            live_blocks,
            alloc_bytes: (site % 3 == 0).then_some(live_bytes * 10),
            alloc_blocks: (site % 3 == 0).then_some(live_blocks * 10),
        });
        let service = process.labels.service.clone();
        batch.stacks.push(StackRow {
            stack_id,
            site_id: -(site / 2),
            service,
            function: format!("f{}'\"", site / 2),
            type_name: String::new(),
            stack: "main;f".to_owned(),
        });
        for depth in 0..2 {
            batch.frames.push(FrameRow {
                stack_id,
                site_id: -(site / 2),
                depth,
                function: ["f", "main"][usize::try_from(depth).unwrap()].to_owned(),
                file: "a.c".to_owned(),
                line: depth + 1,
                module: "a".to_owned(),
                build_id: "00ff".to_owned(),
            });
        }
    }
    batch.processes.push(ProcessRow {
        slot,
        process: Arc::clone(process),
        sample_period: 0,
        live_bytes: total.0,
        live_blocks: total.1,
        rss_bytes: Some(total.0 * 2),
        limit_bytes: None,
    });
}

/// The paths of all visible files of a table.
pub fn paths(lake: &Lake, table: Table) -> Vec<PathBuf> {
    let files = lake.files(table, SlotRange::ALL).unwrap();
    files.compacted.iter().chain(&files.incoming).map(|file| lake.store().local_path(file).unwrap()).collect()
}

/// Python with pyarrow, DuckDB and Spark, which `./test` installs.
pub fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("tools/python/bin/python");
    assert!(
        python.exists(),
        "{} is missing: run crates/fleet/tools {}",
        python.display(),
        target.join("tools").display()
    );
    python
}

/// Runs a program in Python, and returns what it prints.
pub fn run_python(program: &str, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(python());
    command.arg("-c").arg(program).args(arguments).env("SPARK_LOCAL_IP", "127.0.0.1").env("TZ", "UTC");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}
