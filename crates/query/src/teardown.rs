//! Where the tear-down of a program begins: the last part of its recording, in which it does little but free.
//!
//! A program that frees everything before it ends has nothing live at its end, and one that frees a part of it leaves noise. The state before the
//! tear-down shows what the program held while it worked, so leaks and growth are judged there.

use crate::error::QueryError;
use crate::query::Query;
use crate::timeline::{TimelineAnswer, TimelineEffort, timeline};
use highwater_model::{Nanos, Window};
use highwater_store::history::Work;

/// The bins of the searched part.
const BINS: usize = 1000;
/// The searched part is one of this many of the recording: a longer decline is work, not tear-down.
const PARTS: u64 = 10;
/// Of what is freed in a tear-down, at most one part of this many is allocated meanwhile.
const FREED_PER_ALLOCATED: u64 = 10;
/// A tear-down frees at least one part of this many of what is live.
const LEAST_DROP: u64 = 10;

/// The last instant before the tear-down; `None` if the recording has no tear-down, or is not indexed yet.
pub fn before_teardown(query: &Query, work: &Work<'_>) -> Result<Option<Nanos>, QueryError> {
    let history = &query.history;
    let whole = history.whole();
    if history.recording().is_none() || history.source().is_states() {
        return Ok(None);
    }
    let length = whole.to.0 - whole.from.0;
    let window = Window { from: Nanos(whole.to.0 - length / PARTS), to: whole.to };
    let all = Query { window, filters: Vec::new(), ..query.clone() };
    let part = timeline(&all, BINS, TimelineEffort::Quick, work)?;
    Ok(if part.approximate { None } else { start_of_teardown(&part).map(Nanos) })
}

/// The last instant before the final run of frees within a timeline.
fn start_of_teardown(part: &TimelineAnswer) -> Option<u64> {
    let live = &part.live_bytes.last;
    let (mut allocated, mut freed) = (0u64, 0u64);
    let mut first = None;
    for bin in (0..live.len()).rev() {
        allocated = allocated.saturating_add(part.allocated_bytes[bin]);
        freed = freed.saturating_add(part.freed_bytes[bin]);
        if freed > 0 && allocated.saturating_mul(FREED_PER_ALLOCATED) <= freed {
            first = Some(bin);
        }
    }
    // The value at the edge before a bin is the last one of the bin before it. The latest of the highest values is where the decline begins.
    let edge = (first?.max(1)..live.len()).max_by_key(|edge| (live[edge - 1], *edge))?;
    let (before, end) = (live[edge - 1], *live.last()?);
    let is_drop = before.saturating_sub(end).saturating_mul(LEAST_DROP) >= before && before > end;
    // An event at the edge itself belongs to the tear-down.
    is_drop.then(|| part.t[edge].saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::LiveSpans;

    /// A timeline of bins of ten nanoseconds: what each allocates and frees.
    fn of(bins: &[(u64, u64)]) -> TimelineAnswer {
        let mut live = 0;
        let last = bins.iter().map(|(allocated, freed)| {
            live = live + allocated - freed;
            live
        });
        let live_bytes = LiveSpans { last: last.collect(), ..LiveSpans::default() };
        TimelineAnswer {
            t: (0..=bins.len() as u64).map(|edge| edge * 10).collect(),
            live_bytes,
            live_blocks: LiveSpans::default(),
            allocated_bytes: bins.iter().map(|bin| bin.0).collect(),
            allocations: Vec::new(),
            freed_bytes: bins.iter().map(|bin| bin.1).collect(),
            gauges: Vec::new(),
            marks: Vec::new(),
            marks_left_out: 0,
            peak: None,
            approximate: false,
        }
    }

    #[test]
    fn a_teardown_begins_where_a_program_stops_to_allocate() {
        let work = [(500, 0), (100, 90), (100, 100)];
        let teardown = [(0, 200), (5, 150), (0, 100)];
        assert_eq!(start_of_teardown(&of(&[&work[..], &teardown].concat())), Some(29));
        assert_eq!(start_of_teardown(&of(&work)), None, "it works until its end");
        assert_eq!(start_of_teardown(&of(&[(1000, 0), (0, 50)])), None, "little is freed");
        assert_eq!(start_of_teardown(&of(&[])), None);
    }

    #[test]
    fn allocations_before_a_large_teardown_are_not_part_of_it() {
        assert_eq!(start_of_teardown(&of(&[(1000, 0), (20, 0), (20, 0), (0, 1000), (0, 40)])), Some(29));
    }
}
