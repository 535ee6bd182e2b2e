//! Births and deaths of blocks.

use crate::history::block_facts::OwnedBlock;
use highwater_model::{AllocId, Nanos, NumberLedger, Op, Step, TagId};

/// The cause of a block event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was allocated.
    Allocated,
    /// It was freed.
    Freed,
    /// It was freed before its thread allocated anything else.
    FreedAtOnce,
    /// It must have been gone before: another block took its address.
    Evicted,
    /// It was resized: it lives on, perhaps at another address.
    Resized,
    /// It was moved to another heap.
    Promoted,
}

impl Cause {
    pub(super) const ALL: [Self; 6] =
        [Self::Allocated, Self::Freed, Self::FreedAtOnce, Self::Evicted, Self::Resized, Self::Promoted];

    /// True for the end of a life.
    pub fn is_death(self) -> bool {
        matches!(self, Self::Freed | Self::FreedAtOnce | Self::Evicted)
    }
}

/// A birth or a death of a block, or one half of a resize or promotion.
#[derive(Clone, Copy, Debug)]
pub struct BlockEvent {
    /// The block: in its new state for a birth, in its old state for a death.
    pub owned: OwnedBlock,
    /// The time of the event.
    pub at: Nanos,
    /// The cause of the event.
    pub cause: Cause,
    /// For a promotion, the tag in the other state.
    pub other_tag: TagId,
}

impl BlockEvent {
    /// The block that dies with a step, or leaves its state; `None` if none does, or if it is not known.
    pub fn death(ledger: &NumberLedger, step: &Step) -> Option<Self> {
        let (id, mut cause, other_tag) = match step.op {
            Op::Free { id, .. } => (id, Cause::Freed, TagId::NONE),
            Op::Evict { id } => (id, Cause::Evicted, TagId::NONE),
            Op::Reallocate { id, .. } => (id, Cause::Resized, TagId::NONE),
            Op::Promote { id, tag } => (id, Cause::Promoted, tag),
            _ => return None,
        };
        let owned = OwnedBlock::find(ledger, id)?;
        let owner = ledger.accounts().threads().get(owned.block.thread as usize);
        if cause == Cause::Freed && owner.is_some_and(|owner| owner.last_allocation == id) {
            cause = Cause::FreedAtOnce;
        }
        Some(Self { owned, at: step.time, cause, other_tag })
    }

    /// The block that is born with a step, or enters a new state. `gone` is the block that leaves its state with it; `next_id` is the number that a new block gets.
    pub fn birth(step: &Step, gone: Option<&Self>, next_id: AllocId) -> Option<Self> {
        let born = |owned, cause, other_tag| Some(Self { owned, at: step.time, cause, other_tag });
        match (step.op, gone) {
            (Op::Allocate(place), _) => {
                let block = place.born(next_id, step.time);
                born(OwnedBlock { block, thread: step.thread }, Cause::Allocated, TagId::NONE)
            }
            (Op::Reallocate { .. }, Some(gone)) => {
                let block = step.op.resized(&gone.owned.block)?;
                born(OwnedBlock { block, thread: step.thread }, Cause::Resized, TagId::NONE)
            }
            (Op::Promote { tag, .. }, Some(gone)) => {
                born(gone.owned.tagged(tag), Cause::Promoted, gone.owned.block.tag)
            }
            _ => None,
        }
    }
}
