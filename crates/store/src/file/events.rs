//! A block of steps: columns of what happened (docs/format.md §4).
//!
//! Every step is one byte of the operations column, which says what it is and which other columns have a value for it:
//!
//! ```text
//!  bits 0–2  operation: 0 allocate, 1 free, 2 reallocate, 3 unmatched free, 4 mark, 5 gauge, 6 evict, 7 note
//!  bit  3    another thread than the step before: the thread column has its index in the block's list
//!  bit  4    the address is the one expected (allocate: reused; reallocate: unmoved): none in the address column
//!  bit  5    the tag column has a value
//!  bit  6    allocate: the address is the next of the thread's fresh memory: none in the address column
//!  bit  7    the size is the one expected of the site: none in the size column
//! ```
//!
//! A block can be read without any other: it has its own start time, numbers and list of threads. Only what a block number stands
//! for, once it was allocated in an earlier block, is the ledger's to know.

use super::catalog::MOST_ENTRIES_PER_BYTE;
use super::column::{ColumnPacker, ColumnUnpacker};
use super::keyframe::MOST_COUNTED;
use super::packed::{Buffer, LONGEST, Numbers};
use super::prediction::{Predictor, at_distance, distance};
use super::varint::{self, Input};
use highwater_model::{
    Accounts, AllocId, Anomaly, Nanos, Op, Placement, Scribe, StackId, Step, StringId, TagId, ThreadId,
};
use std::io;

/// The most steps in one block.
pub const MOST_STEPS: usize = 1 << 17;
/// Steps per byte of payload, at the most: bounds what a small file can make a reader keep.
pub const MOST_STEPS_PER_BYTE: u64 = 4;

mod column {
    pub const OPERATIONS: u8 = 0;
    pub const TIMES: u8 = 1;
    pub const THREADS: u8 = 2;
    pub const SIZES: u8 = 3;
    pub const STACKS: u8 = 4;
    pub const TAGS: u8 = 5;
    pub const ADDRESSES: u8 = 6;
    pub const DISTANCES: u8 = 7;
    pub const REST: u8 = 8;
    pub const COUNT: u8 = 9;
}

mod op {
    pub const ALLOCATE: u8 = 0;
    pub const FREE: u8 = 1;
    pub const REALLOCATE: u8 = 2;
    pub const UNMATCHED_FREE: u8 = 3;
    pub const MARK: u8 = 4;
    pub const GAUGE: u8 = 5;
    pub const EVICT: u8 = 6;
    pub const NOTE: u8 = 7;
    pub const MASK: u8 = 7;
}

const OTHER_THREAD: u8 = 1 << 3;
const ADDRESS_EXPECTED: u8 = 1 << 4;
const HAS_TAG: u8 = 1 << 5;
const ADDRESS_FRESH: u8 = 1 << 6;
const SIZE_EXPECTED: u8 = 1 << 7;

/// What a block says of itself before its columns, and what the index repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsSummary {
    /// Events before this block.
    pub first_event: u64,
    /// Events in this block.
    pub events: u64,
    /// Steps in this block: its events and notes.
    pub steps: u64,
    /// The number of the first allocation in or after this block.
    pub first_alloc: u64,
    /// No event of this block is earlier.
    pub first_time: Nanos,
    /// The time of its last event.
    pub last_time: Nanos,
    /// Bytes live after it.
    pub live_bytes: u64,
    /// Blocks live after it.
    pub live_blocks: u64,
    /// The most bytes live within it.
    pub highest_bytes: u64,
    /// Marks in it.
    pub marks: u64,
    /// Gauges in it.
    pub gauges: u64,
}

impl EventsSummary {
    /// Appends the fields in order.
    pub fn put(&self, out: &mut Vec<u8>) {
        let Self { first_event, events, steps, first_alloc, first_time, last_time, .. } = *self;
        let Self { live_bytes, live_blocks, highest_bytes, marks, gauges, .. } = *self;
        let time_span = last_time.0.saturating_sub(first_time.0);
        for value in [first_event, events, steps, first_alloc, first_time.0, time_span] {
            varint::put(out, value);
        }
        for value in [live_bytes, live_blocks, highest_bytes, marks, gauges] {
            varint::put(out, value);
        }
    }

    /// Reads the fields.
    pub fn read(input: &mut Input<'_>) -> Option<Self> {
        let mut next = || input.number();
        let (first_event, events, steps, first_alloc, first_time) = (next()?, next()?, next()?, next()?, next()?);
        let summary = Self {
            first_event,
            events,
            steps,
            first_alloc,
            first_time: Nanos(first_time),
            last_time: Nanos(first_time.checked_add(next()?)?),
            live_bytes: next()?,
            live_blocks: next()?,
            highest_bytes: next()?,
            marks: next()?,
            gauges: next()?,
        };
        let sound = summary.steps <= MOST_STEPS as u64
            && summary.events <= summary.steps
            && summary.first_event <= MOST_COUNTED
            && summary.first_alloc <= MOST_COUNTED;
        sound.then_some(summary)
    }
}

/// Collects steps and writes them as a block.
pub struct EventsEncoder {
    summary: EventsSummary,
    next_alloc: u64,
    time: u64,
    threads: Vec<ThreadId>,
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
    /// Address and size of each allocation made in this block.
    places: Vec<(u64, u64)>,
    predictor: Predictor,
    sites: SiteNumbers,
}

impl EventsEncoder {
    /// An encoder whose first block begins where `accounts` are.
    pub fn new(accounts: &Accounts) -> Self {
        let mut encoder = Self {
            summary: EventsSummary::default(),
            next_alloc: 0,
            time: 0,
            threads: Vec::new(),
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
            places: Vec::new(),
            predictor: Predictor::new(),
            sites: SiteNumbers::default(),
        };
        encoder.begin(accounts);
        encoder
    }

    /// Steps collected so far.
    pub fn steps(&self) -> usize {
        self.operations.bytes().len()
    }

    fn begin(&mut self, accounts: &Accounts) {
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
        self.thread = usize::MAX;
        self.places.clear();
        self.predictor.clear();
        self.sites.clear();
    }

    /// Takes note of what is live after an event.
    #[inline]
    pub fn see_live_bytes(&mut self, live_bytes: u64) {
        self.summary.highest_bytes = self.summary.highest_bytes.max(live_bytes);
    }

    #[inline(always)]
    fn push(&mut self, step: &Step) {
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
            Op::Free { id } => {
                self.distances.put(self.next_alloc - id.0);
                if let Some(index) = id.0.checked_sub(self.summary.first_alloc) {
                    let (address, size) = self.places[index as usize];
                    self.predictor.freed(self.thread, size, address);
                }
                op::FREE
            }
            Op::Reallocate { id, moved_to, size, stack, tag } => self.reallocate(id, moved_to, size, stack, tag),
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

    #[inline]
    fn switch_thread(&mut self, thread: ThreadId) {
        self.thread = self.threads.iter().position(|&known| known == thread).unwrap_or_else(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        self.thread_switches.put(self.thread as u64);
    }

    #[inline]
    fn allocate(&mut self, place: &Placement) -> u8 {
        let mut code = op::ALLOCATE | self.owner_and_size(place.stack, place.tag, place.size);
        let expected = self.predictor.expect(self.thread, place.size);
        let reused = expected.reused == place.address;
        let fresh = !reused && expected.fresh == place.address;
        code |= if reused { ADDRESS_EXPECTED } else { 0 };
        code |= if fresh { ADDRESS_FRESH } else { 0 };
        self.addresses.put_if(!reused && !fresh, distance(expected.latest, place.address));
        self.predictor.allocated(self.thread, place.size, place.address, reused);
        self.places.push((place.address, place.size));
        self.next_alloc += 1;
        code
    }

    #[inline]
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

    /// A site's number in this block: sites are numbered as they appear, and a new one is followed by its stack.
    #[inline]
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

    fn reallocate(&mut self, id: AllocId, moved_to: Option<u64>, size: u64, stack: StackId, tag: TagId) -> u8 {
        let mut code = op::REALLOCATE | self.owner_and_size(stack, tag, size);
        self.distances.put(self.next_alloc - id.0);
        match moved_to {
            None => code |= ADDRESS_EXPECTED,
            Some(address) => self.put_address(address, size),
        }
        let place = id.0.checked_sub(self.summary.first_alloc).map(|index| &mut self.places[index as usize]);
        note_reallocation(&mut self.predictor, self.thread, place, moved_to, size);
        code
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
            (column::OPERATIONS, &mut self.operations),
            (column::TIMES, &mut self.times),
            (column::THREADS, &mut self.thread_switches),
            (column::SIZES, &mut self.sizes),
            (column::STACKS, &mut self.stacks),
            (column::TAGS, &mut self.tags),
            (column::ADDRESSES, &mut self.addresses),
            (column::DISTANCES, &mut self.distances),
            (column::REST, &mut self.rest),
        ];
        for (id, column) in columns {
            packer.add(id, column.bytes())?;
            column.clear();
        }
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

impl Scribe for EventsEncoder {
    #[inline(always)]
    fn write(&mut self, step: Step) {
        self.push(&step);
    }
}

/// Takes note of a block that was resized, whose place is known if it was allocated in this block of the file.
fn note_reallocation(
    predictor: &mut Predictor,
    thread: usize,
    place: Option<&mut (u64, u64)>,
    moved_to: Option<u64>,
    size: u64,
) {
    if let Some(address) = moved_to {
        predictor.allocated(thread, size, address, false);
    }
    if let Some(place) = place {
        if moved_to.is_some() {
            predictor.freed(thread, place.1, place.0);
        }
        *place = (moved_to.unwrap_or(place.0), size);
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

impl SiteNumbers {
    fn clear(&mut self) {
        self.block += 1;
        self.count = 0;
    }

    #[inline]
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

/// Handles below these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    /// Stacks.
    pub stacks: u32,
    /// Tags.
    pub tags: u32,
    /// Strings.
    pub strings: u32,
}

/// How far handles may lie beyond the catalog: entries may be lost to damage, and what refers to them still tells blocks of one
/// lost site from those of another. Whatever is further off is forged.
const MOST_LOST: u32 = 1 << 18;

impl Handles {
    /// The handles that are believed where these are known: a file must have had room for what it lost.
    pub fn with_lost(self, file_bytes: u64) -> Self {
        let room = u32::try_from(file_bytes.saturating_mul(MOST_ENTRIES_PER_BYTE)).unwrap_or(u32::MAX);
        let with_lost = |known: u32| known.saturating_add(MOST_LOST).min(room).max(known);
        Self { stacks: with_lost(self.stacks), tags: with_lost(self.tags), strings: with_lost(self.strings) }
    }

    /// Takes note of the handles in an operation.
    pub fn see(&mut self, op: &Op) {
        let (stack, tag, name) = match *op {
            Op::Allocate(place) => (place.stack, place.tag, StringId::EMPTY),
            Op::Reallocate { stack, tag, .. } => (stack, tag, StringId::EMPTY),
            Op::Mark { name } | Op::Gauge { name, .. } => (StackId::UNKNOWN, TagId::NONE, name),
            _ => return,
        };
        self.stacks = self.stacks.max(stack.0.saturating_add(1));
        self.tags = self.tags.max(tag.0.saturating_add(1));
        self.strings = self.strings.max(name.0.saturating_add(1));
    }
}

/// Reads blocks of steps, reusing its buffers.
pub struct EventsDecoder {
    unpacker: ColumnUnpacker,
    places: Vec<(u64, u64)>,
    predictor: Predictor,
    threads: Vec<ThreadId>,
    sites: Vec<u32>,
}

impl EventsDecoder {
    /// A decoder.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            unpacker: ColumnUnpacker::new(column::COUNT)?,
            places: Vec::new(),
            predictor: Predictor::new(),
            threads: Vec::new(),
            sites: Vec::new(),
        })
    }

    /// Begins reading a payload; `None` if it is malformed.
    pub fn open(&mut self, payload: &[u8], known: Handles, believed: Handles) -> Option<Steps<'_>> {
        let mut input = Input::new(payload);
        let summary = EventsSummary::read(&mut input)?;
        if summary.steps > (payload.len() as u64).saturating_add(1) * MOST_STEPS_PER_BYTE {
            return None;
        }
        let threads = input.number()?;
        if threads > summary.steps {
            return None;
        }
        self.threads.clear();
        for _ in 0..threads {
            self.threads.push(ThreadId(input.number()?));
        }
        // No step takes more than two numbers of a column.
        self.unpacker.unpack(input, (MOST_STEPS * 2 * LONGEST) as u64)?;
        self.places.clear();
        self.predictor.clear();
        self.sites.clear();
        let column = |id| self.unpacker.numbers(id);
        Some(Steps {
            summary,
            known,
            believed,
            next_alloc: summary.first_alloc,
            time: summary.first_time.0,
            thread: usize::MAX,
            thread_id: ThreadId(0),
            threads: &self.threads,
            sites: &mut self.sites,
            operations: column(column::OPERATIONS),
            times: column(column::TIMES),
            thread_switches: column(column::THREADS),
            sizes: column(column::SIZES),
            stacks: column(column::STACKS),
            tags: column(column::TAGS),
            addresses: column(column::ADDRESSES),
            distances: column(column::DISTANCES),
            rest: column(column::REST),
            places: &mut self.places,
            predictor: &mut self.predictor,
            left: summary.steps,
            unknown_handles: 0,
        })
    }
}

/// The steps of one block, in order. Ends early where the block is malformed, which [`Steps::is_done`] tells.
pub struct Steps<'a> {
    /// What the block says of itself.
    pub summary: EventsSummary,
    /// How often a stack or tag is named that the catalog does not have.
    pub unknown_handles: u64,
    known: Handles,
    believed: Handles,
    next_alloc: u64,
    time: u64,
    thread: usize,
    thread_id: ThreadId,
    threads: &'a [ThreadId],
    sites: &'a mut Vec<u32>,
    operations: Numbers<'a>,
    times: Numbers<'a>,
    thread_switches: Numbers<'a>,
    sizes: Numbers<'a>,
    stacks: Numbers<'a>,
    tags: Numbers<'a>,
    addresses: Numbers<'a>,
    distances: Numbers<'a>,
    rest: Numbers<'a>,
    places: &'a mut Vec<(u64, u64)>,
    predictor: &'a mut Predictor,
    left: u64,
}

impl Steps<'_> {
    /// True when every step the block promised was read.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    #[inline]
    fn read(&mut self) -> Option<Step> {
        let code = self.operations.byte()?;
        if code & OTHER_THREAD != 0 {
            self.thread = usize::try_from(self.thread_switches.next()?).ok()?;
            self.thread_id = *self.threads.get(self.thread)?;
        }
        self.time = self.time.checked_add(self.times.next()?)?;
        let op = match code & op::MASK {
            op::ALLOCATE => self.allocate(code)?,
            op::FREE => {
                let id = self.id()?;
                if let Some(&mut (address, size)) = self.place_of(id) {
                    self.predictor.freed(self.thread, size, address);
                }
                Op::Free { id }
            }
            op::REALLOCATE => self.reallocate(code)?,
            op::UNMATCHED_FREE => Op::UnmatchedFree { address: self.rest.next()? },
            op::MARK => Op::Mark { name: self.name()? },
            op::GAUGE => Op::Gauge { name: self.name()?, value: self.rest.next()? },
            op::EVICT => Op::Evict { id: self.id()? },
            _ => Op::Note { anomaly: Anomaly::from_number(self.rest.next()?)?, count: self.rest.next()? },
        };
        Some(Step { time: Nanos(self.time), thread: self.thread_id, op })
    }

    fn name(&mut self) -> Option<StringId> {
        let name = StringId(self.rest.next32()?);
        Some(if name.0 < self.believed.strings { name } else { StringId::EMPTY })
    }

    #[inline]
    fn id(&mut self) -> Option<AllocId> {
        let distance = self.distances.next()?;
        (distance > 0).then_some(())?;
        Some(AllocId(self.next_alloc.checked_sub(distance)?))
    }

    #[inline]
    fn place_of(&mut self, id: AllocId) -> Option<&mut (u64, u64)> {
        let index = id.0.checked_sub(self.summary.first_alloc)?;
        self.places.get_mut(usize::try_from(index).ok()?)
    }

    #[inline]
    fn owner_and_size(&mut self, code: u8) -> Option<(StackId, TagId, u64)> {
        let site = self.stacks.next32()?;
        if site as usize == self.sites.len() {
            self.sites.push(self.stacks.next32()?);
        }
        let stack = *self.sites.get(site as usize)?;
        let tag = if code & HAS_TAG != 0 { self.tags.next32()? } else { 0 };
        let expected = self.predictor.size(site);
        if code & SIZE_EXPECTED == 0 {
            *expected = self.sizes.next()?;
        }
        let size = *expected;
        let believed = self.believed;
        let mut believe = |handle, known, believed| {
            self.unknown_handles += u64::from(handle >= known);
            if handle < believed { handle } else { 0 }
        };
        let stack = StackId(believe(stack, self.known.stacks, believed.stacks));
        let tag = TagId(believe(tag, self.known.tags, believed.tags));
        Some((stack, tag, size))
    }

    #[inline]
    fn address(&mut self, size: u64) -> Option<u64> {
        Some(at_distance(self.predictor.expect(self.thread, size).latest, self.addresses.next()?))
    }

    #[inline]
    fn allocate(&mut self, code: u8) -> Option<Op> {
        let (stack, tag, size) = self.owner_and_size(code)?;
        let reused = code & ADDRESS_EXPECTED != 0;
        let expected = self.predictor.expect(self.thread, size);
        let address = match code & (ADDRESS_EXPECTED | ADDRESS_FRESH) {
            0 => at_distance(expected.latest, self.addresses.next()?),
            ADDRESS_FRESH => expected.fresh,
            _ => expected.reused,
        };
        self.predictor.allocated(self.thread, size, address, reused);
        self.places.push((address, size));
        self.next_alloc = self.next_alloc.checked_add(1)?;
        Some(Op::Allocate(Placement { address, size, stack, tag }))
    }

    fn reallocate(&mut self, code: u8) -> Option<Op> {
        let (stack, tag, size) = self.owner_and_size(code)?;
        let id = self.id()?;
        let moved_to = if code & ADDRESS_EXPECTED != 0 { None } else { Some(self.address(size)?) };
        let index = id.0.checked_sub(self.summary.first_alloc).map_or(usize::MAX, |index| index as usize);
        note_reallocation(self.predictor, self.thread, self.places.get_mut(index), moved_to, size);
        Some(Op::Reallocate { id, moved_to, size, stack, tag })
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        if self.left == 0 {
            return None;
        }
        let step = self.read()?;
        self.left -= 1;
        Some(step)
    }
}
