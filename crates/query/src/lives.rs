//! Blocks from their birth to their death.
//!
//! A block that is resized keeps its identity: it was born once, dies once, and has the size, the site and the thread that it had last.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use highwater_model::{AllocId, ByteSum, Nanos, Snapshot, ThreadId, grouped};
use highwater_store::Recording;
use highwater_store::history::{
    BlockFacts, BlockLife, Cause, ColumnSet, History, Moment, OwnedBlock, Owners, Side, Work, block_events,
};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The blocks of a snapshot, with their owners; none where only figures are known.
pub fn blocks_of(snapshot: &Snapshot) -> impl Iterator<Item = OwnedBlock> {
    let threads = snapshot.accounts.threads();
    snapshot.accounts.blocks().map(move |block| {
        let thread = threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        OwnedBlock { block, thread }
    })
}

/// The times at which blocks that were live at `live_at` died, in the order of the blocks.
pub fn deaths(
    history: &History,
    live_at: Nanos,
    blocks: &[OwnedBlock],
    work: &Work<'_>,
) -> Result<Vec<Option<Nanos>>, QueryError> {
    let mut deaths = vec![None; blocks.len()];
    let Some(recording) = history.recording().filter(|_| !blocks.is_empty()) else { return Ok(deaths) };
    let index = history.index(recording, work)?;
    let places: FxHashMap<u64, u32> = blocks.iter().map(|owned| owned.block.id.0).zip(0..).collect();
    // Most blocks that die were born later, and need not be looked up.
    let youngest = blocks.iter().map(|owned| owned.block.id).max().unwrap_or(AllocId(0));
    let found = block_events(
        (recording, &index.block_events),
        (live_at, Nanos(u64::MAX)),
        (Side::Deaths, ColumnSet::Figures),
        work,
        |_| Vec::new(),
        |found: &mut Vec<(u32, Nanos)>, row| {
            let id = row.id();
            if id <= youngest
                && row.cause().is_death()
                && let Some(&at) = places.get(&id.0)
            {
                found.push((at, row.at()));
            }
        },
    )?;
    found.into_iter().flatten().for_each(|(at, time)| deaths[at as usize] = Some(time));
    Ok(deaths)
}

/// Passes every life that passes the filters and ended at or after `since`, or never, to `see`. Each part of the work has a `T` of its own.
pub fn ended_since<T: Send>(
    history: &History,
    recording: &Recording,
    (since, depth): (Nanos, ColumnSet),
    filter: &CompiledFilter,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &dyn BlockFacts, &BlockLife) + Sync,
) -> Result<Vec<T>, QueryError> {
    let index = history.index(recording, work)?;
    let (times, wanted) = ((since, Nanos(u64::MAX)), (Side::Deaths, depth));
    let mut all = block_events(
        (recording, &index.block_events),
        times,
        wanted,
        work,
        |_| begin(),
        |own, row| {
            if let Some(life) = row.life()
                && filter.passes_with(&row, &life)
            {
                see(own, &row, &life);
            }
        },
    )?;
    let mut survivors = begin();
    let last = history.snapshot(Moment::End)?;
    for owned in blocks_of(&last) {
        let life = BlockLife { birth: owned.block.time, death: None };
        if filter.passes_with(&owned, &life) {
            see(&mut survivors, &owned, &life);
        }
    }
    all.push(survivors);
    Ok(all)
}

/// A state that a block had before it was resized or promoted.
struct Earlier {
    id: AllocId,
    /// When it ended.
    until: Nanos,
    amount: (ByteSum, u64),
    owners: Owners,
    passes: bool,
    /// It ended with a promotion, which is a change only if exactly one of the two states passes.
    is_promoted: bool,
}

/// Which blocks may have earlier states: a bit for each of some allocation numbers, which others may share.
struct MayHaveEarlier(Vec<u64>);

impl MayHaveEarlier {
    fn of(earlier: &[Earlier]) -> Self {
        let mut may = Self(vec![0; (earlier.len() / 8).next_power_of_two()]);
        for state in earlier {
            let (word, bit) = may.place(state.id);
            may.0[word] |= bit;
        }
        may
    }

    #[inline]
    fn place(&self, id: AllocId) -> (usize, u64) {
        ((id.0 / 64) as usize & (self.0.len() - 1), 1 << (id.0 % 64))
    }

    #[inline]
    fn has(&self, id: AllocId) -> bool {
        let (word, bit) = self.place(id);
        self.0[word] & bit != 0
    }
}

/// The most earlier states that are kept to follow resized blocks. They take 80 bytes each.
const MOST_EARLIER: usize = 4 << 20;

/// A state of a block that passes the filters.
#[derive(Clone, Copy, Debug)]
pub struct BlockState {
    /// The bytes and blocks that it counts as.
    pub amount: (ByteSum, u64),
    /// The owners.
    pub owners: Owners,
    /// When the block entered this state.
    pub since: Nanos,
    /// When the block left it; `None` for never.
    pub until: Option<Nanos>,
}

/// Passes states of blocks to `see`: each state that passes the filters and ended at or after `since`, or never, of each life whose death passes them. A block that
/// was resized has several states, and counts in each as it was then. With `joins_promoted`, a promotion does not end a state: both heaps pass, and only its
/// owners change. Each part of the work has a `T` of its own.
pub fn states_since<T: Send>(
    history: &History,
    recording: &Recording,
    (since, joins_promoted): (Nanos, bool),
    filter: &CompiledFilter,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, BlockState) + Sync,
) -> Result<Vec<T>, QueryError> {
    let index = history.index(recording, work)?;
    let (events, times) = ((recording, &index.block_events), (since, Nanos(u64::MAX)));
    let wanted = (Side::Deaths, ColumnSet::Figures);
    let count = AtomicUsize::new(0);
    let found = block_events(
        events,
        times,
        wanted,
        work,
        |_| Vec::new(),
        |found: &mut Vec<Earlier>, row| {
            if matches!(row.cause(), Cause::Resized | Cause::Promoted)
                && count.fetch_add(1, Ordering::Relaxed) < MOST_EARLIER
            {
                let is_promoted = row.cause() == Cause::Promoted;
                let passes = filter.passes(&row);
                found.push(Earlier {
                    id: row.id(),
                    until: row.at(),
                    amount: row.amount(),
                    owners: row.owners(),
                    passes,
                    is_promoted,
                });
            }
        },
    )?;
    if count.into_inner() > MOST_EARLIER {
        return Err(QueryError::TooLarge(format!(
            "blocks were resized or promoted more than {} times, which is the limit for following each of them; choose a shorter window, or remove filters on lifetimes and frees",
            grouped(MOST_EARLIER as u64)
        )));
    }
    let mut earlier: Vec<Earlier> = found.into_iter().flatten().collect();
    // Stable: the states of one block stay in order.
    earlier.sort_by_key(|state| state.id);
    let may_have_earlier = MayHaveEarlier::of(&earlier);
    let show = |own: &mut T, id: AllocId, life: BlockLife, last: (bool, (ByteSum, u64), Owners)| {
        let first =
            if may_have_earlier.has(id) { earlier.partition_point(|state| state.id < id) } else { earlier.len() };
        let states = earlier[first..].iter().take_while(|state| state.id == id);
        // Resizes before `since` are not known; the state after them began before it, as the block did.
        let mut came = life.birth;
        for (at, state) in states.enumerate() {
            let is_next_wanted = match earlier.get(first + at + 1).filter(|next| next.id == id) {
                Some(next) => next.passes,
                None => last.0,
            };
            if joins_promoted && state.passes && is_next_wanted && state.is_promoted {
                continue;
            }
            if state.passes {
                let Earlier { amount, owners, .. } = *state;
                see(own, BlockState { amount, owners, since: came, until: Some(state.until) });
            }
            came = state.until;
        }
        if last.0 {
            see(own, BlockState { amount: last.1, owners: last.2, since: came, until: life.death });
        }
    };
    let mut all = block_events(
        events,
        times,
        wanted,
        work,
        |_| begin(),
        |own, row| {
            // Few lives pass where filters ask for long ones: the rest of the others is not read.
            if let Some(life) = row.life()
                && filter.passes_death(&life)
            {
                show(own, row.id(), life, (filter.passes(&row), row.amount(), row.owners()));
            }
        },
    )?;
    let mut survivors = begin();
    let last = history.snapshot(Moment::End)?;
    for owned in blocks_of(&last) {
        let life = BlockLife { birth: owned.block.time, death: None };
        if filter.passes_death(&life) {
            show(&mut survivors, owned.block.id, life, (filter.passes(&owned), owned.amount(), owned.owners()));
        }
    }
    all.push(survivors);
    Ok(all)
}
