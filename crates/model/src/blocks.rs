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

const DEAD: AllocId = AllocId(u64::MAX);
const NOBODY: Kept = Kept {
    id: DEAD,
    address: 0,
    size: 0,
    time: Nanos(0),
    thread: 0,
    stack: StackId::UNKNOWN,
    tag: TagId::NONE,
    surplus: 0,
};

impl Kept {
    pub fn with_weight(self, weight: Weight) -> Block {
        let Self { id, address, size, time, thread, stack, tag, surplus } = self;
        Block { id, address, size, time, thread, stack, tag, surplus, weight }
    }
}

/// A list of live blocks. It may have gaps, which are not seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    kept: Vec<Kept>,
    /// By place, as far as any weight was ever set: empty where all are 1. That of a gap is 1.
    weights: Vec<Weight>,
    gaps: Vec<u32>,
}

impl Blocks {
    /// Appends a block.
    pub fn push(&mut self, block: Block) {
        let Block { id, address, size, time, thread, stack, tag, surplus, weight } = block;
        self.kept.push(Kept { id, address, size, time, thread, stack, tag, surplus });
        self.set_weight(self.kept.len() as u32 - 1, weight);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len() - self.gaps.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block that was appended last.
    pub fn last(&self) -> Option<Block> {
        self.kept.last().map(|kept| kept.with_weight(self.weight(self.kept.len() as u32 - 1)))
    }

    /// All blocks, in no particular order unless it was made.
    pub fn iter(&self) -> impl Iterator<Item = Block> {
        self.places().map(|(place, kept)| kept.with_weight(self.weight(place)))
    }

    /// The same, ordered by number and without gaps.
    pub fn in_order(&self) -> Self {
        let mut places: Vec<(AllocId, u32)> = self.places().map(|(place, kept)| (kept.id, place)).collect();
        places.sort_unstable();
        let kept = places.iter().map(|(_, place)| self.kept[*place as usize]).collect();
        let weights = match self.weights.is_empty() {
            true => Vec::new(),
            false => places.iter().map(|(_, place)| self.weight(*place)).collect(),
        };
        Self { kept, weights, gaps: Vec::new() }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, &Kept)> {
        (0..).zip(&self.kept).filter(|(_, kept)| kept.id != DEAD)
    }

    #[inline]
    pub(crate) fn at(&self, place: u32) -> &Kept {
        &self.kept[place as usize]
    }

    /// A place for a block that is about to be put.
    #[inline]
    pub(crate) fn next_place(&mut self) -> u32 {
        self.gaps.pop().unwrap_or_else(|| {
            self.kept.push(NOBODY);
            self.kept.len() as u32 - 1
        })
    }

    /// Puts a block at a place that was given out for it, or where it is already; its weight is as it was: 1 at a new place.
    #[inline]
    pub(crate) fn put(&mut self, place: u32, kept: Kept) {
        self.kept[place as usize] = kept;
    }

    /// Takes a block out; its weight must be 1.
    #[inline]
    pub(crate) fn take(&mut self, place: u32) -> Kept {
        let kept = self.kept[place as usize];
        self.kept[place as usize].id = DEAD;
        self.gaps.push(place);
        kept
    }

    #[inline]
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
        assert_eq!(size_of::<Kept>(), 48);
    }

    #[test]
    fn weights_go_with_their_blocks() {
        let block = |id, weight| NOBODY.with_weight(weight).numbered(id);
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
        blocks.put(place, Kept { id: AllocId(11), ..NOBODY });
        assert_eq!(blocks.in_order().last(), Some(block(11, Weight::ONE)));
    }

    impl Block {
        fn numbered(self, id: u64) -> Self {
            Self { id: AllocId(id), ..self }
        }
    }
}
