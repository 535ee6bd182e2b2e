//! Arrivals and departures of blocks.

use crate::owned::Owned;
use highwater_model::{AllocId, Block, Nanos, NumberLedger, Op, Step, TagId};

/// The cause of an arrival or a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
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

impl How {
    pub(super) const ALL: [Self; 6] =
        [Self::Allocated, Self::Freed, Self::FreedAtOnce, Self::Evicted, Self::Resized, Self::Promoted];

    /// True for the end of a life.
    pub fn is_death(self) -> bool {
        matches!(self, Self::Freed | Self::FreedAtOnce | Self::Evicted)
    }
}

/// An arrival or a departure.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The block: in its new state for an arrival, in its old state for a departure.
    pub owned: Owned,
    /// The time of the move.
    pub at: Nanos,
    /// The cause of the move.
    pub how: How,
    /// For a promotion, the tag in the other state.
    pub other_tag: TagId,
}

impl Move {
    /// The block that departs with a step; `None` if none does, or if it is not known.
    pub fn departure(ledger: &NumberLedger, step: &Step) -> Option<Self> {
        let (id, mut how, other_tag) = match step.op {
            Op::Free { id } => (id, How::Freed, TagId::NONE),
            Op::Evict { id } => (id, How::Evicted, TagId::NONE),
            Op::Reallocate { id, .. } => (id, How::Resized, TagId::NONE),
            Op::Promote { id, tag } => (id, How::Promoted, tag),
            _ => return None,
        };
        let owned = Owned::find(ledger, id)?;
        let owner = ledger.accounts().threads().get(owned.block.thread as usize);
        if how == How::Freed && owner.is_some_and(|owner| owner.last_allocation == id) {
            how = How::FreedAtOnce;
        }
        Some(Self { owned, at: step.time, how, other_tag })
    }

    /// The block that arrives with a step. `gone` is the block that departs with it; `next_id` is the number that a new block gets.
    pub fn arrival(step: &Step, gone: Option<&Self>, next_id: AllocId) -> Option<Self> {
        let come = |owned, how, other_tag| Some(Self { owned, at: step.time, how, other_tag });
        match (step.op, gone) {
            (Op::Allocate(place), _) => {
                let block = Block {
                    id: next_id,
                    address: place.address,
                    size: place.size,
                    time: step.time,
                    thread: 0,
                    stack: place.stack,
                    tag: place.tag,
                    surplus: place.surplus,
                    weight: place.weight,
                };
                come(Owned { block, thread: step.thread }, How::Allocated, TagId::NONE)
            }
            (Op::Reallocate { .. }, Some(gone)) => {
                let block = step.op.resized(&gone.owned.block)?;
                come(Owned { block, thread: step.thread }, How::Resized, TagId::NONE)
            }
            (Op::Promote { tag, .. }, Some(gone)) => come(gone.owned.tagged(tag), How::Promoted, gone.owned.block.tag),
            _ => None,
        }
    }
}
