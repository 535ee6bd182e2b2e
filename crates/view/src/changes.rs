//! What a step does to the blocks that are wanted.

use crate::sieve::{Life, Sieve};
use highwater_model::{AllocId, Block, NumberLedger, Op, Step, ThreadId};

/// A block and who owns it.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// The block.
    pub block: Block,
    /// The thread.
    pub thread: ThreadId,
}

impl Owned {
    /// A live block.
    pub fn of(ledger: &NumberLedger, block: Block) -> Self {
        let thread = ledger.accounts().threads().get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        Self { block, thread }
    }

    /// Whether it is wanted, as far as can be told while it lives.
    pub fn passes(&self, sieve: &Sieve) -> bool {
        let Block { stack, tag, time, size, .. } = self.block;
        sieve.passes_owners(stack, tag, self.thread) && sieve.passes_birth(time, size)
    }

    /// Whether it is wanted, its death being known.
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
    /// What a step changes of what is wanted; deaths are not asked for. A promotion is a change only where one of the two heaps is wanted.
    pub fn of(ledger: &NumberLedger, step: &Step, sieve: &Sieve) -> Self {
        let all = Self::all(ledger, step);
        let wanted = |owned: &Owned| owned.passes(sieve);
        let (went, came) = (all.went.filter(wanted), all.came.filter(wanted));
        let is_nothing = matches!(step.op, Op::Promote { .. }) && went.is_some() == came.is_some();
        if is_nothing { Self::default() } else { Self { went, came } }
    }

    fn all(ledger: &NumberLedger, step: &Step) -> Self {
        match step.op {
            Op::Allocate(place) => {
                let block = Block {
                    id: ledger.accounts().next_id(),
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
            Op::Free { id } | Op::Evict { id } => Self { went: find(ledger, id), came: None },
            Op::Reallocate { .. } => {
                let Some((old, new)) = ledger.resizing(step) else { return Self::default() };
                Self { went: Some(Owned::of(ledger, old)), came: Some(Owned { block: new, thread: step.thread }) }
            }
            Op::Promote { id, tag } => {
                let Some(old) = find(ledger, id) else { return Self::default() };
                Self { went: Some(old), came: Some(Owned { block: Block { tag, ..old.block }, ..old }) }
            }
            _ => Self::default(),
        }
    }
}

/// A live block by its number.
pub fn find(ledger: &NumberLedger, id: AllocId) -> Option<Owned> {
    ledger.find(id).map(|block| Owned::of(ledger, block))
}
