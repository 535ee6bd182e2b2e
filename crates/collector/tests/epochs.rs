//! Epochs do not run out, however many snapshots leave blocks behind that were born while they were taken.

#[path = "support/own_table.rs"]
mod own_table;

use highwater_agent as agent;
use highwater_collector::LiveTable;
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::SHARDS;
use std::collections::HashSet;
use std::time::Duration;

fn epochs_in_use(table: &LiveTable) -> usize {
    let extent = table.extent().unwrap();
    let mut epochs = HashSet::new();
    for shard in 0..SHARDS {
        for record in table.records(shard, extent.used[shard as usize]) {
            record.read(Word(0), |epoch| {
                epochs.insert(epoch);
            });
        }
    }
    epochs.remove(&0);
    epochs.len()
}

#[test]
fn records_forget_their_epochs_before_there_are_none_left() {
    let table = own_table::begin();
    let mut number = 0u64;
    let mut allocate = || {
        number += 1;
        agent::allocated_at(number * 64, number, 0);
    };
    let (mut most, mut swept) = (0, false);
    // A quarter of all epochs are used before a sweep is asked for; then half as many blocks again.
    for round in 0..24_000u32 {
        let mut cut = table.cut(Duration::from_secs(5)).unwrap();
        allocate();
        cut.settle();
        let extent = table.extent().unwrap();
        let scan = cut.scan(&extent, |_, _| ()).unwrap();
        assert!(cut.is_exact() && scan.is_verified() && scan.blocks == u64::from(round) * 2, "{round}: {scan:?}");
        assert!(cut.end());
        // What the program does between two snapshots.
        allocate();
        if round % 2000 == 0 {
            let in_use = epochs_in_use(&table);
            swept |= in_use < most / 2;
            most = most.max(in_use);
        }
    }
    assert!(most > 10_000, "epochs were used: {most}");
    assert!(swept || epochs_in_use(&table) < most / 2, "and forgotten: {} of {most}", epochs_in_use(&table));
}
