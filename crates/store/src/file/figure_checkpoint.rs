//! Figures between two event blocks: a checkpoint without all the live blocks.
//!
//! A keyframe holds every live block, since any of them may be needed. A caller that knows which blocks die in the following event blocks need not
//! hold the others: the figures and those few blocks give the figures of every instant until then.

use super::column::ColumnPacker;
use super::keyframe::{self, KeyframeSummary};
use super::recording::Recording;
use super::replay::ReplayUntil;
use highwater_model::{Accounts, AccountsState, AllocId, Block, Nanos, NumberLedger, ThreadId};
use rustc_hash::FxHashMap;
use std::io;

/// A checkpoint of figures between two event blocks. It does not hold live blocks; [`Recording::resume`] gets the needed ones from the caller.
#[derive(Debug)]
pub struct FigureCheckpoint {
    /// Events before it.
    pub events: u64,
    /// The time of the last of them.
    pub time: Nanos,
    /// The next allocation number: all earlier blocks have smaller ones.
    pub next_id: AllocId,
    figures: Vec<u8>,
}

impl FigureCheckpoint {
    /// The figures of accounts.
    pub fn of(accounts: &Accounts) -> io::Result<Self> {
        // Read where they are: a copy of the figures of hundreds of thousands of sites takes longer than their encoding.
        let state = accounts.state();
        let summary = KeyframeSummary { events: state.events, time: state.last_time, parts: 0 };
        let mut figures = Vec::new();
        keyframe::encode_figures(&summary, state, &state.anomalies, &mut ColumnPacker::new()?, &mut figures)?;
        figures.shrink_to_fit();
        Ok(Self { events: state.events, time: state.last_time, next_id: AllocId(state.next_id), figures })
    }

    /// How much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.figures.capacity() + size_of::<Self>()
    }
}

impl Recording {
    /// Accounts for a replay of the event blocks after a checkpoint. `going` must have all blocks that were live at the checkpoint and change or die
    /// in the replayed part, in their state at the checkpoint, with their owners, ordered by number. `None` if they do not match the checkpoint.
    pub fn resume(
        &self,
        standing: &FigureCheckpoint,
        going: impl Iterator<Item = (Block, ThreadId)>,
    ) -> Option<NumberLedger> {
        let believed = self.believed();
        let (_, mut state) = keyframe::decode_figures(&standing.figures, believed.stacks, believed.tags)?;
        let threads: FxHashMap<ThreadId, u32> = state.threads.iter().map(|thread| thread.id).zip(0..).collect();
        for (block, owner) in going {
            let block = Block { thread: *threads.get(&owner)?, ..block };
            is_sound(&state, &block).then_some(())?;
            state.blocks.push(block);
        }
        Some(NumberLedger::from_accounts(Accounts::from_state(state)))
    }

    /// Replays event blocks, from the one with index `block` among the event blocks on, up to an instant.
    pub fn go_on(&self, mut ledger: NumberLedger, block: usize, until: ReplayUntil) -> io::Result<NumberLedger> {
        self.replay_figures(&mut ledger, &self.entries()[self.place_of(block)..], |seen| until.flow(seen))?;
        Ok(ledger)
    }
}

/// Whether a block matches the figures: the conditions that replays rely on.
pub(super) fn is_sound(state: &AccountsState, block: &Block) -> bool {
    block.id.0 < state.next_id
        && block.time <= state.last_time
        && state.blocks.last().is_none_or(|last| last.id < block.id)
        && (block.thread as usize) < state.threads.len()
        && state.sites.row(block.stack).is_some()
        && (block.tag.0 == 0 || (block.tag.0 as usize) < state.tags.len())
}
