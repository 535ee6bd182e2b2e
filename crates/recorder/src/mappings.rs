//! Mappings as blocks. Programs unmap parts, several mappings at once, or map over existing ones; a recording has
//! whole blocks. So the mapped ranges are kept here, and each change becomes events: a mapping that
//! loses its end shrinks, one that loses its beginning moves and shrinks, one that loses its middle shrinks and its rest becomes a
//! block of its own, with the stack that made the whole.
//!
//! Only memory that the program can touch is a block. Reservations (`PROT_NONE`) and files take address space; they are summed up
//! ([`Mappings::beside`]), and a reservation becomes a block, part by part, when the program makes it accessible.
//!
//! Parts of blocks that the program gave back to the kernel and keeps mapped (`madvise`) are summed up as well ([`ReturnedParts`]). They stay parts of their
//! blocks: the program may touch them again without any call.

use crate::record::MappingKind;
use crate::returned::ReturnedParts;
use highwater_model::{AddressSpace, EventKind, Placement, StackId, TagId, mapped_address};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// The owner of a mapping: the stack that made it, and the tag of mappings, with a task if it has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapper {
    /// The stack.
    pub stack: StackId,
    /// The tag.
    pub tag: TagId,
}

/// A range of address space that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedRange {
    end: u64,
    what: MappingKind,
    mapper: Mapper,
}

/// Bytes of address space that are shown beside the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Reservations.
    pub reserved: u64,
    /// Mapped files.
    pub files: u64,
    /// Memory that was given back and may be touched again. It is part of blocks.
    pub returned: u64,
}

impl Beside {
    fn of(&mut self, what: MappingKind) -> Option<&mut u64> {
        match what {
            MappingKind::Memory => None,
            MappingKind::Reservation => Some(&mut self.reserved),
            MappingKind::File => Some(&mut self.files),
        }
    }

    /// All figures, in the order of their gauges.
    pub fn all(self) -> [u64; 3] {
        [self.reserved, self.files, self.returned]
    }
}

impl From<Beside> for AddressSpace {
    fn from(beside: Beside) -> Self {
        let Beside { reserved, files, returned } = beside;
        Self { reserved_bytes: reserved, mapped_file_bytes: files, returned_bytes: returned }
    }
}

/// The ranges mapped now, by their start. They never overlap.
#[derive(Debug, Default)]
pub struct Mappings {
    ranges: BTreeMap<u64, MappedRange>,
    /// Ranges that a thread, identified by its ring, is moving at the moment, with their starts.
    aside: BTreeMap<usize, (u64, MappedRange)>,
    /// The sizes of all ranges that are no blocks, including those set aside. Ranges that a broken program claims to set aside may overlap and exceed
    /// 64 bits: sums wrap.
    beside: Beside,
    returned: ReturnedParts,
}

impl Mappings {
    /// The sizes of mapped ranges that are no blocks, and of the parts of blocks that were given back.
    pub fn beside(&self) -> Beside {
        Beside { returned: self.returned.bytes(), ..self.beside }
    }

    fn placement(start: u64, end: u64, mapper: Mapper) -> Placement {
        let Mapper { stack, tag } = mapper;
        Placement { address: mapped_address(start), size: end - start, stack, tag, ..Placement::default() }
    }

    /// Adds a range where there is none: memory becomes a new block.
    fn add(&mut self, start: u64, range: MappedRange, emit: &mut dyn FnMut(EventKind)) {
        match self.beside.of(range.what) {
            Some(bytes) => *bytes = bytes.wrapping_add(range.end - start),
            None => emit(EventKind::Allocate(Self::placement(start, range.end, range.mapper))),
        }
        self.ranges.insert(start, range);
    }

    /// Something was mapped, and replaces what was there.
    pub fn map(&mut self, start: u64, length: u64, what: MappingKind, mapper: Mapper, emit: &mut dyn FnMut(EventKind)) {
        let Some(end) = end_of(start, length) else { return };
        self.clear(start, end, mapper.stack, emit);
        self.add(start, MappedRange { end, what, mapper }, emit);
    }

    /// The protection of a part of the address space was changed. Memory belongs to the caller that makes a reservation accessible. Files stay files.
    /// Ranges that the program itself never mapped are ignored.
    pub fn protect(
        &mut self,
        start: u64,
        length: u64,
        what: MappingKind,
        mapper: Mapper,
        emit: &mut dyn FnMut(EventKind),
    ) {
        let Some(end) = end_of(start, length) else { return };
        for (at, range) in self.hit(start, end) {
            if range.what != what && range.what != MappingKind::File {
                let (from, to) = (at.max(start), range.end.min(end));
                self.clear(from, to, mapper.stack, emit);
                self.add(from, MappedRange { end: to, what, mapper }, emit);
            }
        }
        // A runtime protects memory anew that it is going to use again.
        self.returned.take_out(start, end);
    }

    /// The program gave memory back, or asked for it again. Only what it mapped and can touch counts.
    pub fn give_back(&mut self, start: u64, length: u64, is_returned: bool) {
        let Some(end) = end_of(start, length) else { return };
        if !is_returned {
            return self.returned.take_out(start, end);
        }
        for (at, range) in self.hit(start, end) {
            if range.what == MappingKind::Memory {
                self.returned.add(at.max(start), range.end.min(end));
            }
        }
    }

    /// Memory was unmapped, by a stack that may not be known; ranges that the program itself never mapped are ignored.
    pub fn unmap(&mut self, start: u64, length: u64, by: StackId, emit: &mut dyn FnMut(EventKind)) {
        if let Some(end) = end_of(start, length) {
            self.clear(start, end, by, emit);
        }
    }

    /// A mapping was moved or resized, or duplicated if it has no old length.
    pub fn remap(
        &mut self,
        old: u64,
        old_length: u64,
        new: u64,
        length: u64,
        mapper: Mapper,
        emit: &mut dyn FnMut(EventKind),
    ) {
        let (Some(old_end), Some(_)) = (end_of(old, old_length.max(1)), end_of(new, length)) else { return };
        let known = self.ranges.get(&old).copied().filter(|range| range.end == old_end && old_length > 0);
        let Some(range) = known else {
            return self.move_parts((old, old_end), old_length == 0, new, length, mapper, emit);
        };
        self.ranges.remove(&old);
        self.returned.take_out(old, old_end);
        self.moved(old, range, new, length, mapper, mapped_address(old), emit);
    }

    /// A part of a mapping was moved, or several that the kernel made one, or one that is not known: the parts are freed and allocated again. Each keeps its
    /// kind; growth has that of the last one.
    fn move_parts(
        &mut self,
        (old, old_end): (u64, u64),
        is_duplicate: bool,
        new: u64,
        length: u64,
        mapper: Mapper,
        emit: &mut dyn FnMut(EventKind),
    ) {
        let Some(new_end) = end_of(new, length) else { return };
        let hit = self.hit(old, old_end);
        let (mut what, mut done) = (MappingKind::Memory, new);
        if is_duplicate {
            what = hit.first().map_or(what, |(_, range)| range.what);
        } else {
            self.clear(old, old_end, mapper.stack, emit);
            for (at, range) in hit {
                what = range.what;
                let start = new.saturating_add(at.max(old) - old);
                let end = new.saturating_add(range.end.min(old_end) - old).min(new_end);
                if start < end {
                    self.map(start, end - start, what, mapper, emit);
                    done = end;
                }
            }
        }
        if done < new_end {
            self.map(done, new_end - done, what, mapper, emit);
        }
    }

    /// A range that was taken out is now at `new`. The ledger has its block at `from`.
    #[allow(clippy::too_many_arguments, reason = "the fields of a record, and who hears of it")]
    fn moved(
        &mut self,
        old: u64,
        range: MappedRange,
        new: u64,
        length: u64,
        mapper: Mapper,
        from: u64,
        emit: &mut dyn FnMut(EventKind),
    ) {
        let Some(end) = end_of(new, length) else { return };
        self.clear(new, end, mapper.stack, emit);
        let stack = if mapper.stack == StackId::UNKNOWN { range.mapper.stack } else { mapper.stack };
        match self.beside.of(range.what) {
            Some(bytes) => *bytes = bytes.wrapping_sub(range.end - old).wrapping_add(end - new),
            None => emit(EventKind::Reallocate {
                old_address: from,
                claimed_old_size: None,
                new: Self::placement(new, end, mapper),
            }),
        }
        self.ranges.insert(new, MappedRange { end, mapper: Mapper { stack, ..mapper }, ..range });
    }

    /// A thread begins to move a mapping: another one may be mapped at its address before the end of the move is recorded. Returns whether it is a
    /// block that is known as a whole.
    pub fn set_aside(&mut self, start: u64, length: u64, ring: usize) -> bool {
        let whole = self.ranges.get(&start).is_some_and(|range| end_of(start, length) == Some(range.end));
        if whole && let Some(range) = self.ranges.remove(&start) {
            self.returned.take_out(start, range.end);
            self.aside.insert(ring, (start, range));
            return range.what == MappingKind::Memory;
        }
        false
    }

    /// Whether a thread is moving a mapping.
    pub fn is_aside(&self, ring: usize) -> bool {
        self.aside.contains_key(&ring)
    }

    /// The mapping that a thread set aside is now at `new`, or at its old address if that is 0. The ledger has it at `from`.
    pub fn bring_back(
        &mut self,
        ring: usize,
        new: u64,
        length: u64,
        mapper: Mapper,
        from: u64,
        emit: &mut dyn FnMut(EventKind),
    ) {
        let Some((start, range)) = self.aside.remove(&ring) else { return };
        if end_of(new, length).filter(|_| new != 0).is_none() {
            self.ranges.insert(start, range);
            return;
        }
        self.moved(start, range, new, length, mapper, from, emit);
    }

    /// The ranges that `start .. end` touches.
    fn hit(&self, start: u64, end: u64) -> Vec<(u64, MappedRange)> {
        let before = self.ranges.range(..start).next_back().filter(|(_, range)| range.end > start).map(|(&at, _)| at);
        self.ranges.range(before.unwrap_or(start)..end).map(|(&at, &range)| (at, range)).collect()
    }

    /// Takes `start .. end` out of all ranges, by a call of the stack `by`.
    fn clear(&mut self, start: u64, end: u64, by: StackId, emit: &mut dyn FnMut(EventKind)) {
        self.returned.take_out(start, end);
        for (at, range) in self.hit(start, end) {
            self.ranges.remove(&at);
            let (keeps_start, keeps_end) = (at < start, range.end > end);
            if keeps_start {
                self.ranges.insert(at, MappedRange { end: start, ..range });
            }
            if keeps_end {
                self.ranges.insert(end, range);
            }
            if let Some(bytes) = self.beside.of(range.what) {
                *bytes = bytes.wrapping_sub(range.end.min(end) - at.max(start));
                continue;
            }
            if keeps_start {
                emit(Self::resized(at, at, start, range.mapper.tag));
            }
            match (keeps_start, keeps_end) {
                (true, true) => emit(EventKind::Allocate(Self::placement(end, range.end, range.mapper))),
                (false, true) => emit(Self::resized(at, end, range.end, range.mapper.tag)),
                (true, false) => {}
                (false, false) => {
                    emit(EventKind::Deallocate { address: mapped_address(at), claimed_size: None, stack: by })
                }
            }
        }
    }

    /// The block at `old` is now `start .. end`; it keeps its stack.
    fn resized(old: u64, start: u64, end: u64, tag: TagId) -> EventKind {
        EventKind::Reallocate {
            old_address: mapped_address(old),
            claimed_old_size: None,
            new: Self::placement(start, end, Mapper { stack: StackId::UNKNOWN, tag }),
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

    /// Applies everything to a ledger and to a plain list of pages, and compares.
    #[test]
    fn blocks_cover_exactly_the_memory_and_the_rest_is_counted_beside() {
        const KINDS: [MappingKind; 3] = [MappingKind::Memory, MappingKind::Reservation, MappingKind::File];
        let mut mappings = Mappings::default();
        let by = |stack| Mapper { stack: StackId(stack), ..Mapper::default() };
        let mut ledger = AddressLedger::default();
        let mut pages = [None; 64];
        let mut returned = [false; 64];
        let mut random = 12345u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        for step in 0..40_000 {
            let mut emit =
                |kind: EventKind| ledger.record(&Event { time: Nanos(step), thread: ThreadId(1), kind }, &mut ());
            // A new address of 0 would say that a move failed.
            let (start, length) = (1 + next(48), 1 + next(12));
            let (from, to) = (start as usize, (start + length) as usize);
            if next(3) == 0 {
                let is_returned = next(4) > 0;
                mappings.give_back(start * PAGE, length * PAGE, is_returned);
                for page in (from..to).filter(|page| pages[*page] == Some(MappingKind::Memory)) {
                    returned[page] = is_returned;
                }
            }
            match next(5) {
                0 => {
                    let what = KINDS[next(3) as usize];
                    mappings.map(start * PAGE, length * PAGE - next(PAGE), what, by(1), &mut emit);
                    pages[from..to].fill(Some(what));
                    returned[from..to].fill(false);
                }
                1 => {
                    mappings.unmap(start * PAGE, length * PAGE, StackId(4), &mut emit);
                    pages[from..to].fill(None);
                    returned[from..to].fill(false);
                }
                2 | 3 => {
                    let what = KINDS[next(2) as usize];
                    mappings.protect(start * PAGE, length * PAGE, what, by(3), &mut emit);
                    returned[from..to].fill(false);
                    let not_files = pages[from..to].iter_mut().flatten().filter(|page| **page != MappingKind::File);
                    not_files.for_each(|page| *page = what);
                }
                _ => {
                    // The kernel refuses overlapping addresses, and ranges of several kinds.
                    let (new, new_length) = (1 + next(48), 1 + next(12));
                    let (new_from, new_to) = (new as usize, (new + new_length) as usize);
                    let what = pages[from];
                    if what.is_some()
                        && pages[from..to].iter().all(|page| *page == what)
                        && (new_to <= from || to <= new_from)
                    {
                        let (old, new) = (start * PAGE, new * PAGE);
                        if next(2) == 0 {
                            mappings.remap(old, length * PAGE, new, new_length * PAGE, by(2), &mut emit);
                        } else {
                            // As in a program with several threads.
                            let key = 1 << 63;
                            if mappings.set_aside(old, length * PAGE, 7) {
                                assert!(ledger.set_aside(mapped_address(old), key));
                            }
                            let mut emit = |kind: EventKind| {
                                ledger.record(&Event { time: Nanos(step), thread: ThreadId(1), kind }, &mut ());
                            };
                            if mappings.is_aside(7) {
                                mappings.bring_back(7, new, new_length * PAGE, by(2), key, &mut emit);
                            } else {
                                mappings.remap(old, length * PAGE, new, new_length * PAGE, by(2), &mut emit);
                            }
                        }
                        pages[from..to].fill(None);
                        pages[new_from..new_to].fill(what);
                        returned[from..to].fill(false);
                        returned[new_from..new_to].fill(false);
                    }
                }
            }
            let bytes = |what| pages.iter().filter(|page| **page == Some(what)).count() as u64 * PAGE;
            let live = ledger.accounts().totals().figures.live_bytes();
            assert_eq!(live, bytes(MappingKind::Memory), "step {step}");
            let beside = Beside {
                reserved: bytes(MappingKind::Reservation),
                files: bytes(MappingKind::File),
                returned: returned.iter().filter(|page| **page).count() as u64 * PAGE,
            };
            assert_eq!(mappings.beside(), beside, "step {step}");
        }
        let accounts = ledger.accounts();
        assert_eq!(highwater_model::laws::violations(accounts), Vec::<String>::new());
        assert!(accounts.anomalies().iter().all(|(_, count)| count == 0));
    }

    /// Neighbours of several kinds are moved by one call; a shared mapping is duplicated.
    #[test]
    fn parts_that_are_moved_together_keep_their_kinds() {
        let (mut mappings, mut ledger) = (Mappings::default(), AddressLedger::default());
        let mut emit = |kind: EventKind| ledger.record(&Event { time: Nanos(1), thread: ThreadId(1), kind }, &mut ());
        let by = Mapper { stack: StackId(1), ..Mapper::default() };
        for (start, what) in [(10, MappingKind::Memory), (12, MappingKind::Reservation), (14, MappingKind::File)] {
            mappings.map(start * PAGE, 2 * PAGE, what, by, &mut emit);
        }
        // One page of memory, the reservation and one page of the file, which grows by three.
        mappings.remap(11 * PAGE, 4 * PAGE, 30 * PAGE, 7 * PAGE, by, &mut emit);
        assert_eq!(mappings.beside(), Beside { reserved: 2 * PAGE, files: 5 * PAGE, returned: 0 });
        mappings.remap(30 * PAGE, 0, 50 * PAGE, 4 * PAGE, by, &mut emit);
        assert_eq!(mappings.beside(), Beside { reserved: 2 * PAGE, files: 5 * PAGE, returned: 0 });
        mappings.remap(32 * PAGE, 0, 60 * PAGE, 4 * PAGE, by, &mut emit);
        assert_eq!(mappings.beside(), Beside { reserved: 6 * PAGE, files: 5 * PAGE, returned: 0 });
        assert_eq!(ledger.accounts().totals().figures.live_bytes(), 6 * PAGE);
    }
}
