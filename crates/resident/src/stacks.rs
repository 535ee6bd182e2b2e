//! The stacks of threads.
//!
//! The kernel knows where the robust list of each thread begins, and answers without stopping the thread. glibc has it in the thread's own structure, at the upper end of its
//! stack. The structure begins with its own address, twice, and holds the extent of the stack. Stacks that glibc keeps after their threads have ended look the same.
//! (glibc 2.42 protects stacks without a mapping of its own, so several stacks may be one mapping: the extents in the structures still hold.)

use crate::image::StackRange;
use crate::mappings::{Mapping, PAGE, mapping_at};
use crate::memory::ReadMemory;
use std::fs;

/// The structure begins at most this far before its robust list.
const LIST_OFFSET_LIMIT: u64 = 0x800;
/// The extent of the stack is in these bytes of the structure.
const EXTENT_FIELDS: (u64, u64) = (0x200, 0x900);
/// The structure is at most this far from the end of its stack.
const STRUCTURE_LIMIT: u64 = 64 << 10;
/// A kept stack's structure is in its last bytes.
const STRUCTURE_BYTES: u64 = 2 * PAGE;
/// The smallest stack (`PTHREAD_STACK_MIN`).
const SMALLEST: u64 = 16 << 10;
/// Threads and mappings that are looked at.
const MOST_THREADS: usize = 1 << 16;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// The addresses of the threads' structures.
    pub structures: Vec<u64>,
    /// Whether there is one for each thread.
    pub are_complete: bool,
    /// The stacks of threads, and those that are kept. The main thread's is not among them: the kernel names it.
    pub stacks: Vec<StackRange>,
}

/// The robust lists of all threads: the number of the thread, and the address.
pub fn robust_lists(pid: u32) -> Vec<(u32, Option<u64>)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let numbers = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    numbers.take(MOST_THREADS).map(|thread| (thread, robust_list(thread))).collect()
}

fn robust_list(thread: u32) -> Option<u64> {
    let mut head: *mut libc::c_void = std::ptr::null_mut();
    let mut length: libc::size_t = 0;
    // SAFETY: the kernel writes an address and a length.
    let failed = unsafe { libc::syscall(libc::SYS_get_robust_list, thread, &raw mut head, &raw mut length) };
    (failed == 0 && !head.is_null()).then_some(head as u64)
}

/// Finds the stacks of threads with these robust lists.
pub fn find_stacks(main: u32, lists: &[(u32, Option<u64>)], mappings: &[Mapping], memory: &impl ReadMemory) -> Threads {
    let mut threads = Threads { are_complete: true, ..Threads::default() };
    for &(thread, list) in lists {
        let structure = list.and_then(|list| structure_before(list, memory));
        threads.structures.extend(structure);
        threads.are_complete &= structure.is_some();
        if thread == main {
            continue;
        }
        let extent = structure.and_then(|structure| extent_of(structure, memory));
        let extent = extent.or_else(|| own_mapping(list?, mappings));
        threads.stacks.extend(extent.map(|(start, end)| StackRange { start, end, is_cached: false }));
    }
    threads.structures.sort_unstable();
    let kept = mappings.iter().filter(|mapping| mapping.writable && mapping.is_anonymous());
    for mapping in kept.take(MOST_THREADS) {
        kept_stacks(mapping, &threads.structures, memory, &mut threads.stacks);
    }
    threads
}

/// The structure whose robust list is at this address.
fn structure_before(list: u64, memory: &impl ReadMemory) -> Option<u64> {
    let start = list.saturating_sub(LIST_OFFSET_LIMIT) & !15;
    last_structure(start, list, memory)
}

/// The last structure that begins in a range: its first and third word hold its own address.
fn last_structure(start: u64, end: u64, memory: &impl ReadMemory) -> Option<u64> {
    let words = memory.words_or_zeros(start, end);
    let found = (0..words.len().saturating_sub(2)).rev().find(|&index| {
        let address = start + index as u64 * 8;
        address.is_multiple_of(16) && words[index] == address && words[index + 2] == address
    });
    found.map(|index| start + index as u64 * 8)
}

/// The extent of a stack, from its thread's structure.
fn extent_of(structure: u64, memory: &impl ReadMemory) -> Option<(u64, u64)> {
    let (from, to) = EXTENT_FIELDS;
    let words = memory.words_or_zeros(structure.checked_add(from)?, structure.checked_add(to)?);
    words.windows(2).find_map(|pair| {
        let (start, end) = (pair[0], pair[0].checked_add(pair[1])?);
        let is_on_pages = start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE);
        let is_around = start < structure && structure < end && end - structure <= STRUCTURE_LIMIT;
        (is_on_pages && is_around && end - start >= SMALLEST).then_some((start, end))
    })
}

/// The whole mapping, for other C libraries: if it has a guard below it, as stacks have.
fn own_mapping(list: u64, mappings: &[Mapping]) -> Option<(u64, u64)> {
    let mapping = mapping_at(mappings, list).filter(|mapping| mapping.is_anonymous())?;
    let guard = mapping_at(mappings, mapping.start.checked_sub(1)?)?;
    (!guard.accessible).then_some((mapping.start, mapping.end))
}

/// Stacks at the end of a mapping that belong to no thread, one below the other.
fn kept_stacks(mapping: &Mapping, structures: &[u64], memory: &impl ReadMemory, stacks: &mut Vec<StackRange>) {
    let mut end = mapping.end;
    while end - mapping.start >= SMALLEST {
        let Some(structure) = last_structure(end - STRUCTURE_BYTES, end, memory) else { return };
        let Some((start, to)) = extent_of(structure, memory).filter(|extent| extent.0 < end) else { return };
        if structures.binary_search(&structure).is_err() {
            stacks.push(StackRange { start, end: to, is_cached: true });
        }
        if start < mapping.start {
            return;
        }
        end = start;
    }
}
