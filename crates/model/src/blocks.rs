//! The storage of live blocks.
//!
//! Finding and touching a block is a large part of the cost of an event, so blocks are stored compactly. Nearly all recordings are exact: all their
//! blocks have the weight 1. Weights are therefore kept in a separate list, which stays empty until a weight differs from 1.

use crate::byte_sum::ByteSum;
use crate::heap::usable_of_size;
use crate::ids::{AllocId, Nanos, StackId, TagId};
use crate::weight::Weight;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its identity.
    pub id: AllocId,
    /// The address under which it was recorded. [`Snapshot::address_of`](crate::Snapshot::address_of) gives its true address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was first allocated.
    pub time: Nanos,
    /// Index of its owner in [`Accounts::threads`](crate::Accounts::threads).
    pub thread: u32,
    /// The site that asked for it, or last resized it.
    pub stack: StackId,
    /// Its variable, type and heap.
    pub tag: TagId,
    /// Usable bytes beyond those that [`usable_of_size`](crate::usable_of_size) expects; also 0 if not known.
    pub surplus: i32,
    /// The blocks and bytes that it stands for.
    pub weight: Weight,
}

impl Block {
    /// The bytes it counts as: its size, or an estimate of all that it stands for.
    pub fn live_bytes(&self) -> u64 {
        self.weight.bytes(self.size)
    }

    /// The bytes it counts as, unrounded, for use in sums.
    pub fn live_amount(&self) -> ByteSum {
        self.weight.amount(self.size)
    }

    /// How many of its own bytes are usable.
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
pub(crate) struct UnweightedBlock {
    pub id: AllocId,
    pub address: u64,
    pub size: u64,
    pub time: Nanos,
    pub thread: u32,
    pub stack: StackId,
    pub tag: TagId,
    pub surplus: i32,
}

impl UnweightedBlock {
    pub fn with_weight(self, weight: Weight) -> Block {
        let Self { id, address, size, time, thread, stack, tag, surplus } = self;
        Block { id, address, size, time, thread, stack, tag, surplus, weight }
    }
}

/// The part of a block that a free needs: half of a cache line.
#[derive(Clone, Copy, Debug)]
struct Hot {
    id: AllocId,
    size: u64,
    thread: u32,
    stack: StackId,
    tag: TagId,
    surplus: i32,
}

/// The rest of a block: written at its birth, read only by code that looks at single blocks.
#[derive(Clone, Copy, Debug)]
struct Cold {
    address: u64,
    time: Nanos,
}

const DEAD: AllocId = AllocId(u64::MAX);
const NO_HOT: Hot = Hot { id: DEAD, size: 0, thread: 0, stack: StackId::UNKNOWN, tag: TagId::NONE, surplus: 0 };
const NO_COLD: Cold = Cold { address: 0, time: Nanos(0) };

/// A list of live blocks. It may have gaps, which are not visible from outside.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// Weights by place, up to the last one that was ever set; empty if all are 1. The weight of a gap is 1.
    weights: Vec<Weight>,
    gaps: Vec<u32>,
}

impl Blocks {
    /// Appends a block.
    pub fn push(&mut self, block: Block) {
        let Block { id, address, size, time, thread, stack, tag, surplus, weight } = block;
        let place = self.add_place();
        self.put(place, UnweightedBlock { id, address, size, time, thread, stack, tag, surplus });
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

    /// All blocks, in no particular order unless the list was ordered.
    pub fn iter(&self) -> impl Iterator<Item = Block> {
        self.places().map(|(place, block)| block.with_weight(self.weight(place)))
    }

    /// All blocks, ordered by number. They are not copied: there may be millions, and fresh memory for them is expensive.
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

    /// A copy without gaps, ordered by number.
    pub fn in_order(&self) -> Self {
        let mut ordered = Self::default();
        ordered.hot.reserve_exact(self.len());
        ordered.cold.reserve_exact(self.len());
        self.by_number().for_each(|block| ordered.push(block));
        ordered
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, UnweightedBlock)> {
        let live = (0..).zip(&self.hot).filter(|(_, hot)| hot.id != DEAD);
        live.map(|(place, _)| (place, self.at(place)))
    }

    #[inline(always)]
    pub(crate) fn at(&self, place: u32) -> UnweightedBlock {
        let Hot { id, size, thread, stack, tag, surplus } = self.hot[place as usize];
        let Cold { address, time } = self.cold[place as usize];
        UnweightedBlock { id, address, size, time, thread, stack, tag, surplus }
    }

    /// A place for a block that is about to be stored.
    #[inline(always)]
    pub(crate) fn next_place(&mut self) -> u32 {
        self.gaps.pop().unwrap_or_else(|| self.add_place())
    }

    #[inline(always)]
    fn add_place(&mut self) -> u32 {
        self.hot.push(NO_HOT);
        self.cold.push(NO_COLD);
        self.hot.len() as u32 - 1
    }

    /// Stores a block at a place that was reserved for it, or that it already has. The weight of the place does not change: it is 1 at a new place.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: u32, block: UnweightedBlock) {
        let UnweightedBlock { id, address, size, time, thread, stack, tag, surplus } = block;
        self.hot[place as usize] = Hot { id, size, thread, stack, tag, surplus };
        self.cold[place as usize] = Cold { address, time };
    }

    /// Removes a block. Its weight must be 1.
    #[inline(always)]
    pub(crate) fn take(&mut self, place: u32) -> UnweightedBlock {
        let block = self.at(place);
        self.hot[place as usize].id = DEAD;
        self.gaps.push(place);
        block
    }

    /// Whether all blocks have the weight 1.
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
    /// Compares blocks and their order. Gaps make no difference.
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

    fn blank(id: u64) -> UnweightedBlock {
        UnweightedBlock {
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
