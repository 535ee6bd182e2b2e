//! Executable memory that belongs to no loaded module: the code of just-in-time compilers.
//!
//! The agent is not notified when a program makes memory executable, so it reads the kernel's list of mappings when it meets an address in no module and in no
//! known range. Ranges are only added: a compiler may make its code writable for a moment, and a range that is gone does no harm, because the walk never
//! reads code there. A module that is loaded into such a range empties the list.
//!
//! Readers take no lock. There are two lists; a writer fills the one that is not current and then makes it current. A reader whose list was replaced meanwhile
//! searches again. Writers exclude each other, and one that finds another at work gives up instead of waiting.

use super::objects;
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The maximum number of ranges. In a program with more, addresses in further ones count as unknown.
const MOST_RANGES: usize = 512;
/// The maximum number of bytes of the kernel's list that are read: some 40,000 mappings.
const MOST_BYTES: usize = 4 << 20;
/// Readings in vain take at most one part in this many of the time,
const PATIENCE: u64 = 64;
/// but the time that they may take is granted this far ahead.
const AHEAD_NS: u64 = 2_000_000_000;
/// The number of searches before a reader that writers disturb gives up.
const MOST_SEARCHES: usize = 4;
const BUFFER_BYTES: usize = 8 << 10;
/// User space ends here. The kernel lists one page above, which no program maps.
const HIGHEST: u64 = 1 << 47;

/// Ranges in the order of their addresses; none touches another.
struct RangeList {
    bounds: [[AtomicU64; 2]; MOST_RANGES],
    count: AtomicUsize,
}

impl RangeList {
    const fn new() -> Self {
        Self { bounds: [const { [const { AtomicU64::new(0) }; 2] }; MOST_RANGES], count: AtomicUsize::new(0) }
    }

    fn range(&self, index: usize) -> (u64, u64) {
        let [start, end] = &self.bounds[index];
        (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed))
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed).min(MOST_RANGES)
    }

    /// Whether a range has an address of `start .. end`.
    fn meets(&self, start: u64, end: u64) -> bool {
        let (mut low, mut high) = (0, self.count());
        // The first range that ends after `start`.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.range(middle).1 <= start {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low < self.count() && self.range(low).0 < end
    }

    /// Adds a range, joined with those that it meets or touches. A full list stays as it is.
    fn add(&self, mut start: u64, mut end: u64) {
        let count = self.count();
        let first = (0..count).find(|&index| self.range(index).1 >= start).unwrap_or(count);
        let mut after = first;
        while after < count && self.range(after).0 <= end {
            let (other_start, other_end) = self.range(after);
            (start, end) = (start.min(other_start), end.max(other_end));
            after += 1;
        }
        if after == first {
            if count == MOST_RANGES {
                return;
            }
            (first..count).rev().for_each(|index| self.set(index + 1, self.range(index)));
            self.count.store(count + 1, Ordering::Relaxed);
        } else {
            (after..count).for_each(|index| self.set(index - (after - first - 1), self.range(index)));
            self.count.store(count - (after - first - 1), Ordering::Relaxed);
        }
        self.set(first, (start, end));
    }

    fn set(&self, index: usize, (start, end): (u64, u64)) {
        let [first, last] = &self.bounds[index];
        first.store(start, Ordering::Relaxed);
        last.store(end, Ordering::Relaxed);
    }

    fn copy_from(&self, other: &Self) {
        let count = other.count();
        (0..count).for_each(|index| self.set(index, other.range(index)));
        self.count.store(count, Ordering::Relaxed);
    }
}

static LISTS: [RangeList; 2] = [const { RangeList::new() }; 2];
/// Counts changes; its lowest bit is the index of the current list.
static CHANGES: AtomicUsize = AtomicUsize::new(0);
static WRITING: AtomicBool = AtomicBool::new(false);
/// The time on the monotonic clock up to which readings in vain have used what is granted.
static USED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Where the kernel's list is read into. Only the thread that has set `WRITING` uses it.
struct Buffer(UnsafeCell<[u8; BUFFER_BYTES]>);
// SAFETY: used by one thread at a time, as above.
unsafe impl Sync for Buffer {}
static BUFFER: Buffer = Buffer(UnsafeCell::new([0; BUFFER_BYTES]));

/// Frees the lists in a forked child, where the thread that was changing them does not exist.
pub fn prepare() {
    WRITING.store(false, Ordering::Relaxed);
    USED_UNTIL.store(0, Ordering::Relaxed);
}

/// Whether an address lies in executable memory outside of all modules. Reads the kernel's list if it lies in no known range, unless that was in vain too often.
pub fn contain(address: u64) -> bool {
    address < HIGHEST && (is_known(address, address + 1) || is_found(address))
}

/// A module was found: ranges that it overlaps are no longer what they were. Returns whether there are any; then all ranges are forgotten.
pub fn replaced_by_module(start: u64, end: u64) -> bool {
    is_known(start, end) && with_writing(|new| new.count.store(0, Ordering::Relaxed)).is_some()
}

fn is_known(start: u64, end: u64) -> bool {
    for _ in 0..MOST_SEARCHES {
        let changes = CHANGES.load(Ordering::Acquire);
        let is_known = LISTS[changes & 1].meets(start, end);
        core::sync::atomic::fence(Ordering::Acquire);
        if CHANGES.load(Ordering::Relaxed) == changes {
            return is_known;
        }
    }
    false
}

/// Whether an unknown address is in the kernel's list.
#[cold]
fn is_found(address: u64) -> bool {
    let begun = sys::monotonic_ns();
    let used = USED_UNTIL.load(Ordering::Relaxed);
    if begun + AHEAD_NS < used {
        return false;
    }
    let is_found = read_list() && is_known(address, address + 1);
    if !is_found {
        let ended = sys::monotonic_ns();
        USED_UNTIL.store(used.max(begun) + (ended - begun) * PATIENCE, Ordering::Relaxed);
    }
    is_found
}

/// Changes a copy of the current list and makes it current. `None` if another thread is doing so.
fn with_writing<T>(change: impl FnOnce(&RangeList) -> T) -> Option<T> {
    if WRITING.swap(true, Ordering::Acquire) {
        return None;
    }
    let changes = CHANGES.load(Ordering::Relaxed);
    let new = &LISTS[(changes + 1) & 1];
    // A reader that still searches this list must find out that the change before this one was made.
    core::sync::atomic::fence(Ordering::Release);
    new.copy_from(&LISTS[changes & 1]);
    let result = change(new);
    CHANGES.store(changes + 1, Ordering::Release);
    WRITING.store(false, Ordering::Release);
    Some(result)
}

/// Adds the executable ranges of the kernel's list that are no modules. False if it cannot be read, as in a sandbox, or another thread is reading it.
fn read_list() -> bool {
    if cfg!(feature = "injected") {
        // It opens no descriptor in a process that did not ask for it.
        return false;
    }
    let read = with_writing(|new| {
        // SAFETY: only the thread that writes uses the buffer.
        let buffer = unsafe { &mut *BUFFER.0.get() };
        let Some(file) = sys::open(c"/proc/self/maps") else { return false };
        let mut lines = Lines::default();
        let mut total = 0;
        while total < MOST_BYTES {
            let length = sys::read(file, buffer);
            if length == 0 {
                break;
            }
            total += length;
            lines.see(&buffer[..length], &mut |start, end| {
                if end <= HIGHEST && objects::find(start).is_none() {
                    new.add(start, end);
                }
            });
        }
        sys::close(file);
        true
    });
    read == Some(true)
}

/// Reads `START-END PERMISSIONS …` lines, in hexadecimal digits, piece by piece.
#[derive(Default)]
struct Lines {
    /// The two addresses of the line so far.
    bounds: [u64; 2],
    /// The part of the line that the next byte belongs to.
    part: LinePart,
    is_executable: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LinePart {
    #[default]
    Start,
    End,
    Permissions,
    Rest,
}

impl Lines {
    /// Takes the next bytes; calls `found` with the bounds of executable ranges.
    fn see(&mut self, bytes: &[u8], found: &mut impl FnMut(u64, u64)) {
        for &byte in bytes {
            match (self.part, byte) {
                (_, b'\n') => {
                    let [start, end] = self.bounds;
                    if self.is_executable && start < end {
                        found(start, end);
                    }
                    *self = Self::default();
                }
                (LinePart::Start, b'-') => self.part = LinePart::End,
                (LinePart::End, b' ') => self.part = LinePart::Permissions,
                (LinePart::Permissions, b' ') => self.part = LinePart::Rest,
                (LinePart::Permissions, b'x') => self.is_executable = true,
                (LinePart::Start | LinePart::End, _) => {
                    let bound = &mut self.bounds[usize::from(self.part == LinePart::End)];
                    let digit = (byte as char).to_digit(16).unwrap_or(0);
                    *bound = bound.wrapping_shl(4) | u64::from(digit);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// A list of ranges has exactly the addresses that were added, in as few ranges as possible.
        #[test]
        fn a_list_has_what_was_added(added in prop::collection::vec((0u64..200, 1u64..20), 0..60)) {
            let list = std::boxed::Box::new(RangeList::new());
            let mut naive = [false; 256];
            for (start, length) in added {
                list.add(start, start + length);
                naive[start as usize..(start + length) as usize].fill(true);
            }
            for address in 0..255 {
                prop_assert_eq!(list.meets(address, address + 1), naive[address as usize]);
            }
            let runs = (1..256).filter(|&at| naive[at] && !naive[at - 1]).count() + usize::from(naive[0]);
            prop_assert_eq!(list.count(), runs);
        }
    }

    #[test]
    fn a_full_list_keeps_what_it_has() {
        let list = std::boxed::Box::new(RangeList::new());
        (0..MOST_RANGES as u64 + 10).for_each(|index| list.add(index * 10, index * 10 + 5));
        assert_eq!(list.count(), MOST_RANGES);
        assert!(list.meets(0, 1) && !list.meets(MOST_RANGES as u64 * 10, MOST_RANGES as u64 * 10 + 1));
    }

    #[test]
    fn executable_lines_are_found_however_they_are_cut() {
        let text = b"55d0-55d8 r--p 00000000 08:01 12 /usr/bin/x-y r-x\n55d8-55e0 r-xp 00008000 08:01 12 /usr/bin/x\n\
            7f0000000000-7f0000040000 rwxp 00000000 00:00 0 \n7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n";
        for cut in 0..text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            lines.see(&text[..cut], &mut |start, end| found.push((start, end)));
            lines.see(&text[cut..], &mut |start, end| found.push((start, end)));
            assert_eq!(found, [(0x55d8, 0x55e0), (0x7f00_0000_0000, 0x7f00_0004_0000)]);
        }
    }
}
