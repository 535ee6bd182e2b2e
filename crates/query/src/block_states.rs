//! The states of one block, from its birth to its death: one for each size and place that it had.

use crate::error::QueryError;
use crate::lives::blocks_of;
use highwater_model::{AllocId, Nanos, Op, Step};
use highwater_store::Recording;
use highwater_store::history::{BlockFacts, Cause, ColumnSet, History, Moment, OwnedBlock, Side, Work, block_events};

/// The most states of one block that are listed. Of a block that was resized more often, the first ones and the last one are.
pub const MOST_STATES: usize = 1000;
/// The most event blocks that are decoded for the steps of one block: some milliseconds each.
const MOST_DECODED: usize = 64;

/// A state of a block, and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct StateOfBlock {
    /// The block in this state.
    pub owned: OwnedBlock,
    /// When the state ended, and why; `None` while it lasts.
    pub end: Option<(Nanos, Cause)>,
}

/// All states of a block that are listed.
#[derive(Debug, Default)]
pub struct BlockStates {
    /// In order.
    pub states: Vec<StateOfBlock>,
    /// The number of states between the last two that are not listed.
    pub left_out: u64,
}

/// What one part of the work found.
#[derive(Default)]
struct FoundStates {
    first: Vec<StateOfBlock>,
    last: Option<StateOfBlock>,
    count: u64,
}

impl FoundStates {
    fn add(&mut self, state: StateOfBlock) {
        self.count += 1;
        if self.first.len() < MOST_STATES {
            self.first.push(state);
        }
        self.last = Some(state);
    }
}

/// The time from which a block can have lived: that of the event block in which it was allocated.
fn earliest(recording: &Recording, id: AllocId) -> Nanos {
    let before = recording.summaries().take_while(|summary| summary.first_alloc <= id.0);
    before.last().map_or(Nanos(0), |summary| summary.first_time)
}

/// The states of a block, from the index. None if the recording has no such block.
pub fn block_states(
    history: &History,
    recording: &Recording,
    id: AllocId,
    work: &Work<'_>,
) -> Result<BlockStates, QueryError> {
    let index = history.index(recording, work)?;
    let parts = block_events(
        (recording, &index.block_events),
        (earliest(recording, id), Nanos(u64::MAX)),
        (Side::Deaths, ColumnSet::All),
        work,
        |_| FoundStates::default(),
        |found: &mut FoundStates, row| {
            if row.id() == id {
                found.add(StateOfBlock { owned: row.owned(), end: Some((row.at(), row.cause())) });
            }
        },
    )?;
    let mut all = FoundStates::default();
    for part in parts {
        let more = part.count;
        part.first.into_iter().for_each(|state| all.add(state));
        if more > MOST_STATES as u64 {
            all.count += more - MOST_STATES as u64;
            all.last = part.last;
        }
    }
    let has_died = all.last.is_some_and(|state| state.end.is_some_and(|(_, cause)| cause.is_death()));
    if !has_died && let Some(owned) = blocks_of(&*history.snapshot(Moment::End)?).find(|owned| owned.block.id == id) {
        all.add(StateOfBlock { owned, end: None });
    }
    let mut states = all.first;
    if all.count > states.len() as u64 {
        states.extend(all.last);
    }
    Ok(BlockStates { left_out: all.count - states.len() as u64, states })
}

/// The steps that resized or freed a block at these times, in order: they say which thread and which stack did it. Of very many event blocks, only some
/// are read.
pub fn steps_of(recording: &Recording, id: AllocId, times: &[Nanos], work: &Work<'_>) -> Result<Vec<Step>, QueryError> {
    let mut steps = Vec::new();
    let mut decoded = 0;
    // The death comes first: it is what only the step knows.
    for time in times.last().into_iter().chain(times.iter().rev().skip(1).rev()) {
        let is_known = |step: &Step| step.time == *time;
        if decoded >= MOST_DECODED || steps.iter().any(is_known) {
            continue;
        }
        work.go_on()?;
        decoded += recording.visit_steps_at(*time, |step| {
            let is_of_block = match step.op {
                Op::Free { id: of, .. } | Op::Reallocate { id: of, .. } | Op::Promote { id: of, .. } => of == id,
                Op::Evict { id: of } => of == id,
                _ => false,
            };
            if is_of_block && !steps.contains(step) {
                steps.push(*step);
            }
        })?;
    }
    steps.sort_by_key(|step| step.time);
    Ok(steps)
}
