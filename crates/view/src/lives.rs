//! Blocks from their birth to their death.
//!
//! A block that is resized keeps its identity: it was born once, dies once, and has the size, the site and the thread that it had last.

use crate::changes::{Owned, find};
use crate::problem::Problem;
use crate::scan;
use crate::sieve::{Life, Sieve};
use crate::sources::{Loaded, Moment};
use crate::work::Work;
use highwater_model::{Nanos, Op, Snapshot, ThreadId};
use highwater_store::{Recording, Seen};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;

/// The blocks of a snapshot, with their owners; none where only figures are known.
pub fn blocks_of(snapshot: &Snapshot) -> impl Iterator<Item = Owned> {
    let threads = snapshot.accounts.threads();
    snapshot.accounts.blocks().map(move |block| {
        let thread = threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        Owned { block, thread }
    })
}

/// When blocks died that were live at a time, in their order. Reads what came after it until all are dead.
pub fn deaths(
    loaded: &Loaded,
    live_at: Nanos,
    blocks: &[Owned],
    work: &Work<'_>,
) -> Result<Vec<Option<Nanos>>, Problem> {
    let mut deaths = vec![None; blocks.len()];
    let Some(recording) = loaded.recording().filter(|_| !blocks.is_empty()) else { return Ok(deaths) };
    let places: FxHashMap<u64, u32> = blocks.iter().map(|owned| owned.block.id.0).zip(0..).collect();
    // Most of what dies was born later, and need not be looked up.
    let youngest = blocks.iter().map(|owned| owned.block.id.0).max().unwrap_or(0);
    let end = Nanos(u64::MAX);
    let found = scan::steps(
        recording,
        (live_at, end),
        work,
        |summary| summary.last_time >= live_at,
        Vec::new,
        |found: &mut Vec<(u32, Nanos)>, step| {
            if let Op::Free { id } | Op::Evict { id } = step.op
                && id.0 <= youngest
                && let Some(&at) = places.get(&id.0)
            {
                found.push((at, step.time));
                if found.len() == places.len() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    found.into_iter().flatten().for_each(|(at, time)| deaths[at as usize] = Some(time));
    Ok(deaths)
}

/// Shows every life that passes a sieve and ended from a time on, or never. Each stretch has a `T` of its own.
pub fn ended_since<T: Send>(
    loaded: &Loaded,
    recording: &Recording,
    since: Nanos,
    sieve: &Sieve,
    work: &Work<'_>,
    begin: impl Fn() -> T + Sync,
    see: impl Fn(&mut T, &Owned, &Life) + Sync,
) -> Result<Vec<T>, Problem> {
    let show = |own: &mut T, owned: &Owned, death: Option<Nanos>| {
        let life = Life { birth: owned.block.time, death };
        if owned.passes_with(sieve, &life) {
            see(own, owned, &life);
        }
    };
    let end = Nanos(u64::MAX);
    let mut all = scan::walk(
        recording,
        (since, end),
        work,
        &begin,
        |own, seen| {
            if let Seen::Step(ledger, step) = seen
                && let Op::Free { id } | Op::Evict { id } = step.op
                && step.time >= since
                && let Some(owned) = find(ledger, id)
            {
                show(own, &owned, Some(step.time));
            }
        },
        |_, _| {},
    )?;
    let mut survivors = begin();
    let last = loaded.snapshot(Moment::End)?;
    blocks_of(&last).for_each(|owned| show(&mut survivors, &owned, None));
    all.push(survivors);
    Ok(all)
}
