//! Writing blocks of steps; [`super::events`] describes the layout.

use super::column::ColumnPacker;
use super::events::{
    ADDRESS_EXPECTED, ADDRESS_FRESH, EventsSummary, HAS_TAG, MOST_STEPS, MOST_STEPS_PER_BYTE, OTHER_THREAD, PROMOTION,
    SIZE_EXPECTED, column, op,
};
use super::exceptions::{ExceptionsBuffer, zigzag};
use super::packed::Buffer;
use super::prediction::{Predictor, distance};
use super::varint;
use highwater_model::{
    Accounts, AllocId, BlockExtent, Op, Placement, PlainEvent, SampleSpacing, StackId, Step, StepSink, TagId,
    ThreadAccount, ThreadId, Weight,
};
use rustc_hash::FxHashMap;
use std::io;

/// Collects steps and writes them as a block.
pub struct EventsEncoder {
    summary: EventsSummary,
    next_alloc: u64,
    time: u64,
    threads: Vec<ThreadId>,
    /// By thread: its index in `threads`. A block may have as many threads as steps.
    thread_places: FxHashMap<ThreadId, usize>,
    thread: usize,
    operations: Buffer,
    times: Buffer,
    thread_switches: Buffer,
    sizes: Buffer,
    stacks: Buffer,
    tags: Buffer,
    addresses: Buffer,
    distances: Buffer,
    rest: Buffer,
    /// Empty while no free in this block has a known stack.
    free_stacks: Buffer,
    surpluses: ExceptionsBuffer,
    weights: ExceptionsBuffer,
    samples: ExceptionsBuffer,
    spacings: ExceptionsBuffer,
    /// Weights and spacings of blocks whose bytes are rounded for each record, as in older files.
    rounded_weights: ExceptionsBuffer,
    rounded_spacings: ExceptionsBuffer,
    /// The latest spacing written in this block, and whether it is of a block with rounded bytes.
    spacing: (SampleSpacing, bool),
    /// Reallocations in this block. Allocations and reallocations together are its placements.
    reallocations: u64,
    predictor: Predictor,
    sites: SiteNumbers,
    freeing_stacks: SiteNumbers,
}

impl EventsEncoder {
    /// An encoder whose first block begins at the state of `accounts`.
    pub fn new(accounts: &Accounts) -> Self {
        let mut encoder = Self {
            summary: EventsSummary::default(),
            next_alloc: 0,
            time: 0,
            threads: Vec::new(),
            thread_places: FxHashMap::default(),
            thread: 0,
            operations: Buffer::with_room_for(MOST_STEPS),
            times: Buffer::with_room_for(MOST_STEPS),
            thread_switches: Buffer::with_room_for(MOST_STEPS),
            sizes: Buffer::with_room_for(MOST_STEPS),
            stacks: Buffer::with_room_for(MOST_STEPS * 2),
            tags: Buffer::with_room_for(MOST_STEPS),
            addresses: Buffer::with_room_for(MOST_STEPS),
            distances: Buffer::with_room_for(MOST_STEPS),
            rest: Buffer::with_room_for(MOST_STEPS * 2),
            free_stacks: Buffer::with_room_for(MOST_STEPS * 2),
            surpluses: ExceptionsBuffer::with_room_for(MOST_STEPS),
            weights: ExceptionsBuffer::with_room_for(MOST_STEPS),
            samples: ExceptionsBuffer::with_room_for(MOST_STEPS),
            spacings: ExceptionsBuffer::with_room_for(MOST_STEPS),
            rounded_weights: ExceptionsBuffer::with_room_for(MOST_STEPS),
            rounded_spacings: ExceptionsBuffer::with_room_for(MOST_STEPS),
            spacing: (SampleSpacing::NONE, false),
            reallocations: 0,
            predictor: Predictor::new(),
            sites: SiteNumbers::default(),
            freeing_stacks: SiteNumbers::default(),
        };
        encoder.begin(accounts);
        encoder
    }

    /// Steps collected so far.
    #[inline(always)]
    pub fn steps(&self) -> usize {
        self.operations.bytes().len()
    }

    /// Events among them.
    pub fn events(&self) -> u64 {
        self.summary.events
    }

    fn begin(&mut self, accounts: &Accounts) {
        let columns = [
            &mut self.operations,
            &mut self.times,
            &mut self.thread_switches,
            &mut self.sizes,
            &mut self.stacks,
            &mut self.tags,
            &mut self.addresses,
            &mut self.distances,
            &mut self.rest,
            &mut self.free_stacks,
        ];
        columns.into_iter().for_each(Buffer::clear);
        let exceptions = [
            &mut self.surpluses,
            &mut self.rounded_weights,
            &mut self.samples,
            &mut self.rounded_spacings,
            &mut self.weights,
            &mut self.spacings,
        ];
        exceptions.into_iter().for_each(ExceptionsBuffer::clear);
        self.summary = EventsSummary {
            first_event: accounts.events(),
            first_alloc: accounts.next_id().0,
            first_time: accounts.last_time(),
            last_time: accounts.last_time(),
            highest_bytes: accounts.totals().figures.live_bytes(),
            ..EventsSummary::default()
        };
        self.next_alloc = self.summary.first_alloc;
        self.time = self.summary.first_time.0;
        self.threads.clear();
        self.thread_places.clear();
        self.thread = usize::MAX;
        self.reallocations = 0;
        self.spacing = (SampleSpacing::NONE, false);
        self.predictor.clear();
        self.sites.clear();
        self.freeing_stacks.clear();
    }

    /// Updates the maximum of live bytes after an event.
    #[inline(always)]
    pub fn see_live_bytes(&mut self, live_bytes: u64) {
        self.summary.highest_bytes = self.summary.highest_bytes.max(live_bytes);
    }

    #[inline(always)]
    fn push(&mut self, step: &Step, was: BlockExtent) {
        let mut code = 0;
        if self.threads.get(self.thread) != Some(&step.thread) {
            code |= OTHER_THREAD;
            self.switch_thread(step.thread);
        }
        self.summary.events += u64::from(step.op.is_event());
        self.times.put(step.time.0 - self.time);
        self.time = step.time.0;
        code |= match step.op {
            Op::Allocate(place) => self.allocate(&place),
            Op::Free { id, stack } => self.free(id, stack, was),
            Op::Reallocate { .. } => self.reallocate(&step.op, was),
            Op::Promote { id, tag } => {
                self.distances.put(self.next_alloc - id.0);
                self.tags.put(tag.0.into());
                op::UNMATCHED_FREE | PROMOTION | HAS_TAG
            }
            Op::UnmatchedFree { address } => {
                self.rest.put(address);
                op::UNMATCHED_FREE
            }
            Op::Mark { name } => {
                self.summary.marks += 1;
                self.rest.put(name.0.into());
                op::MARK
            }
            Op::Gauge { name, value } => {
                self.summary.gauges += 1;
                self.rest.put(name.0.into());
                self.rest.put(value);
                op::GAUGE
            }
            Op::Evict { id } => {
                self.distances.put(self.next_alloc - id.0);
                op::EVICT
            }
            Op::Note { anomaly, count } => {
                self.rest.put(anomaly as u64);
                self.rest.put(count);
                op::NOTE
            }
        };
        self.operations.put_byte(code);
    }

    /// Appends plain events that the ledger has applied. `highest_bytes` is the maximum of live bytes after one of them.
    pub fn push_plain(&mut self, events: &[PlainEvent], highest_bytes: u64, threads: &[ThreadAccount]) {
        self.summary.events += events.len() as u64;
        self.see_live_bytes(highest_bytes);
        if self.sites.numbers.len() > MANY_SITES {
            self.sites.touch(events);
        }
        for event in events {
            let mut code = 0;
            let thread = threads[event.thread as usize].id;
            if self.threads.get(self.thread) != Some(&thread) {
                code |= OTHER_THREAD;
                self.switch_thread(thread);
            }
            self.times.put(event.time.0 - self.time);
            self.time = event.time.0;
            let &PlainEvent { address, size, stack, surplus, id, .. } = event;
            code |= if event.is_free {
                self.free(id, stack, BlockExtent { address, size })
            } else {
                self.allocate(&Placement { address, size, stack, surplus, ..Placement::default() })
            };
            self.operations.put_byte(code);
        }
    }

    #[inline(always)]
    fn free(&mut self, id: AllocId, stack: StackId, was: BlockExtent) -> u8 {
        self.distances.put(self.next_alloc - id.0);
        if stack != StackId::UNKNOWN || !self.free_stacks.bytes().is_empty() {
            self.put_free_stack(stack);
        }
        if id.0 >= self.summary.first_alloc {
            self.predictor.freed(self.thread, was.size, was.address);
        }
        op::FREE
    }

    #[inline(never)]
    fn put_free_stack(&mut self, stack: StackId) {
        if self.free_stacks.bytes().is_empty() {
            // The first known one: the frees before it have none.
            let before = self.operations.bytes().iter().filter(|code| **code & op::MASK == op::FREE).count();
            (0..before).for_each(|_| self.free_stacks.put(0));
        }
        if stack == StackId::UNKNOWN {
            return self.free_stacks.put(0);
        }
        let (number, is_new) = self.freeing_stacks.number(stack);
        self.free_stacks.put(u64::from(number) + 1);
        if is_new {
            self.free_stacks.put(stack.0.into());
        }
    }

    #[cold]
    fn switch_thread(&mut self, thread: ThreadId) {
        self.thread = *self.thread_places.entry(thread).or_insert_with(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        self.thread_switches.put(self.thread as u64);
    }

    #[inline(always)]
    fn allocate(&mut self, place: &Placement) -> u8 {
        let mut code = op::ALLOCATE | self.owner_and_size(place.stack, place.tag, place.size);
        let expected = self.predictor.expect(self.thread, place.size);
        let reused = expected.reused == place.address;
        let fresh = !reused && expected.fresh == place.address;
        code |= if reused { ADDRESS_EXPECTED } else { 0 };
        code |= if fresh { ADDRESS_FRESH } else { 0 };
        self.addresses.put_if(!reused && !fresh, distance(expected.latest, place.address));
        self.predictor.allocated(self.thread, place.size, place.address, reused);
        if place.surplus != 0 || !place.weight.is_one() {
            self.put_exceptions(place.surplus, place.weight);
        }
        self.next_alloc += 1;
        code
    }

    #[inline(always)]
    fn owner_and_size(&mut self, stack: StackId, tag: TagId, size: u64) -> u8 {
        let mut code = 0;
        let site = self.put_site(stack);
        if tag != TagId::NONE {
            code |= HAS_TAG;
            self.tags.put(tag.0.into());
        }
        let expected = self.predictor.size(site);
        let as_expected = *expected == size;
        *expected = size;
        self.sizes.put_if(!as_expected, size);
        code |= if as_expected { SIZE_EXPECTED } else { 0 };
        code
    }

    /// The number of a site in this block: sites are numbered as they appear, and a new one is followed by its stack.
    #[inline(always)]
    fn put_site(&mut self, stack: StackId) -> u32 {
        let (site, is_new) = self.sites.number(stack);
        self.stacks.put(site.into());
        if is_new {
            self.stacks.put(stack.0.into());
        }
        site
    }

    #[inline]
    fn put_address(&mut self, address: u64, size: u64) {
        self.addresses.put(distance(self.predictor.expect(self.thread, size).latest, address));
    }

    #[inline(never)]
    fn put_exceptions(&mut self, surplus: i32, weight: Weight) {
        let placement = self.next_alloc - self.summary.first_alloc + self.reallocations;
        self.surpluses.put(placement, zigzag(surplus));
        let weights = if weight.is_rounded() { &mut self.rounded_weights } else { &mut self.weights };
        weights.put(placement, weight.bits().into());
        if let Some((samples, spacing)) = weight.counted() {
            self.samples.put(placement, samples.into());
            let said = (spacing, weight.is_rounded());
            if said != self.spacing {
                self.spacing = said;
                match weight.is_rounded() {
                    true => self.rounded_spacings.put(placement, spacing.old_bits().into()),
                    false => self.spacings.put(placement, spacing.bits()),
                }
            }
        }
    }

    fn reallocate(&mut self, op: &Op, was: BlockExtent) -> u8 {
        let &Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } = op else { return op::REALLOCATE };
        self.put_exceptions(surplus, weight);
        self.reallocations += 1;
        let mut code = op::REALLOCATE | self.owner_and_size(stack, tag, size);
        self.distances.put(self.next_alloc - id.0);
        match moved_to {
            None => code |= ADDRESS_EXPECTED,
            Some(address) => self.put_address(address, size),
        }
        let is_of_this_block = id.0 >= self.summary.first_alloc;
        let mut place = (was.address, was.size);
        self.predictor.reallocated(self.thread, is_of_this_block.then_some(&mut place), moved_to, size);
        code
    }

    /// Discards the collected steps and begins the next block. Returns the number of discarded events.
    pub fn forget(&mut self, accounts: &Accounts) -> u64 {
        let events = self.summary.events;
        self.begin(accounts);
        events
    }

    /// Ends the block: appends its payload to `out`, returns its summary, and begins the next one.
    pub fn finish(
        &mut self,
        accounts: &Accounts,
        packer: &mut ColumnPacker,
        out: &mut Vec<u8>,
    ) -> io::Result<EventsSummary> {
        let start = out.len();
        self.summary.steps = self.operations.bytes().len() as u64;
        self.summary.last_time = accounts.last_time();
        self.summary.live_bytes = accounts.totals().figures.live_bytes();
        self.summary.live_blocks = accounts.totals().figures.live_blocks();
        self.summary.put(out);
        varint::put(out, self.threads.len() as u64);
        self.threads.iter().for_each(|thread| varint::put(out, thread.0));
        let columns = [
            (column::OPERATIONS, &self.operations),
            (column::TIMES, &self.times),
            (column::THREADS, &self.thread_switches),
            (column::SIZES, &self.sizes),
            (column::STACKS, &self.stacks),
            (column::TAGS, &self.tags),
            (column::ADDRESSES, &self.addresses),
            (column::DISTANCES, &self.distances),
            (column::REST, &self.rest),
        ];
        for (id, column) in columns {
            packer.add(id, column.bytes())?;
        }
        let exceptions = [
            (column::SURPLUSES, &self.surpluses),
            (column::ROUNDED_WEIGHTS, &self.rounded_weights),
            (column::SAMPLES, &self.samples),
            (column::ROUNDED_SPACINGS, &self.rounded_spacings),
            (column::WEIGHTS, &self.weights),
            (column::SPACINGS, &self.spacings),
        ];
        for (id, column) in exceptions {
            packer.add(id, column.bytes())?;
        }
        packer.add(column::FREE_STACKS, self.free_stacks.bytes())?;
        packer.finish(out);
        let least = start + (self.summary.steps / MOST_STEPS_PER_BYTE) as usize;
        if out.len() < least {
            out.resize(least, 0);
        }
        let summary = self.summary;
        self.begin(accounts);
        Ok(summary)
    }
}

impl StepSink for EventsEncoder {
    #[inline(always)]
    fn write(&mut self, step: Step, was: BlockExtent) {
        self.push(&step, was);
    }
}

/// Numbers sites in the order of their appearance in a block.
#[derive(Default)]
struct SiteNumbers {
    /// By stack: the block in which it appeared last, and its number there.
    numbers: Vec<(u32, u32)>,
    block: u32,
    count: u32,
}

/// With more sites than this, they do not all fit in a near cache.
const MANY_SITES: usize = 8 << 10;

impl SiteNumbers {
    /// Reads the memory that all these events will need, so that the processor fetches many cache lines at a time.
    fn touch(&self, events: &[PlainEvent]) {
        let touch = |event: &PlainEvent| self.numbers.get(event.stack.0 as usize).map_or(0, |(block, _)| *block);
        std::hint::black_box(events.iter().map(touch).fold(0, |all, one| all ^ one));
    }

    fn clear(&mut self) {
        self.block += 1;
        self.count = 0;
    }

    #[inline(always)]
    fn number(&mut self, stack: StackId) -> (u32, bool) {
        let index = stack.0 as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, (0, 0));
        }
        let (block, number) = &mut self.numbers[index];
        if *block == self.block {
            return (*number, false);
        }
        (*block, *number) = (self.block, self.count);
        self.count += 1;
        (*number, true)
    }
}
