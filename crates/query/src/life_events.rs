//! What happened to a block, from its states and from the steps between them.

use crate::block_states::{BlockStates, StateOfBlock};
use highwater_model::{Nanos, Op, StackId, Step};
use highwater_store::Recording;
use highwater_store::history::{Cause, OwnedBlock};

/// An event of a block's life, before its stack has a number in the answer.
pub struct LifeEvent {
    /// What happened, as an answer names it.
    pub what: &'static str,
    /// When.
    pub time: Nanos,
    /// The block after it; for its end, before it.
    pub owned: OwnedBlock,
    /// The thread that did it, if that is known.
    pub thread: Option<u64>,
    /// The block before a resize.
    pub old: Option<OwnedBlock>,
    /// The stack that did it, if it was recorded.
    pub stack: Option<StackId>,
}

/// The name of the end of a state.
pub fn end_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Freed | Cause::FreedAtOnce => "freed",
        Cause::Evicted => "evicted",
        Cause::Resized => "reallocated",
        Cause::Promoted => "promoted",
        Cause::Allocated => "allocated",
    }
}

/// What happened to a block, in order. `steps` are those that were read of the steps that resized or freed it.
pub fn life_events(recording: &Recording, life: &BlockStates, steps: &[Step]) -> Vec<LifeEvent> {
    let mut events = Vec::new();
    let Some(first) = life.states.first() else { return events };
    let is_older = first.owned.block.time < recording.begins_at()
        || recording.summaries().next().is_none_or(|summary| first.owned.block.id.0 < summary.first_alloc);
    events.push(LifeEvent {
        what: if is_older { "known" } else { "allocated" },
        time: first.owned.block.time,
        owned: first.owned,
        thread: Some(first.owned.thread.0),
        old: None,
        stack: known(first.owned.block.stack),
    });
    let mut steps = steps.iter();
    for (at, state) in life.states.iter().enumerate() {
        let Some((time, cause)) = state.end else { break };
        // Steps are in order, and so are ends; some steps may not have been read.
        let step = steps.clone().position(|step| step.time == time).and_then(|skipped| steps.nth(skipped));
        let next = life.states.get(at + 1).filter(|_| life.left_out == 0 || at + 2 < life.states.len());
        match next {
            Some(next) => events.push(changed(state, next, (time, cause), step)),
            None if cause.is_death() => events.push(LifeEvent {
                what: end_in_words(cause),
                time,
                owned: state.owned,
                thread: step.filter(|_| cause != Cause::Evicted).map(|step| step.thread.0),
                old: None,
                stack: step.and_then(|step| if let Op::Free { stack, .. } = step.op { known(stack) } else { None }),
            }),
            None => {}
        }
    }
    events
}

/// A reallocation or a promotion.
fn changed(old: &StateOfBlock, new: &StateOfBlock, (time, cause): (Nanos, Cause), step: Option<&Step>) -> LifeEvent {
    let stack = match step.map(|step| step.op) {
        Some(Op::Reallocate { stack, .. }) => known(stack),
        Some(_) => None,
        // An unknown stack would have kept the old one.
        None => known(new.owned.block.stack).filter(|stack| *stack != old.owned.block.stack),
    };
    let thread = step.map(|step| step.thread).or((cause == Cause::Resized).then_some(new.owned.thread));
    LifeEvent {
        what: end_in_words(cause),
        time,
        owned: new.owned,
        thread: thread.map(|thread| thread.0),
        old: (cause == Cause::Resized).then_some(old.owned),
        stack,
    }
}

/// A stack, unless it is the unknown one.
pub fn known(stack: StackId) -> Option<StackId> {
    (stack != StackId::UNKNOWN).then_some(stack)
}
