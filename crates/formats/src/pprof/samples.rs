//! Which samples a profile has.
//!
//! The figures of what once lived are known per site only, but live blocks are known one by one. So each site gives
//!
//! * one sample for each (thread, size) of its live blocks, labelled with both, as Go labels a heap profile's `bytes`;
//! * one without labels for what it allocated and no longer holds.
//!
//! A site never has more live blocks than it was given (law 1), so no sample is negative and all sum to the site.

use highwater_model::groups::{Keep, sites};
use highwater_model::{Block, Snapshot, StackId};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) stack: StackId,
    pub(super) objects: u64,
    pub(super) space: u64,
    /// There when the objects are live.
    pub(super) live: Option<LiveBlocks>,
}

#[derive(Debug)]
pub(super) struct LiveBlocks {
    /// Index in the accounts' threads.
    pub(super) thread: u32,
    pub(super) block_size: u64,
}

impl Sample {
    /// In the order of the sample types.
    pub(super) fn values(&self) -> [u64; 4] {
        let in_use = u64::from(self.live.is_some());
        [self.objects, self.space, self.objects * in_use, self.space * in_use]
    }
}

struct NoLongerLive {
    objects: u64,
    space: u64,
}

pub(super) fn samples(snapshot: &Snapshot, keep: Keep<'_>) -> Vec<Sample> {
    let mut rest: BTreeMap<StackId, NoLongerLive> = sites(snapshot, keep)
        .map(|(stack, figures)| {
            let objects = figures.allocations + figures.reallocations;
            (stack, NoLongerLive { objects, space: figures.allocated_bytes })
        })
        .collect();
    let mut blocks: Vec<Block> = snapshot.accounts.blocks().collect();
    let likeness = |block: &Block| (block.stack, block.thread, block.size);
    blocks.sort_unstable_by_key(|block| (likeness(block), block.id));

    let mut samples = Vec::new();
    for alike in blocks.chunk_by(|a, b| likeness(a) == likeness(b)) {
        let (stack, thread, block_size) = likeness(&alike[0]);
        // Not wanted.
        let Some(rest) = rest.get_mut(&stack) else { continue };
        // Of samples, what they stand for.
        let objects = alike.iter().map(Block::live_blocks).sum();
        let space = alike.iter().map(Block::live_bytes).fold(0, u64::saturating_add);
        rest.objects = rest.objects.saturating_sub(objects);
        rest.space = rest.space.saturating_sub(space);
        samples.push(Sample { stack, objects, space, live: Some(LiveBlocks { thread, block_size }) });
    }
    for (stack, NoLongerLive { objects, space }) in rest {
        if objects != 0 || space != 0 {
            samples.push(Sample { stack, objects, space, live: None });
        }
    }
    samples
}
