//! Blocks from their birth to their death.
//!
//! A block that is resized keeps its identity: it was born once, dies once, and has the size, the site and the thread that it had last.

use crate::owned::Owned;
use crate::problem::Problem;
use crate::scan;
use crate::sieve::{Candidate, Life, Sieve};
use crate::sources::{Loaded, Moment};
use crate::traffic::{Depth, Side};
use crate::work::Work;
use highwater_model::{AllocId, Nanos, Snapshot, ThreadId};
use highwater_store::Recording;
use rustc_hash::FxHashMap;

/// The blocks of a snapshot, with their owners; none where only figures are known.
pub fn blocks_of(snapshot: &Snapshot) -> impl Iterator<Item = Owned> {
    let threads = snapshot.accounts.threads();
    snapshot.accounts.blocks().map(move |block| {
        let thread = threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
        Owned { block, thread }
    })
}

/// When blocks died that were live at a time, in their order.
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
    // Most of what dies was born later, and need not be looked up.
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

/// Shows every life that passes a sieve and ended from a time on, or never. Each part of the work has a `T` of its own.
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
