//! Poisson sampling on bytes: every byte allocated is a sample with the same small chance, independent of all others, and
//! a block is recorded if any of its bytes is. A block of size *s* so has the chance 1 − e^(−s/mean), and counts in the recording
//! with the inverse of that as its weight: unbiased for blocks and bytes of any size.
//!
//! A free must find out whether its block was recorded. Recorded blocks are therefore placed at the start of a
//! page, where hardly any other block lies: a free checks twelve bits of its address, and only then a table. (Ordinary blocks of the same size soon
//! reuse these addresses; hence the filter before the table.)

use crate::lock::Lock;
use crate::private_memory::{self, AreaUse};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Sampled blocks begin at multiples of this.
pub const ALIGNMENT: usize = 4096;

static MEAN: AtomicU64 = AtomicU64::new(0);

/// A thread's source of distances between samples. The distance that is left lies in the thread's
/// countdown, where each allocation is subtracted from it.
pub struct Distances {
    random: u64,
}

impl Distances {
    /// A new source, with a random seed.
    pub fn new(seed: u64) -> Self {
        let mut distances = Self { random: seed | 1 };
        for _ in 0..4 {
            distances.draw();
        }
        distances
    }

    /// The distance to the next sample: at least one byte, so that an allocation of zero bytes is no sample.
    pub fn draw(&mut self) -> i64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let uniform = ((self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let mean = MEAN.load(Ordering::Relaxed) as f64;
        (-ln(uniform) * mean) as i64 + 1
    }
}

/// The natural logarithm for 0 < x ≤ 1, to twelve digits: there is no math library here.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let (mut exponent, mut mantissa) =
        ((bits >> 52) as i64 - 1023, f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52));
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let y = (mantissa - 1.0) / (mantissa + 1.0);
    let square = y * y;
    let mut sum = 0.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * y * sum
}

/// Sets the mean distance of samples.
pub fn set_mean(mean: u64) {
    MEAN.store(mean, Ordering::Relaxed);
}

/// Sets the mean distance of samples, and forgets all sampled blocks; false if there is no memory. With a mean of 0 nothing is sampled, and no
/// memory is needed, unless sampling may be switched on `later`.
pub fn prepare(mean: u64, later: bool) -> bool {
    MEAN.store(mean, Ordering::Relaxed);
    LOCK.reset();
    FILTER.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    // SAFETY: no thread samples yet.
    let set = unsafe { &mut *SAMPLED.0.get() };
    (mean == 0 && !later) || set.begin()
}

/// The addresses of live sampled blocks: open addressing, at most half full.
struct SampledSet {
    slots: *mut u64,
    mask: usize,
    used: usize,
}

/// The set of all threads.
struct SharedSampledSet(UnsafeCell<SampledSet>);
// SAFETY: only touched under the lock.
unsafe impl Sync for SharedSampledSet {}

static SAMPLED: SharedSampledSet =
    SharedSampledSet(UnsafeCell::new(SampledSet { slots: core::ptr::null_mut(), mask: 0, used: 0 }));
static LOCK: Lock = Lock::new();
const FIRST_SLOTS: usize = 1 << 13;

fn with_set<T>(work: impl FnOnce(&mut SampledSet) -> T) -> T {
    // SAFETY: the lock is held.
    LOCK.with(|| work(unsafe { &mut *SAMPLED.0.get() }))
}

/// The number of live sampled blocks, by a hash of their address: a free whose count is zero needs no further check. A
/// count that has reached its maximum stays there.
pub static FILTER: [AtomicU8; 1 << FILTER_BITS] = [const { AtomicU8::new(0) }; 1 << FILTER_BITS];
/// Bits of an index of the filter.
pub const FILTER_BITS: u32 = 14;
/// The hash is the upper bits of the address times this.
pub const FILTER_FACTOR: u32 = 0x9e37_79b1;

/// The filter's count for an address. The entries in the preload library compute the same.
#[inline(always)]
fn count_of(address: u64) -> &'static AtomicU8 {
    let hash = ((address >> 4) as u32).wrapping_mul(FILTER_FACTOR);
    &FILTER[(hash >> (32 - FILTER_BITS)) as usize]
}

/// Notes that the block at `address` is sampled.
pub fn insert(address: u64) {
    with_set(|set| {
        let count = count_of(address);
        count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        set.insert(address);
    });
}

/// Removes a block; returns whether it was sampled.
pub fn remove(address: u64) -> bool {
    let count = count_of(address);
    if count.load(Ordering::Relaxed) == 0 {
        return false;
    }
    with_set(|set| {
        let removed = set.remove(address);
        let number = count.load(Ordering::Relaxed);
        if removed && number < u8::MAX {
            count.store(number.saturating_sub(1), Ordering::Relaxed);
        }
        removed
    })
}

impl SampledSet {
    fn begin(&mut self) -> bool {
        let Some(memory) = private_memory::take(FIRST_SLOTS * 8, AreaUse::Various) else { return false };
        if !self.slots.is_null() {
            // SAFETY: of a parent's session; no thread uses it.
            unsafe { private_memory::give_back(self.slots.cast(), (self.mask + 1) * 8) };
        }
        *self = Self { slots: memory.cast(), mask: FIRST_SLOTS - 1, used: 0 };
        true
    }

    /// The slot that an address would have.
    fn home(&self, address: u64) -> usize {
        ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & self.mask
    }

    fn slot(&mut self, at: usize) -> &mut u64 {
        // SAFETY: masked.
        unsafe { &mut *self.slots.add(at & self.mask) }
    }

    fn insert(&mut self, address: u64) {
        if self.used * 2 > self.mask && !self.grow() && self.used == self.mask {
            return;
        }
        let mut at = self.home(address);
        while *self.slot(at) != 0 && *self.slot(at) != address {
            at += 1;
        }
        self.used += usize::from(*self.slot(at) == 0);
        *self.slot(at) = address;
    }

    fn grow(&mut self) -> bool {
        let slots = self.mask + 1;
        let Some(memory) = private_memory::take(slots * 16, AreaUse::Various) else { return false };
        let mut larger = Self { slots: memory.cast(), mask: slots * 2 - 1, used: 0 };
        for at in 0..slots {
            let address = *self.slot(at);
            if address != 0 {
                larger.insert(address);
            }
        }
        // SAFETY: everything was copied.
        unsafe { private_memory::give_back(self.slots.cast(), slots * 8) };
        *self = larger;
        true
    }

    fn remove(&mut self, address: u64) -> bool {
        let mut at = self.home(address);
        loop {
            match *self.slot(at) {
                0 => return false,
                found if found == address => break,
                _ => at += 1,
            }
        }
        // Entries after it that would not be found any more move up.
        let mut hole = at;
        let mut next = at + 1;
        loop {
            let moving = *self.slot(next);
            if moving == 0 {
                break;
            }
            let home = self.home(moving);
            let distance = |from: usize, to: usize| to.wrapping_sub(from) & self.mask;
            if distance(home, next) >= distance(hole, next) {
                *self.slot(hole) = moving;
                hole = next;
            }
            next += 1;
        }
        *self.slot(hole) = 0;
        self.used -= 1;
        true
    }
}
