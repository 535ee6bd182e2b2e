//! Blocks from their birth to their death.
//!
//! A block that is resized keeps its identity: it was born once, dies once, and has the size, the site and the thread that it had last.

use crate::owned::Owned;
use crate::problem::Problem;
use crate::scan;
use crate::sieve::{Candidate, Life, Sieve};
use crate::sources::{Loaded, Moment};
use crate::traffic::{Depth, How, Side};
use crate::work::Work;
use highwater_model::{AllocId, ByteSum, Nanos, Snapshot, ThreadId, grouped};
use highwater_store::Recording;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The blocks of a snapshot, with their owners; none where only figures are known.
pub fn blocks_of(snapshot: &Snapshot) -> impl Iterator<Item = Owned> {
    let threads = snapshot.accounts.threads();
    snapshot.accounts.blocks().map(move |block| {
        let thread = threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        Owned { block, thread }
    })
}

/// The times at which blocks that were live at `live_at` died, in the order of the blocks.
pub fn deaths(
    loaded: &Loaded,
    live_at: Nanos,
    blocks: &[Owned],
    work: &Work<'_>,
) -> Result<Vec<Option<Nanos>>, Problem> {
    let mut deaths = vec![None; blocks.len()];
    let Some(recording) = loaded.recording().filter(|_| !blocks.is_empty()) else { return Ok(deaths) };
    let course = loaded.course(recording, work)?;
    let places: FxHashMap<u64, u32> = blocks.iter().map(|owned| owned.block.id.0).zip(0..).collect();
    // Most blocks that die were born later, and need not be looked up.
    let youngest = blocks.iter().map(|owned| owned.block.id).max().unwrap_or(AllocId(0));
    let found = scan::moves(
        (recording, &course.traffic),
        (live_at, Nanos(u64::MAX)),
        (Side::Departures, Depth::Figures),
        work,
        |_| Vec::new(),
        |found: &mut Vec<(u32, Nanos)>, row| {
            let id = row.id();
            if id <= youngest
                && row.how().is_death()
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
    loaded: &Loaded,
    recording: &Recording,
    (since, depth): (Nanos, Depth),
    sieve: &Sieve,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &dyn Candidate, &Life) + Sync,
) -> Result<Vec<T>, Problem> {
    let course = loaded.course(recording, work)?;
    let (times, wanted) = ((since, Nanos(u64::MAX)), (Side::Departures, depth));
    let mut all = scan::moves(
        (recording, &course.traffic),
        times,
        wanted,
        work,
        |_| begin(),
        |own, row| {
            if let Some(life) = row.life()
                && sieve.passes_with(&row, &life)
            {
                see(own, &row, &life);
            }
        },
    )?;
    let mut survivors = begin();
    let last = loaded.snapshot(Moment::End)?;
    for owned in blocks_of(&last) {
        let life = Life { birth: owned.block.time, death: None };
        if sieve.passes_with(&owned, &life) {
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
    passes: bool,
    /// It ended with a promotion, which is a change only if exactly one of the two states passes.
    is_promoted: bool,
}

/// The most earlier states that are kept to follow resized blocks. They take 64 bytes each.
const MOST_EARLIER: usize = 4 << 20;

/// A state of a block that passes the filters.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The bytes and blocks that it counts as.
    pub amount: (ByteSum, u64),
    /// When the block entered this state.
    pub since: Nanos,
    /// When the block left it; `None` for never.
    pub until: Option<Nanos>,
}

/// Passes states of blocks to `see`: each state that passes the filters and ended at or after `since`, or never, of each life whose death passes them. A block that
/// was resized has several states, and counts in each as it was then. Each part of the work has a `T` of its own.
pub fn states_since<T: Send>(
    loaded: &Loaded,
    recording: &Recording,
    since: Nanos,
    sieve: &Sieve,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, State) + Sync,
) -> Result<Vec<T>, Problem> {
    let course = loaded.course(recording, work)?;
    let (traffic, times) = ((recording, &course.traffic), (since, Nanos(u64::MAX)));
    let wanted = (Side::Departures, Depth::Figures);
    let count = AtomicUsize::new(0);
    let found = scan::moves(
        traffic,
        times,
        wanted,
        work,
        |_| Vec::new(),
        |found: &mut Vec<Earlier>, row| {
            if matches!(row.how(), How::Resized | How::Promoted) && count.fetch_add(1, Ordering::Relaxed) < MOST_EARLIER
            {
                let is_promoted = row.how() == How::Promoted;
                let passes = sieve.passes(&row);
                found.push(Earlier { id: row.id(), until: row.at(), amount: row.amount(), passes, is_promoted });
            }
        },
    )?;
    if count.into_inner() > MOST_EARLIER {
        return Err(Problem::TooLarge(format!(
            "blocks were resized or promoted more than {} times, which is the limit for following each of them; choose a shorter window, or remove filters on lifetimes and frees",
            grouped(MOST_EARLIER as u64)
        )));
    }
    let mut earlier: Vec<Earlier> = found.into_iter().flatten().collect();
    // Stable: the states of one block stay in order.
    earlier.sort_by_key(|state| state.id);
    let show = |own: &mut T, id: AllocId, life: Life, last: (bool, (ByteSum, u64))| {
        if !sieve.passes_death(&life) {
            return;
        }
        let first = earlier.partition_point(|state| state.id < id);
        let states = earlier[first..].iter().take_while(|state| state.id == id);
        // Resizes before `since` are not known; the state after them began before it, as the block did.
        let mut came = life.birth;
        for (at, state) in states.enumerate() {
            let is_next_wanted = match earlier.get(first + at + 1).filter(|next| next.id == id) {
                Some(next) => next.passes,
                None => last.0,
            };
            if state.passes && is_next_wanted && state.is_promoted {
                continue;
            }
            if state.passes {
                see(own, State { amount: state.amount, since: came, until: Some(state.until) });
            }
            came = state.until;
        }
        if last.0 {
            see(own, State { amount: last.1, since: came, until: life.death });
        }
    };
    let mut all = scan::moves(
        traffic,
        times,
        wanted,
        work,
        |_| begin(),
        |own, row| {
            if let Some(life) = row.life() {
                show(own, row.id(), life, (sieve.passes(&row), row.amount()));
            }
        },
    )?;
    let mut survivors = begin();
    let last = loaded.snapshot(Moment::End)?;
    for owned in blocks_of(&last) {
        let life = Life { birth: owned.block.time, death: None };
        show(&mut survivors, owned.block.id, life, (sieve.passes(&owned), owned.amount()));
    }
    all.push(survivors);
    Ok(all)
}
