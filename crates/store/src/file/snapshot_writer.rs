//! Writing states without events: a snapshot has one (docs/format.md §14), a profile over time several (§16).

use super::block_writer::{BlockWriter, FileSink};
use super::writer::Written;
use highwater_model::{
    Accounts, AccountsState, Block, Catalog, Figures, RssBreakdown, Sites, Source, StackId, Totals, laws,
};
use std::io;

/// Writes a state as a `.hw` file of its own. Its handles refer to `catalog`. The source is marked as a snapshot, and its duration is set to the time
/// of the state's last event.
///
/// The state must obey the laws ([`laws::violations`]), and its blocks must be ordered by number and by time: numbers increase and stay below
/// `next_id`, times do not decrease and do not exceed `last_time`. If only figures are known ([`Source::aggregated`]) there are no blocks, and
/// [`laws::violations_of_figures`] says what must hold. Debug builds assert all of this; other builds check only that the number of blocks matches the
/// figures. Peaks are not shown; set them to the live figures.
pub fn write_snapshot<S: FileSink>(
    sink: S,
    source: &Source,
    catalog: &Catalog,
    state: &AccountsState,
) -> io::Result<(S, Written)> {
    write_snapshot_with_breakdown(sink, source, catalog, state, None)
}

/// The same, with a breakdown of the resident memory at its instant. One with figures that no file can hold is left out.
pub fn write_snapshot_with_breakdown<S: FileSink>(
    sink: S,
    source: &Source,
    catalog: &Catalog,
    state: &AccountsState,
    breakdown: Option<&RssBreakdown>,
) -> io::Result<(S, Written)> {
    check_number_of_blocks(state, source.aggregated)?;
    debug_assert!(is_ordered(state), "blocks are out of order");
    debug_assert_eq!(violations(state, source.aggregated), Vec::<String>::new());
    let duration = source.duration.max(state.last_time);
    let source = Source { snapshot: true, duration, ..source.clone() };
    let mut out = BlockWriter::new(sink, &source, super::writer::version_for(&source))?;
    out.add_catalog(catalog)?;
    out.add_keyframe(state, &state.anomalies)?;
    if let Some(breakdown) = breakdown {
        out.add_breakdown(breakdown)?;
    }
    let (bytes, sink) = out.finish(&source)?;
    Ok((sink, Written { events: state.events, bytes }))
}

/// Writes states as a `.hw` file of their own: figures at several instants, of which no event is known ([`Source::is_states`]). The states are ordered by
/// time and have no blocks; [`laws::violations_of_figures`] says what must hold. Their numbers of events and the peak of the whole are set here.
pub fn write_states<S: FileSink>(
    sink: S,
    source: &Source,
    catalog: &Catalog,
    states: &mut [AccountsState],
) -> io::Result<(S, Written)> {
    let last_time = states.last().map_or(source.duration, |state| state.last_time);
    let duration = source.duration.max(last_time);
    let source = Source { snapshot: false, aggregated: true, duration, ..source.clone() };
    let mut out = BlockWriter::new(sink, &source, super::writer::version_for(&source))?;
    out.add_catalog(catalog)?;
    let (mut highest, mut unknown) = (Totals::default(), 0);
    for (state, number) in states.iter_mut().zip(1..) {
        check_number_of_blocks(state, true)?;
        state.events = number;
        let (before, without_stack) = (highest, bytes_without_stack(&state.sites));
        let is_as_high = before.figures.peak_bytes == state.totals.figures.live_bytes();
        state.totals = highest_of(&before, state, is_as_high && without_stack < unknown);
        highest = state.totals;
        if highest.peak_event == number {
            unknown = without_stack;
        }
        debug_assert_eq!(violations(state, true), Vec::<String>::new());
        out.add_keyframe(state, &state.anomalies)?;
    }
    let (bytes, sink) = out.finish(&source)?;
    Ok((sink, Written { events: states.len() as u64, bytes }))
}

/// The bytes of a state of which no call stack is known. Of states that are equally high, the one with the fewest of these is the peak.
pub(super) fn bytes_without_stack(sites: &Sites) -> u64 {
    sites.get(StackId::UNKNOWN).map_or(0, Figures::live_bytes)
}

/// The totals of a state, with the peak until then. A state that is as high as that peak replaces it if it is preferred.
fn highest_of(before: &Totals, state: &AccountsState, is_preferred: bool) -> Totals {
    let mut totals = state.totals;
    let live = totals.figures.live_bytes();
    if before.figures.peak_bytes >= live && before.peak_event > 0 && !is_preferred {
        totals.figures.peak_bytes = before.figures.peak_bytes;
        return Totals { figures: totals.figures, ..*before };
    }
    totals.figures.peak_bytes = live;
    Totals {
        peak_blocks: totals.figures.live_blocks(),
        peak_at: state.last_time,
        peak_event: state.events,
        peak_bytes_inside_reallocation: live,
        ..totals
    }
}

/// A file whose figures do not match its blocks could not be read.
fn check_number_of_blocks(state: &AccountsState, aggregated: bool) -> io::Result<()> {
    let expected = if aggregated { 0 } else { state.totals.figures.live_records() };
    let found = state.blocks.len() as u64;
    if found == expected {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the state has {found} blocks instead of {expected}")))
}

fn is_ordered(state: &AccountsState) -> bool {
    let follows = |a: &Block, b: &Block| a.id < b.id && a.time <= b.time;
    state.blocks.iter().is_sorted_by(follows)
        && state.blocks.last().is_none_or(|last| last.id.0 < state.next_id && last.time <= state.last_time)
}

fn violations(state: &AccountsState, aggregated: bool) -> Vec<String> {
    let accounts = Accounts::from_state(state.clone());
    if aggregated { laws::violations_of_figures(&accounts) } else { laws::violations(&accounts) }
}
