//! A cut: the table of a process as it was at one instant, while the process goes on.
//!
//! See [`table_v1`](highwater_shm::table_v1) for the protocol. The cut ends when this is dropped, also after an error or a panic: dead records pile
//! up in the program while a cut lasts, and it must not wait for the collector.

use crate::epochs::Epochs;
use crate::table::{CounterValues, LiveTable, Overclaimed, TableExtent, added, count_of, counts_now};
use highwater_model::Nanos;
use highwater_session::monotonic_ns;
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::{CHUNK, COUNTS, Count, MAPPINGS, SHARDS, TableBlock, TableRecord};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long to wait for changes that began before the cut.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a lock is checked before the thread sleeps between checks.
const SPINS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
/// How often the lease is extended, and checked whether it has expired: after some hundred thousand records.
const STRIPES_BETWEEN_LOOKS: u32 = 128;
/// The bit of the control word that says that a snapshot is being taken.
const ACTIVE: u64 = 1 << 16;
/// The bit that asks for a sweep.
const SWEEP: u64 = 1 << 17;
/// If more epochs than this are in use, the program is asked for a sweep.
const MANY_EPOCHS: u32 = 1 << 14;
/// If at most this many are in use, the sweep can stop.
const FEW_EPOCHS: u32 = 1 << 8;

/// A cut: the table of a process at one instant. It ends when dropped.
pub struct Cut<'a> {
    table: &'a LiveTable,
    /// Held by one cut at a time.
    epochs: MutexGuard<'a, Epochs>,
    /// The control word while the cut lasts; not active for a process that is gone.
    word: Word,
    lease: Duration,
    /// The lock words of all shards right after the cut.
    locks: [u32; SHARDS as usize],
    is_active: bool,
    exact: bool,
    /// Every record was read.
    is_read: bool,
    instant: Nanos,
    cut_time: Duration,
    settle_time: Duration,
}

/// The position of a record in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// Its shard.
    pub shard: u32,
    /// Its number in the shard.
    pub record: u32,
}

/// The result of a scan, apart from the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableScan {
    /// The process's counters at the cut.
    pub counts: CounterValues,
    /// The same for mappings only.
    pub mapping_counts: CounterValues,
    /// The number of blocks found.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TableScan {
    /// Whether blocks and bytes match the process's own counters.
    pub fn is_verified(&self) -> bool {
        let counted = |came, went| count_of(&self.counts, came).wrapping_sub(count_of(&self.counts, went));
        self.blocks == counted(Count::Allocations, Count::Frees)
            && self.bytes == counted(Count::AllocatedBytes, Count::FreedBytes)
    }
}

/// Why a table was not read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The program ended the snapshot: the lease had expired, or the program had no more room for the records that it had to keep.
    Void,
    /// The table claims more than its memory holds.
    Overclaimed,
}

impl From<Overclaimed> for Unread {
    fn from(_: Overclaimed) -> Self {
        Self::Overclaimed
    }
}

impl<'a> Cut<'a> {
    pub(crate) fn make(
        table: &'a LiveTable,
        mut epochs: MutexGuard<'a, Epochs>,
        lease: Duration,
    ) -> Result<Self, Overclaimed> {
        let control = table.control();
        let last = control.last_epoch.load(Ordering::Relaxed) as u16;
        if !epochs.is_complete() {
            let extent = table.extent()?;
            see_epochs(table, &extent, &mut epochs);
            // A change that read the last epoch may still be under way.
            epochs.see(last);
        }
        // If all epochs are in use, one is reused: blocks born during an earlier snapshot with the same epoch are then taken for new ones.
        let (epoch, exact) =
            epochs.next_after(last).map_or((last.wrapping_add(1).max(1), false), |epoch| (epoch, true));
        epochs.forget();
        epochs.see(epoch);
        control.last_epoch.store(epoch.into(), Ordering::Relaxed);
        control.lease.store(monotonic_ns().saturating_add(lease.as_nanos() as u64), Ordering::Relaxed);
        let begin = Instant::now();
        let word = control.cut(epoch);
        let cut_time = begin.elapsed();
        let shards = table.shards();
        Ok(Self {
            table,
            epochs,
            word,
            lease,
            locks: std::array::from_fn(|shard| shards[shard].observe()),
            is_active: true,
            exact,
            is_read: false,
            instant: table.stamps().now(),
            cut_time,
            settle_time: Duration::ZERO,
        })
    }

    pub(crate) fn of_the_dead(table: &'a LiveTable, epochs: MutexGuard<'a, Epochs>) -> Self {
        let shards = table.shards();
        let locks = std::array::from_fn(|shard| shards[shard].observe());
        Self {
            table,
            epochs,
            word: Word(0),
            lease: Duration::ZERO,
            locks,
            is_active: false,
            // A thread that held a lock when the process died did not complete its change.
            exact: locks.iter().all(|lock| lock & 1 == 0),
            is_read: false,
            instant: table.stamps().now(),
            cut_time: Duration::ZERO,
            settle_time: Duration::ZERO,
        }
    }

    /// Waits until all changes that began before the cut are over, for at most `PATIENCE`.
    pub fn settle(&mut self) {
        if !self.is_active {
            return;
        }
        let begin = Instant::now();
        for (shard, &lock) in self.table.shards().iter().zip(&self.locks) {
            let mut looks = 0u32;
            while !shard.is_settled(lock) {
                if shard.abandoned.load(Ordering::Relaxed) != 0 || begin.elapsed() >= PATIENCE {
                    self.exact = false;
                    break;
                }
                looks += 1;
                if looks < SPINS { std::hint::spin_loop() } else { std::thread::sleep(NAP) }
            }
        }
        self.settle_time = begin.elapsed();
    }

    /// Calls `each` for all blocks of the cut, in the order of the table. To be called after [`settle`](Self::settle), with an extent that was read
    /// after that.
    pub fn scan(
        &mut self,
        extent: &TableExtent,
        mut each: impl FnMut(RecordPosition, &TableBlock),
    ) -> Result<TableScan, Unread> {
        let mut scan = TableScan { counts: [0; COUNTS], mapping_counts: [0; COUNTS], blocks: 0, bytes: 0 };
        let (word, table) = (self.word, self.table);
        for stripe in 0..stripes(extent) {
            let epochs = &mut *self.epochs;
            for (shard, used, chunk) in chunks_of(table, extent, stripe) {
                for (number, record) in (stripe * CHUNK..).zip(&chunk[..used]) {
                    if let Some(block) = record.read(word, |epoch| epochs.see(epoch)) {
                        scan.blocks += 1;
                        scan.bytes = scan.bytes.wrapping_add(block.size);
                        each(RecordPosition { shard, record: number }, &block);
                    }
                }
            }
            if stripe % STRIPES_BETWEEN_LOOKS == 0 {
                self.go_on()?;
            }
        }
        for shard in 0..SHARDS {
            let counts = self.counts_of(shard);
            scan.counts = added(scan.counts, counts);
            if shard == MAPPINGS {
                scan.mapping_counts = counts;
            }
        }
        self.go_on()?;
        self.is_read = true;
        Ok(scan)
    }

    /// Extends the lease, so that there is time for the remaining records. An error if the program has ended the snapshot.
    pub fn go_on(&self) -> Result<(), Unread> {
        if !self.is_active {
            return Ok(());
        }
        let control = self.table.control();
        control.lease.store(monotonic_ns().saturating_add(self.lease.as_nanos() as u64), Ordering::Relaxed);
        if control.load() == self.word { Ok(()) } else { Err(Unread::Void) }
    }

    /// Whether a record that had a block at this address still has it, and the block is live.
    pub fn still_lives(&self, position: RecordPosition, address: u64) -> bool {
        let record = self.table.record(position.shard, position.record);
        let block = record.read(self.word, |_| ());
        block.is_some_and(|block| block.address == address) && record.death_epoch() == 0
    }

    fn counts_of(&self, shard: u32) -> CounterValues {
        let shard = &self.table.shards()[shard as usize];
        // A shard that never saw a cut also has epoch 0, and has set no counts aside.
        if self.is_active { shard.counts_at(self.word) } else { counts_now(shard) }
    }

    /// Ends the snapshot. Returns false if the program had ended it before: then the records that were read are void.
    pub fn end(mut self) -> bool {
        let was_active = self.is_active;
        let is_whole = self.finish();
        if is_whole && self.is_read {
            self.epochs.complete();
            if was_active {
                self.see_to_epochs();
            }
        }
        is_whole
    }

    /// Asks the program to clear old epochs from records before none are left, and ends that request when few are in use.
    fn see_to_epochs(&self) {
        let (count, control) = (self.epochs.count(), self.table.control());
        if count > MANY_EPOCHS {
            control.ask_for_sweep(true);
        } else if count <= FEW_EPOCHS && control.word.load(Ordering::Relaxed) & SWEEP != 0 {
            control.ask_for_sweep(false);
        }
    }

    fn finish(&mut self) -> bool {
        if !std::mem::take(&mut self.is_active) {
            return true;
        }
        let control = self.table.control();
        let is_whole = control.end(self.word);
        if !is_whole && control.load().active_epoch() == self.word.active_epoch() {
            // Another part of the word was changed. The word must not stay active.
            control.word.fetch_and(!ACTIVE, Ordering::SeqCst);
        }
        is_whole
    }

    /// The instant, in the process's own time.
    pub fn instant(&self) -> Nanos {
        self.instant
    }

    /// Whether it is one instant of the whole process. Known after [`settle`](Self::settle).
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// How long it took to make the cut.
    pub fn cut_time(&self) -> Duration {
        self.cut_time
    }

    /// How long it took until the last change that began before the cut was over.
    pub fn settle_time(&self) -> Duration {
        self.settle_time
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Collects the epochs of all records of a table.
fn see_epochs(table: &LiveTable, extent: &TableExtent, epochs: &mut Epochs) {
    epochs.forget();
    for stripe in 0..stripes(extent) {
        for (_, used, chunk) in chunks_of(table, extent, stripe) {
            for record in &chunk[..used] {
                record.read(Word(0), |epoch| epochs.see(epoch));
            }
        }
    }
}

/// The number of stripes with records.
fn stripes(extent: &TableExtent) -> u32 {
    extent.used.iter().copied().max().unwrap_or(0).div_ceil(CHUNK)
}

/// The shards with records in a stripe: each with the number of records, and the chunk that holds them.
#[inline(always)]
fn chunks_of<'a>(
    table: &'a LiveTable,
    extent: &TableExtent,
    stripe: u32,
) -> impl Iterator<Item = (u32, usize, &'a [TableRecord])> {
    let chunks = (0..).zip(&extent.used).zip(table.stripe(stripe).chunks_exact(CHUNK as usize));
    chunks.filter_map(move |((shard, &used), chunk)| {
        let used = used.saturating_sub(stripe * CHUNK).min(CHUNK) as usize;
        (used > 0).then_some((shard, used, chunk))
    })
}
