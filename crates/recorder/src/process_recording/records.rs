//! Turns the agent's records into events.

use super::{MOST_PLAIN, ProcessRecording, RingThread};
use crate::mappings::{Mapper, Mappings};
use crate::record::{RecordedBlock, RingRecord};
use crate::rings::RecordSink;
use highwater_model::{EventKind, Nanos, Placement, PlainEvent, StackId, TagId, ThreadId, Weight, mapped_address};

/// The key of a block that the thread of a ring is moving. No user-space address has its highest bit set; its lowest bit is free for mappings.
fn aside_key(ring: usize) -> u64 {
    1 << 63 | (ring as u64) << 1
}

impl RecordSink for ProcessRecording {
    #[inline(always)]
    fn allocate(&mut self, stamp: u64, ring: u32, block: &RecordedBlock) {
        if !self.takes_plain {
            let ((time, thread), placement) = (self.time_and_thread(stamp, ring), self.placement(block));
            return self.push(time, thread, EventKind::Allocate(placement));
        }
        let stack = self.stack(block.node);
        if self.names.tag(block.node, false) != TagId::NONE {
            return self.allocate_for_task(stamp, ring, block);
        }
        let &RecordedBlock { address, size, surplus, .. } = block;
        self.take_plain(stamp, ring, PlainEvent { address, size, stack, surplus, ..PlainEvent::default() });
    }

    #[inline(always)]
    fn free(&mut self, stamp: u64, ring: u32, address: u64) {
        self.take_free(stamp, ring, address, StackId::UNKNOWN);
    }

    #[inline(always)]
    fn free_by(&mut self, stamp: u64, ring: u32, address: u64, node: u32) {
        let stack = self.stack(node);
        self.take_free(stamp, ring, address, stack);
    }

    #[cold]
    fn other(&mut self, stamp: u64, ring: u32, record: RingRecord) {
        self.hand_over();
        let (time, thread) = self.time_and_thread(stamp, ring);
        self.take_rare(time, ring as usize, thread, record);
    }
}

impl ProcessRecording {
    #[inline(always)]
    fn take_free(&mut self, stamp: u64, ring: u32, address: u64, stack: StackId) {
        if !self.takes_plain {
            let (time, thread) = self.time_and_thread(stamp, ring);
            return self.push(time, thread, EventKind::Deallocate { address, claimed_size: None, stack });
        }
        self.take_plain(stamp, ring, PlainEvent { address, stack, is_free: true, ..PlainEvent::default() });
    }

    /// A block that belongs to a task has a tag, so it is no plain event.
    fn allocate_for_task(&mut self, stamp: u64, ring: u32, block: &RecordedBlock) {
        self.hand_over();
        let ((time, thread), placement) = (self.time_and_thread(stamp, ring), self.placement(block));
        self.push(time, thread, EventKind::Allocate(placement));
    }

    /// Adds a plain event to the batch that will be handed over.
    #[inline(always)]
    fn take_plain(&mut self, stamp: u64, ring: u32, event: PlainEvent) {
        let time = self.stamps.time(stamp).max(self.last_time);
        self.last_time = time;
        let thread = match self.owners.get(ring as usize) {
            Some(&RingThread { number: Some(number), .. }) => number,
            _ => self.number_of_owner(ring as usize),
        };
        self.plain.push(PlainEvent { time, thread, ..event });
        if self.plain.len() == MOST_PLAIN {
            self.hand_over();
        }
    }

    #[cold]
    fn number_of_owner(&mut self, ring: usize) -> u32 {
        let thread = self.owners.get(ring).map_or(ThreadId(0), |owner| owner.thread);
        let number = self.ledger.number_thread(thread);
        if let Some(owner) = self.owners.get_mut(ring) {
            owner.number = Some(number);
        }
        number
    }

    /// The time of a stamp, and the thread of a ring.
    #[inline(always)]
    fn time_and_thread(&mut self, stamp: u64, ring: u32) -> (Nanos, ThreadId) {
        let time = self.stamps.time(stamp).max(self.last_time);
        self.last_time = time;
        (time, self.owners.get(ring as usize).map_or(ThreadId(0), |owner| owner.thread))
    }

    fn take_rare(&mut self, time: Nanos, ring: usize, thread: ThreadId, record: RingRecord) {
        match record {
            RingRecord::Reallocate { old, new } => self.reallocate(time, thread, old, new),
            RingRecord::ReallocBegin { old } => {
                self.give_up(time, thread, aside_key(ring));
                self.ledger.set_aside(old, aside_key(ring));
            }
            RingRecord::ReallocEnd { old, new } => {
                let aside = aside_key(ring);
                if new.address == 0 || new.address == old {
                    self.ledger.put_back(aside);
                }
                let from = if self.ledger.find(aside).is_some() { aside } else { old };
                if new.address != 0 {
                    self.reallocate(time, thread, from, new);
                }
            }
            RingRecord::Map { range, what } => {
                let mapper = self.mapper(range.node);
                self.with_mappings(time, thread, |mappings, emit| {
                    mappings.map(range.address, range.size, what, mapper, emit);
                });
            }
            RingRecord::Protect { range, what } => {
                let mapper = self.mapper(range.node);
                self.with_mappings(time, thread, |mappings, emit| {
                    mappings.protect(range.address, range.size, what, mapper, emit);
                });
            }
            RingRecord::Return { address, length, is_returned } => {
                self.with_mappings(time, thread, |mappings, _| mappings.give_back(address, length, is_returned));
            }
            RingRecord::Unmap { address, length, node } => {
                let by = self.stack(node);
                self.with_mappings(time, thread, |mappings, emit| mappings.unmap(address, length, by, emit));
            }
            RingRecord::RemapBegin { old, old_length } => {
                self.give_up(time, thread, mapped_address(aside_key(ring)));
                if self.mappings.set_aside(old, old_length, ring) {
                    self.ledger.set_aside(mapped_address(old), mapped_address(aside_key(ring)));
                }
            }
            RingRecord::Remap { old, new, .. } if self.mappings.is_aside(ring) => {
                let aside = mapped_address(aside_key(ring));
                if new.address == 0 || new.address == old {
                    self.ledger.put_back(aside);
                }
                let from = if self.ledger.find(aside).is_some() { aside } else { mapped_address(old) };
                let mapper = self.mapper(new.node);
                self.with_mappings(time, thread, |mappings, emit| {
                    mappings.bring_back(ring, new.address, new.size, mapper, from, emit);
                });
            }
            RingRecord::Remap { new, .. } if new.address == 0 => {}
            RingRecord::Remap { old, old_length, new } => {
                let mapper = self.mapper(new.node);
                self.with_mappings(time, thread, |mappings, emit| {
                    mappings.remap(old, old_length, new.address, new.size, mapper, emit);
                });
            }
            RingRecord::Thread { id } => self.new_owner(ring, id),
            RingRecord::Mark(name) => {
                let name = self.catalog.strings.intern(&name);
                self.push(time, thread, EventKind::Mark { name });
                self.break_down_mark();
            }
            RingRecord::Name { id, name } => {
                let named = id.and_then(|id| self.owners.iter().find(|owner| owner.kernel_id == id));
                let named = named.map_or(thread, |owner| owner.thread);
                self.catalog.name_thread(named, &name);
            }
        }
    }

    #[inline(always)]
    fn placement(&mut self, block: &RecordedBlock) -> Placement {
        let weight = self.source.sample_rate.map_or(Weight::ONE, |rate| Weight::of_sample(block.size, rate));
        let stack = self.stack(block.node);
        let tag = self.names.tag(block.node, false);
        Placement { address: block.address, size: block.size, stack, tag, surplus: block.surplus, weight }
    }

    /// The stack and the tag of a mapping.
    fn mapper(&mut self, node: u32) -> Mapper {
        let stack = self.stack(node);
        let task = self.names.tag(node, true);
        Mapper { stack, tag: if task == TagId::NONE { self.tag } else { task } }
    }

    #[inline(always)]
    fn stack(&mut self, node: u32) -> StackId {
        match self.names.known(node) {
            Some(stack) => stack,
            None => self.find_stack(node),
        }
    }

    #[cold]
    fn find_stack(&mut self, node: u32) -> StackId {
        let stamps = self.stamps;
        self.names.read_modules(&self.shared, &self.about.executable, &mut self.catalog, |stamp| stamps.time(stamp));
        self.names.stack(node, &self.shared, &mut self.catalog)
    }

    fn reallocate(&mut self, time: Nanos, thread: ThreadId, old_address: u64, new: RecordedBlock) {
        let mut new = self.placement(&new);
        if new.tag == TagId::NONE && self.names.has_tasks() {
            // A block that is resized outside of any task no longer belongs to one.
            new.tag = self.catalog.no_task();
        }
        self.push(time, thread, EventKind::Reallocate { old_address, claimed_old_size: None, new });
    }

    /// A block that a thread still had set aside when it begins to move another: the record of its new address was dropped, so it counts as freed.
    fn give_up(&mut self, time: Nanos, thread: ThreadId, aside: u64) {
        if self.ledger.find(aside).is_some() {
            self.push(time, thread, EventKind::free(aside, None));
        }
    }

    fn with_mappings(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        change: impl FnOnce(&mut Mappings, &mut dyn FnMut(EventKind)),
    ) {
        let mut mappings = std::mem::take(&mut self.mappings);
        let before = mappings.beside();
        change(&mut mappings, &mut |kind| self.push(time, thread, kind));
        let after = mappings.beside();
        self.mappings = mappings;
        if before != after {
            self.keep_space_at_peak(before);
        }
        for ((name, before), value) in self.gauges.beside.into_iter().zip(before.all()).zip(after.all()) {
            if value != before {
                self.push(time, thread, EventKind::Gauge { name, value });
            }
        }
    }

    fn new_owner(&mut self, ring: usize, kernel_id: u32) {
        let uses = self.uses.entry(kernel_id).or_default();
        let thread = ThreadId(u64::from(kernel_id) | *uses << 32);
        *uses += 1;
        let owner = RingThread { thread, kernel_id, number: None };
        if ring >= self.owners.len() {
            self.owners.resize(ring + 1, RingThread { thread: ThreadId(0), kernel_id: 0, number: None });
        }
        self.owners[ring] = owner;
    }
}
