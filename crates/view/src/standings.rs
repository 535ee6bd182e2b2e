//! Figures between blocks of events, as many as a memory's worth: where there are too many, every second goes.

use highwater_model::Nanos;
use highwater_store::{EventsSummary, Standing};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of them that are kept.
const MOST_BYTES: usize = 64 << 20;

/// By the place of the block of events that follows.
#[derive(Debug, Default)]
pub struct Standings {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    /// One is kept in each so many events, a power of two.
    spacing: u64,
    by_block: BTreeMap<usize, Arc<Standing>>,
}

impl Kept {
    /// True for the first block of events behind a multiple of the spacing.
    fn has_place(&self, blocks: &[EventsSummary], block: usize) -> bool {
        let lot = |block: usize| blocks.get(block).map(|summary| summary.first_event / self.spacing.max(1));
        block == 0 || lot(block) != lot(block - 1)
    }
}

impl Standings {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one before this block is wanted.
    pub fn wants(&self, blocks: &[EventsSummary], block: usize) -> bool {
        self.kept().has_place(blocks, block)
    }

    /// Keeps one.
    pub fn put(&self, blocks: &[EventsSummary], block: usize, standing: Standing) {
        let mut kept = self.kept();
        kept.bytes += standing.bytes();
        kept.by_block.insert(block, Arc::new(standing));
        while kept.bytes > MOST_BYTES && kept.by_block.len() > 1 {
            kept.spacing = (kept.spacing * 2).max(1 << 16);
            let all = std::mem::take(&mut kept.by_block);
            kept.by_block = all.into_iter().filter(|(block, _)| kept.has_place(blocks, *block)).collect();
            kept.bytes = kept.by_block.values().map(|standing| standing.bytes()).sum();
        }
    }

    /// The latest before a block, or before an earlier one, that `reached` accepts by its events and its time.
    pub fn latest(&self, block: usize, reached: impl Fn(u64, Nanos) -> bool) -> Option<(usize, Arc<Standing>)> {
        let kept = self.kept();
        let mut earlier = kept.by_block.range(..=block).rev();
        earlier.find(|(_, kept)| reached(kept.events, kept.time)).map(|(block, kept)| (*block, Arc::clone(kept)))
    }
}
