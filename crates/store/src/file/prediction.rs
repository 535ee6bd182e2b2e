//! Predicting addresses and sizes, so that the usual case costs a bit instead of bytes (docs/format.md §4.2).
//!
//! Allocators return the block of a size class that was freed last, or the next one after the last; and one site mostly asks for one size. Writer and
//! reader keep the same [`Predictor`], which uses only data of the same block of the file, so that damage elsewhere cannot mislead it.

const CLASSES: usize = 1024;
const DEPTH: usize = 16;
const SITES: usize = 4096;
const ARENAS: usize = 64;

/// The predictions that the writer and the reader of one block share.
pub struct Predictor {
    classes: Vec<SizeClass>,
    size_by_site: Vec<u64>,
    /// By thread: the end of its latest block that was not a reused one.
    arenas: [u64; ARENAS],
}

/// Predictions of an address; 0 if there is none.
#[derive(Clone, Copy)]
pub struct Expected {
    /// The address of about this size that the thread freed last.
    pub reused: u64,
    /// The address after the latest block that the thread got from fresh memory.
    pub fresh: u64,
    /// The latest address of about this size that the thread got: not a prediction, but an address nearby.
    pub latest: u64,
}

/// The known addresses of one thread's blocks of about one size.
#[derive(Clone, Copy)]
struct SizeClass {
    latest: u64,
    freed: [u64; DEPTH],
    depth: u8,
    top: u8,
}

const EMPTY: SizeClass = SizeClass { latest: 0, freed: [0; DEPTH], depth: 0, top: 0 };

/// The size of the chunk that glibc uses for a request: 8 bytes more, rounded up to 16, at least 32.
#[inline]
fn chunk(size: u64) -> u64 {
    (size.saturating_add(23) & !15).max(32)
}

#[inline]
fn class_of(thread: usize, size: u64) -> usize {
    ((chunk(size) ^ (thread as u64) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize % CLASSES
}

/// The difference of two addresses as a number that is small for near addresses 16 bytes apart: the direction in bit 0, the distance without its
/// lowest four bits above it, and those four bits, mostly zero, at the top.
#[inline]
pub fn distance(from: u64, to: u64) -> u64 {
    let way = to.wrapping_sub(from) as i64;
    let magnitude = way.unsigned_abs();
    (magnitude & 15) << 60 | (magnitude >> 4 << 1) & (u64::MAX >> 4) | u64::from(way < 0)
}

/// The address at a [`distance`].
#[inline]
pub fn at_distance(from: u64, distance: u64) -> u64 {
    let magnitude = (distance & (u64::MAX >> 4)) >> 1 << 4 | distance >> 60;
    // 2^63 does not fit next to the direction bit. It can still be recognized: it is the only distance with the direction set and magnitude 0.
    match (distance & 1 == 1, magnitude) {
        (true, 0) => from.wrapping_add(1 << 63),
        (true, magnitude) => from.wrapping_sub(magnitude),
        (false, magnitude) => from.wrapping_add(magnitude),
    }
}

impl Predictor {
    /// An empty predictor.
    pub fn new() -> Self {
        Self { classes: vec![EMPTY; CLASSES], size_by_site: vec![0; SITES], arenas: [0; ARENAS] }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.classes.fill(EMPTY);
        self.size_by_site.fill(0);
        self.arenas = [0; ARENAS];
    }

    /// The size that a site is expected to ask for.
    #[inline(always)]
    pub fn size(&mut self, site: u32) -> &mut u64 {
        &mut self.size_by_site[site as usize % SITES]
    }

    /// The expected address of a thread's next block of `size`.
    #[inline(always)]
    pub fn expect(&self, thread: usize, size: u64) -> Expected {
        let class = &self.classes[class_of(thread, size)];
        let reused = class.freed[usize::from(class.top) % DEPTH];
        Expected {
            reused: if class.depth > 0 { reused } else { 0 },
            fresh: self.arenas[thread % ARENAS],
            latest: class.latest,
        }
    }

    /// Records an allocation; `reused` if its address was [`Expected::reused`].
    #[inline(always)]
    pub fn allocated(&mut self, thread: usize, size: u64, address: u64, reused: bool) {
        let class = &mut self.classes[class_of(thread, size)];
        class.latest = address;
        if reused {
            class.top = class.top.wrapping_sub(1);
            class.depth = class.depth.saturating_sub(1);
        } else {
            self.arenas[thread % ARENAS] = address.wrapping_add(chunk(size));
        }
    }

    /// Records a free by a thread.
    #[inline(always)]
    pub fn freed(&mut self, thread: usize, size: u64, address: u64) {
        let class = &mut self.classes[class_of(thread, size)];
        class.top = class.top.wrapping_add(1);
        class.freed[usize::from(class.top) % DEPTH] = address;
        class.depth = (class.depth + 1).min(DEPTH as u8);
    }

    /// Records a reallocation by a thread. The place of the block, address and size, is known if it was allocated in this block of the file.
    pub fn reallocated(&mut self, thread: usize, place: Option<&mut (u64, u64)>, moved_to: Option<u64>, size: u64) {
        if let Some(address) = moved_to {
            self.allocated(thread, size, address, false);
        }
        if let Some(place) = place {
            if moved_to.is_some() {
                self.freed(thread, place.1, place.0);
            }
            *place = (moved_to.unwrap_or(place.0), size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_address_is_found_again(from in any::<u64>(), to in any::<u64>()) {
            prop_assert_eq!(at_distance(from, distance(from, to)), to);
        }
    }

    #[test]
    fn near_aligned_addresses_are_small_numbers_and_far_ones_are_exact() {
        assert_eq!((distance(0x1000, 0x1010), distance(0x1010, 0x1000)), (2, 3));
        for to in [0, 1, 1 << 63, (1 << 63) - 1, (1 << 63) + 1, u64::MAX] {
            assert_eq!(at_distance(0, distance(0, to)), to);
        }
    }
}
