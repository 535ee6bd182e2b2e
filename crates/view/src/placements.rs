//! What was allocated in a window, from the steps alone.
//!
//! A step that places a block says its size, its stack and its thread, and that is all that most filters ask for. No ledger is needed then, and so no
//! keyframe: several times faster.

use crate::choice::Choice;
use crate::measure::{Amount, Owners, Tally};
use crate::problem::Problem;
use crate::scan;
use crate::sieve::Sieve;
use crate::work::Work;
use highwater_model::{Op, StackId, TagId};
use std::ops::ControlFlow;

/// By stack and thread; tags are not told. `None` where steps do not say enough: filters ask for more, blocks have weights, or one was resized by somebody
/// who is not known, and so belongs to whom it did.
pub fn by_placements(choice: &Choice, sieve: &Sieve, work: &Work<'_>) -> Result<Option<Tally>, Problem> {
    let Some(recording) = choice.loaded.recording().filter(|_| sieve.asks_only_what_steps_say()) else {
        return Ok(None);
    };
    let window = choice.window;
    let parts = scan::steps(
        recording,
        (window.from, window.to),
        work,
        |summary| summary.last_time >= window.from,
        || Some(Tally::default()),
        |tally, step| {
            let (size, stack, weight) = match step.op {
                Op::Allocate(place) => (place.size, place.stack, place.weight),
                Op::Reallocate { size, stack, weight, .. } if stack != StackId::UNKNOWN => (size, stack, weight),
                Op::Reallocate { .. } => {
                    *tally = None;
                    return ControlFlow::Break(());
                }
                _ => return ControlFlow::Continue(()),
            };
            if !weight.is_one() {
                *tally = None;
                return ControlFlow::Break(());
            }
            let passes = step.time >= window.from
                && sieve.passes_owners(stack, TagId::NONE, step.thread)
                && sieve.passes_birth(step.time, size);
            if let Some(tally) = tally.as_mut().filter(|_| passes) {
                let owners = Owners { stack, tag: TagId::NONE, thread: step.thread };
                tally.entry(owners).or_default().add(Amount { value: size, blocks: 1 });
            }
            ControlFlow::Continue(())
        },
    )?;
    let mut all = Tally::default();
    for part in parts {
        let Some(part) = part else { return Ok(None) };
        part.into_iter().for_each(|(owners, amount)| all.entry(owners).or_default().add(amount));
    }
    Ok(Some(all))
}
