//! A day of slots through the spool and into a lake: every row arrives once, and memory does not grow.

use highwater_lake::rows::{Batch, LakeProcess, ProcessRow, SiteRow};
use highwater_lake::store::open_store;
use highwater_lake::{Lake, SlotRange, Table};
use highwater_ship::{LakeTarget, Parcel, ShipSpool, ShipTarget};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const SLOTS: i64 = 1440;
const FIRST: i64 = 1_795_000_000 / 86_400 * 86_400;
const PROCESSES: i64 = 10;
const SITES: i64 = 50;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = status.split("RssAnon:").nth(1).unwrap().split_whitespace().next().unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

fn batch(slot: i64, processes: &[Arc<LakeProcess>]) -> Batch {
    let mut batch = Batch::default();
    for process in processes {
        for site in 0..SITES {
            batch.sites.push(SiteRow {
                slot,
                process: Arc::clone(process),
                stack_id: site * 7,
                site_id: site,
                sample_period: 0,
                live_bytes: slot % 1000 + site,
                live_blocks: 1,
                alloc_bytes: None,
                alloc_blocks: None,
            });
        }
        let live_bytes = (slot % 1000) * SITES + SITES * (SITES - 1) / 2;
        batch.processes.push(ProcessRow {
            slot,
            process: Arc::clone(process),
            sample_period: 0,
            live_bytes,
            live_blocks: SITES,
            rss_bytes: None,
            limit_bytes: None,
        });
    }
    batch
}

#[test]
fn a_day_arrives_once_and_takes_no_more_memory_than_an_hour() {
    let folder = Folder(std::env::temp_dir().join(format!("highwater-day-{}", std::process::id())));
    let _ = fs::remove_dir_all(&folder.0);
    let (spool_folder, lake_folder) = (folder.0.join("spool"), folder.0.join("lake"));
    let lake_folder = lake_folder.to_str().unwrap();
    let processes: Vec<Arc<LakeProcess>> = (0..PROCESSES)
        .map(|number| Arc::new(LakeProcess { pid: number as i32, process_id: number, ..LakeProcess::default() }))
        .collect();
    let mut target = LakeTarget::new(lake_folder).unwrap();
    let mut after_an_hour = 0;
    let mut spool = ShipSpool::open(&spool_folder, 64 << 20).unwrap();
    for number in 0..SLOTS {
        let slot = FIRST + number * 60;
        spool.add(slot, &batch(slot, &processes)).unwrap();
        if number % 5 == 4 {
            let spooled = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
            let (rows, lines) = spool.read(&spooled);
            assert!(lines.is_empty(), "{lines:?}");
            let parcel = Parcel {
                id: spooled.id.clone(),
                host: "h".to_owned(),
                first_slot: spooled.slots[0],
                batch: rows,
                is_target_known: number > 4,
            };
            target.send(&parcel).unwrap();
            if number % 100 == 4 {
                // As if the shipper had been killed before it deleted the parcel: it is sent again.
                drop(spool);
                spool = ShipSpool::open(&spool_folder, 64 << 20).unwrap();
                assert_eq!(spool.next_parcel(|_| 0).unwrap().as_ref(), Some(&spooled));
                target.send(&parcel).unwrap();
            }
            spool.remove(&spooled).unwrap();
        }
        if number == 60 {
            after_an_hour = resident();
        }
    }
    let after_a_day = resident();
    assert!(after_a_day < after_an_hour + (8 << 20), "{after_an_hour} bytes after an hour, {after_a_day} after a day");
    assert_eq!(spool.counts(), (0, 0));
    let lake = Lake::open(open_store(lake_folder).unwrap()).unwrap();
    let (mut rows, mut bytes) = (0i64, 0i64);
    for file in lake.files(Table::Sites, SlotRange::ALL).unwrap().incoming {
        for row in lake.read::<SiteRow>(&file).unwrap().all_rows(1 << 20).unwrap() {
            rows += 1;
            bytes += row.live_bytes;
        }
    }
    let expected: i64 = (0..SLOTS)
        .map(|number| batch(FIRST + number * 60, &processes).sites.iter().map(|row| row.live_bytes).sum::<i64>())
        .sum();
    assert_eq!((rows, bytes), (SLOTS * PROCESSES * SITES, expected));
}
