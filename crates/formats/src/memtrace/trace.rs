//! The state that all domains of a trace share while it is read.

use super::backtrace::TraceTables;
use super::codes::Codes;
use super::damage::DamageList;
use super::known_stacks::KnownStacks;
use super::lost_ids::LostIds;
use highwater_model::{Catalog, Heap, Nanos, Tag, TagId, Weight, WordSampling};

/// The number of cached weights, by length: programs have few different lengths.
const KEPT_WEIGHTS: usize = 4096;
/// Limit for the steps of repairing locations: a fixed part, and a part in proportion to the bytes of the trace.
const LEAST_EFFORT: u64 = 100_000;
const BYTES_PER_EFFORT: u64 = 4;
/// Limit for the nodes of stacks: a fixed part, and a part in proportion to the bytes of the trace. Real traces have less than one node for a byte; a
/// forged one could ask for a hundred.
const LEAST_NODES: u64 = 1 << 19;
const NODES_PER_BYTE: u64 = 8;

/// The heaps of OCaml, by the number that a trace gives them.
const HEAPS: [Heap; 3] = [Heap::Minor, Heap::Major, Heap::External];

/// The state that all domains of a trace share while it is read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The start time, in microseconds.
    pub start: i64,
    /// How it was sampled.
    pub sampling: WordSampling,
    /// The location codes.
    pub codes: Codes,
    /// Damage found so far.
    pub damage: DamageList,
    /// The objects whose allocations were lost.
    pub lost: LostIds,
    /// True if locations were found that did not fit into their records.
    pub has_spills: bool,
    /// The offset of the first packet whose locations are guesses.
    pub first_guess: Option<u64>,
    /// The number of events that came too late to be put in order. They got the latest time given out.
    pub repaired_times: u64,
    /// The number of times that the clock was set back, counted in each domain.
    pub clock_steps: u64,
    /// The sum of these steps, in microseconds.
    pub clock_step_us: u64,
    /// The number of events given out.
    pub events: u64,
    /// The latest time given out, in microseconds.
    pub end: i64,
    /// The number of bytes that have arrived.
    pub bytes: u64,
    stacks: KnownStacks,
    tags: [TagId; 3],
    /// A cache, indexed by a hash of the length: the length plus one, and its weight.
    weights: Vec<(u64, Weight)>,
    effort_spent: u64,
}

impl Trace {
    /// A trace without events.
    pub fn new(start: i64, sampling: WordSampling, catalog: &mut Catalog) -> Self {
        Self {
            start,
            sampling,
            codes: Codes::default(),
            damage: DamageList::default(),
            lost: LostIds::default(),
            has_spills: false,
            first_guess: None,
            repaired_times: 0,
            clock_steps: 0,
            clock_step_us: 0,
            events: 0,
            end: start,
            bytes: 0,
            stacks: KnownStacks::default(),
            tags: HEAPS.map(|heap| catalog.intern_tag(Tag { heap, ..Tag::default() })),
            weights: vec![(0, Weight::ONE); KEPT_WEIGHTS],
            effort_spent: 0,
        }
    }

    /// Converts a time to the time since the start.
    #[inline]
    pub fn since_start(&self, time: i64) -> Nanos {
        Nanos((time.saturating_sub(self.start).max(0) as u64).saturating_mul(1000))
    }

    /// The tag of a heap, by its number in the trace.
    #[inline]
    pub fn tag(&self, heap: u8) -> Option<TagId> {
        self.tags.get(usize::from(heap)).copied()
    }

    /// The tag of promoted objects.
    #[inline]
    pub fn promoted(&self) -> TagId {
        self.tags[1]
    }

    /// The weight of an object of `words` words that was hit by `samples` samples.
    #[inline]
    pub fn weight(&mut self, words: u64, samples: u32) -> Weight {
        // Lengths far apart from each other seldom collide.
        let place = (words ^ words >> 12) as usize % KEPT_WEIGHTS;
        let of_one = match self.weights[place] {
            (kept, weight) if kept == words + 1 => weight,
            _ => self.new_weight(words, place),
        };
        if samples == 1 { of_one } else { of_one.of_samples(samples, self.sampling.spacing()) }
    }

    #[cold]
    fn new_weight(&mut self, words: u64, place: usize) -> Weight {
        let weight = self.sampling.weight(words, 1);
        self.weights[place] = (words + 1, weight);
        weight
    }

    /// The present limit for the nodes of stacks.
    pub fn most_nodes(&self) -> usize {
        usize::try_from(LEAST_NODES.saturating_add(self.bytes.saturating_mul(NODES_PER_BYTE))).unwrap_or(usize::MAX)
    }

    /// Calls `spend` with the steps that may be taken now. `spend` leaves the steps that it did not use.
    pub fn with_effort<T>(&mut self, spend: impl FnOnce(&mut Self, &mut u64) -> T) -> T {
        let allowed = LEAST_EFFORT.saturating_add(self.bytes / BYTES_PER_EFFORT).saturating_sub(self.effort_spent);
        let mut left = allowed;
        let result = spend(self, &mut left);
        self.effort_spent += allowed - left;
        result
    }

    /// The tables that decoding of backtraces needs.
    pub fn tables<'a>(&'a mut self, catalog: &'a mut Catalog) -> TraceTables<'a> {
        let most_nodes = self.most_nodes();
        TraceTables { codes: &mut self.codes, stacks: &mut self.stacks, catalog, most_nodes }
    }
}
