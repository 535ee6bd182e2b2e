//! Figures before blocks of events, limited in memory: if they take too many bytes, every second one is dropped.

use crate::{EventsSummary, FigureCheckpoint};
use highwater_model::Nanos;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most that are made: making one takes time proportional to the number of sites.
const MOST: u64 = 4096;

/// Stored figures, by the index of the block of events that follows.
#[derive(Debug)]
pub struct FigureCheckpoints {
    most_bytes: usize,
    kept: Mutex<KeptFigures>,
}

#[derive(Debug)]
struct KeptFigures {
    bytes: usize,
    /// One is kept for each `spacing` events. A power of two.
    spacing: u64,
    by_block: BTreeMap<usize, Arc<FigureCheckpoint>>,
}

impl KeptFigures {
    /// True for the first block of events that begins at or after a multiple of the spacing.
    fn has_place(&self, blocks: &[EventsSummary], block: usize) -> bool {
        let lot = |block: usize| blocks.get(block).map(|summary| summary.first_event / self.spacing);
        block == 0 || lot(block) != lot(block - 1)
    }
}

impl FigureCheckpoints {
    /// Empty, for a recording with this number of events; keeps at most `most_bytes`.
    pub fn new(events: u64, most_bytes: usize) -> Self {
        let spacing = (events / MOST).next_power_of_two();
        Self { most_bytes, kept: Mutex::new(KeptFigures { bytes: 0, spacing, by_block: BTreeMap::new() }) }
    }

    fn kept(&self) -> MutexGuard<'_, KeptFigures> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.kept().bytes
    }

    /// Whether figures before this block should be stored.
    pub fn wants(&self, blocks: &[EventsSummary], block: usize) -> bool {
        self.kept().has_place(blocks, block)
    }

    /// Stores figures before a block.
    pub fn put(&self, blocks: &[EventsSummary], block: usize, checkpoint: FigureCheckpoint) {
        let mut kept = self.kept();
        kept.bytes += checkpoint.bytes();
        kept.by_block.insert(block, Arc::new(checkpoint));
        while kept.bytes > self.most_bytes && kept.by_block.len() > 1 {
            kept.spacing *= 2;
            let all = std::mem::take(&mut kept.by_block);
            kept.by_block = all.into_iter().filter(|(block, _)| kept.has_place(blocks, *block)).collect();
            kept.bytes = kept.by_block.values().map(|checkpoint| checkpoint.bytes()).sum();
        }
    }

    /// The latest figures before `block` or an earlier block whose number of events and time `reached` accepts.
    pub fn latest(&self, block: usize, reached: impl Fn(u64, Nanos) -> bool) -> Option<(usize, Arc<FigureCheckpoint>)> {
        let kept = self.kept();
        let mut earlier = kept.by_block.range(..=block).rev();
        earlier.find(|(_, kept)| reached(kept.events, kept.time)).map(|(block, kept)| (*block, Arc::clone(kept)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::Accounts;

    #[test]
    fn the_memory_is_kept_to_and_the_rest_lies_evenly() {
        let blocks: Vec<EventsSummary> =
            (0..1000).map(|at| EventsSummary { first_event: at * 10, ..EventsSummary::default() }).collect();
        let bytes = FigureCheckpoint::of(&Accounts::default()).unwrap().bytes();
        let figure_checkpoints = FigureCheckpoints::new(10_000, 100 * bytes);
        for block in (0..1000).filter(|block| figure_checkpoints.wants(&blocks, *block)) {
            figure_checkpoints.put(&blocks, block, FigureCheckpoint::of(&Accounts::default()).unwrap());
        }
        let kept = figure_checkpoints.kept();
        assert!((50..=100).contains(&kept.by_block.len()), "{} kept", kept.by_block.len());
        assert_eq!(kept.by_block.first_key_value().map(|(block, _)| *block), Some(0));
        let places: Vec<usize> = kept.by_block.keys().copied().collect();
        let widest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap() as u64 * 10;
        assert!(widest < kept.spacing * 2, "{widest} {}", kept.spacing);
    }
}
