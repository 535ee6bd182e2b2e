//! The agent's private memory.
//!
//! A reader attributes the pages of the process, so it must know which ones are the agent's. The agent therefore takes address space in a few large areas, and
//! lists these in the shared header ([`agent_memory_v1`](highwater_shm::agent_memory_v1)). An area is reserved first: it becomes accessible from its beginning on,
//! as far as it is needed, so that it adds nothing to the program's `VmData` and takes nothing from its limit of data. Memory is given out in whole pages, which are
//! zero. The first page of an area says which pages are taken.
//!
//! Memory that is as large as an area, or must come without a lock, is an area of its own.
//!
//! A child that is forked while another thread is in here finds at worst pages that stay taken for ever: pages are noted as taken before they are used, and as
//! free after they were emptied.

use crate::lock::Lock;
use crate::{memory_source, session};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
pub use highwater_shm::agent_memory_v1::AreaUse;
use highwater_shm::agent_memory_v1::{AgentArea, AgentMemory, MOST_AREAS};
use highwater_shm::session_v1::Header;

const PAGE: usize = 4096;
/// Pages of the first areas.
const FIRST_PAGES: usize = 4096;
/// The same if the program limits its address space, which reserved memory is a part of.
const FIRST_PAGES_IF_LIMITED: usize = 256;
/// Areas become twice as large after this number of them.
const AREAS_OF_A_SIZE: usize = 8;
/// The maximum number of pages of an area: one page has a bit for each.
const MOST_PAGES: usize = PAGE * 8;
/// Memory of more pages than this is an area of its own.
const LARGEST_PIECE: usize = MOST_PAGES / 4;
/// Areas become accessible in steps of this number of pages.
const PAGES_AT_ONCE: usize = 16;

/// All areas: the original of the list in the header.
static LIST: AgentMemory = AgentMemory::new();

/// An area of which pages are given out.
struct Area {
    start: *mut u8,
    pages: usize,
    /// Pages below this are accessible.
    open: usize,
    used_for: AreaUse,
}

struct Areas {
    areas: [Area; MOST_AREAS],
    count: usize,
}

struct SharedAreas(UnsafeCell<Areas>);
// SAFETY: only touched under the lock.
unsafe impl Sync for SharedAreas {}

static AREAS: SharedAreas = SharedAreas(UnsafeCell::new(Areas {
    areas: [const { Area { start: core::ptr::null_mut(), pages: 0, open: 0, used_for: AreaUse::Various } }; MOST_AREAS],
    count: 0,
}));
static LOCK: Lock = Lock::new();

fn with_areas<T>(work: impl FnOnce(&mut Areas) -> T) -> T {
    // SAFETY: the lock is held.
    LOCK.with(|| work(unsafe { &mut *AREAS.0.get() }))
}

/// Zeroed memory for something; `None` if there is none.
pub fn take(bytes: usize, used_for: AreaUse) -> Option<*mut u8> {
    let pages = bytes.div_ceil(PAGE);
    if pages > LARGEST_PIECE {
        return take_area(bytes, used_for);
    }
    with_areas(|areas| areas.take(pages, used_for))
}

/// Gives memory back.
///
/// # Safety
/// [`take`] gave it with this number of bytes, and nothing refers to it any more.
pub unsafe fn give_back(memory: *mut u8, bytes: usize) {
    let pages = bytes.div_ceil(PAGE);
    if pages > LARGEST_PIECE {
        // SAFETY: the caller's.
        return unsafe { give_back_area(memory, bytes) };
    }
    memory_source::give_back_pages(memory, pages * PAGE);
    with_areas(|areas| areas.give_back(memory, pages));
}

/// An area of its own, without a lock.
pub fn take_area(bytes: usize, used_for: AreaUse) -> Option<*mut u8> {
    let bytes = bytes.next_multiple_of(PAGE);
    let memory = memory_source::map_private(bytes)?;
    list(memory, bytes, used_for);
    Some(memory)
}

/// Gives an area back.
///
/// # Safety
/// [`take_area`] gave it with this number of bytes, and nothing refers to it any more.
pub unsafe fn give_back_area(memory: *mut u8, bytes: usize) {
    let bytes = bytes.next_multiple_of(PAGE);
    let entry = LIST.remove(memory as u64, bytes as u64);
    // SAFETY: the caller's.
    unsafe { memory_source::unmap(memory, bytes) };
    pass_on(entry);
}

fn list(memory: *mut u8, bytes: usize, used_for: AreaUse) {
    pass_on(LIST.add(&AgentArea { range: memory as u64..memory as u64 + bytes as u64, used_for }));
}

/// Writes a changed entry into the header of the session, if there is one. A session that is about to begin gets the whole list.
fn pass_on(entry: Option<usize>) {
    let Some(header) = session::header_of_this_process() else { return };
    match entry {
        Some(entry) => header.agent_memory.copy_entry(&LIST, entry),
        None => {
            let bytes = LIST.unlisted_bytes.load(Ordering::Relaxed);
            header.agent_memory.unlisted_bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

/// Writes the list into the header of a session that begins.
pub fn list_in(header: &Header) {
    header.agent_memory.copy(&LIST);
}

/// In a forked child, where the thread that held the lock does not exist.
pub fn reset() {
    LOCK.reset();
}

impl Areas {
    fn take(&mut self, pages: usize, used_for: AreaUse) -> Option<*mut u8> {
        let found = self.areas[..self.count]
            .iter_mut()
            .filter(|area| area.used_for == used_for)
            .find_map(|area| area.free_run(pages).map(|first| area.take(first, pages)));
        match found {
            Some(memory) => memory,
            None => self.add(pages, used_for)?.take(1, pages),
        }
    }

    /// Reserves an area that has room for `pages`.
    fn add(&mut self, pages: usize, used_for: AreaUse) -> Option<&mut Area> {
        let first = if memory_source::limits_address_space() { FIRST_PAGES_IF_LIMITED } else { FIRST_PAGES };
        let least = pages + 1;
        let usual =
            (first << (self.count / AREAS_OF_A_SIZE).min(MOST_AREAS.ilog2() as usize)).min(MOST_PAGES).max(least);
        let area = self.areas.get_mut(self.count)?;
        let (start, pages) =
            [usual, least].into_iter().find_map(|pages| Some((memory_source::reserve(pages * PAGE)?, pages)))?;
        *area = Area { start, pages, open: 0, used_for };
        if !area.open(1) {
            // SAFETY: just reserved, and not listed.
            unsafe { memory_source::unmap(start, pages * PAGE) };
            return None;
        }
        area.word(0).store(1, Ordering::Relaxed);
        list(start, pages * PAGE, used_for);
        self.count += 1;
        Some(area)
    }

    fn give_back(&mut self, memory: *mut u8, pages: usize) {
        let holds = |area: &&mut Area| (area.start..area.start.wrapping_add(area.pages * PAGE)).contains(&memory);
        if let Some(area) = self.areas[..self.count].iter_mut().find(holds) {
            let first = (memory as usize - area.start as usize) / PAGE;
            (first..first + pages).for_each(|page| area.mark(page, false));
        }
    }
}

impl Area {
    /// The word that has the bit of a page.
    fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: the first page of the area, which is accessible, has a bit for each of its pages.
        unsafe { &*self.start.cast::<AtomicU64>().add(page / 64) }
    }

    fn mark(&self, page: usize, taken: bool) {
        let (word, bit) = (self.word(page), 1 << (page % 64));
        let before = word.load(Ordering::Relaxed);
        word.store(if taken { before | bit } else { before & !bit }, Ordering::Relaxed);
    }

    /// The first of this number of free pages in a row.
    fn free_run(&self, pages: usize) -> Option<usize> {
        let (mut page, mut run) = (1, 0);
        while page < self.pages {
            let word = self.word(page).load(Ordering::Relaxed);
            if page.is_multiple_of(64) && word == u64::MAX {
                (page, run) = (page + 64, 0);
                continue;
            }
            run = if word >> (page % 64) & 1 == 0 { run + 1 } else { 0 };
            page += 1;
            if run == pages {
                return Some(page - pages);
            }
        }
        None
    }

    /// Makes the pages below `end` accessible.
    fn open(&mut self, end: usize) -> bool {
        if end <= self.open {
            return true;
        }
        let some_more = end.next_multiple_of(PAGES_AT_ONCE).min(self.pages);
        let opened = [some_more, end].into_iter().find(|&end| {
            let bytes = (end - self.open) * PAGE;
            memory_source::make_accessible(self.start.wrapping_add(self.open * PAGE), bytes)
        });
        self.open = opened.unwrap_or(self.open);
        opened.is_some()
    }

    fn take(&mut self, first: usize, pages: usize) -> Option<*mut u8> {
        if !self.open(first + pages) {
            return None;
        }
        (first..first + pages).for_each(|page| self.mark(page, true));
        Some(self.start.wrapping_add(first * PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(used_for: AreaUse) -> u64 {
        LIST.areas().filter(|area| area.used_for == used_for).map(|area| area.range.end - area.range.start).sum()
    }

    fn is_listed(memory: *mut u8, bytes: usize) -> bool {
        let (start, end) = (memory as u64, memory as u64 + bytes as u64);
        LIST.areas().any(|area| area.range.start <= start && end <= area.range.end)
    }

    #[test]
    fn memory_is_zero_listed_and_used_again() {
        // No other test takes memory for this use.
        let used_for = AreaUse::StackIndex;
        let pieces: [(*mut u8, usize); 40] = core::array::from_fn(|at| {
            let bytes = (at * 7919) % 300_000 + 1;
            (take(bytes, used_for).unwrap(), bytes)
        });
        let reserved = listed(used_for);
        for round in 0..50 {
            for (memory, bytes) in pieces {
                assert!(is_listed(memory, bytes));
                // SAFETY: taken above.
                let piece = unsafe { core::slice::from_raw_parts_mut(memory, bytes) };
                assert!(piece.iter().all(|&byte| byte == if round % 2 == 0 { 0 } else { 7 }));
                piece.fill(7);
                if round % 2 == 1 {
                    // SAFETY: taken with this size, and not used any more.
                    unsafe { give_back(memory, bytes) };
                    assert_eq!(take(bytes, used_for), Some(memory), "the first hole that is large enough");
                }
            }
        }
        assert_eq!(listed(used_for), reserved, "no more address space for the same memory");
        let large = (LARGEST_PIECE + 1) * PAGE;
        let own = take(large, used_for).unwrap();
        assert!(is_listed(own, large));
        // SAFETY: taken above.
        unsafe { give_back(own, large) };
        assert_eq!(listed(used_for), reserved);
    }
}
