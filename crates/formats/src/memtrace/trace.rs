//! What all domains of a trace share while it is read.

use super::backtrace::Names;
use super::codes::Codes;
use super::damage::DamageList;
use super::known_stacks::KnownStacks;
use super::lost_ids::LostIds;
use highwater_model::{Catalog, Heap, Nanos, Tag, TagId, Weight, WordSampling};

/// How many weights of lengths are kept: programs have few different ones.
const KEPT_WEIGHTS: usize = 4096;
/// Steps that may be taken to repair locations, whatever the trace, and for each byte of it.
const LEAST_EFFORT: u64 = 100_000;
const BYTES_PER_EFFORT: u64 = 4;
/// Nodes that stacks may have, whatever the trace, and for each byte of it. Real traces have less than one for a byte; a forged one
/// could ask for a hundred.
const LEAST_NODES: u64 = 1 << 19;
const NODES_PER_BYTE: u64 = 8;

/// The heaps of OCaml, by the number that a trace gives them.
const HEAPS: [Heap; 3] = [Heap::Minor, Heap::Major, Heap::External];

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it began, in microseconds.
    pub start: i64,
    /// How it was sampled.
    pub sampling: WordSampling,
    /// What location codes stand for.
    pub codes: Codes,
    /// What is wrong with it.
    pub damage: DamageList,
    /// What was lost.
    pub lost: LostIds,
    /// True when locations were found that did not fit into their records.
    pub has_spills: bool,
    /// Where the first packet lies whose locations are guesses.
    pub first_guess: Option<u64>,
    /// Events that came too late to be put in order, and got the latest time given out.
    pub repaired_times: u64,
    /// How often the clock was set back, as each domain saw it.
    pub clock_steps: u64,
    /// By how much in all, in microseconds.
    pub clock_step_us: u64,
    /// Events that were given out.
    pub events: u64,
    /// The latest time given out, in microseconds.
    pub end: i64,
    /// How many bytes have arrived.
    pub bytes: u64,
    stacks: KnownStacks,
    tags: [TagId; 3],
    /// By place: one more than the length that is there, and its weight.
    weights: Vec<(u64, Weight)>,
    effort_spent: u64,
}

impl Trace {
    /// A trace that begins.
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

    /// A time since the start.
    #[inline]
    pub fn since_start(&self, time: i64) -> Nanos {
        Nanos((time.saturating_sub(self.start).max(0) as u64).saturating_mul(1000))
    }

    /// The tag of a heap, by the number that a trace gives it.
    #[inline]
    pub fn tag(&self, heap: u8) -> Option<TagId> {
        self.tags.get(usize::from(heap)).copied()
    }

    /// The tag of what was promoted.
    #[inline]
    pub fn promoted(&self) -> TagId {
        self.tags[1]
    }

    /// What an object of so many words stands for that was hit by so many samples.
    #[inline]
    pub fn weight(&mut self, words: u64, samples: u32) -> Weight {
        // Lengths that lie far apart seldom share a place.
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

    /// How many nodes stacks may have by now.
    pub fn most_nodes(&self) -> usize {
        usize::try_from(LEAST_NODES.saturating_add(self.bytes.saturating_mul(NODES_PER_BYTE))).unwrap_or(usize::MAX)
    }

    /// The effort that may be made now, given to `spend`, which leaves what it did not use.
    pub fn with_effort<T>(&mut self, spend: impl FnOnce(&mut Self, &mut u64) -> T) -> T {
        let allowed = LEAST_EFFORT.saturating_add(self.bytes / BYTES_PER_EFFORT).saturating_sub(self.effort_spent);
        let mut left = allowed;
        let result = spend(self, &mut left);
        self.effort_spent += allowed - left;
        result
    }

    /// What backtraces need.
    pub fn names<'a>(&'a mut self, catalog: &'a mut Catalog) -> Names<'a> {
        let most_nodes = self.most_nodes();
        Names { codes: &mut self.codes, stacks: &mut self.stacks, catalog, most_nodes }
    }
}
