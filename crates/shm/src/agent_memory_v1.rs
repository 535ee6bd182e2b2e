//! The agent's private memory, as a list of address ranges: so that a reader can attribute these pages to the agent.
//!
//! Part of the [header](crate::session_v1::Header). An agent that is older than this list leaves it zero, and a reader then finds no ranges.
//! Memory that is shared with the reader is not listed: its mappings bear the agent's names.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of ranges. The agent takes its memory in few large areas, which grow with what it needs.
pub const MOST_AREAS: usize = 64;

/// Ranges begin and end at multiples of this.
const PAGE: u64 = 4096;
/// The end of the addresses that a program can have.
const END_OF_ADDRESSES: u64 = 1 << 47;

/// What an area is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum AreaUse {
    /// Threads, caches of the unwinder, everything that has no name of its own.
    Various = 0,
    /// Finds the record of a block by its address.
    BlockIndex = 1,
    /// Finds the node of a stack by its parent and its address.
    StackIndex = 2,
}

impl AreaUse {
    fn of(number: u64) -> Self {
        match number {
            1 => Self::BlockIndex,
            2 => Self::StackIndex,
            // Also a use that a later agent has: it is the agent's memory in any case.
            _ => Self::Various,
        }
    }
}

/// An area of private memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentArea {
    /// Its addresses. A part of it may be address space that was reserved and not used yet.
    pub range: Range<u64>,
    /// What it is for.
    pub used_for: AreaUse,
}

/// An entry of the list: free if its bytes are 0.
#[repr(C)]
pub struct AreaEntry {
    /// The address of the area; its use is in the lowest bits.
    start: AtomicU64,
    /// Bytes, 0 in a free entry.
    bytes: AtomicU64,
}

impl AreaEntry {
    /// The bytes of an entry that is being filled in.
    const CLAIMED: u64 = 1;

    const fn new() -> Self {
        Self { start: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Takes the entry for the caller if it is free.
    fn claim(&self) -> bool {
        self.bytes.compare_exchange(0, Self::CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn set(&self, area: &AgentArea) {
        self.start.store(area.range.start | area.used_for as u64, Ordering::Release);
        self.bytes.store(area.range.end - area.range.start, Ordering::Release);
    }

    /// The area, if there is one and its numbers are possible.
    fn get(&self) -> Option<AgentArea> {
        let (bytes, start) = (self.bytes.load(Ordering::Acquire), self.start.load(Ordering::Acquire));
        let (start, used_for) = (start & !(PAGE - 1), AreaUse::of(start & (PAGE - 1)));
        let end = start.checked_add(bytes)?;
        let is_sound = start != 0 && bytes != 0 && bytes.is_multiple_of(PAGE) && end <= END_OF_ADDRESSES;
        is_sound.then_some(AgentArea { range: start..end, used_for })
    }
}

/// The list. The agent changes it while readers read it: they may miss an area that comes or goes at that moment.
#[repr(C)]
pub struct AgentMemory {
    /// Bytes of areas for which the list had no room.
    pub unlisted_bytes: AtomicU64,
    entries: [AreaEntry; MOST_AREAS],
}

impl Default for AgentMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl AgentMemory {
    /// An empty list.
    pub const fn new() -> Self {
        Self { unlisted_bytes: AtomicU64::new(0), entries: [const { AreaEntry::new() }; MOST_AREAS] }
    }

    /// Adds an area; returns its entry. Without room, its bytes are counted as unlisted.
    pub fn add(&self, area: &AgentArea) -> Option<usize> {
        let Some(entry) = self.entries.iter().position(AreaEntry::claim) else {
            self.unlisted_bytes.fetch_add(area.range.end - area.range.start, Ordering::Relaxed);
            return None;
        };
        self.entries[entry].set(area);
        Some(entry)
    }

    /// Removes the area that begins at `start`; returns its entry. Without an entry, its bytes were counted as unlisted.
    pub fn remove(&self, start: u64, bytes: u64) -> Option<usize> {
        let is_it = |entry: &AreaEntry| entry.get().is_some_and(|area| area.range.start == start);
        let Some(entry) = self.entries.iter().position(is_it) else {
            self.unlisted_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        self.entries[entry].bytes.store(0, Ordering::Release);
        Some(entry)
    }

    /// Makes an entry of this list what it is in `other`.
    pub fn copy_entry(&self, other: &Self, entry: usize) {
        let (to, from) = (&self.entries[entry], &other.entries[entry]);
        to.start.store(from.start.load(Ordering::Acquire), Ordering::Release);
        to.bytes.store(from.bytes.load(Ordering::Acquire), Ordering::Release);
    }

    /// Makes this list what `other` is.
    pub fn copy(&self, other: &Self) {
        self.unlisted_bytes.store(other.unlisted_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        (0..MOST_AREAS).for_each(|entry| self.copy_entry(other, entry));
    }

    /// The areas, in no order. Each is a possible range of addresses, whatever the memory contains; they may overlap if the process is hostile.
    pub fn areas(&self) -> impl Iterator<Item = AgentArea> + '_ {
        self.entries.iter().filter_map(AreaEntry::get)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn area(start: u64, bytes: u64) -> AgentArea {
        AgentArea { range: start..start + bytes, used_for: AreaUse::BlockIndex }
    }

    #[test]
    fn areas_come_and_go_and_more_than_the_list_holds_are_counted() {
        let list = AgentMemory::new();
        for number in 1..=MOST_AREAS as u64 {
            assert_eq!(list.add(&area(number << 24, 8192)), Some(number as usize - 1));
        }
        assert_eq!(list.add(&area(1 << 40, 8192)), None);
        assert_eq!(list.unlisted_bytes.load(Ordering::Relaxed), 8192);
        assert_eq!(list.remove(1 << 40, 8192), None);
        assert_eq!(list.unlisted_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(list.remove(3 << 24, 8192), Some(2));
        assert_eq!(list.areas().count(), MOST_AREAS - 1);
        assert_eq!(list.add(&area(1 << 40, 4096)), Some(2));
        let copy = AgentMemory::new();
        copy.copy(&list);
        assert!(list.areas().eq(copy.areas()));
        assert_eq!(copy.areas().nth(2), Some(area(1 << 40, 4096)));
    }

    #[test]
    fn impossible_numbers_are_no_areas() {
        for (start, bytes) in [(0, 4096), (4096, 0), (4096, 100), (1 << 47, 4096), (u64::MAX, 4096), (4096, u64::MAX)] {
            let list = AgentMemory::new();
            list.entries[5].start.store(start, Ordering::Relaxed);
            list.entries[5].bytes.store(bytes, Ordering::Relaxed);
            assert_eq!(list.areas().count(), 0, "{start:#x} {bytes:#x}");
        }
    }
}
