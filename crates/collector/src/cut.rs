//! A cut: the table of a process as it was at one instant, while the process goes on.
//!
//! See [`table_v1`](highwater_shm::table_v1) for the protocol. The cut is over when this is dropped, whatever happens: a program whose
//! dead records pile up must not wait for us.

use crate::epochs::Epochs;
use crate::table::{Counted, Extent, LiveTable, Overclaimed, added, count_of, counts_now};
use highwater_model::Nanos;
use highwater_session::monotonic_ns;
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::{Block, CHUNK, COUNTS, Count, MAPPINGS, Record, SHARDS};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long changes that had begun before the cut may last.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a lock is looked at before we sleep in between.
const SPINS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);
/// How often the lease is extended, and looked at whether it was over: after some hundred thousand records.
const STRIPES_BETWEEN_LOOKS: u32 = 128;
/// The bit of the control word that says that a snapshot is being taken.
const ACTIVE: u64 = 1 << 16;
/// The bit that asks for a sweep.
const SWEEP: u64 = 1 << 17;
/// So many epochs in use are too many.
const MANY_EPOCHS: u32 = 1 << 14;
/// So many in use are few enough.
const FEW_EPOCHS: u32 = 1 << 8;

/// A cut; see the module's text.
pub struct Cut<'a> {
    table: &'a LiveTable,
    /// Only one cut at a time has it.
    epochs: MutexGuard<'a, Epochs>,
    /// What the control word says as long as the cut lasts; not active for a process that is gone.
    word: Word,
    lease: Duration,
    /// What the locks of all shards said right after the cut.
    locks: [u32; SHARDS as usize],
    is_active: bool,
    exact: bool,
    /// Every record was looked at.
    is_read: bool,
    instant: Nanos,
    cut_time: Duration,
    settle_time: Duration,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its shard.
    pub shard: u32,
    /// Its number in it.
    pub record: u32,
}

/// What was found besides the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// What the process had counted at the cut.
    pub counts: Counted,
    /// What of it concerns mappings.
    pub mapping_counts: Counted,
    /// Blocks that were found.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Scan {
    /// Whether as much was found as the process's own counts say.
    pub fn is_verified(&self) -> bool {
        let counted = |came, went| count_of(&self.counts, came).wrapping_sub(count_of(&self.counts, went));
        self.blocks == counted(Count::Allocations, Count::Frees)
            && self.bytes == counted(Count::AllocatedBytes, Count::FreedBytes)
    }
}

/// Why a table was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The program ended the snapshot: its lease was over, or it had no more room for what it had to keep.
    Void,
    /// The table makes no sense.
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
            // Somebody who began to change something then may still be at it.
            epochs.see(last);
        }
        // Where all are in use, blocks that were born in an earlier snapshot of that number are taken for new ones.
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
            // Whoever held a lock when it died did not complete its change.
            exact: locks.iter().all(|lock| lock & 1 == 0),
            is_read: false,
            instant: table.stamps().now(),
            cut_time: Duration::ZERO,
            settle_time: Duration::ZERO,
        }
    }

    /// Waits until all changes that had begun before the cut are over; not for ever.
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

    /// Goes through all blocks of the cut, in the order of the table. To be called once everything has settled, with how far the table was
    /// filled after that.
    pub fn scan(&mut self, extent: &Extent, mut each: impl FnMut(Place, &Block)) -> Result<Scan, Unread> {
        let mut scan = Scan { counts: [0; COUNTS], mapping_counts: [0; COUNTS], blocks: 0, bytes: 0 };
        let (word, table) = (self.word, self.table);
        for stripe in 0..stripes(extent) {
            let epochs = &mut *self.epochs;
            for (shard, used, chunk) in chunks_of(table, extent, stripe) {
                for (number, record) in (stripe * CHUNK..).zip(&chunk[..used]) {
                    if let Some(block) = record.read(word, |epoch| epochs.see(epoch)) {
                        scan.blocks += 1;
                        scan.bytes = scan.bytes.wrapping_add(block.size);
                        each(Place { shard, record: number }, &block);
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

    /// The records that are still to be read get more time. An error if the program has ended the snapshot meanwhile.
    pub fn go_on(&self) -> Result<(), Unread> {
        if !self.is_active {
            return Ok(());
        }
        let control = self.table.control();
        control.lease.store(monotonic_ns().saturating_add(self.lease.as_nanos() as u64), Ordering::Relaxed);
        if control.load() == self.word { Ok(()) } else { Err(Unread::Void) }
    }

    /// Whether a record that had a block at this address still has it, and the block lives.
    pub fn still_lives(&self, place: Place, address: u64) -> bool {
        let record = self.table.record(place.shard, place.record);
        let block = record.read(self.word, |_| ());
        block.is_some_and(|block| block.address == address) && record.death_epoch() == 0
    }

    fn counts_of(&self, shard: u32) -> Counted {
        let shard = &self.table.shards()[shard as usize];
        // A shard that never saw a cut has the epoch 0 too, and has set nothing aside.
        if self.is_active { shard.counts_at(self.word) } else { counts_now(shard) }
    }

    /// Ends the snapshot; false if the program had done so before, and what was read is void.
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

    /// Asks the program to let records forget their epochs before there are none left, and no longer than needed.
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
            // Somebody changed something else in the word: it shall not stay active.
            control.word.fetch_and(!ACTIVE, Ordering::SeqCst);
        }
        is_whole
    }

    /// The instant, in the process's own time.
    pub fn instant(&self) -> Nanos {
        self.instant
    }

    /// Whether it is one instant of the whole process. Known once everything has settled.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// How long it took to make the cut.
    pub fn cut_time(&self) -> Duration {
        self.cut_time
    }

    /// How long it took until the last change that had begun before it was over.
    pub fn settle_time(&self) -> Duration {
        self.settle_time
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Collects the epochs that the records of a table bear.
fn see_epochs(table: &LiveTable, extent: &Extent, epochs: &mut Epochs) {
    epochs.forget();
    for stripe in 0..stripes(extent) {
        for (_, used, chunk) in chunks_of(table, extent, stripe) {
            for record in &chunk[..used] {
                record.read(Word(0), |epoch| epochs.see(epoch));
            }
        }
    }
}

/// How many stripes have records.
fn stripes(extent: &Extent) -> u32 {
    extent.used.iter().copied().max().unwrap_or(0).div_ceil(CHUNK)
}

/// The shards that have records in a stripe: how many, and the chunk they are in.
#[inline(always)]
fn chunks_of<'a>(
    table: &'a LiveTable,
    extent: &Extent,
    stripe: u32,
) -> impl Iterator<Item = (u32, usize, &'a [Record])> {
    let chunks = (0..).zip(&extent.used).zip(table.stripe(stripe).chunks_exact(CHUNK as usize));
    chunks.filter_map(move |((shard, &used), chunk)| {
        let used = used.saturating_sub(stripe * CHUNK).min(CHUNK) as usize;
        (used > 0).then_some((shard, used, chunk))
    })
}
