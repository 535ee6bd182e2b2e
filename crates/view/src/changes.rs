//! What a step does to the blocks that are wanted.

use crate::departures::Gone;
use crate::sieve::{Life, Sieve};
use highwater_model::{AllocId, Block, Nanos, NumberLedger, Op, StackId, Step, TagId, ThreadId, Weight};

/// A block and who owns it. The block's own index of its owner is of use only together with the accounts that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// The block.
    pub block: Block,
    /// The thread.
    pub thread: ThreadId,
}

impl Owned {
    /// What stands for a block that nobody knows.
    pub const NOBODY: Self = Self {
        block: Block {
            id: AllocId(0),
            address: 0,
            size: 0,
            time: Nanos(0),
            thread: 0,
            stack: StackId::UNKNOWN,
            tag: TagId::NONE,
            surplus: 0,
            weight: Weight::ONE,
        },
        thread: ThreadId(0),
    };

    /// Whether it is wanted, as far as can be told while it lives.
    #[inline]
    pub fn passes(&self, sieve: &Sieve) -> bool {
        let Block { stack, tag, time, size, .. } = self.block;
        sieve.passes_owners(stack, tag, self.thread) && sieve.passes_birth(time, size)
    }

    /// Whether it is wanted, its death being known.
    #[inline]
    pub fn passes_with(&self, sieve: &Sieve, life: &Life) -> bool {
        self.passes(sieve) && sieve.passes_death(life)
    }
}

/// What goes and what comes with a step. A reallocation does both, whoever it leaves and whoever it comes to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// What goes.
    pub went: Option<Owned>,
    /// What comes.
    pub came: Option<Owned>,
}

impl Changes {
    /// What comes with a step that lets nothing go; `next_id` is the number that a new block gets.
    pub fn by_arrival(step: &Step, next_id: AllocId) -> Self {
        let Op::Allocate(place) = step.op else { return Self::default() };
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
        Self { came: Some(Owned { block, thread: step.thread }), went: None }
    }

    /// What a step changes with which something goes.
    pub fn by_departure(step: &Step, gone: &Gone) -> Self {
        if !gone.is_known() {
            return Self::default();
        }
        let went = Some(gone.owned);
        let came = match step.op {
            Op::Reallocate { .. } => {
                step.op.resized(&gone.owned.block).map(|block| Owned { block, thread: step.thread })
            }
            Op::Promote { tag, .. } => Some(gone.promoted(tag)),
            _ => None,
        };
        Self { went, came }
    }

    /// Those that are wanted; deaths are not asked for. A promotion is a change only where one of the two heaps is wanted.
    pub fn wanted(self, step: &Step, sieve: &Sieve) -> Self {
        let is_wanted = |owned: &Owned| owned.passes(sieve);
        let (went, came) = (self.went.filter(is_wanted), self.came.filter(is_wanted));
        let is_nothing = matches!(step.op, Op::Promote { .. }) && went.is_some() == came.is_some();
        if is_nothing { Self::default() } else { Self { went, came } }
    }
}

/// A live block by its number.
pub fn find(ledger: &NumberLedger, id: AllocId) -> Option<Owned> {
    let block = ledger.find(id)?;
    let thread = ledger.accounts().threads().get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
    Some(Owned { block, thread })
}
