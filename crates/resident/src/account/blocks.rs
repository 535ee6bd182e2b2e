//! Live blocks in order, each byte in one of them.

use crate::image::Heap;
use crate::live_memory::LiveBlock;
use crate::mappings::PAGE;

/// The bytes of a block's header in glibc, before the block.
pub const HEADER: u64 = 8;
/// The chunk of a block begins this far before it.
pub const CHUNK_OFFSET: u64 = 16;

/// Sorts blocks, and cuts those that overlap others: only a hostile process has such.
pub fn put_in_order(blocks: &mut [LiveBlock], heaps: &[Heap]) {
    if !blocks.is_sorted_by_key(|block| block.address) {
        // In place: a radix sort with a second buffer was not faster.
        blocks.sort_unstable_by_key(|block| block.address);
    }
    let mut heap = 0;
    let mut end = 0;
    for index in 0..blocks.len() {
        let next = blocks.get(index + 1).map_or(u64::MAX, |next| next.address);
        let block = &mut blocks[index];
        block.usable = block.usable.max(block.size);
        while heaps.get(heap).is_some_and(|heap| heap.end <= block.address) {
            heap += 1;
        }
        if heaps.get(heap).is_some_and(|heap| heap.first_chunk <= block.address) {
            block.usable =
                block.usable.max(least_usable(block.size).min((next - block.address).saturating_sub(HEADER)));
        }
        let to = block.address.saturating_add(block.usable).max(end);
        let requested_to = block.address.saturating_add(block.size).clamp(end, to);
        block.address = block.address.max(end);
        block.usable = to - block.address;
        block.size = requested_to.saturating_sub(block.address);
        end = to;
    }
}

/// What glibc gives for a request, at least.
fn least_usable(size: u64) -> u64 {
    (size.saturating_add(HEADER + 15) & !15).max(32) - HEADER
}

/// Whether a block has a mapping of its own in glibc: it begins 16 bytes after a page and ends with a page.
pub fn is_mapped_chunk(block: &LiveBlock) -> bool {
    block.address % PAGE == CHUNK_OFFSET && (block.address + block.usable).is_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: u64, size: u64, usable: u64) -> LiveBlock {
        LiveBlock { address, size, usable, owner: 0 }
    }

    #[test]
    fn overlapping_blocks_are_cut() {
        let mut blocks = [block(100, 50, 60), block(90, 20, 30), block(95, 5, 5), block(u64::MAX - 1, 9, 9)];
        put_in_order(&mut blocks, &[]);
        let ranges: Vec<_> = blocks.iter().map(|block| (block.address, block.size, block.usable)).collect();
        assert_eq!(ranges, [(90, 20, 30), (120, 0, 0), (120, 30, 40), (u64::MAX - 1, 1, 1)]);
    }

    #[test]
    fn glibc_rounds_requests_up() {
        assert_eq!([0, 24, 25, 40, 41].map(least_usable), [24, 24, 40, 40, 56]);
    }
}
