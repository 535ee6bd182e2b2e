//! A day on a host whose processes come and go: snapshots become rows, and rows a lake, in memory that does not grow.

use super::*;
use crate::{LakeTarget, Parcel, ShipSpool, ShipTarget};
use highwater_lake::rows::StackRow;
use highwater_lake::store::open_store;
use highwater_lake::{Lake, SlotRange, Table};
use highwater_model::{Accounts, AccountsState, Catalog, Frame, Module, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

const SLOTS: u32 = 1440;
const FIRST: i64 = 1_795_000_000 / DAY * DAY;
const SEATS: u32 = 20;
/// Slots in the life of a process.
const LIFE: u32 = 30;
const SITES: u64 = 50;
/// Slots until the programs are deployed with other code: new stacks.
const VERSION: u32 = 180;
const IS_THE_DAY: &str = "HIGHWATER_TEST_DAY";

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = status.split("RssAnon:").nth(1).unwrap().split_whitespace().next().unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

/// The process in a seat. Seats change at different slots, and numbers of processes are used again.
fn in_seat(seat: u32, number: u32) -> ProcessInfo {
    let life = (number + seat * 7) / LIFE;
    ProcessInfo {
        // No process of this machine has such a number.
        pid: 5_000_000 + seat * 10 + life % 10,
        forked_from: 0,
        name: format!("app-{}", seat % 4),
        command: Vec::new(),
        state: ProcessState::Live,
        since_unix_ns: u64::from(life + 1) * 1_000_000_000,
        exited_unix_ns: 0,
        live_bytes: 0,
        live_blocks: 0,
        sample_bytes: 0,
        is_estimate: false,
        table_bytes: 0,
        untracked: 0,
        unknown_frees: 0,
        allows_contents: false,
        version: 1,
        problem: String::new(),
        is_attached: false,
    }
}

/// What a process holds: stacks of a library that is loaded somewhere else in each process, at places that depend on the version of the code.
fn snapshot_of(info: &ProcessInfo, number: u32, library: &str) -> Snapshot {
    let start = 0x7f00_0000_0000 + (u64::from(info.pid) * 7919 + info.since_unix_ns % 65_521) * 0x1000;
    let mut catalog = Catalog::default();
    let path = catalog.strings.intern(library);
    let module = catalog.add_module(Module { path, start, end: start + 0x20_0000, ..Module::default() }) + 1;
    let mut state = AccountsState::default();
    for site in 0..SITES {
        let code = 0x3_0000 + u64::from(number / VERSION) * 0x1000 + site * 0x20;
        let mut stack = StackId::UNKNOWN;
        for offset in [0x2_9000, 0x2_9100, 0x2_9200 + site % 5, code] {
            let frame = catalog.stacks.intern_frame(Frame { address: start + offset, module, ..Frame::default() });
            stack = catalog.stacks.intern_child(stack, frame);
        }
        let figures = state.sites.at(stack);
        figures.allocations = 1 + site;
        figures.allocated_bytes = (1 + site) * (16 + u64::from(number % 100));
    }
    let accounts = Accounts::from_state(state);
    Snapshot { source: Source::default(), at: accounts.last_time(), accounts, catalog: Arc::new(catalog) }
}

/// The C library of this process: a file with real symbols.
fn library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.into_iter().find(|path| path.contains("/libc.so") || path.contains("/libc-")).unwrap().to_owned()
}

#[test]
fn a_day_of_processes_that_come_and_go_takes_no_more_memory_than_its_first_hours() {
    // In a process of its own: other tests use memory, too.
    if std::env::var_os(IS_THE_DAY).is_some() {
        return a_day();
    }
    let name = "batch_maker::day::a_day_of_processes_that_come_and_go_takes_no_more_memory_than_its_first_hours";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).env(IS_THE_DAY, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

fn a_day() {
    let folder = std::env::temp_dir().join(format!("highwater-churn-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let (spool_folder, lake_folder) = (folder.join("spool"), folder.join("lake"));
    let spool = ShipSpool::open(&spool_folder, 64 << 20).unwrap();
    let boot = BootClock::stored_in(&spool_folder.join("boot")).unwrap();
    let rules = LabelRules::new(Environment::default(), "host");
    let mut maker = BatchMaker::new(rules, boot, DebuginfodServers::Never, false);
    let mut target = LakeTarget::new(lake_folder.to_str().unwrap()).unwrap();
    let library = library();
    let mut seen = BTreeSet::new();
    let (mut after_some_hours, mut bytes) = (0, 0);
    for number in 0..SLOTS {
        let slot = FIRST + i64::from(number) * 60;
        let infos: Vec<ProcessInfo> = (0..SEATS).map(|seat| in_seat(seat, number)).collect();
        let mut made = MadeBatch::default();
        maker.begin(slot, &infos);
        for info in &infos {
            seen.insert(key_of(info));
            maker.add(info, slot, snapshot_of(info, number, &library), &mut made);
        }
        assert_eq!((made.problems.len(), made.batch.processes.len()), (0, SEATS as usize));
        assert_eq!(maker.processes.len(), SEATS as usize, "processes that have ended are forgotten");
        bytes += made.batch.sites.iter().map(|row| row.live_bytes).sum::<i64>();
        spool.add(slot, &made.batch).unwrap();
        if number % 5 == 4 {
            let spooled = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
            let (batch, lines) = spool.read(&spooled);
            assert!(lines.is_empty(), "{lines:?}");
            let (id, first_slot) = (spooled.id.clone(), spooled.slots[0]);
            let parcel = Parcel { id, host: "host".to_owned(), first_slot, batch, is_target_known: number > 4 };
            target.send(&parcel).unwrap();
            spool.remove(&spooled).unwrap();
        }
        // The second version is known, and debug information was opened and closed.
        if number == VERSION + 60 {
            assert!(maker.symbolizer.is_none(), "debug information stays open although nothing new is named");
            after_some_hours = resident_bytes();
        }
    }
    let after_a_day = resident_bytes();
    assert!(after_a_day < after_some_hours + (8 << 20), "{after_some_hours} bytes at first, {after_a_day} after a day");

    let lake = Lake::open(open_store(lake_folder.to_str().unwrap()).unwrap()).unwrap();
    let rows = |table| lake.files(table, SlotRange::ALL).unwrap().incoming;
    let mut stacks = BTreeMap::new();
    for file in rows(Table::Stacks) {
        for row in lake.read::<StackRow>(&file).unwrap().all_rows(1 << 20).unwrap() {
            let is_again = stacks.insert((row.service.clone(), row.stack_id, row.site_id), row).is_some();
            assert!(!is_again, "a stack is sent once a day for each service");
        }
    }
    let versions = u64::from(SLOTS / VERSION);
    assert_eq!(stacks.len() as u64, 4 * versions * SITES);
    let (mut processes, mut live_bytes) = (BTreeSet::new(), 0);
    for file in rows(Table::Sites) {
        for row in lake.read::<SiteRow>(&file).unwrap().all_rows(1 << 20).unwrap() {
            let key = (row.process.labels.service.clone(), row.stack_id, row.site_id);
            assert!(stacks.contains_key(&key), "a row without a stack: {row:?}");
            processes.insert(row.process.process_id);
            live_bytes += row.live_bytes;
        }
    }
    assert_eq!((processes.len(), live_bytes), (seen.len(), bytes));
    assert!(seen.len() > 900, "{}", seen.len());
    let _ = fs::remove_dir_all(&folder);
}
