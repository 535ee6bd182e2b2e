//! Selects the samples of a profile.
//!
//! Figures of freed blocks are known only per site, but live blocks are known one by one. So each site gives
//!
//! * one sample for each (thread, size, task) of its live blocks, labelled with all of them, as Go labels a heap profile's `bytes`;
//! * one without labels for the bytes that it allocated and no longer holds.
//!
//! With one sample per block, each block is a sample of its own, labelled with its address and its time of birth as well.
//!
//! If only figures are known, the live bytes of a site are also one sample without labels.
//!
//! A site never has more live blocks than it allocated (law 1), so no sample is negative, and the sum of all is the site's.

use highwater_model::groups::{Keep, sites};
use highwater_model::{Block, Snapshot, StackId, StringId};
use std::collections::BTreeMap;

/// A sample of the profile: blocks that are alike.
#[derive(Debug)]
pub(super) struct PprofSample {
    pub(super) stack: StackId,
    pub(super) objects: u64,
    pub(super) space: u64,
    pub(super) is_live: bool,
    /// Present for samples of single blocks.
    pub(super) labels: Option<Labels>,
}

#[derive(Debug)]
pub(super) struct Labels {
    /// Index in the accounts' threads.
    pub(super) thread: u32,
    pub(super) block_size: u64,
    /// The task that the blocks belong to.
    pub(super) task: StringId,
    /// The block itself, if the sample is of one block.
    pub(super) block: Option<Block>,
}

impl PprofSample {
    /// The values in the order of the sample types.
    pub(super) fn values(&self) -> [u64; 4] {
        let in_use = u64::from(self.is_live);
        [self.objects, self.space, self.objects * in_use, self.space * in_use]
    }
}

struct NoLongerLive {
    objects: u64,
    space: u64,
}

impl NoLongerLive {
    /// Subtracts live objects and bytes.
    fn subtract(&mut self, objects: u64, space: u64) {
        self.objects = self.objects.saturating_sub(objects);
        self.space = self.space.saturating_sub(space);
    }
}

/// What each site allocated and no longer holds.
type NoLongerLiveBySite = BTreeMap<StackId, NoLongerLive>;

pub(super) fn samples(snapshot: &Snapshot, keep: Keep<'_>, per_block: bool) -> Vec<PprofSample> {
    let mut rest: NoLongerLiveBySite = sites(snapshot, keep)
        .map(|(stack, figures)| {
            let objects = figures.allocations + figures.reallocations;
            (stack, NoLongerLive { objects, space: figures.allocated_bytes })
        })
        .collect();
    let mut samples = match snapshot.source.aggregated {
        true => live_sites(snapshot, &mut rest),
        false => live_blocks(snapshot, per_block, &mut rest),
    };
    for (stack, NoLongerLive { objects, space }) in rest {
        if objects != 0 || space != 0 {
            samples.push(PprofSample { stack, objects, space, is_live: false, labels: None });
        }
    }
    samples
}

fn live_blocks(snapshot: &Snapshot, per_block: bool, rest: &mut NoLongerLiveBySite) -> Vec<PprofSample> {
    let mut blocks: Vec<Block> = snapshot.accounts.blocks().collect();
    let task = |block: &Block| snapshot.catalog.tag(block.tag).task;
    let likeness = |block: &Block| (block.stack, block.thread, block.size, task(block));
    blocks.sort_unstable_by_key(|block| (likeness(block), block.id));

    let mut samples = Vec::new();
    for alike in blocks.chunk_by(|a, b| !per_block && likeness(a) == likeness(b)) {
        let (stack, thread, block_size, task) = likeness(&alike[0]);
        // The stack is not selected.
        let Some(rest) = rest.get_mut(&stack) else { continue };
        // A sampled block counts with the number of blocks that it stands for.
        let objects = alike.iter().map(Block::live_blocks).sum();
        let space = alike.iter().map(Block::live_bytes).fold(0, u64::saturating_add);
        rest.subtract(objects, space);
        let block = per_block.then_some(alike[0]);
        let labels = Some(Labels { thread, block_size, task, block });
        samples.push(PprofSample { stack, objects, space, is_live: true, labels });
    }
    samples
}

fn live_sites(snapshot: &Snapshot, rest: &mut NoLongerLiveBySite) -> Vec<PprofSample> {
    let mut samples = Vec::new();
    for (&stack, rest) in rest {
        let Some(figures) = snapshot.accounts.sites().get(stack) else { continue };
        let (objects, space) = (figures.live_blocks(), figures.live_bytes());
        if objects != 0 || space != 0 {
            rest.subtract(objects, space);
            samples.push(PprofSample { stack, objects, space, is_live: true, labels: None });
        }
    }
    samples
}
