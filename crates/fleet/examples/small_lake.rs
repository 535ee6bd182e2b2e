//! Makes a small lake for tests and the documentation, and prints what is in it as JSON: sums that are counted here, row by row, while rows are made.
//!
//!     small_lake FOLDER [sampled]
//!
//! Two services on six hosts in two regions, seventy minutes. After half an hour all hosts of `checkout` change from version 1.42.0 to 1.43.0, which leaks sessions on
//! all hosts but one. At minute 41 there is a burst. The second service has a name that no page and no SQL text may take for anything but a name.
//! With `sampled`, the second service is `search` instead: its version 1 counts every block, and its version 2, from minute 35 on, only samples of them. One of its
//! sites is also in `checkout`.

use highwater_lake::identity::{FrameIdentity, process_id, site_id, stack_id};
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use highwater_lake::{Lake, store::open_store};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// 2025-11-17T12:00:00Z.
const START: i64 = 1_763_380_800;
const SLOTS: i64 = 70;
const CHANGE: i64 = 30;
const BURST: i64 = 41;
const HOSTS: i64 = 6;
const HOSTILE: &str = "we\"ird 'svc' <b>bold</b>";

const SAMPLED_FROM: i64 = 35;
const SAMPLED_HOSTS: i64 = 2;
const SAMPLE_PERIOD: i64 = 512 << 10;

struct Site {
    functions: &'static [&'static str],
    blocks: u64,
    size: u64,
}

/// What a process of `checkout` holds at a minute.
fn checkout(host: i64, version: &str, minute: i64, age: i64) -> Vec<Site> {
    let wave = (minute * 7 + host * 3) % 5;
    let leaked = if version == "1.43.0" && host != 3 { 3 * age } else { 0 };
    let burst = if minute == BURST { 4000 } else { 10 };
    let mut sites = vec![
        Site { functions: &["malloc", "Cache::fill", "handle", "main"], blocks: 900, size: 1024 },
        Site { functions: &["malloc", "Session::open", "handle", "main"], blocks: (40 + leaked) as u64, size: 2048 },
        Site { functions: &["malloc", "parse", "handle", "main"], blocks: (100 + wave) as u64, size: 64 },
        Site { functions: &["malloc", "Report::render", "main"], blocks: burst, size: 512 },
    ];
    if host % 2 == 0 {
        sites.push(Site { functions: &["malloc", "TaxTable::load", "main"], blocks: 300, size: 700 });
    }
    sites
}

/// What a process of `search` holds at a minute: as a sampled one, in whole samples.
fn search(minute: i64) -> Vec<Site> {
    let size = SAMPLE_PERIOD as u64;
    vec![
        Site { functions: &["malloc", "Shard::load", "main"], blocks: 4, size },
        Site {
            functions: &["malloc", "Query::cache", "handle", "main"],
            blocks: 3 + 2 * minute as u64,
            size: size / 64,
        },
        Site { functions: &["malloc", "parse", "handle", "main"], blocks: 1, size },
    ]
}

#[derive(Default)]
struct Counted {
    by_slot: BTreeMap<i64, i64>,
    by_slot_function: BTreeMap<i64, BTreeMap<String, i64>>,
    by_slot_service: BTreeMap<i64, BTreeMap<String, i64>>,
    by_slot_version: BTreeMap<i64, BTreeMap<String, i64>>,
    by_process: BTreeMap<String, BTreeMap<i64, i64>>,
}

struct LakeMaker {
    seen: HashSet<i64>,
    counted: Counted,
}

impl LakeMaker {
    fn add(&mut self, batch: &mut Batch, process: &Arc<LakeProcess>, slot: i64, sites: &[Site]) {
        let labels = &process.labels;
        let is_sampled = labels.service == "search" && labels.version == "2";
        let sample_period = if is_sampled { SAMPLE_PERIOD } else { 0 };
        let (mut bytes, mut blocks) = (0, 0);
        for site in sites {
            let frames: Vec<FrameRow> = site
                .functions
                .iter()
                .enumerate()
                .map(|(depth, function)| FrameRow {
                    depth: depth as i32,
                    function: (*function).to_owned(),
                    file: if depth == 0 {
                        String::new()
                    } else {
                        format!("/src/{}.rs", function.to_lowercase().replace("::", "_"))
                    },
                    line: if depth == 0 { 0 } else { 10 + depth as i32 },
                    module: if depth == 0 { "libc.so.6".to_owned() } else { "checkout".to_owned() },
                    // The code moves from version to version, its names do not.
                    build_id: format!(
                        "{:x}",
                        labels.version.len() + labels.version.bytes().map(usize::from).sum::<usize>()
                    ),
                    ..FrameRow::default()
                })
                .collect();
            let identity = |frame: &FrameRow| (frame.build_id.clone(), 16 * frame.depth as u64);
            let codes: Vec<(String, u64)> = frames.iter().map(identity).collect();
            let names = site_id(site.functions.iter().copied());
            let stack = stack_id(
                codes
                    .iter()
                    .map(|(module, offset)| FrameIdentity::Code { module: module.as_bytes(), offset: *offset })
                    .chain([FrameIdentity::Named { function: site.functions[1], file: "", line: 0 }]),
            );
            if self.seen.insert(stack ^ names.rotate_left(17) ^ labels.service.len() as i64) {
                let outermost_first: Vec<&str> = site.functions.iter().rev().copied().collect();
                batch.stacks.push(StackRow {
                    stack_id: stack,
                    site_id: names,
                    service: labels.service.clone(),
                    function: site.functions[1].to_owned(),
                    type_name: String::new(),
                    stack: outermost_first.join(";"),
                });
                let of_stack = |frame: FrameRow| FrameRow { stack_id: stack, site_id: names, ..frame };
                batch.frames.extend(frames.into_iter().map(of_stack));
            }
            let (live_bytes, live_blocks) = ((site.blocks * site.size) as i64, site.blocks as i64);
            batch.sites.push(SiteRow {
                slot,
                process: Arc::clone(process),
                stack_id: stack,
                site_id: names,
                sample_period,
                live_bytes,
                live_blocks,
                alloc_bytes: None,
                alloc_blocks: None,
            });
            bytes += live_bytes;
            blocks += live_blocks;
            let function = site.functions[1].to_owned();
            *self.counted.by_slot_function.entry(slot).or_default().entry(function).or_default() += live_bytes;
        }
        batch.processes.push(ProcessRow {
            slot,
            process: Arc::clone(process),
            sample_period,
            live_bytes: bytes,
            live_blocks: blocks,
            rss_bytes: Some(bytes * 3 / 2),
            limit_bytes: Some(64 << 20),
        });
        let Counted { by_slot, by_slot_service, by_slot_version, by_process, .. } = &mut self.counted;
        *by_slot.entry(slot).or_default() += bytes;
        *by_slot_service.entry(slot).or_default().entry(labels.service.clone()).or_default() += bytes;
        *by_slot_version.entry(slot).or_default().entry(labels.version.clone()).or_default() += bytes;
        by_process.entry(process.process_id.to_string()).or_default().insert(slot, bytes);
    }
}

fn process(service: &str, version: &str, host: i64, start: i64) -> Arc<LakeProcess> {
    let (name, pid) = (format!("host-{host}"), 1000 + host as i32 * 10 + start as i32);
    let region = if host % 2 == 0 { "eu-west-1" } else { "us-east-1" };
    let labels = Labels {
        service: service.to_owned(),
        version: version.to_owned(),
        region: region.to_owned(),
        host: name.clone(),
        container: String::new(),
    };
    let start_us = (START + 60 * start) * 1_000_000;
    Arc::new(LakeProcess { labels, pid, start_us, process_id: process_id(&name, "boot", pid, start_us) })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("small_lake FOLDER [sampled]")?;
    let is_sampled = match std::env::args().nth(2).as_deref() {
        None => false,
        Some("sampled") => true,
        Some(other) => return Err(format!("{other}: only 'sampled' is known").into()),
    };
    let lake = Lake::create_or_open(open_store(&folder)?)?;
    let mut maker = LakeMaker { seen: HashSet::new(), counted: Counted::default() };
    for host in 0..HOSTS {
        let mut batch = Batch::default();
        let old = process("checkout", "1.42.0", host, 0);
        let new = process("checkout", "1.43.0", host, CHANGE);
        let other = process(HOSTILE, "7", host, 1);
        let (exact, sampled) = (process("search", "1", host, 2), process("search", "2", host, SAMPLED_FROM));
        for minute in 0..SLOTS {
            let slot = START + 60 * minute;
            let (process, age) = if minute < CHANGE { (&old, minute) } else { (&new, minute - CHANGE) };
            maker.add(&mut batch, process, slot, &checkout(host, &process.labels.version, minute, age));
            if !is_sampled && host < 2 {
                let site = Site { functions: &["malloc", "<script>alert(1)</script>", "main"], blocks: 50, size: 3000 };
                maker.add(&mut batch, &other, slot, &[site]);
            }
            if is_sampled && host < SAMPLED_HOSTS {
                let process = if minute < SAMPLED_FROM { &exact } else { &sampled };
                maker.add(&mut batch, process, slot, &search(minute));
            }
        }
        lake.add(&format!("host-{host}"), &batch)?;
    }
    let counted = maker.counted;
    println!(
        "{}",
        json!({
            "by_slot": counted.by_slot, "by_slot_function": counted.by_slot_function, "by_slot_service": counted.by_slot_service,
            "by_slot_version": counted.by_slot_version, "by_process": counted.by_process, "burst": START + 60 * BURST, "sampled_from": START + 60 * SAMPLED_FROM,
        })
    );
    Ok(())
}
