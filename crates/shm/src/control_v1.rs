//! The control page of a live table: an object of its own, the only one that the collector may write.
//!
//! One word makes a cut. A writer loads it once for each change of the table, after it has locked the shard, and acts
//! accordingly. The collector stores a new *epoch* with the active bit: from then on births are stamped with that epoch, and blocks that die
//! keep their record. Everything stamped before is a true cut of the process: all changes read one word, so if one
//! happened before another and that other one read the old value, it cannot have read the new one.
//!
//! ```text
//!  word: epoch (16 bits, never 0 while active) | active (bit 16) | sweep (bit 17) | … | number of the settings (upper 32 bits)
//! ```
//!
//! While a cut lasts nothing else in the word changes: a collector that wants another change waits until the cut is over.
//!
//! A snapshot has a *lease*: while the snapshot lasts, dead records accumulate, so a collector that is gone must not make that last. Writers
//! that find the lease expired clear the active bit; the collector then knows that its cut is void.
//!
//! Blocks that are born while snapshots are taken, and stay live, keep their epochs. A collector that finds too many epochs in use asks for a *sweep*: while the bit
//! is set and no snapshot is active, each change also clears the birth epoch of some records.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, in_total_order};

/// The object's size: one page.
pub const CONTROL_BYTES: u64 = 4096;

const ACTIVE: u64 = 1 << 16;
const SWEEP: u64 = 1 << 17;
const EPOCH: u64 = 0xffff;

/// The page.
#[repr(C, align(64))]
pub struct ControlPage {
    /// The control word: epoch, active and sweep bits, number of the settings. The module documentation has its layout.
    pub word: AtomicU64,
    /// Until when a snapshot may last: nanoseconds of the system's monotonic clock.
    pub lease: AtomicU64,
    /// The setting that the collector wants: mean bytes per sample, 0 for every block. Applied when the number of the settings changes.
    pub sample_bytes: AtomicU64,
    /// The collector's process, 0 while there is none.
    pub collector: AtomicU32,
    /// The last epoch that was used: a collector that takes over continues after it.
    pub last_epoch: AtomicU32,
}

#[cfg(loom)]
impl Default for ControlPage {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(0),
            lease: AtomicU64::new(0),
            sample_bytes: AtomicU64::new(0),
            collector: AtomicU32::new(0),
            last_epoch: AtomicU32::new(0),
        }
    }
}

/// The value of the control word at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The epoch of the snapshot that is being taken; 0 while none is.
    #[inline(always)]
    pub fn active_epoch(self) -> u16 {
        if self.0 & ACTIVE != 0 { (self.0 & EPOCH) as u16 } else { 0 }
    }

    /// Whether records must clear the epochs of their births, as they may while no snapshot is taken.
    #[inline(always)]
    pub fn wants_sweep(self) -> bool {
        self.0 & (SWEEP | ACTIVE) == SWEEP
    }

    /// The number of the settings.
    #[inline(always)]
    pub fn settings(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl ControlPage {
    /// For writers: loads the word, after the shard was locked.
    #[inline(always)]
    pub fn load(&self) -> Word {
        in_total_order();
        Word(self.word.load(Ordering::SeqCst))
    }

    /// Makes the cut: everything stamped from now on belongs to the time after it. The epoch is not 0, and not used by any record in the table.
    pub fn cut(&self, epoch: u16) -> Word {
        let before = self.word.load(Ordering::Relaxed);
        let word = before & !(EPOCH | ACTIVE) | u64::from(epoch) | ACTIVE;
        self.word.swap(word, Ordering::SeqCst);
        in_total_order();
        Word(word)
    }

    /// Ends the snapshot that a cut began; false if it was ended before, by a writer that found the lease expired.
    pub fn end(&self, cut: Word) -> bool {
        self.word.compare_exchange(cut.0, cut.0 & !ACTIVE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Asks for a sweep, or ends it.
    pub fn ask_for_sweep(&self, wanted: bool) {
        if wanted {
            self.word.fetch_or(SWEEP, Ordering::SeqCst);
        } else {
            self.word.fetch_and(!SWEEP, Ordering::SeqCst);
        }
    }

    /// Announces new settings to the agent.
    pub fn change_settings(&self) {
        self.word.fetch_add(1 << 32, Ordering::SeqCst);
    }
}
