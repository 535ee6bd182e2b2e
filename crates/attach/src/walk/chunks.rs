//! From a copy of the heap to its blocks.

use super::arenas::{CopiedSpan, HeapCopy};
use super::{OlderBlock, OlderBlocks};
use crate::elf::u64_at;
use std::collections::{HashMap, HashSet};

/// Bytes of a thread's own cache, a block that no program asked for.
const THREAD_CACHE: u64 = 0x290;
/// The header of a chunk that has a mapping of its own.
const MAPPED_HEADER: u64 = 16;
const SIZE_FLAGS: u64 = 7;
const FENCE: u64 = 16;
const PREVIOUS_IN_USE: u64 = 1;

/// Reads all chunks. The error is the address of a chunk that cannot be one.
pub(super) fn read(copy: &HeapCopy<'_>) -> Result<OlderBlocks, u64> {
    let fast = fast_chunks(copy);
    let marks: HashSet<u64> = copy.words.iter().copied().collect();
    let mut found = OlderBlocks::default();
    // Blocks whose second word is a word of the C library's data: one of those words is the mark of cached chunks.
    let mut doubtful: HashMap<u64, Vec<OlderBlock>> = HashMap::new();
    let mut caches = Vec::new();
    for span in &copy.spans {
        let mut at = span.start;
        while at < span.end {
            let head = word(span, at + 8).ok_or(at)?;
            let size = head & !SIZE_FLAGS;
            // A heap that another one continues ends with two fences of 16 bytes. The first may have become a part of the rest before it, which is too small to be free.
            if size == FENCE && at + 2 * FENCE == span.end {
                break;
            }
            if head == PREVIOUS_IN_USE && at + FENCE == span.end {
                found.blocks.pop_if(|block| block.address + block.size + 8 == at + 16);
                break;
            }
            let next = at
                .checked_add(size)
                .filter(|&next| size >= 32 && size.is_multiple_of(16) && next <= span.end)
                .ok_or(at)?;
            // After the last chunk of a full heap there is nothing.
            let in_use = word(span, next + 8).is_none_or(|size| size & PREVIOUS_IN_USE != 0);
            if in_use && !fast.contains(&at) {
                let block = OlderBlock { address: at + 16, size: size - 8 };
                let mark = word(span, at + 24).ok_or(at)?;
                if marks.contains(&mark) {
                    doubtful.entry(mark).or_default().push(block);
                } else if let Some(first_cached) = thread_cache(span, at).filter(|_| size == THREAD_CACHE) {
                    caches.push((block, first_cached, at == span.start));
                } else {
                    found.blocks.push(block);
                }
            }
            at = next;
        }
    }
    // Cached chunks are many; a block that begins with such a word by chance is not.
    let key = doubtful.iter().max_by_key(|(_, blocks)| blocks.len()).map(|(&key, _)| key);
    let cached: HashSet<u64> =
        key.and_then(|key| doubtful.get(&key)).into_iter().flatten().map(|block| block.address).collect();
    for (block, first_cached, is_first) in caches {
        // One that is empty looks like any block of zeros: a thread's cache is the first thing in a new heap.
        let is_cache =
            if first_cached.is_empty() { is_first } else { first_cached.iter().all(|chunk| cached.contains(chunk)) };
        if !is_cache {
            found.blocks.push(block);
        }
    }
    for (mark, blocks) in doubtful {
        if Some(mark) == key {
            found.cached = blocks.len() as u64;
        } else {
            found.blocks.extend(blocks);
        }
    }
    found.blocks.extend(
        copy.mapped
            .iter()
            .map(|&(address, size)| OlderBlock { address: address + MAPPED_HEADER, size: size - MAPPED_HEADER }),
    );
    found.blocks.sort_unstable();
    Ok(found)
}

fn word(span: &CopiedSpan<'_>, address: u64) -> Option<u64> {
    u64_at(&span.bytes, (address.checked_sub(span.start)?) as usize)
}

/// A thread's cache holds 64 counts, and then 64 pointers to the first cached chunk of a size, null where the count is 0. Returns those that are not null, if this may be one.
fn thread_cache(span: &CopiedSpan<'_>, at: u64) -> Option<Vec<u64>> {
    let mut first_cached = Vec::new();
    for bin in 0..64 {
        let count = word(span, at + 16 + bin / 4 * 8)? >> (bin % 4 * 16) & 0xffff;
        let first = word(span, at + 16 + 128 + bin * 8)?;
        if count > 127 || (count == 0) != (first == 0) || !first.is_multiple_of(16) {
            return None;
        }
        if first != 0 {
            first_cached.push(first);
        }
    }
    Some(first_cached)
}

/// Chunks in fast bins: free, but their neighbours do not say so. Links are xor-ed with their own address.
fn fast_chunks(copy: &HeapCopy<'_>) -> HashSet<u64> {
    let mut chunks = HashSet::new();
    for &first in &copy.fast {
        let mut chunk = first;
        while chunk != 0 && chunks.insert(chunk) {
            let Some(link) = copy
                .spans
                .iter()
                .find(|span| span.start <= chunk && chunk < span.end)
                .and_then(|span| word(span, chunk + 16))
            else {
                break;
            };
            chunk = link ^ (chunk + 16) >> 12;
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::walk::arenas::{CopiedSpan, HeapCopy};

    /// A span at 0x10000 whose chunks have these heads at these offsets.
    fn found(bytes: u64, heads: &[(u64, u64)]) -> Result<Vec<(u64, u64)>, u64> {
        let start = 0x10000;
        let mut content = vec![0; bytes as usize];
        for &(at, head) in heads {
            content[at as usize + 8..][..8].copy_from_slice(&head.to_le_bytes());
        }
        let span = CopiedSpan { start, end: start + bytes, bytes: content.into() };
        read(&HeapCopy { spans: vec![span], ..HeapCopy::default() })
            .map(|found| found.blocks.iter().map(|block| (block.address - start, block.size)).collect())
    }

    #[test]
    fn a_heap_that_another_one_continues_ends_with_fences() {
        let both = [(0, 0x41), (0x40, 0x31), (0x70, 0x11), (0x80, 0x11)];
        assert_eq!(found(0x90, &both), Ok(vec![(0x10, 0x38), (0x50, 0x28)]));
        // A rest of 16 bytes before the fences became one chunk with the first: no block of the program.
        assert_eq!(
            found(0x90, &[(0, 0x41), (0x40, 0x21), (0x60, 0x21), (0x80, 0x01)]),
            Ok(vec![(0x10, 0x38), (0x50, 0x18)])
        );
    }

    #[test]
    fn what_no_heap_has_is_not_guessed() {
        assert_eq!(found(0x90, &[(0, 0x41), (0x40, 0)]), Err(0x10040), "a size of 0 is not an end");
        assert_eq!(
            found(0x90, &[(0, 0x41), (0x40, 0x11)]),
            Err(0x10040),
            "a fence before the end hides what follows it"
        );
        assert_eq!(found(0x90, &[(0, 0x41), (0x40, 0x61)]), Err(0x10040), "beyond the end");
    }
}
