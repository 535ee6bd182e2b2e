//! Live blocks, and where they are kept.
//!
//! Finding and touching a block is much of what an event costs, so it shall be small. Nearly all recordings are exact; their blocks
//! all have the weight 1. So weights are kept aside, and not at all until one is another.

use crate::byte_sum::ByteSum;
use crate::heap::usable_of_size;
use crate::ids::{AllocId, Nanos, StackId, TagId};
use crate::weight::Weight;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its identity.
    pub id: AllocId,
    /// The address under which it was recorded; for where it lies ask [`Snapshot::address_of`](crate::Snapshot::address_of).
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was first allocated.
    pub time: Nanos,
    /// Index of its owner in [`Accounts::threads`](crate::Accounts::threads).
    pub thread: u32,
    /// The site that asked for it, or last resized it.
    pub stack: StackId,
    /// What it is for.
    pub tag: TagId,
    /// Bytes that can be used beyond those that [`usable_of_size`](crate::usable_of_size) expects; 0 as well where not known.
    pub surplus: i32,
    /// What it stands for.
    pub weight: Weight,
}

impl Block {
    /// The bytes it counts as: its size, or an estimate of all that it stands for.
    pub fn live_bytes(&self) -> u64 {
        self.weight.bytes(self.size)
    }

    /// The bytes it counts as, to be added up.
    pub fn live_amount(&self) -> ByteSum {
        self.weight.amount(self.size)
    }

    /// How many of its own bytes can be used.
    pub fn usable_size(&self) -> u64 {
        usable_of_size(self.size).saturating_add_signed(self.surplus.into())
    }

    /// The blocks it counts as.
    pub fn live_blocks(&self) -> u64 {
        self.weight.blocks(self.id)
    }
}

/// A block without its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub id: AllocId,
    pub address: u64,
    pub size: u64,
    pub time: Nanos,
    pub thread: u32,
    pub stack: StackId,
    pub tag: TagId,
    pub surplus: i32,
}

impl Kept {
    pub fn with_weight(self, weight: Weight) -> Block {
        let Self { id, address, size, time, thread, stack, tag, surplus } = self;
        Block { id, address, size, time, thread, stack, tag, surplus, weight }
    }
}

/// What a free needs to know of a block: half of a cache line.
#[derive(Clone, Copy, Debug)]
struct Hot {
    id: AllocId,
    size: u64,
    thread: u32,
    stack: StackId,
    tag: TagId,
    surplus: i32,
}

/// What else there is: written when a block comes, read by who looks at blocks one by one.
#[derive(Clone, Copy, Debug)]
struct Cold {
    address: u64,
    time: Nanos,
}

const DEAD: AllocId = AllocId(u64::MAX);
const NOBODY: Hot = Hot { id: DEAD, size: 0, thread: 0, stack: StackId::UNKNOWN, tag: TagId::NONE, surplus: 0 };
const NOWHERE: Cold = Cold { address: 0, time: Nanos(0) };

/// A list of live blocks. It may have gaps, which are not seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// By place, as far as any weight was ever set: empty where all are 1. That of a gap is 1.
    weights: Vec<Weight>,
    gaps: Vec<u32>,
}

impl Blocks {
    /// Appends a block.
    pub fn push(&mut self, block: Block) {
        let Block { id, address, size, time, thread, stack, tag, surplus, weight } = block;
        let place = self.add_place();
        self.put(place, Kept { id, address, size, time, thread, stack, tag, surplus });
        self.set_weight(place, weight);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hot.len() - self.gaps.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block that was appended last.
    pub fn last(&self) -> Option<Block> {
        let place = (self.hot.len() as u32).checked_sub(1)?;
        Some(self.at(place).with_weight(self.weight(place)))
    }

    /// All blocks, in no particular order unless it was made.
    pub fn iter(&self) -> impl Iterator<Item = Block> {
        self.places().map(|(place, kept)| kept.with_weight(self.weight(place)))
    }

    /// All blocks, ordered by number. They are not copied for it: there may be millions, and fresh memory for them is dear.
    pub fn by_number(&self) -> impl Iterator<Item = Block> {
        let live = || (0..).zip(&self.hot).filter(|(_, hot)| hot.id != DEAD).map(|(place, hot)| (hot.id, place));
        let is_ordered = live().is_sorted();
        let mut places: Vec<(AllocId, u32)> = Vec::new();
        if !is_ordered {
            places.reserve_exact(self.len());
            places.extend(live());
            places.sort_unstable();
        }
        let as_they_lie = live().map(|(_, place)| place).take_while(move |_| is_ordered);
        as_they_lie
            .chain(places.into_iter().map(|(_, place)| place))
            .map(|place| self.at(place).with_weight(self.weight(place)))
    }

    /// The same as a list without gaps.
    pub fn in_order(&self) -> Self {
        let mut ordered = Self::default();
        ordered.hot.reserve_exact(self.len());
        ordered.cold.reserve_exact(self.len());
        self.by_number().for_each(|block| ordered.push(block));
        ordered
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, Kept)> {
        let live = (0..).zip(&self.hot).filter(|(_, hot)| hot.id != DEAD);
        live.map(|(place, _)| (place, self.at(place)))
    }

    #[inline(always)]
    pub(crate) fn at(&self, place: u32) -> Kept {
        let Hot { id, size, thread, stack, tag, surplus } = self.hot[place as usize];
        let Cold { address, time } = self.cold[place as usize];
        Kept { id, address, size, time, thread, stack, tag, surplus }
    }

    /// A place for a block that is about to be put.
    #[inline(always)]
    pub(crate) fn next_place(&mut self) -> u32 {
        self.gaps.pop().unwrap_or_else(|| self.add_place())
    }

    #[inline(always)]
    fn add_place(&mut self) -> u32 {
        self.hot.push(NOBODY);
        self.cold.push(NOWHERE);
        self.hot.len() as u32 - 1
    }

    /// Puts a block at a place that was given out for it, or where it is already; its weight is as it was: 1 at a new place.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: u32, kept: Kept) {
        let Kept { id, address, size, time, thread, stack, tag, surplus } = kept;
        self.hot[place as usize] = Hot { id, size, thread, stack, tag, surplus };
        self.cold[place as usize] = Cold { address, time };
    }

    /// Takes a block out; its weight must be 1.
    #[inline(always)]
    pub(crate) fn take(&mut self, place: u32) -> Kept {
        let kept = self.at(place);
        self.hot[place as usize].id = DEAD;
        self.gaps.push(place);
        kept
    }

    /// Whether all stand for themselves.
    pub(crate) fn are_exact(&self) -> bool {
        self.weights.is_empty()
    }

    #[inline(always)]
    pub(crate) fn weight(&self, place: u32) -> Weight {
        if self.weights.is_empty() { Weight::ONE } else { self.weight_kept(place) }
    }

    #[inline]
    fn weight_kept(&self, place: u32) -> Weight {
        self.weights.get(place as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn set_weight(&mut self, place: u32, weight: Weight) {
        match self.weights.get_mut(place as usize) {
            Some(kept) => *kept = weight,
            None if weight.is_one() => {}
            None => self.add_weight(place as usize, weight),
        }
    }

    #[cold]
    fn add_weight(&mut self, place: usize, weight: Weight) {
        self.weights.resize(place + 1, Weight::ONE);
        self.weights[place] = weight;
    }
}

impl PartialEq for Blocks {
    /// The same blocks in the same order, wherever the gaps are.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Blocks {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_block_takes_no_more_than_48_bytes() {
        assert_eq!((size_of::<Hot>(), size_of::<Cold>()), (32, 16));
    }

    #[test]
    fn weights_go_with_their_blocks() {
        let block = |id, weight| blank(id).with_weight(weight);
        let mut blocks = Blocks::default();
        for (id, weight) in [(9, Weight::ONE), (3, Weight::new(5.0)), (7, Weight::ONE), (1, Weight::new(2.0))] {
            blocks.push(block(id, weight));
        }
        blocks.take(2);
        let ordered = blocks.in_order();
        let seen: Vec<(u64, f64)> = ordered.iter().map(|block| (block.id.0, block.weight.value())).collect();
        assert_eq!(seen, [(1, 2.0), (3, 5.0), (9, 1.0)]);
        assert_eq!(ordered.last().map(|block| block.id), Some(AllocId(9)));
        assert_eq!((blocks.len(), ordered.len()), (3, 3));
        let place = blocks.next_place();
        assert_eq!(place, 2);
        blocks.put(place, blank(11));
        assert_eq!(blocks.in_order().last(), Some(block(11, Weight::ONE)));
    }

    fn blank(id: u64) -> Kept {
        Kept {
            id: AllocId(id),
            address: 0,
            size: 0,
            time: Nanos(0),
            thread: 0,
            stack: StackId::UNKNOWN,
            tag: TagId::NONE,
            surplus: 0,
        }
    }
}
