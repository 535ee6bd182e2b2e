//! Figures between two blocks of events, to go on from without all that was live then.
//!
//! A keyframe holds every live block, since nobody knows which of them will be asked for. Whoever knows which ones go in the blocks of events
//! that follow need not hold the others: figures and those few blocks give the figures of every instant until then.

use super::column::ColumnPacker;
use super::keyframe;
use super::recording::Recording;
use super::replay::Until;
use highwater_model::{Accounts, AccountsState, AllocId, Block, Nanos, NumberLedger, ThreadId};
use rustc_hash::FxHashMap;
use std::io;

/// See the module's text.
#[derive(Debug)]
pub struct Standing {
    /// Events before it.
    pub events: u64,
    /// The time of the last of them.
    pub time: Nanos,
    /// Blocks with smaller numbers had been allocated.
    pub next_id: AllocId,
    figures: Vec<u8>,
}

impl Standing {
    /// The figures of accounts.
    pub fn of(accounts: &Accounts) -> io::Result<Self> {
        let state = accounts.figures_alone().to_state();
        let mut figures = Vec::new();
        keyframe::encode_figures(&state, &state.anomalies, &mut ColumnPacker::new()?, &mut figures)?;
        figures.shrink_to_fit();
        Ok(Self { events: state.events, time: state.last_time, next_id: AllocId(state.next_id), figures })
    }

    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        self.figures.capacity() + size_of::<Self>()
    }
}

impl Recording {
    /// Accounts to go on from a standing through the blocks of events behind it, as far as `going` has all blocks that go there and were live
    /// then, as they were then, with their owners, by number. `None` if they do not belong to it.
    pub fn resume(&self, standing: &Standing, going: impl Iterator<Item = (Block, ThreadId)>) -> Option<NumberLedger> {
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

    /// What accounts become by blocks of events, from one on, by its place among all of them, up to an instant.
    pub fn go_on(&self, mut ledger: NumberLedger, block: usize, until: Until) -> io::Result<NumberLedger> {
        self.replay_figures(&mut ledger, &self.entries()[self.place_of(block)..], |seen| until.flow(seen))?;
        Ok(ledger)
    }
}

/// Whether a block belongs to figures: what replays take for granted of it.
pub(super) fn is_sound(state: &AccountsState, block: &Block) -> bool {
    block.id.0 < state.next_id
        && block.time <= state.last_time
        && state.blocks.last().is_none_or(|last| last.id < block.id)
        && (block.thread as usize) < state.threads.len()
        && state.sites.row(block.stack).is_some()
        && (block.tag.0 == 0 || (block.tag.0 as usize) < state.tags.len())
}
