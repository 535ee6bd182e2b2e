//! A lake whose figures are easy to add up. Minutes are counted from noon.
//!
//! | service | minutes | host | holds |
//! |---|---|---|---|
//! | shop 1.0 | 0 to 19 | a (eu), b (us) | `fill` 100 blocks of 1000 bytes, `open` 10 of 500 |
//! | shop 2.0 | 20 to 79 | a | the same, and 2 more of `open` each minute |
//! | shop 2.0 | 20 to 79 | b | the same |
//! | `m"a'il` | 0 to 79 | a | `<b>send</b>` 50 blocks of 100 bytes |
//!
//! So the peak is minute 79: `fill` 200,000 bytes, `open` 64,000 + 5,000, `send` 5,000, together 274,000.

use super::Place;
use highwater_lake::Lake;
use highwater_lake::identity::{process_id, site_id};
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use highwater_lake::store::open_store;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// 2025-11-17T12:00:00Z.
pub const NOON: i64 = 1_763_380_800;
pub const MAIL: &str = "m\"a'il";
/// Each process may take a million bytes, and is resident with twice its live bytes.
pub const LIMIT: i64 = 1_000_000;

fn process(service: &str, version: &str, host: &str, start: i64) -> Arc<LakeProcess> {
    let labels = Labels {
        service: service.to_owned(),
        version: version.to_owned(),
        region: if host == "a" { "eu" } else { "us" }.to_owned(),
        host: host.to_owned(),
        container: String::new(),
    };
    let (pid, start_us) = (100 + start as i32, (NOON + 60 * start) * 1_000_000);
    Arc::new(LakeProcess { labels, pid, start_us, process_id: process_id(host, service, pid, start_us) })
}

fn add(
    batch: &mut Batch,
    seen: &mut HashSet<(String, i64)>,
    process: &Arc<LakeProcess>,
    slot: i64,
    sites: &[(&str, i64, i64)],
) {
    let (mut bytes, mut blocks) = (0, 0);
    for (function, count, size) in sites {
        let site = site_id(["malloc", function, "main"]);
        // Another version has its code at other places.
        let stack_id = site ^ process.labels.version.len() as i64;
        bytes += count * size;
        blocks += count;
        batch.sites.push(SiteRow {
            slot,
            process: Arc::clone(process),
            stack_id,
            site_id: site,
            sample_period: 0,
            live_bytes: count * size,
            live_blocks: *count,
            alloc_bytes: None,
            alloc_blocks: None,
        });
        if !seen.insert((process.labels.service.clone(), stack_id)) {
            continue;
        }
        batch.stacks.push(StackRow {
            stack_id,
            site_id: site,
            service: process.labels.service.clone(),
            function: (*function).to_owned(),
            type_name: String::new(),
            stack: format!("main;{function};malloc"),
        });
        batch.frames.extend(["malloc", function, "main"].iter().zip(0..).map(|(name, depth)| FrameRow {
            stack_id,
            site_id: site,
            depth,
            function: (*name).to_owned(),
            file: "shop.c".to_owned(),
            line: depth + 1,
            module: "shop".to_owned(),
            build_id: "00ff".to_owned(),
        }));
    }
    batch.processes.push(ProcessRow {
        slot,
        process: Arc::clone(process),
        sample_period: 0,
        live_bytes: bytes,
        live_blocks: blocks,
        rss_bytes: Some(2 * bytes),
        limit_bytes: Some(LIMIT),
    });
}

/// Makes the lake in a folder of a place.
pub fn small_lake(place: &Place, name: &str) -> PathBuf {
    let folder = place.file(name);
    let lake = Lake::create_or_open(open_store(folder.to_str().unwrap()).unwrap()).unwrap();
    for host in ["a", "b"] {
        let (old, new) = (process("shop", "1.0", host, 0), process("shop", "2.0", host, 20));
        let mail = process(MAIL, "", host, 0);
        let (mut batch, mut seen) = (Batch::default(), HashSet::new());
        for minute in 0..80 {
            let slot = NOON + 60 * minute;
            let (shop, more) = if minute < 20 { (&old, 0) } else { (&new, 2 * (minute - 20)) };
            let open = 10 + if host == "a" { more } else { 0 };
            add(&mut batch, &mut seen, shop, slot, &[("fill", 100, 1000), ("open", open, 500)]);
            if host == "a" {
                add(&mut batch, &mut seen, &mail, slot, &[("<b>send</b>", 50, 100)]);
            }
        }
        lake.add(host, &batch).unwrap();
    }
    folder
}

/// Adds a slot at noon of the next day: `fill` holds one block of 1000 bytes on host a.
pub fn add_next_day(folder: &Path) {
    let lake = Lake::open(open_store(folder.to_str().unwrap()).unwrap()).unwrap();
    let (mut batch, mut seen) = (Batch::default(), HashSet::new());
    add(&mut batch, &mut seen, &process("shop", "2.0", "a", 20), NOON + 86_400, &[("fill", 1, 1000)]);
    lake.add("a", &batch).unwrap();
}

/// All files below a folder, in order.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}
