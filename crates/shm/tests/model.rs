//! The protocol of the live table, examined by a model checker: every order in which the threads could take their steps, and every value that
//! the memory model lets them see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p highwater-shm --test model --release`
#![cfg(loom)]

use highwater_shm::control_v1::{ControlPage, Word};
use highwater_shm::table_v1::{Count, TableBlock, TableRecord, TableShard};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

/// A table of two shards with some records each.
struct Table {
    control: ControlPage,
    shards: [TableShard; 2],
    records: [[TableRecord; 2]; 2],
    /// For a second thread: the progress of the first one.
    flag: AtomicBool,
}

impl Table {
    fn new() -> Arc<Self> {
        let record = || TableRecord { words: core::array::from_fn(|_| AtomicU64::new(0)) };
        Arc::new(Self {
            control: ControlPage::default(),
            shards: core::array::from_fn(|_| TableShard::default()),
            records: core::array::from_fn(|_| core::array::from_fn(|_| record())),
            flag: AtomicBool::new(false),
        })
    }

    /// Changes shards as the agent does: all locks, then the word, once.
    fn change(&self, shards: &[usize], work: impl FnOnce(Word)) {
        for &shard in shards {
            while !self.shards[shard].try_lock() {
                thread::yield_now();
            }
        }
        let word = self.control.load();
        for &shard in shards {
            self.shards[shard].begin_change(word);
        }
        work(word);
        for &shard in shards.iter().rev() {
            self.shards[shard].unlock();
        }
    }

    fn birth(&self, shard: usize, record: usize, address: u64, word: Word) {
        self.records[shard][record].birth(&TableBlock { address, size: address, ..TableBlock::default() }, word);
        self.shards[shard].counts.add(Count::Allocations, 1);
        self.shards[shard].counts.add(Count::AllocatedBytes, address);
    }

    fn death(&self, shard: usize, record: usize, word: Word) {
        let size = self.records[shard][record].block().size;
        self.records[shard][record].death(word);
        self.shards[shard].counts.add(Count::Frees, 1);
        self.shards[shard].counts.add(Count::FreedBytes, size);
    }

    /// A snapshot as the collector takes it: the live addresses. `None` if it would have to wait longer.
    fn snapshot(&self) -> Option<Vec<u64>> {
        let cut = self.control.cut(1);
        let locks: [u32; 2] = core::array::from_fn(|shard| self.shards[shard].observe());
        let settled = self.shards.iter().zip(locks).all(|(shard, lock)| shard.is_settled(lock));
        let live = settled.then(|| {
            let records = self.records.iter().flatten();
            let mut live: Vec<u64> =
                records.filter_map(|record| record.read(cut, |_| ())).map(|block| block.address).collect();
            live.sort_unstable();
            let counts = self.shards.each_ref().map(|shard| shard.counts_at(cut));
            let sum = |count: Count| counts.iter().map(|counts| counts[count as usize]).sum::<u64>();
            assert_eq!(sum(Count::Allocations) - sum(Count::Frees), live.len() as u64, "{live:?}");
            assert_eq!(sum(Count::AllocatedBytes) - sum(Count::FreedBytes), live.iter().sum::<u64>());
            live
        });
        assert!(self.control.end(cut));
        live
    }

    /// The result of a plain copy of the table: the negative control.
    fn plain_copy(&self) -> Vec<u64> {
        let records = self.records.iter().flatten();
        let mut live: Vec<u64> =
            records.filter_map(|record| record.read(Word(0), |_| ())).map(|block| block.address).collect();
        live.sort_unstable();
        live
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// One thread: block 1, then block 2 in the other shard, then block 1 dies, then block 3 is born. Every cut shows one of the states in between.
fn a_sliding_window(look: fn(&Table) -> Option<Vec<u64>>) {
    model(move || {
        let table = Table::new();
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.change(&[0], |word| table.birth(0, 0, 1, word));
                table.change(&[1], |word| table.birth(1, 0, 2, word));
                table.change(&[0], |word| table.death(0, 0, word));
                table.change(&[1], |word| table.birth(1, 1, 3, word));
            })
        };
        if let Some(seen) = look(&table) {
            let states: [&[u64]; 5] = [&[], &[1], &[1, 2], &[2], &[2, 3]];
            assert!(states.contains(&&seen[..]), "not a state that ever was: {seen:?}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_cut_shows_a_state_that_was() {
    a_sliding_window(Table::snapshot);
}

#[test]
#[should_panic(expected = "not a state that ever was")]
fn a_plain_copy_does_not() {
    a_sliding_window(|table| Some(table.plain_copy()));
}

#[test]
fn a_block_that_moves_is_there_once() {
    model(|| {
        let table = Table::new();
        table.change(&[0], |word| table.birth(0, 0, 8, word));
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.change(&[0, 1], |word| {
                    table.birth(1, 0, 8, word);
                    table.death(0, 0, word);
                });
            })
        };
        if let Some(seen) = table.snapshot() {
            assert_eq!(seen, [8]);
        }
        writer.join().unwrap();
    });
}

#[test]
fn what_another_thread_saw_before_is_there() {
    model(|| {
        let table = Table::new();
        let writers: Vec<_> = [false, true]
            .into_iter()
            .map(|second| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    if !second {
                        table.change(&[0], |word| table.birth(0, 0, 1, word));
                        table.flag.store(true, Ordering::Release);
                    } else if table.flag.load(Ordering::Acquire) {
                        table.change(&[1], |word| table.birth(1, 0, 2, word));
                    }
                })
            })
            .collect();
        if let Some(seen) = table.snapshot() {
            assert_ne!(seen, [2], "the second block was allocated after the first");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
