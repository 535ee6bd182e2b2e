//! Random lakes, and the engine.
#![allow(dead_code, missing_docs)]

use highwater_fleet::{DuckDbProgram, EngineLimits, FleetLake, FleetScope};
use highwater_lake::Lake;
use highwater_lake::compact::{CompactOptions, compact};
use highwater_lake::identity::{process_id, site_id};
use highwater_lake::rows::{Batch, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use highwater_lake::store::FolderStore;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A full hour.
pub const START: i64 = 1_790_006_400;
const SERVICES: [&str; 5] = ["checkout", "007", "a/b'c\\d ${x} é %_", "Null", "__HIVE_DEFAULT_PARTITION__"];
const REGIONS: [&str; 2] = ["eu west's", "us_west\\2"];
const HOSTS: [&str; 4] = ["web-1", "web-2", "db%_!", "q'\"é"];
const VERSIONS: [&str; 3] = ["1.9.0", "1.10.0", "2.0'0"];

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// DuckDB's library, as `./test` installs it.
pub fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("tools/duckdb/libduckdb.so");
    assert!(path.is_file(), "{} is missing: run crates/fleet/tools {}", path.display(), target.join("tools").display());
    path
}

pub fn engine() -> DuckDbProgram {
    DuckDbProgram::new(env!("CARGO_BIN_EXE_highwater-fleet").into()).with_library(library())
}

pub fn open(folder: &Path) -> FleetLake {
    let lake = Lake::create_or_open(Arc::new(FolderStore::new(folder))).unwrap();
    let limits = EngineLimits { threads: 2, seconds: 120, ..EngineLimits::default() };
    FleetLake::new(lake, Box::new(engine()), limits)
}

/// The rows of an answer as objects.
pub fn ask(lake: &FleetLake, sql: &str, scope: &FleetScope) -> Vec<Value> {
    let found = lake.ask(sql, scope, 1_000_000, &|| true).unwrap_or_else(|error| panic!("{error}\n{sql}"));
    assert_eq!(found.left_out, [""; 0]);
    found.answer.objects().collect()
}

/// Numbers that look random, the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// All rows of a lake, as they were added.
#[derive(Default)]
pub struct Rows {
    pub processes: Vec<ProcessRow>,
    pub sites: Vec<SiteRow>,
    pub stacks: Vec<StackRow>,
}

/// Makes a lake of some hours: the first ones compacted, the rest as hosts wrote it.
pub fn random_lake(folder: &Path, seed: u64) -> Rows {
    let lake = Lake::create_or_open(Arc::new(FolderStore::new(folder))).unwrap();
    let mut dice = Dice(seed);
    let mut all = Rows::default();
    let minutes = 100 + dice.below(60) as i64;
    for (number, host) in HOSTS.into_iter().enumerate() {
        let mut batch = Batch::default();
        for service in SERVICES.into_iter().filter(|_| dice.below(4) > 0).collect::<Vec<_>>() {
            for (index, version) in VERSIONS.into_iter().enumerate().filter(|_| dice.below(4) > 0).collect::<Vec<_>>() {
                let pid = number as i32 * 100 + index as i32;
                let from = index as i64 * 30 + dice.below(20) as i64;
                let start_us = (START + from * 60) * 1_000_000;
                let labels = Labels {
                    service: service.into(),
                    version: version.into(),
                    region: REGIONS[number % 2].into(),
                    host: host.into(),
                    container: format!("pod {}", pid % 3),
                };
                let process_id = process_id(&format!("{host}{service}"), "boot", pid, start_us);
                let process = Arc::new(LakeProcess { labels, pid, start_us, process_id });
                let period = if dice.below(4) == 0 { 524_288 } else { 0 };
                let end = (from + 40 + dice.below(60) as i64).min(minutes);
                for minute in from..end {
                    // Some slots are missing.
                    if dice.below(8) > 0 {
                        // Sampling may begin, or end, while a process runs.
                        let is_sampled = if pid % 2 == 0 { minute < from + 30 } else { minute >= from + 30 };
                        let period = if is_sampled { period } else { 0 };
                        add_slot(&mut batch, &process, period, minute, minute - from, &mut dice);
                    }
                }
            }
        }
        let mut stacks: Vec<StackRow> = Vec::new();
        for row in &batch.sites {
            let (function, service) = (name(row.site_id), row.process.labels.service.clone());
            let stack = format!("main;{function};malloc");
            let (stack_id, site_id) = (row.stack_id, row.site_id);
            let row = StackRow { stack_id, site_id, service, function, type_name: String::new(), stack };
            if !stacks.contains(&row) {
                stacks.push(row);
            }
        }
        batch.stacks = stacks;
        all.processes.extend(batch.processes.iter().cloned());
        all.sites.extend(batch.sites.iter().cloned());
        all.stacks.extend(batch.stacks.iter().cloned());
        lake.add(host, &batch).unwrap();
        // A host may send the same again.
        lake.add(host, &batch).unwrap();
    }
    let options = CompactOptions { until: START + 3600, memory: 64 << 20 };
    assert!(compact(&lake, &options, &mut |_, _| {}).unwrap().skipped.is_empty());
    all
}

/// The function of a site.
pub fn name(site_id: i64) -> String {
    format!("f'{}<T>", site_id.rem_euclid(1000))
}

fn add_slot(batch: &mut Batch, process: &Arc<LakeProcess>, sample_period: i64, minute: i64, age: i64, dice: &mut Dice) {
    let slot = START + minute * 60;
    let (mut live_bytes, mut live_blocks) = (0, 0);
    for site in 0..12 {
        let functions = format!("f{site}");
        let blocks = match site {
            // Two leaks, the second of two stacks; ties; noise; a sawtooth.
            0 => 5 + age * 3,
            1 | 2 => 7 + age * 2,
            3..6 => 10,
            6 => age % 10,
            _ => dice.below(50) as i64,
        };
        if blocks == 0 || (site > 8 && dice.below(3) == 0) {
            continue;
        }
        let bytes = blocks * (16 + site.min(5));
        let site_id = site_id([functions.as_str(), "main"]);
        // Sites 1 and 2 have one list of names and two stacks.
        let site_id = if site == 2 { highwater_lake::identity::site_id(["f1", "main"]) } else { site_id };
        batch.sites.push(SiteRow {
            slot,
            process: Arc::clone(process),
            stack_id: 1000 + site,
            site_id,
            sample_period,
            live_bytes: bytes,
            live_blocks: blocks,
            alloc_bytes: (site % 2 == 0).then_some(bytes * 2),
            alloc_blocks: None,
        });
        live_bytes += bytes;
        live_blocks += blocks;
    }
    batch.processes.push(ProcessRow {
        slot,
        process: Arc::clone(process),
        sample_period,
        live_bytes: live_bytes * 1000,
        live_blocks,
        rss_bytes: (process.pid % 2 == 0).then_some(live_bytes * 1500),
        // Some are beyond it.
        limit_bytes: (process.pid % 3 != 0).then_some(if process.pid % 3 == 1 { 1 << 30 } else { 1 << 20 }),
    });
}
