//! Settings that a collector may change while the program runs: record every block, or samples.
//!
//! Blocks that are in the table stay there. When only samples are added, a free must still be looked up as long as its block may
//! have been added before that.

use super::{control, header};
use crate::lock::Lock;
use crate::sampling;
use crate::session::{self, AgentMode};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::MOST_RATES;

/// The number of the settings that are in force.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// The number of the rate in force; 0 is every block.
static RATE: AtomicU8 = AtomicU8::new(0);
/// Blocks that were not sampled are in the table.
static KNOWS_EXACT: AtomicBool = AtomicBool::new(false);
/// Blocks are live that were never in the table: because they were not samples, or because they are older than it.
static HAS_UNKNOWN: AtomicBool = AtomicBool::new(false);
static CHANGING: Lock = Lock::new();

/// The rate in force.
#[inline(always)]
pub fn rate() -> u8 {
    RATE.load(Ordering::Relaxed)
}

/// Whether blocks that were not sampled are in the table: then every free must be looked up.
#[inline(always)]
pub fn knows_exact_blocks() -> bool {
    KNOWS_EXACT.load(Ordering::Relaxed)
}

/// Whether a free of a block that is not in the table is an oddity.
pub fn every_block_is_known() -> bool {
    !HAS_UNKNOWN.load(Ordering::Relaxed)
}

/// The table began later than the program: there are live blocks that it does not have.
pub fn note_unknown_blocks() {
    HAS_UNKNOWN.store(true, Ordering::Relaxed);
}

/// Changes with every change of the settings: a distance that a thread drew under another number is void.
pub fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// Begins with this rate.
pub fn begin(sample_bytes: u64) {
    NUMBER.store(0, Ordering::Relaxed);
    CHANGING.reset();
    let header = header();
    header.rates.store(1, Ordering::Relaxed);
    let rate = rate_number(sample_bytes).unwrap_or(0);
    RATE.store(rate, Ordering::Relaxed);
    header.rate.store(rate.into(), Ordering::Relaxed);
    KNOWS_EXACT.store(rate == 0, Ordering::Relaxed);
    HAS_UNKNOWN.store(rate != 0, Ordering::Relaxed);
}

/// Applies new settings if the control word announces some.
#[inline(always)]
pub fn look_at(word: Word) {
    if word.settings() != NUMBER.load(Ordering::Relaxed) {
        take_over();
    }
}

#[cold]
#[inline(never)]
fn take_over() {
    CHANGING.with(|| {
        let word = control().load();
        if word.settings() == NUMBER.load(Ordering::Relaxed) {
            return;
        }
        let sample_bytes = control().sample_bytes.load(Ordering::Relaxed);
        // If no number is left for the rate, the rate stays as it is.
        if let Some(rate) = rate_number(sample_bytes) {
            if rate == 0 {
                KNOWS_EXACT.store(true, Ordering::Relaxed);
            } else {
                HAS_UNKNOWN.store(true, Ordering::Relaxed);
                sampling::set_mean(sample_bytes);
            }
            RATE.store(rate, Ordering::Relaxed);
            header().rate.store(rate.into(), Ordering::Relaxed);
            session::switch_to(if rate == 0 { AgentMode::Exact } else { AgentMode::Sampled });
        }
        NUMBER.store(word.settings(), Ordering::Relaxed);
        header().settings.store(word.settings(), Ordering::Release);
    });
}

/// The number of a rate; a new one if it was never used. `None` if there are too many.
fn rate_number(sample_bytes: u64) -> Option<u8> {
    let header = header();
    let rates = header.rates.load(Ordering::Relaxed);
    let known = (0..rates).find(|&rate| header.rate_bytes[rate as usize].load(Ordering::Relaxed) == sample_bytes);
    if known.is_none() && rates as usize >= MOST_RATES {
        return None;
    }
    let rate = known.unwrap_or(rates);
    if known.is_none() {
        header.rate_bytes[rate as usize].store(sample_bytes, Ordering::Relaxed);
        header.rates.store(rates + 1, Ordering::Release);
    }
    Some(rate as u8)
}
