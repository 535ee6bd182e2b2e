//! Reading blocks of steps; [`super::events`] describes the layout.

use super::column::ColumnUnpacker;
use super::events::{
    ADDRESS_EXPECTED, ADDRESS_FRESH, EventsSummary, HAS_TAG, MOST_STEPS, MOST_STEPS_PER_BYTE, OTHER_THREAD, PROMOTION,
    SIZE_EXPECTED, column, op,
};
use super::exceptions::{ExceptionPairs, from_zigzag};
use super::handles::Handles;
use super::packed::{LONGEST, Numbers};
use super::prediction::{Predictor, at_distance};
use super::varint::VarintReader;
use highwater_model::{
    AllocId, Anomaly, Nanos, Op, Placement, SampleSpacing, StackId, Step, StringId, TagId, ThreadId, Weight,
};
use std::io;

/// Reads blocks of steps, reusing its buffers.
pub struct EventsDecoder {
    unpacker: ColumnUnpacker,
    places: Vec<(u64, u64)>,
    predictor: Predictor,
    threads: Vec<ThreadId>,
    sites: Vec<u32>,
    freeing_stacks: Vec<u32>,
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
            freeing_stacks: Vec::new(),
        })
    }

    /// Begins reading a payload; `None` if it is malformed.
    pub fn open(&mut self, payload: &[u8], known: Handles, believed: Handles) -> Option<Steps<'_>> {
        let mut input = VarintReader::new(payload);
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
        // A step has at most two numbers in a column.
        self.unpacker.unpack(input, (MOST_STEPS * 2 * LONGEST) as u64)?;
        self.places.clear();
        self.predictor.clear();
        self.sites.clear();
        self.freeing_stacks.clear();
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
            has_free_stacks: !column(column::FREE_STACKS).is_empty(),
            free_stacks: column(column::FREE_STACKS),
            freeing_stacks: &mut self.freeing_stacks,
            operations: column(column::OPERATIONS),
            times: column(column::TIMES),
            thread_switches: column(column::THREADS),
            sizes: column(column::SIZES),
            stacks: column(column::STACKS),
            tags: column(column::TAGS),
            addresses: column(column::ADDRESSES),
            distances: column(column::DISTANCES),
            rest: column(column::REST),
            surpluses_and_weights: ExceptionPairs::new([column(column::SURPLUSES), column(column::WEIGHTS)]),
            has_samples: !column(column::SAMPLES).is_empty(),
            samples_and_spacings: ExceptionPairs::new([column(column::SAMPLES), column(column::SPACINGS)]),
            has_rounded: !column(column::ROUNDED_WEIGHTS).is_empty() || !column(column::ROUNDED_SPACINGS).is_empty(),
            rounded: ExceptionPairs::new([column(column::ROUNDED_WEIGHTS), column(column::ROUNDED_SPACINGS)]),
            spacing: (SampleSpacing::NONE, false),
            places: &mut self.places,
            predictor: &mut self.predictor,
            left: summary.steps,
            unknown_handles: 0,
        })
    }
}

/// The steps of one block, in order. Ends early if the block is malformed, which [`Steps::is_done`] shows.
pub struct Steps<'a> {
    /// The summary of the block.
    pub summary: EventsSummary,
    /// How many handles of stacks or tags are not in the catalog.
    pub unknown_handles: u64,
    known: Handles,
    believed: Handles,
    next_alloc: u64,
    time: u64,
    thread: usize,
    thread_id: ThreadId,
    threads: &'a [ThreadId],
    sites: &'a mut Vec<u32>,
    has_free_stacks: bool,
    free_stacks: Numbers<'a>,
    /// The stacks of frees that have appeared in this block.
    freeing_stacks: &'a mut Vec<u32>,
    operations: Numbers<'a>,
    times: Numbers<'a>,
    thread_switches: Numbers<'a>,
    sizes: Numbers<'a>,
    stacks: Numbers<'a>,
    tags: Numbers<'a>,
    addresses: Numbers<'a>,
    distances: Numbers<'a>,
    rest: Numbers<'a>,
    surpluses_and_weights: ExceptionPairs<'a>,
    has_samples: bool,
    samples_and_spacings: ExceptionPairs<'a>,
    has_rounded: bool,
    /// Weights and spacings of blocks whose bytes are rounded for each record.
    rounded: ExceptionPairs<'a>,
    /// The latest spacing, and whether it is of a block with rounded bytes.
    spacing: (SampleSpacing, bool),
    places: &'a mut Vec<(u64, u64)>,
    predictor: &'a mut Predictor,
    left: u64,
}

impl Steps<'_> {
    /// True if all steps that the block announced were read.
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
                let stack = if self.has_free_stacks { self.free_stack()? } else { StackId::UNKNOWN };
                Op::Free { id, stack }
            }
            op::REALLOCATE => self.reallocate(code)?,
            op::UNMATCHED_FREE if code & PROMOTION != 0 => self.promote(code)?,
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
        let stack = StackId(self.believe(stack, self.known.stacks, self.believed.stacks));
        let tag = TagId(self.believe(tag, self.known.tags, self.believed.tags));
        Some((stack, tag, size))
    }

    fn free_stack(&mut self) -> Option<StackId> {
        let Some(number) = self.free_stacks.next32()?.checked_sub(1) else { return Some(StackId::UNKNOWN) };
        if number as usize == self.freeing_stacks.len() {
            self.freeing_stacks.push(self.free_stacks.next32()?);
        }
        let stack = *self.freeing_stacks.get(number as usize)?;
        Some(StackId(self.believe(stack, self.known.stacks, self.believed.stacks)))
    }

    /// Accepts a handle if it is below `believed`.
    #[inline]
    fn believe(&mut self, handle: u32, known: u32, believed: u32) -> u32 {
        self.unknown_handles += u64::from(handle >= known);
        if handle < believed { handle } else { 0 }
    }

    fn promote(&mut self, code: u8) -> Option<Op> {
        let id = self.id()?;
        let tag = if code & HAS_TAG != 0 { self.tags.next32()? } else { 0 };
        let tag = TagId(self.believe(tag, self.known.tags, self.believed.tags));
        Some(Op::Promote { id, tag })
    }

    #[inline]
    fn surplus_and_weight(&mut self) -> Option<(i32, Weight)> {
        let (surplus, weight) = match self.surpluses_and_weights.next().ok()? {
            None => (0, Weight::ONE),
            Some([surplus, weight]) => (from_zigzag(surplus)?, Weight::from_bits(weight)?),
        };
        if self.has_samples || self.has_rounded {
            Some((surplus, self.with_samples(weight)?))
        } else {
            Some((surplus, weight))
        }
    }

    /// The weight with its samples. At most one of its two forms has a value.
    #[inline(never)]
    fn with_samples(&mut self, weight: Weight) -> Option<Weight> {
        let [rounded_weight, rounded_spacing] = self.rounded.next().ok()?.unwrap_or_default();
        let [samples, spacing] = self.samples_and_spacings.next().ok()?.unwrap_or_default();
        if spacing != 0 {
            self.spacing = (SampleSpacing::from_bits(spacing), false);
        } else if rounded_spacing != 0 {
            self.spacing = (SampleSpacing::from_old_bits(u32::try_from(rounded_spacing).ok()?), true);
        }
        let (spacing, is_rounded) = self.spacing;
        let is_one_form = rounded_weight == 0 || weight == Weight::ONE;
        is_one_form.then_some(())?;
        let blocks = if rounded_weight == 0 { weight } else { Weight::from_bits(rounded_weight)? };
        let counted = blocks.of_samples(u32::try_from(samples).ok()?, spacing);
        let is_rounded = rounded_weight != 0 || (samples != 0 && is_rounded);
        Some(if is_rounded { counted.rounded_per_record() } else { counted })
    }

    #[inline]
    fn address(&mut self, size: u64) -> Option<u64> {
        Some(at_distance(self.predictor.expect(self.thread, size).latest, self.addresses.next()?))
    }

    #[inline]
    fn allocate(&mut self, code: u8) -> Option<Op> {
        let (stack, tag, size) = self.owner_and_size(code)?;
        let (surplus, weight) = self.surplus_and_weight()?;
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
        Some(Op::Allocate(Placement { address, size, stack, tag, surplus, weight }))
    }

    fn reallocate(&mut self, code: u8) -> Option<Op> {
        let (stack, tag, size) = self.owner_and_size(code)?;
        let (surplus, weight) = self.surplus_and_weight()?;
        let id = self.id()?;
        let moved_to = if code & ADDRESS_EXPECTED != 0 { None } else { Some(self.address(size)?) };
        let index = id.0.checked_sub(self.summary.first_alloc).map_or(usize::MAX, |index| index as usize);
        self.predictor.reallocated(self.thread, self.places.get_mut(index), moved_to, size);
        Some(Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight })
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
