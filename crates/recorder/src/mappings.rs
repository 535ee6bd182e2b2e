//! Mappings as blocks. Programs unmap parts, several mappings at once, or map over what is there; a recording has
//! whole blocks. So the ranges that are mapped are kept here, and each change becomes events: a mapping that
//! loses its end shrinks, one that loses its beginning moves and shrinks, one that loses its middle shrinks and its rest becomes a
//! block of its own, made by whoever made the whole.

use highwater_model::{EventKind, Placement, StackId, TagId, mapped_address};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// A range of mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    end: u64,
    stack: StackId,
}

/// The ranges that are mapped now, by their start. They never overlap.
#[derive(Debug, Default)]
pub struct Mappings {
    ranges: BTreeMap<u64, Range>,
    /// Those that a thread, by its ring, is just moving away, with their starts.
    aside: BTreeMap<usize, (u64, Range)>,
    tag: TagId,
}

impl Mappings {
    /// Mappings whose blocks have this tag.
    pub fn with_tag(tag: TagId) -> Self {
        Self { tag, ..Self::default() }
    }

    fn placement(&self, start: u64, end: u64, stack: StackId) -> Placement {
        Placement { address: mapped_address(start), size: end - start, stack, tag: self.tag, ..Placement::default() }
    }

    /// Memory was mapped, over whatever was there.
    pub fn map(&mut self, start: u64, length: u64, stack: StackId, tell: &mut dyn FnMut(EventKind)) {
        let Some(end) = end_of(start, length) else { return };
        self.clear(start, end, tell);
        self.ranges.insert(start, Range { end, stack });
        tell(EventKind::Allocate(self.placement(start, end, stack)));
    }

    /// Memory was unmapped; what was never mapped by the program itself is passed over.
    pub fn unmap(&mut self, start: u64, length: u64, tell: &mut dyn FnMut(EventKind)) {
        if let Some(end) = end_of(start, length) {
            self.clear(start, end, tell);
        }
    }

    /// A mapping was moved or resized.
    pub fn remap(
        &mut self,
        old: u64,
        old_length: u64,
        new: u64,
        length: u64,
        stack: StackId,
        tell: &mut dyn FnMut(EventKind),
    ) {
        let (Some(old_end), Some(end)) = (end_of(old, old_length.max(1)), end_of(new, length)) else { return };
        let known = self.ranges.get(&old).copied().filter(|range| range.end == old_end && old_length > 0);
        let Some(range) = known else {
            // A part of a mapping, or one that is not known: the part goes, the new one comes.
            if old_length > 0 {
                self.clear(old, old_end, tell);
            }
            return self.map(new, length, stack, tell);
        };
        self.ranges.remove(&old);
        self.clear(new, end, tell);
        self.ranges.insert(new, Range { end, stack: if stack == StackId::UNKNOWN { range.stack } else { stack } });
        tell(EventKind::Reallocate {
            old_address: mapped_address(old),
            claimed_old_size: None,
            new: self.placement(new, end, stack),
        });
    }

    /// A thread begins to move a mapping: its place may be another's before we hear of the end. False if it is not a whole one that is known.
    pub fn set_aside(&mut self, start: u64, length: u64, ring: usize) -> bool {
        let whole = self.ranges.get(&start).is_some_and(|range| end_of(start, length) == Some(range.end));
        if whole && let Some(range) = self.ranges.remove(&start) {
            self.aside.insert(ring, (start, range));
        }
        whole
    }

    /// Whether a thread is moving a mapping.
    pub fn is_aside(&self, ring: usize) -> bool {
        self.aside.contains_key(&ring)
    }

    /// The mapping that a thread set aside is now at `new`, or where it was if that is 0. `from` is where the ledger has it.
    pub fn bring_back(
        &mut self,
        ring: usize,
        new: u64,
        length: u64,
        stack: StackId,
        from: u64,
        tell: &mut dyn FnMut(EventKind),
    ) {
        let Some((start, range)) = self.aside.remove(&ring) else { return };
        let Some(end) = end_of(new, length).filter(|_| new != 0) else {
            self.ranges.insert(start, range);
            return;
        };
        self.clear(new, end, tell);
        self.ranges.insert(new, Range { end, stack: if stack == StackId::UNKNOWN { range.stack } else { stack } });
        let new = self.placement(new, end, stack);
        tell(EventKind::Reallocate { old_address: from, claimed_old_size: None, new });
    }

    /// Takes `start .. end` out of all ranges.
    fn clear(&mut self, start: u64, end: u64, tell: &mut dyn FnMut(EventKind)) {
        let before = self.ranges.range(..start).next_back().filter(|(_, range)| range.end > start).map(|(&at, _)| at);
        let first = before.unwrap_or(start);
        let hit: Vec<(u64, Range)> = self.ranges.range(first..end).map(|(&at, &range)| (at, range)).collect();
        for (at, range) in hit {
            self.ranges.remove(&at);
            let (keeps_start, keeps_end) = (at < start, range.end > end);
            if keeps_start {
                self.ranges.insert(at, Range { end: start, ..range });
                tell(self.resized(at, at, start));
            }
            if keeps_end {
                self.ranges.insert(end, range);
                tell(if keeps_start {
                    EventKind::Allocate(self.placement(end, range.end, range.stack))
                } else {
                    self.resized(at, end, range.end)
                });
            }
            if !keeps_start && !keeps_end {
                tell(EventKind::Deallocate { address: mapped_address(at), claimed_size: None });
            }
        }
    }

    /// The block at `old` is now `start .. end`; it stays its maker's.
    fn resized(&self, old: u64, start: u64, end: u64) -> EventKind {
        EventKind::Reallocate {
            old_address: mapped_address(old),
            claimed_old_size: None,
            new: self.placement(start, end, StackId::UNKNOWN),
        }
    }
}

/// The end of a mapping: lengths are rounded up to pages.
fn end_of(start: u64, length: u64) -> Option<u64> {
    let length = length.checked_next_multiple_of(PAGE)?;
    start.checked_add(length).filter(|_| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{AddressLedger, Event, Nanos, ThreadId};

    /// Applies everything to a ledger and to a plain set of pages, and compares.
    #[test]
    fn blocks_cover_exactly_the_mapped_pages() {
        let mut mappings = Mappings::default();
        let mut ledger = AddressLedger::default();
        let mut pages = [false; 64];
        let mut random = 12345u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        for step in 0..20_000 {
            let mut tell =
                |kind: EventKind| ledger.record(&Event { time: Nanos(step), thread: ThreadId(1), kind }, &mut ());
            let (start, length) = (next(48), 1 + next(12));
            let (from, to) = (start as usize, (start + length) as usize);
            match next(3) {
                0 => {
                    mappings.map(start * PAGE, length * PAGE - next(PAGE), StackId(1), &mut tell);
                    pages[from..to].fill(true);
                }
                1 => {
                    mappings.unmap(start * PAGE, length * PAGE, &mut tell);
                    pages[from..to].fill(false);
                }
                _ => {
                    // The kernel refuses overlapping places.
                    let (new, new_length) = (next(48), 1 + next(12));
                    let (new_from, new_to) = (new as usize, (new + new_length) as usize);
                    if pages[from..to].iter().all(|&mapped| mapped) && (new_to <= from || to <= new_from) {
                        mappings.remap(
                            start * PAGE,
                            length * PAGE,
                            new * PAGE,
                            new_length * PAGE,
                            StackId(2),
                            &mut tell,
                        );
                        pages[from..to].fill(false);
                        pages[new_from..new_to].fill(true);
                    }
                }
            }
            let mapped = pages.iter().filter(|&&page| page).count() as u64;
            assert_eq!(ledger.accounts().totals().figures.live_bytes(), mapped * PAGE, "step {step}");
        }
        let accounts = ledger.accounts();
        assert_eq!(highwater_model::laws::violations(accounts), Vec::<String>::new());
        assert!(accounts.anomalies().iter().all(|(_, count)| count == 0));
    }
}
