//! Unused address ranges for the agent's image and the islands.

use crate::mappings::AddressSpace;
use std::ops::Range;

/// A 32-bit displacement reaches 2 GiB; the rest is for offsets inside.
const REACH: u64 = 0x7f00_0000;
/// The heap grows upwards, the stack downwards: room that is left to them.
const HEAP_ROOM: u64 = 1 << 30;
const STACK_ROOM: u64 = 64 << 20;
const LOWEST: u64 = 0x10_0000;
const HIGHEST: u64 = 0x7fff_ffff_f000;
const PAGE: u64 = 4096;

/// Finds `bytes` unused bytes, all of which are within reach of all of `near`; a page on either side stays free, so that the kernel merges no mappings.
/// `taken` are ranges that are given away already.
pub(crate) fn hole_near(space: &AddressSpace, near: &Range<u64>, bytes: u64, taken: &[Range<u64>]) -> Option<u64> {
    let lowest = near.end.saturating_sub(REACH).max(LOWEST);
    let highest = near.start.saturating_add(REACH).min(HIGHEST);
    let mut best: Option<(u64, u64)> = None;
    let mut used: Vec<Range<u64>> = space
        .mappings
        .iter()
        .map(|mapping| match mapping.name.as_str() {
            "[heap]" => mapping.start..mapping.end.saturating_add(HEAP_ROOM),
            "[stack]" => mapping.start.saturating_sub(STACK_ROOM)..mapping.end,
            _ => mapping.start..mapping.end,
        })
        .chain(taken.iter().cloned())
        .collect();
    used.sort_by_key(|range| range.start);
    used.push(HIGHEST..u64::MAX);
    let mut free_from = 0;
    for range in used {
        let start = (free_from + PAGE).max(lowest).next_multiple_of(PAGE);
        let end = range.start.saturating_sub(PAGE).min(highest) & !(PAGE - 1);
        if end > start && end - start >= bytes {
            // Below the module as high as possible, above it as low as possible.
            let at = if end <= near.start { end - bytes } else { start };
            let distance = at.abs_diff(near.start);
            if best.is_none_or(|(_, nearest)| distance < nearest) {
                best = Some((at, distance));
            }
        }
        free_from = free_from.max(range.end);
    }
    best.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{REACH, hole_near};
    use crate::mappings::{AddressMapping, AddressSpace};

    fn space(ranges: &[(u64, u64, &str)]) -> AddressSpace {
        let mapping = |&(start, end, name): &(u64, u64, &str)| AddressMapping {
            start,
            end,
            offset: 0,
            inode: 0,
            readable: true,
            writable: false,
            executable: false,
            shared: false,
            name: name.to_owned(),
        };
        AddressSpace { mappings: ranges.iter().map(mapping).collect() }
    }

    #[test]
    fn holes_leave_guard_pages_and_room_for_the_heap() {
        let space = space(&[
            (0x4000_0000, 0x4010_0000, "a"),
            (0x4020_0000, 0x4030_0000, "[heap]"),
            (0x7000_0000_0000, 0x7000_0001_0000, "lib"),
        ]);
        let near = 0x4000_0000..0x4010_0000;
        let at = hole_near(&space, &near, 0x1000, &[]).unwrap();
        assert_eq!(at, 0x3fff_e000);
        let second = hole_near(&space, &near, 0x1000, std::slice::from_ref(&(at..at + 0x1000))).unwrap();
        assert_eq!(second, 0x3fff_c000);
        let large = hole_near(&space, &near, 0x5000_0000, &[]);
        assert!(large.is_none_or(|at| at >= 0x8030_1000 || at + 0x5000_0000 <= 0x3fff_f000));
        let library = 0x7000_0000_0000..0x7000_0001_0000;
        let at = hole_near(&space, &library, 0x1000, &[]).unwrap();
        assert!(at.abs_diff(library.end) < REACH);
    }
}
