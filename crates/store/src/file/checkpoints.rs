//! Checkpoints that replays keep in memory, so that later replays are shorter.
//!
//! The keyframes of a file are as far apart as its size allows. A caller that looks at many instants of one recording may spend some memory instead:
//! each replay then keeps a checkpoint, encoded like a keyframe, wherever none is near, until the memory is used up.

use super::column::ColumnPacker;
use super::handles::Handles;
use super::keyframe;
use super::live_blocks::{self, LiveEncoder, MOST_LIVE};
use highwater_model::{Accounts, AccountsState, Nanos};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// All checkpoints, by the index of the entry that follows them.
#[derive(Debug, Default)]
pub struct Checkpoints {
    most_bytes: usize,
    bytes: usize,
    /// The least distance between two checkpoints, in events.
    spacing: u64,
    kept: BTreeMap<usize, Arc<Checkpoint>>,
}

/// A checkpoint: the state at one instant, encoded like a keyframe.
#[derive(Debug)]
pub struct Checkpoint {
    /// Events before it.
    pub events: u64,
    /// The time of the last of them.
    pub time: Nanos,
    figures: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl Checkpoint {
    /// Encodes a state.
    pub fn of(state: &AccountsState) -> io::Result<Self> {
        let mut packer = ColumnPacker::new()?;
        let (mut figures, mut parts) = (Vec::new(), Vec::new());
        keyframe::encode_figures(&keyframe::summary(state), state, &state.anomalies, &mut packer, &mut figures)?;
        let mut encoder = LiveEncoder::with_room_for(state.blocks.len().min(MOST_LIVE));
        let mut live = state.blocks.iter();
        for first in (0..state.blocks.len()).step_by(MOST_LIVE) {
            let count = MOST_LIVE.min(state.blocks.len() - first);
            let mut part = Vec::new();
            encoder.encode(live.by_ref().take(count), count, &mut packer, &mut part)?;
            parts.push(part);
        }
        Ok(Self { events: state.events, time: state.last_time, figures, parts })
    }

    /// Decodes the state.
    pub fn accounts(&self, believed: Handles) -> Option<Accounts> {
        let (_, mut state) = keyframe::decode_figures(&self.figures, believed.stacks, believed.tags)?;
        for part in &self.parts {
            live_blocks::decode(part, &mut state)?;
        }
        Some(Accounts::from_state(state))
    }

    fn bytes(&self) -> usize {
        self.figures.len() + self.parts.iter().map(Vec::len).sum::<usize>()
    }
}

impl Checkpoints {
    /// Allows about `most_bytes` of checkpoints, at least `spacing` events apart.
    pub fn allow(&mut self, most_bytes: usize, spacing: u64) {
        (self.most_bytes, self.spacing) = (most_bytes, spacing);
    }

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a checkpoint before this entry, after `events` events, is worth its memory. `nearest` is the number of events of the nearest keyframe
    /// before it.
    pub fn wants(&self, entry: usize, events: u64, nearest: u64) -> bool {
        if self.bytes >= self.most_bytes || self.kept.contains_key(&entry) {
            return false;
        }
        let before = self.kept.range(..entry).next_back().map_or(nearest, |(_, kept)| kept.events.max(nearest));
        let after = self.kept.range(entry..).next().map_or(u64::MAX, |(_, kept)| kept.events);
        events.saturating_sub(before) >= self.spacing && after.saturating_sub(events) >= self.spacing
    }

    /// Adds a checkpoint before an entry.
    pub fn leave(&mut self, entry: usize, checkpoint: Checkpoint) {
        self.bytes += checkpoint.bytes();
        self.kept.insert(entry, Arc::new(checkpoint));
    }

    /// The latest checkpoint at or before an entry that `reached` accepts; with the index of the entry that follows it.
    pub fn latest(&self, until: usize, reached: impl Fn(&Checkpoint) -> bool) -> Option<(usize, Arc<Checkpoint>)> {
        let mut kept = self.kept.range(..=until).rev();
        kept.find(|(_, kept)| reached(kept)).map(|(at, kept)| (*at, Arc::clone(kept)))
    }
}
