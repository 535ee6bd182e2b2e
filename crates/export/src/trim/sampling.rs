//! A sample of the blocks of a recording, with whole lives and with weights that keep sums right on average.
//!
//! The sample is one that the recorder could have taken. Each byte has the same chance to be a sample, and a block is kept if one of its bytes is: the
//! rate is the one at which about the wanted share of allocations is kept. A block that is resized counts with its largest size, since one decision
//! holds for its life. A recording that was sampled before is thinned to the lower rate. Where samples of words were counted, as in OCaml's traces,
//! each sample is kept with the same chance.

use super::names::NameKey;
use highwater_model::{
    Accounts, AllocId, NumberLedger, Op, Placement, SampleSpacing, Source, StackId, Step, ThreadId, Weight,
    WordSampling, grouped,
};
use highwater_store::{Recording, WalkItem};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::ops::ControlFlow;

/// A share of a whole: above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// `None` unless it is above 0 and below 1.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self(share))
    }
}

/// How blocks are chosen.
#[derive(Clone, Copy, Debug)]
enum Method {
    /// One byte in this number is a sample. Before, it was one in `before`.
    Bytes { rate: u64, before: Option<u64> },
    /// Each sample is kept with this chance; words are then sampled like this.
    Words { chance: f64, sampling: WordSampling },
}

/// A block of the sample.
#[derive(Clone, Copy)]
struct Kept {
    id: AllocId,
    /// The chance with which it was kept.
    chance: f64,
}

/// Chooses blocks, and gives those that are chosen new numbers.
pub(super) struct BlockSampler {
    method: Method,
    seed: u64,
    /// The largest sizes of blocks that are resized.
    largest: FxHashMap<AllocId, u64>,
    kept: FxHashMap<AllocId, Kept>,
    next: u64,
    late_births: bool,
}

/// Counts of allocations by size: sixteen classes for each power of two.
struct Sizes(Vec<u64>);

const CLASSES: u32 = 16;

impl Sizes {
    fn class(size: u64) -> usize {
        let size = size.max(1);
        let power = size.ilog2();
        let part = if power >= 4 { (size >> (power - 4)) & 15 } else { (size << (4 - power)) & 15 };
        (power * CLASSES + part as u32) as usize
    }

    /// The middle of a class.
    fn size_of(class: usize) -> f64 {
        let (power, part) = (class as u32 / CLASSES, class as u32 % CLASSES);
        2f64.powi(power as i32) * (1.0 + (f64::from(part) + if power >= 5 { 0.5 } else { 0.0 }) / f64::from(CLASSES))
    }

    fn add(&mut self, size: u64) {
        self.0[Self::class(size)] += 1;
    }

    /// A block has become larger.
    fn move_up(&mut self, from: u64, to: u64) {
        let count = &mut self.0[Self::class(from)];
        *count = count.saturating_sub(1);
        self.add(to);
    }

    /// How many allocations are kept, on average, with a rate.
    fn kept(&self, rate: f64, before: Option<u64>) -> f64 {
        let of_class = |(class, count): (usize, &u64)| *count as f64 * chance(Self::size_of(class), rate, before);
        self.0.iter().enumerate().filter(|(_, count)| **count > 0).map(of_class).sum()
    }
}

/// The chance that a byte of a block is a sample.
fn chance_of_size(size: f64, rate: f64) -> f64 {
    -(-size.max(1.0) / rate).exp_m1()
}

/// The chance that a block is kept. If it was a sample before, that had a chance already.
fn chance(size: f64, rate: f64, before: Option<u64>) -> f64 {
    let had = before.map_or(1.0, |before| chance_of_size(size, before as f64));
    (chance_of_size(size, rate) / had).min(1.0)
}

impl BlockSampler {
    /// Reads the recording once to find the rate.
    pub(super) fn new(recording: &Recording, share: Share, key: &NameKey) -> io::Result<Self> {
        let (source, Share(share)) = (recording.source(), share);
        let mut sampler = Self {
            method: Method::Bytes { rate: 1, before: source.sample_rate },
            seed: key.hash("sample", ""),
            largest: FxHashMap::default(),
            kept: FxHashMap::default(),
            next: 0,
            late_births: false,
        };
        if let Some(words) = source.word_sampling
            && let Some(sampling) = WordSampling::new(words.rate() * share, words.word_bytes())
        {
            sampler.method = Method::Words { chance: share, sampling };
            return Ok(sampler);
        }
        let sizes = sampler.sizes(recording)?;
        let all: u64 = sizes.0.iter().sum();
        let (mut low, mut high) = (source.sample_rate.unwrap_or(1) as f64, 1e18);
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if sizes.kept(middle, source.sample_rate) > share * all as f64 { low = middle } else { high = middle }
        }
        let rate = (high.round() as u64).max(source.sample_rate.unwrap_or(1)).max(1);
        sampler.method = Method::Bytes { rate, before: source.sample_rate };
        Ok(sampler)
    }

    /// The sizes of all blocks: of those that are resized, the largest.
    fn sizes(&mut self, recording: &Recording) -> io::Result<Sizes> {
        let mut sizes = Sizes(vec![0; (64 * CLASSES) as usize]);
        recording.walk(|seen| {
            match seen {
                WalkItem::Step(_, Step { op: Op::Allocate(place), .. }) => sizes.add(place.size),
                WalkItem::Step(ledger, Step { op: Op::Reallocate { id, size, .. }, .. }) => {
                    let was = ledger.find(*id).map_or(0, |block| block.size);
                    let largest = self.largest.entry(*id).or_insert(was);
                    if size > largest {
                        sizes.move_up(*largest, *size);
                        *largest = *size;
                    }
                }
                WalkItem::Stored(ledger) => ledger.accounts().blocks().for_each(|block| sizes.add(block.size)),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(sizes)
    }

    /// The source of the sample.
    pub(super) fn source(&self, source: &Source) -> Source {
        let mut source = source.clone();
        match self.method {
            Method::Bytes { rate, .. } => source.sample_rate = Some(rate),
            Method::Words { sampling, .. } => {
                source.word_sampling = Some(sampling);
                source.sample_rate = source.sample_rate.map(|_| (sampling.bytes_per_sample().round() as u64).max(1));
            }
        }
        source
    }

    pub(super) fn in_words(&self) -> String {
        match self.method {
            Method::Bytes { rate, .. } => format!("one in {} bytes is a sample", grouped(rate)),
            Method::Words { sampling, .. } => {
                let bytes = sampling.bytes_per_sample().round() as u64;
                format!("one word in {} bytes is a sample", grouped(bytes))
            }
        }
    }

    pub(super) fn has_late_births(&self) -> bool {
        self.late_births
    }

    /// A number from 0 to 1 for a block, always the same. `round` makes several of them.
    fn draw(&self, id: AllocId, round: u64) -> f64 {
        // SplitMix64: every input bit changes every output bit.
        let mut mixed =
            self.seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The samples of a block that are kept, of those that were counted.
    fn thinned(&self, id: AllocId, samples: u32, share: f64) -> u32 {
        /// Beyond this number of samples, the number that is kept is taken from the normal distribution.
        const FEW: u32 = 10_000;
        if samples <= FEW {
            return (0..u64::from(samples)).filter(|round| self.draw(id, *round) < share).count() as u32;
        }
        let mean = f64::from(samples) * share;
        let deviation = (mean * (1.0 - share)).sqrt();
        // The sum of twelve numbers from 0 to 1, less six, is close to a normal distribution.
        let normal: f64 = (0..12).map(|round| self.draw(id, round)).sum::<f64>() - 6.0;
        (mean + normal * deviation).round().clamp(0.0, f64::from(samples)) as u32
    }

    /// Decides on a new block. Returns its placement in the sample.
    fn choose(&mut self, id: AllocId, place: Placement) -> Option<Placement> {
        match (self.method, place.weight.counted()) {
            (Method::Words { chance, sampling }, Some((samples, _))) => {
                let samples = self.thinned(id, samples, chance);
                if samples == 0 {
                    return None;
                }
                self.keep(id, chance);
                let words = place.size / u64::from(sampling.word_bytes());
                Some(Placement { weight: sampling.weight(words, samples), ..place })
            }
            (method, _) => {
                let chance = match method {
                    Method::Bytes { rate, before } => {
                        let largest = self.largest.get(&id).copied().unwrap_or(0).max(place.size);
                        chance(largest as f64, rate as f64, before)
                    }
                    Method::Words { chance, .. } => chance,
                };
                if self.draw(id, 0) >= chance {
                    return None;
                }
                self.keep(id, chance);
                Some(Placement { weight: scaled(place.weight, chance), ..place })
            }
        }
    }

    fn keep(&mut self, id: AllocId, chance: f64) {
        self.kept.insert(id, Kept { id: AllocId(self.next), chance });
        self.next += 1;
    }

    /// The step of the sample for a step of the recording; `ledger` is the state before it.
    pub(super) fn step(&mut self, ledger: &NumberLedger, step: &Step) -> Option<Step> {
        let op = match step.op {
            Op::Allocate(place) => Op::Allocate(self.choose(ledger.accounts().next_id(), place)?),
            Op::Free { id, stack } => Op::Free { id: self.kept.remove(&id)?.id, stack },
            Op::Evict { id } => Op::Evict { id: self.kept.remove(&id)?.id },
            Op::Promote { id, tag } => Op::Promote { id: self.kept.get(&id)?.id, tag },
            Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } => {
                let kept = *self.kept.get(&id)?;
                let weight = scaled(weight, kept.chance);
                Op::Reallocate { id: kept.id, moved_to, size, stack, tag, surplus, weight }
            }
            other => other,
        };
        Some(Step { op, ..*step })
    }

    /// The steps that lead to a state which the events before do not lead to.
    pub(super) fn catch_up(&mut self, accounts: &Accounts) -> Vec<Step> {
        let state = accounts.to_state();
        let (time, live) = (state.last_time, state.blocks.iter().map(|block| block.id).collect::<FxHashSet<_>>());
        let mut gone: Vec<AllocId> = self.kept.keys().copied().filter(|id| !live.contains(id)).collect();
        gone.sort_unstable();
        let mut steps = Vec::new();
        for id in gone {
            let kept = self.kept.remove(&id).map(|kept| Op::Free { id: kept.id, stack: StackId::UNKNOWN });
            steps.extend(kept.map(|op| Step { time, thread: ThreadId(0), op }));
        }
        for block in state.blocks.iter() {
            if self.kept.contains_key(&block.id) {
                continue;
            }
            let place = Placement {
                address: block.address,
                size: block.size,
                stack: block.stack,
                tag: block.tag,
                surplus: block.surplus,
                weight: block.weight,
            };
            let thread = state.threads.get(block.thread as usize).map_or(ThreadId(0), |account| account.id);
            if let Some(place) = self.choose(block.id, place) {
                self.late_births = true;
                steps.push(Step { time, thread, op: Op::Allocate(place) });
            }
        }
        steps
    }
}

/// A weight for a block that was kept with a chance.
fn scaled(weight: Weight, chance: f64) -> Weight {
    let blocks = Weight::new(weight.value() / chance);
    match weight.counted() {
        Some((samples, spacing)) => blocks.of_samples(samples, SampleSpacing::new(spacing.bytes() / chance)),
        None => blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_close_to_their_sizes() {
        let mut last = 0;
        for size in (1..4096).chain((12..63).map(|power| (1u64 << power) + 12_345 % (1 << power))) {
            let class = Sizes::class(size);
            assert!(class >= last, "{size}");
            last = class;
            let middle = Sizes::size_of(class);
            assert!((middle - size as f64).abs() <= size as f64 / 16.0, "{size} {middle}");
        }
    }

    #[test]
    fn draws_are_even() {
        let recording_key = NameKey::of_text(b"key");
        let sampler = BlockSampler {
            method: Method::Bytes { rate: 1, before: None },
            seed: recording_key.hash("sample", ""),
            largest: FxHashMap::default(),
            kept: FxHashMap::default(),
            next: 0,
            late_births: false,
        };
        let below = (0..100_000).filter(|id| sampler.draw(AllocId(*id), 0) < 0.1).count();
        assert!((9_500..10_500).contains(&below), "{below}");
        let thinned: u32 = (0..1000).map(|id| sampler.thinned(AllocId(id), 100, 0.1)).sum();
        assert!((9_500..10_500).contains(&thinned), "{thinned}");
        let many: u64 = (0..1000).map(|id| u64::from(sampler.thinned(AllocId(id), 1_000_000, 0.1))).sum();
        assert!((99_900_000..100_100_000).contains(&many), "{many}");
    }
}
