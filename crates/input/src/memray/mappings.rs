//! Mapped memory, as memray counts it.
//!
//! Programs unmap parts of mappings, and several mappings at once. memray cuts what is unmapped out of every mapping that has a part of it; the rest
//! belongs to the call that made the mapping. It does not see every change of the address space: a mapping may lie where another one still seems
//! to be, and then both count. So mappings are kept in layers: within a layer they never overlap.

use highwater_model::{EventKind, Placement, StackId, TagId, mapped_address};
use std::collections::BTreeMap;

/// Limit for the number of layers. Mappings in the last one replace what they overlap there.
const MOST_LAYERS: usize = 16;

/// All mappings.
pub(super) struct Mappings {
    tag: TagId,
    /// By start: the end, and the stack.
    layers: Vec<BTreeMap<u64, (u64, StackId)>>,
}

impl Mappings {
    /// Mappings whose blocks have this tag.
    pub fn with_tag(tag: TagId) -> Self {
        Self { tag, layers: Vec::new() }
    }

    /// A mapping was made. One that exceeds the address space is ignored.
    pub fn map(&mut self, start: u64, size: u64, stack: StackId, emit: &mut dyn FnMut(EventKind)) {
        let Some(end) = start.checked_add(size).filter(|_| size > 0) else { return };
        let free = (0..self.layers.len()).find(|layer| !self.overlaps(*layer, start, end));
        let layer = free.unwrap_or_else(|| {
            if self.layers.len() < MOST_LAYERS {
                self.layers.push(BTreeMap::new());
            }
            self.layers.len() - 1
        });
        self.cut(layer, start, end, emit);
        self.add(layer, start, end, stack, emit);
    }

    /// A part of the address space was unmapped.
    pub fn unmap(&mut self, start: u64, size: u64, emit: &mut dyn FnMut(EventKind)) {
        let end = start.saturating_add(size);
        (0..self.layers.len()).for_each(|layer| self.cut(layer, start, end, emit));
    }

    fn add(&mut self, layer: usize, start: u64, end: u64, stack: StackId, emit: &mut dyn FnMut(EventKind)) {
        self.layers[layer].insert(start, (end, stack));
        let (address, size) = (address(layer, start), end - start);
        emit(EventKind::Allocate(Placement { address, size, stack, tag: self.tag, ..Placement::default() }));
    }

    fn overlaps(&self, layer: usize, start: u64, end: u64) -> bool {
        let before = self.layers[layer].range(..end).next_back();
        before.is_some_and(|(_, (its_end, _))| *its_end > start)
    }

    /// Removes a part of the address space from a layer.
    fn cut(&mut self, layer: usize, start: u64, end: u64, emit: &mut dyn FnMut(EventKind)) {
        while let Some((&its_start, &(its_end, stack))) =
            self.layers[layer].range(..end).next_back().filter(|(_, (its_end, _))| *its_end > start)
        {
            self.layers[layer].remove(&its_start);
            let old_address = address(layer, its_start);
            let rests = [(its_start, its_end.min(start)), (its_start.max(end), its_end)];
            let mut rests = rests.into_iter().filter(|(from, to)| from < to);
            let Some((from, to)) = rests.next() else {
                emit(EventKind::free(old_address, None));
                continue;
            };
            // The stack and the tag stay as they are.
            let new = Placement { address: address(layer, from), size: to - from, ..Placement::default() };
            self.layers[layer].insert(from, (to, stack));
            emit(EventKind::Reallocate { old_address, claimed_old_size: None, new });
            if let Some((from, to)) = rests.next() {
                self.add(layer, from, to, stack, emit);
            }
        }
    }
}

/// The address under which a mapping is recorded. Layers differ in bits that are zero in the address of a page.
fn address(layer: usize, start: u64) -> u64 {
    mapped_address(start.wrapping_add(2 * layer as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{AddressLedger, Event, Nanos, ThreadId, laws};
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    proptest! {
        /// The oracle keeps a plain list of mappings, as memray does.
        #[test]
        fn what_is_left_is_what_a_plain_list_has(steps in prop::collection::vec((any::<bool>(), 1u64..40, 1u64..9), 0..120)) {
            let (mut mappings, mut ledger) = (Mappings::with_tag(TagId::NONE), AddressLedger::default());
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (is_map, at, pages) in steps {
                let (start, size) = (at * PAGE, pages * PAGE);
                let mut emit = |kind| ledger.record(&Event { time: Nanos(0), thread: ThreadId(1), kind }, &mut ());
                let overlapping = list.iter().filter(|(from, to)| *from < start + size && *to > start).count();
                if is_map && overlapping < MOST_LAYERS / 2 {
                    mappings.map(start, size, StackId(7), &mut emit);
                    list.push((start, start + size));
                } else {
                    mappings.unmap(start, size, &mut emit);
                    let cut = |(from, to): (u64, u64)| [(from, to.min(start)), (from.max(start + size), to)];
                    list = list.into_iter().flat_map(cut).filter(|(from, to)| from < to).collect();
                }
                let mut blocks: Vec<(u64, u64)> = ledger.accounts().blocks().map(|block| {
                    let start = block.address & !(PAGE - 1);
                    (start, start + block.size)
                }).collect();
                blocks.sort_unstable();
                list.sort_unstable();
                prop_assert_eq!(&blocks, &list);
            }
            prop_assert!(ledger.accounts().anomalies().is_empty());
            prop_assert_eq!(laws::violations(ledger.accounts()), Vec::<String>::new());
        }
    }

    #[test]
    fn mappings_that_cannot_be_are_ignored() {
        let mut mappings = Mappings::with_tag(TagId::NONE);
        let mut events = 0;
        for (start, size) in [(u64::MAX, 2), (5, u64::MAX), (5, 0)] {
            mappings.map(start, size, StackId(1), &mut |_| events += 1);
            mappings.unmap(start, size, &mut |_| events += 1);
        }
        assert_eq!(events, 0);
        for _ in 0..100 {
            mappings.map(PAGE, PAGE, StackId(1), &mut |_| {});
        }
        assert_eq!(mappings.layers.len(), MOST_LAYERS);
    }
}
