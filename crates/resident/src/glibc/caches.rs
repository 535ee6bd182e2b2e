//! The caches of threads (tcache): free blocks that look like live ones to `malloc_trim`.
//!
//! Each thread has a structure with the heads of its lists, in a chunk of its arena; a thread-local variable of the C library points to it. Where that variable is relative
//! to the thread's own structure is the same for all threads, and is found by looking for such a pointer in a few of them.

use super::ALIGNMENT;
use crate::image::{Heap, KnownChunk};
use crate::memory::ReadMemory;
use std::collections::BTreeMap;

/// A layout of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// The size of its chunk.
    chunk: u64,
    bins: usize,
    /// Bytes of each counter; the counters come before the lists.
    counter: usize,
    /// A counter of 0 means an empty list. Later versions count what still fits.
    counts_blocks: bool,
}

/// glibc 2.30 to 2.41, 2.26 to 2.29, and 2.42.
const LAYOUTS: [Layout; 3] = [
    Layout { chunk: 0x290, bins: 64, counter: 2, counts_blocks: true },
    Layout { chunk: 0x250, bins: 64, counter: 1, counts_blocks: true },
    Layout { chunk: 0x300, bins: 76, counter: 2, counts_blocks: false },
];

/// The thread-local memory that is searched, below the thread's structure.
const SEARCH_BYTES: u64 = 16 << 10;
/// The threads in which it is searched.
const SEARCHED_THREADS: usize = 8;
/// Cached blocks that are followed.
const MOST_BLOCKS: usize = 1 << 20;
/// Counters that may contradict their lists: the thread runs on.
const TORN_COUNTERS: usize = 2;

/// What the caches hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// The structures, and the cached chunks.
    pub chunks: Vec<KnownChunk>,
    /// Whether the caches of all threads were read.
    pub are_complete: bool,
}

/// Reads the caches of the threads whose structures are at `threads`. The heaps are in order.
pub fn read_caches(threads: &[u64], heaps: &[Heap], memory: &impl ReadMemory) -> Caches {
    let mut caches = Caches::default();
    let Some(offset) = find_offset(threads, heaps, memory) else { return caches };
    let pointers: Vec<u64> = threads.iter().map(|thread| thread.wrapping_sub(offset)).collect();
    let mut entries = Vec::new();
    caches.are_complete = true;
    for pointer in memory.triples(&pointers) {
        match pointer {
            // The thread has not allocated yet.
            Some([0, ..]) => {}
            Some([cache, ..]) => match lists_of(cache, heaps, memory) {
                Some((layout, lists)) => {
                    let start = cache - 16;
                    caches.chunks.push(KnownChunk { start, end: start + layout.chunk, is_cached: false });
                    entries.extend(lists.into_iter().filter(|&list| list != 0));
                }
                None => caches.are_complete = false,
            },
            None => caches.are_complete = false,
        }
    }
    follow(entries, heaps, memory, &mut caches);
    caches.chunks.sort_unstable_by_key(|chunk| chunk.start);
    caches
}

/// How far below a thread's structure the pointer to its cache is: the distance at which most threads have one, and the fullest.
fn find_offset(threads: &[u64], heaps: &[Heap], memory: &impl ReadMemory) -> Option<u64> {
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    for &thread in threads.iter().take(SEARCHED_THREADS) {
        let start = thread.saturating_sub(SEARCH_BYTES);
        let words = memory.words_or_zeros(start, thread);
        for (index, &word) in words.iter().enumerate() {
            if let Some((_, lists)) = lists_of(word, heaps, memory) {
                let full = lists.iter().filter(|&&list| list != 0).count();
                // Any thread counts for more than any list.
                *found.entry(thread - start - index as u64 * 8).or_default() += 1000 + full;
            }
        }
    }
    found.into_iter().max_by_key(|&(_, votes)| votes).map(|(offset, _)| offset)
}

/// The lists of a structure, if there is one at this address.
fn lists_of(cache: u64, heaps: &[Heap], memory: &impl ReadMemory) -> Option<(Layout, Vec<u64>)> {
    if !is_block(cache, heaps) {
        return None;
    }
    let size = memory.word(cache - 8)? & !7;
    let layout = LAYOUTS.into_iter().find(|layout| layout.chunk == size)?;
    let mut bytes = vec![0; layout.bins * (layout.counter + 8)];
    memory.read(cache, &mut bytes).then_some(())?;
    let (counters, lists) = bytes.split_at(layout.bins * layout.counter);
    let lists: Vec<u64> = lists.as_chunks::<8>().0.iter().map(|list| u64::from_ne_bytes(*list)).collect();
    let is_list = |&list: &u64| list == 0 || is_block(list, heaps);
    let counts = counters.chunks_exact(layout.counter).map(|counter| counter.iter().any(|&byte| byte != 0));
    let torn = counts.zip(&lists).filter(|&(has_blocks, &list)| has_blocks != (list != 0)).count();
    (lists.iter().all(is_list) && (!layout.counts_blocks || torn <= TORN_COUNTERS)).then_some((layout, lists))
}

/// Whether a block of glibc may be at this address. The heaps are in order.
fn is_block(address: u64, heaps: &[Heap]) -> bool {
    let heap = heaps.get(heaps.partition_point(|heap| heap.end <= address));
    address.is_multiple_of(ALIGNMENT) && heap.is_some_and(|heap| heap.first_chunk.saturating_add(16) <= address)
}

/// Follows the lists, all of them at once: a call to the kernel reads one block of each.
fn follow(mut entries: Vec<u64>, heaps: &[Heap], memory: &impl ReadMemory, caches: &mut Caches) {
    let mut followed = 0;
    while !entries.is_empty() {
        followed += entries.len();
        if followed > MOST_BLOCKS {
            caches.are_complete = false;
            return;
        }
        let addresses: Vec<u64> = entries.iter().map(|entry| entry - 8).collect();
        let mut next = Vec::new();
        for (&entry, words) in entries.iter().zip(memory.triples(&addresses)) {
            let size = words.map_or(0, |words| words[0] & !7);
            let start = entry - 16;
            let is_chunk = size >= 32 && size.is_multiple_of(ALIGNMENT) && size < 64 << 20;
            let Some([_, link, _]) = words.filter(|_| is_chunk && is_block(entry, heaps)) else {
                caches.are_complete = false;
                continue;
            };
            caches.chunks.push(KnownChunk { start, end: start + size, is_cached: true });
            match linked(entry, link, heaps) {
                Some(0) => {}
                Some(linked) => next.push(linked),
                None => caches.are_complete = false,
            }
        }
        entries = next;
    }
}

/// The next block of a list. Since glibc 2.32 the link is mixed with its own address.
fn linked(entry: u64, link: u64, heaps: &[Heap]) -> Option<u64> {
    [link ^ (entry >> 12), link].into_iter().find(|&next| next == 0 || is_block(next, heaps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::AreaKind;

    const HEAP: u64 = 0x10_0000;
    const THREAD: u64 = 0x20_1000;

    /// Words at addresses; all others are 0.
    #[derive(Default)]
    struct Words(BTreeMap<u64, u64>);

    impl ReadMemory for Words {
        fn read(&self, address: u64, to: &mut [u8]) -> bool {
            for (index, byte) in to.iter_mut().enumerate() {
                let at = address + index as u64;
                let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
                *byte = word.to_ne_bytes()[(at % 8) as usize];
            }
            true
        }
    }

    /// A thread with a cache of two blocks, the second of which links to `last`.
    fn memory(last: u64) -> (Words, [Heap; 1]) {
        let cache = HEAP + 16;
        let [first, second] = [HEAP + 0x290 + 16, HEAP + 0x290 + 64 + 16];
        let mut words = Words::default();
        words.0.insert(THREAD - 0x78, cache);
        words.0.insert(cache - 8, 0x291);
        words.0.insert(cache, 2);
        words.0.insert(cache + 128, first);
        for (block, next) in [(first, second), (second, last)] {
            words.0.insert(block - 8, 0x41);
            words.0.insert(block, next ^ (block >> 12));
        }
        let heap = Heap { kind: AreaKind::Main, start: HEAP, first_chunk: HEAP, top: None, end: HEAP + 0x10000 };
        (words, [heap])
    }

    #[test]
    fn the_blocks_of_a_cache_are_found_from_its_thread() {
        let (words, heaps) = memory(0);
        let caches = read_caches(&[THREAD], &heaps, &words);
        let found: Vec<_> = caches.chunks.iter().map(|chunk| (chunk.start - HEAP, chunk.is_cached)).collect();
        assert_eq!(found, [(0, false), (0x290, true), (0x2d0, true)]);
        assert!(caches.are_complete);
    }

    #[test]
    fn a_list_that_never_ends_is_left() {
        let (words, heaps) = memory(HEAP + 0x290 + 16);
        let caches = read_caches(&[THREAD], &heaps, &words);
        assert!(!caches.are_complete && caches.chunks.len() <= MOST_BLOCKS + 2);
        let (words, heaps) = memory(0xdead_beef);
        assert!(!read_caches(&[THREAD], &heaps, &words).are_complete);
        assert_eq!(read_caches(&[], &heaps, &words), Caches::default());
    }
}
