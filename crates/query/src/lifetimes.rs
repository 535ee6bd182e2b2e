//! How long blocks lived that were freed.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::filter::Filter;
use highwater_model::{Lifetimes, Naming, Nanos, Op};
use highwater_store::history::{BlockLife, History, OwnedBlock, Work};
use highwater_store::{RecordingError, WalkItem};
use std::ops::ControlFlow;

/// The number of steps between two checks whether the client is still connected.
const STEPS_PER_LOOK: u64 = 1 << 16;

/// The lifetimes of the blocks that were freed until an instant and pass the filters. A single instant has none.
///
/// A replay: it needs no memory beyond the live blocks, where block events of the whole recording would have to be made first.
pub fn lifetimes(
    history: &History,
    until: Nanos,
    filters: &[Filter],
    work: &Work<'_>,
) -> Result<Lifetimes, QueryError> {
    let Some(recording) = history.recording() else { return Err(RecordingError::NoHistory.into()) };
    let filter = CompiledFilter::new(filters, history.catalog(), &Naming::default());
    let events = recording.stats().events.max(1);
    let mut lifetimes = Lifetimes::default();
    let (mut steps, mut cancelled) = (0u64, Ok(()));
    recording.walk(|item| {
        let WalkItem::Step(ledger, step) = item else { return ControlFlow::Continue(()) };
        steps += 1;
        if steps % STEPS_PER_LOOK == 0 {
            cancelled = work.progress(steps as f64 / events as f64, "reading the recording");
        }
        if cancelled.is_err() || step.time > until {
            return ControlFlow::Break(());
        }
        if let Op::Free { id, .. } = step.op
            && let Some(owned) = OwnedBlock::find(ledger, id)
        {
            let life = BlockLife { birth: owned.block.time, death: Some(step.time) };
            if filter.passes_with(&owned, &life) {
                let age = Nanos(step.time.0.saturating_sub(life.birth.0));
                lifetimes.add(age, owned.block.live_blocks(), owned.block.live_amount());
            }
        }
        ControlFlow::Continue(())
    })?;
    cancelled?;
    Ok(lifetimes)
}
