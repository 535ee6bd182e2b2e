//! Plays recorded programs as a fleet and writes its lake: `bench/fleet`.
//!
//!     fleet-lake SITES LAKE PROCESSES MINUTES SITES_PER_PROCESS MINUTES_PER_FILE
//!
//! SITES is what `bench/fleet.py` makes of recordings. Prints as JSON what is in the lake, counted here row by row, and which leaks must be found.

mod plan;
mod recorded;

use highwater_lake::rows::{Batch, ProcessRow, SiteRow};
use highwater_lake::store::open_store;
use highwater_lake::{Lake, LakeError};
use plan::{FleetPlan, Seat};
use recorded::{RecordedService, read_services};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// 2025-11-17T12:00:00Z.
const START: i64 = 1_763_380_800;
const LIMIT: i64 = 4 << 30;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sites, lake, numbers @ ..] = &arguments[..] else { return Err("see bench/fleet".into()) };
    let numbers: Vec<u32> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [processes, minutes, most_sites, per_file] = numbers[..] else { return Err("see bench/fleet".into()) };
    let services = read_services(&std::fs::read_to_string(sites)?, most_sites as usize)?;
    let plan = FleetPlan { processes, minutes, services: &services };
    let lake = Lake::create_or_open(open_store(lake)?)?;
    let mut counted = Counted::default();
    for host in 0..plan.hosts() {
        write_host(&lake, &plan, host, per_file.max(1), &mut counted)?;
    }
    println!("{}", counted.json(&services, minutes));
    Ok(())
}

/// What was written, for comparison with the answers.
#[derive(Default)]
struct Counted {
    rows: u64,
    live_bytes: i64,
    alloc_bytes: i64,
    by_slot: BTreeMap<i64, i64>,
    /// By service and site: the rate, and the processes and hosts that leak.
    leaks: BTreeMap<(String, i64), Leaking>,
}

#[derive(Default)]
struct Leaking {
    blocks_per_hour: i64,
    processes: BTreeSet<i64>,
    hosts: BTreeSet<String>,
}

impl Counted {
    fn json(&self, services: &[RecordedService], minutes: u32) -> serde_json::Value {
        let (slot, bytes) = self.by_slot.iter().rev().max_by_key(|(_, bytes)| **bytes).unwrap_or((&0, &0));
        let leak = |((service, site), leak): (&(String, i64), &Leaking)| {
            serde_json::json!({ "service": service, "site_id": site.to_string(), "blocks_per_hour": leak.blocks_per_hour,
                "processes": leak.processes.len(), "hosts": leak.hosts.len() })
        };
        serde_json::json!({
            "first_slot": START, "rows": self.rows, "live_bytes": self.live_bytes, "alloc_bytes": self.alloc_bytes, "minutes": minutes,
            "peak_slot": slot, "peak_bytes": bytes, "leaks": self.leaks.iter().map(leak).collect::<Vec<_>>(),
            "services": services.iter().map(RecordedService::json).collect::<Vec<_>>(),
        })
    }
}

/// Writes what one host ships: a file for each table every few minutes, and names when they are new.
fn write_host(
    lake: &Lake,
    plan: &FleetPlan<'_>,
    host: u32,
    per_file: u32,
    counted: &mut Counted,
) -> Result<(), LakeError> {
    let mut seats: Vec<Seat<'_>> = plan.seats(host);
    let mut named = BTreeSet::new();
    let mut batch = Batch::default();
    let name = plan.host_name(host);
    for minute in 0..plan.minutes {
        for seat in &mut seats {
            seat.advance(minute);
            let names = (seat.process().labels.service.clone(), seat.process().labels.version.clone());
            if named.insert(names) {
                seat.add_names(&mut batch);
            }
            add_rows(seat, minute, &mut batch, counted);
        }
        if (minute + 1) % per_file == 0 || minute + 1 == plan.minutes {
            lake.add(&name, &std::mem::take(&mut batch))?;
        }
    }
    Ok(())
}

fn add_rows(seat: &Seat<'_>, minute: u32, batch: &mut Batch, counted: &mut Counted) {
    let slot = START + 60 * i64::from(minute);
    let process = seat.process();
    let (mut bytes, mut blocks) = (0, 0);
    for state in seat.states() {
        bytes += state.live_bytes;
        blocks += state.live_blocks;
        counted.rows += 1;
        counted.alloc_bytes += state.alloc_bytes;
        batch.sites.push(SiteRow {
            slot,
            process: Arc::clone(process),
            stack_id: state.stack_id,
            site_id: state.site_id,
            sample_period: 0,
            live_bytes: state.live_bytes,
            live_blocks: state.live_blocks,
            alloc_bytes: Some(state.alloc_bytes),
            alloc_blocks: Some(state.alloc_blocks),
        });
    }
    batch.processes.push(ProcessRow {
        slot,
        process: Arc::clone(process),
        sample_period: 0,
        live_bytes: bytes,
        live_blocks: blocks,
        rss_bytes: Some(bytes + bytes / 4),
        limit_bytes: Some(LIMIT),
    });
    counted.live_bytes += bytes;
    *counted.by_slot.entry(slot).or_default() += bytes;
    if let Some((site_id, blocks_per_hour)) = seat.leak() {
        let leak = counted.leaks.entry((process.labels.service.clone(), site_id)).or_default();
        leak.blocks_per_hour = blocks_per_hour;
        leak.processes.insert(process.process_id);
        leak.hosts.insert(process.labels.host.clone());
    }
}
