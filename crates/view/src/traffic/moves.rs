//! Arrivals and departures.

use crate::owned::Owned;
use highwater_model::{AllocId, Block, Nanos, NumberLedger, Op, Step, TagId};

/// How a block came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was allocated.
    Allocated,
    /// It was given back.
    Freed,
    /// It was given back before its thread allocated anything else.
    FreedAtOnce,
    /// It was gone when another came to lie there.
    Evicted,
    /// It was resized: it lives on, perhaps elsewhere.
    Resized,
    /// It came to lie in another heap.
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
    /// The block: as it becomes, if it comes; as it was, if it goes.
    pub owned: Owned,
    /// When.
    pub at: Nanos,
    /// How.
    pub how: How,
    /// What it was, or becomes, tagged with on the other side of a promotion.
    pub other_tag: TagId,
}

impl Move {
    /// Who goes with a step; `None` for a step that lets nothing go, or nothing that is known.
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

    /// Who comes with a step, `gone` being who goes with it; `next_id` is the number that a new block gets.
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
