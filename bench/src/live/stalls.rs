//! How long a writer waits at worst, with and without snapshots being taken, and how long the cut takes.

use crate::pinned::stay_on;
use highwater_agent as agent;
use highwater_clock::Counter;
use highwater_collector::{LiveTable, table_of};
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::SHARDS;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1500);
static STOP: AtomicBool = AtomicBool::new(false);
/// While odd, operations are not counted: between rounds.
static ROUND_NUMBER: AtomicU64 = AtomicU64::new(0);

/// What a writer saw in one round.
#[derive(Clone, Copy)]
struct Seen {
    operations: u64,
    worst_ticks: u64,
    /// The worst one during which the system did not run somebody else on this processor.
    worst_own_ticks: u64,
    /// Operations by the logarithm of their ticks, in quarters.
    histogram: [u64; 256],
}

fn slot(ticks: u64) -> usize {
    let bits = 64 - ticks.max(1).leading_zeros() as usize;
    let quarter = if bits > 3 { (ticks >> (bits - 3) & 3) as usize } else { 0 };
    bits * 4 + quarter
}

fn upper_ticks(slot: usize) -> u64 {
    let (bits, quarter) = (slot / 4, slot as u64 % 4);
    if bits > 3 { (4 + quarter + 1) << (bits - 3) } else { 1 << bits }
}

impl Seen {
    fn nothing() -> Self {
        Self { operations: 0, worst_ticks: 0, worst_own_ticks: 0, histogram: [0; 256] }
    }

    fn note(&mut self, ticks: u64, switches: &mut u64) {
        self.operations += 1;
        self.worst_ticks = self.worst_ticks.max(ticks);
        if ticks > SLOW_TICKS && ticks > self.worst_own_ticks {
            let before = std::mem::replace(switches, involuntary_switches());
            if *switches == before {
                self.worst_own_ticks = ticks;
            }
        }
        self.histogram[slot(ticks).min(255)] += 1;
    }

    /// The ticks below which all but this part of the operations are.
    fn all_but(&self, part: f64) -> u64 {
        let mut above = (self.operations as f64 * part) as u64;
        for (slot, &count) in self.histogram.iter().enumerate().rev() {
            if count > above {
                return upper_ticks(slot);
            }
            above -= count;
        }
        0
    }
}

/// Operations that take longer are worth a look at why.
const SLOW_TICKS: u64 = 20_000;

/// How often this thread was taken off its processor.
fn involuntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

fn ticks() -> u64 {
    // SAFETY: an instruction of every x86-64 processor.
    unsafe { std::arch::x86_64::_rdtsc() }
}

fn write(results: &mut Vec<Seen>) {
    const WINDOW: u64 = 1000;
    stay_on(0);
    let address = |number: u64| 0x6666_0000_0000 + (number % (WINDOW * 2)) * 64;
    let (mut round, mut seen) = (0, Seen::nothing());
    let (mut number, mut switches) = (0, involuntary_switches());
    while !STOP.load(Ordering::Relaxed) {
        let before = ticks();
        agent::allocated_at(address(number), 48, 1);
        if number >= WINDOW {
            agent::freeing(address(number - WINDOW) as *mut u8);
        }
        let passed = ticks() - before;
        number += 1;
        let now = ROUND_NUMBER.load(Ordering::Relaxed);
        if now != round {
            if round % 2 == 1 {
                results.push(seen);
            }
            (round, seen) = (now, Seen::nothing());
        }
        seen.note(passed, &mut switches);
    }
}

/// The same work without a cut, for a round: so that the writer's processor is as busy, or not, with other things.
fn read_plainly(table: &LiveTable) {
    let begin = Instant::now();
    while begin.elapsed() < ROUND {
        let extent = table.extent().expect("a sound table");
        let mut bytes = 0u64;
        for shard in 0..SHARDS {
            let records = table.records(shard, extent.used[shard as usize]);
            bytes += records.filter_map(|record| record.read(Word(0), |_| ())).map(|block| block.size).sum::<u64>();
        }
        std::hint::black_box(bytes);
    }
}

/// Rounds with and without snapshots take turns, while `blocks` others are live.
pub fn measure(blocks: u64) {
    let table = table_of(std::process::id()).expect("a live table");
    for number in 0..blocks {
        agent::allocated_at(0x7777_0000_0000 + number * 64, 48, 1);
    }
    let (mut cuts, mut snapshots, mut results) = (Vec::new(), 0u64, Vec::new());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut results = Vec::new();
            write(&mut results);
            results
        });
        stay_on(1);
        let round = || ROUND_NUMBER.fetch_add(1, Ordering::Relaxed);
        for _ in 0..ROUNDS {
            round();
            read_plainly(&table);
            round();
            std::thread::sleep(Duration::from_millis(20));
            round();
            let begin = Instant::now();
            while begin.elapsed() < ROUND {
                let mut cut = table.cut(Duration::from_secs(2)).expect("a sound table");
                cut.settle();
                let extent = table.extent().expect("a sound table");
                let mut bytes = 0u64;
                let read = cut.scan(&extent, |_, block| bytes += block.size);
                cuts.push(cut.cut_time().as_nanos() as u64);
                if cut.end() && read.is_ok_and(|scan| scan.is_verified()) {
                    snapshots += 1;
                }
            }
            round();
            std::thread::sleep(Duration::from_millis(20));
        }
        STOP.store(true, Ordering::Relaxed);
        results = writer.join().expect("the writer");
    });
    let ns = |ticks: u64| Counter::trusted().map_or(ticks, |counter| counter.nanoseconds(ticks));
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let of = |with: usize, figure: &dyn Fn(&Seen) -> u64| {
        median(results.iter().skip(with).step_by(2).map(figure).map(ns).collect())
    };
    for (with, name) in [(0, "without"), (1, "with")] {
        println!("worst_{name} {}", of(with, &|seen| seen.worst_ticks));
        println!("worst_own_{name} {}", of(with, &|seen| seen.worst_own_ticks));
        println!("one_in_100000_{name} {}", of(with, &|seen| seen.all_but(1e-5)));
        println!("half_{name} {}", of(with, &|seen| seen.all_but(0.5)));
    }
    println!("snapshots {snapshots}");
    println!("cut_worst {}", cuts.iter().max().copied().unwrap_or(0));
    println!("cut {}", median(cuts));
}
