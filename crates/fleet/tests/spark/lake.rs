//! A small lake with what questions are about: services with awkward names, versions, regions, hosts, restarts, and leaks of known slope.

use highwater_fleet::protocol::{EngineRequest, TableFiles};
use highwater_fleet::schema;
use highwater_lake::compact::{CompactOptions, compact};
use highwater_lake::identity::{process_id, site_id};
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use highwater_lake::store::FolderStore;
use highwater_lake::{Lake, SlotRange, Table};
use std::path::Path;
use std::sync::Arc;

/// A full hour.
pub const START: i64 = 1_790_006_400;
const MINUTES: i64 = 150;
const SERVICES: [&str; 5] = ["checkout", "007", "a/b'c\\d ${x} é", "null", "__HIVE_DEFAULT_PARTITION__"];
const SITES: i64 = 40;

/// Makes the lake. The first two hours are compacted, the rest is as hosts wrote it.
pub fn make(folder: &Path) -> Lake {
    let lake = Lake::create_or_open(Arc::new(FolderStore::new(folder))).unwrap();
    for number in 0..4 {
        let host = format!("host-{number}");
        let mut batch = Batch::default();
        for (index, service) in SERVICES.into_iter().enumerate() {
            add_names(&mut batch, service);
            // Each process is replaced by one of the next version after seventy minutes.
            for (version, from, to) in [("1.42.0", 0, 70), ("1.43.0", 70, MINUTES)] {
                let pid = 1000 + i32::try_from(index).unwrap() * 10 + i32::from(version == "1.43.0");
                let start_us = (START + from * 60) * 1_000_000 - 123_456;
                let process = Arc::new(LakeProcess {
                    labels: Labels {
                        service: service.to_owned(),
                        version: version.to_owned(),
                        region: if number % 2 == 0 { "eu-west-1".to_owned() } else { "us-west-2".to_owned() },
                        host: host.clone(),
                        container: format!("pod-{pid}"),
                    },
                    pid,
                    start_us,
                    process_id: process_id(&host, "boot", pid, start_us),
                });
                (from..to).for_each(|minute| add_slot(&mut batch, &process, number, minute, minute - from));
            }
        }
        lake.add(&host, &batch).unwrap();
    }
    let options = CompactOptions { until: START + 2 * 3600, memory: 64 << 20 };
    let done = compact(&lake, &options, &mut |_, _| {}).unwrap();
    assert!(done.skipped.is_empty() && done.hour_rows > 0);
    lake
}

fn name(service: &str, site: i64) -> String {
    format!("{}::site_{site}<T>", &service[..1])
}

fn ids(service: &str, site: i64) -> (i64, i64) {
    let function = name(service, site);
    (site_id([function.as_str(), "stack"]), site_id([function.as_str(), "main"]))
}

fn add_names(batch: &mut Batch, service: &str) {
    for site in 0..SITES {
        let (stack_id, site_id) = ids(service, site);
        let (function, caller) = (name(service, site), format!("caller_{}", site % 5));
        batch.stacks.push(StackRow {
            stack_id,
            site_id,
            service: service.to_owned(),
            function: function.clone(),
            type_name: if site % 4 == 0 { "Vec<u8>".to_owned() } else { String::new() },
            stack: format!("main;{caller};{function}"),
        });
        for (depth, function) in (0..).zip([function, caller, "main".to_owned()]) {
            let (file, module, build_id) = ("src/main.rs".to_owned(), "app".to_owned(), "00ff".to_owned());
            batch.frames.push(FrameRow { stack_id, site_id, depth, function, file, line: depth + 7, module, build_id });
        }
    }
}

fn add_slot(batch: &mut Batch, process: &Arc<LakeProcess>, host: i64, minute: i64, age: i64) {
    let slot = START + minute * 60;
    let is_new = process.labels.version == "1.43.0";
    let (mut bytes, mut blocks) = (0, 0);
    for site in 0..SITES {
        let (stack_id, site_id) = ids(&process.labels.service, site);
        // Two thirds are constant, the others vary without a trend.
        let mut live_blocks = if site % 3 == 0 { 10 + (minute * 7919 + site * 104_729 + host) % 37 } else { 10 + site };
        // The leak: three blocks a minute, a little faster on each host.
        if is_new && site == 4 && process.labels.service != "007" {
            live_blocks += (3 + host) * age;
        }
        // The sum of the squares of a process has more than 63 bits.
        if is_new && site == 5 && process.labels.service == "null" {
            live_blocks = 2_000_000_000 + 1_000_000 * age;
        }
        let live_bytes = live_blocks * (24 + site);
        (bytes, blocks) = (bytes + live_bytes, blocks + live_blocks);
        let counts_all = site % 2 == 0;
        batch.sites.push(SiteRow {
            slot,
            process: Arc::clone(process),
            stack_id,
            site_id,
            sample_period: 0,
            live_bytes,
            live_blocks,
            alloc_bytes: counts_all.then_some(live_bytes * 2),
            alloc_blocks: counts_all.then_some(live_blocks * 2),
        });
    }
    batch.processes.push(ProcessRow {
        slot,
        process: Arc::clone(process),
        sample_period: 0,
        live_bytes: bytes,
        live_blocks: blocks,
        rss_bytes: (host != 3).then_some(bytes * 2),
        limit_bytes: (host < 2).then_some(1 << 26),
    });
}

/// A request for a text over the whole lake.
pub fn request(lake: &Lake, sql: String) -> EngineRequest {
    let mut request =
        EngineRequest { views: schema::views(), sql, max_rows: 1_000_000, seconds: 240, ..Default::default() };
    for table in Table::ALL {
        let files = lake.files(table, SlotRange::ALL).unwrap();
        let paths = |files: Vec<highwater_lake::store::StoredFile>| {
            let path = |file| lake.store().local_path(file).unwrap().to_str().unwrap().to_owned();
            files.iter().map(path).collect()
        };
        let (compacted, incoming) = (paths(files.compacted), paths(files.incoming));
        let columns = schema::columns(table.name());
        request.tables.insert(table.name().to_owned(), TableFiles { columns, compacted, incoming });
    }
    lake.store().name().clone_into(&mut request.base);
    request
}
