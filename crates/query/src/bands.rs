//! Live memory over time, stacked: the rows that hold the most, and the rest.
//!
//! Each bin has one value: what is live at its instant `at`, exactly as a table of that instant has it. The bands and the rest add up to the total there. Without
//! filters the total is the `last` of the bin in the [timeline](crate::timeline).
//!
//! There are three ways to the values, as for timelines:
//!
//! * *Long windows* are added up from [`OwnerChanges`](highwater_store::history::OwnerChanges): what each stack, tag and thread gained and lost in slices of thousands of
//!   events. The instant of a bin is the end of the last slice that ends in it. Filters on stacks, types, heaps, tasks, modules and threads select owners.
//! * *Short windows*, and filters on sizes or births, need block events. The instant of a bin is its last.
//! * *Filters on deaths* need [whole lives](crate::band_lives).
//!
//! Rows are ranked by the most that they hold at any of the instants: the largest part of the peak is always a band of its own.

use crate::band_curves::{BEFORE, Keeps, PartCurves, joined, most_held};
use crate::band_lives::BandLives;
use crate::call_trie::CallTrie;
use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::grouping::rows_of;
use crate::lives::blocks_of;
use crate::measure::measure_by;
use crate::names::{details_of, key_text, own_frame_of};
use crate::query::Query;
use crate::row_numbers::RowNumbers;
use crate::slot_states::{MOST_CHANGES, SlotChanges, SlotStates, highest, rank};
use crate::timeline::events_in;
use highwater_formats::json::FrameAnswer;
use highwater_model::groups::{GroupBy, GroupKey, Metric};
use highwater_model::{ByteSum, Nanos, StackId, ThreadId, Window};
use highwater_store::Recording;
use highwater_store::history::{
    Bins, BlockEventRow, BlockFacts, ColumnSet, History, HistoryIndex, LiveChange, Moment, Owners, Side, Work,
    block_events,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Which bands are wanted.
#[derive(Clone, Copy, Debug)]
pub struct BandsOptions {
    /// What a band is.
    pub by: GroupBy,
    /// The number of bins.
    pub points: usize,
    /// The most bands. All other rows are the rest.
    pub top: usize,
    /// Ranked by blocks instead of bytes.
    pub in_blocks: bool,
}

/// Live memory over time by row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Bands"))]
pub struct BandsAnswer {
    /// What a band is: `function`, `thread`, …
    pub by: &'static str,
    /// The times that separate the bins, one more than there are bins.
    pub t: Vec<u64>,
    /// The instant of each bin: the values are those after all events up to and including it.
    pub at: Vec<u64>,
    /// All live memory that passes the filters, for each bin.
    pub total: BandCurve,
    /// The rows that hold the most at any of these instants, largest first.
    pub bands: Vec<BandAnswer>,
    /// What is in no band.
    pub rest: RestBand,
}

/// Live memory in each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct BandCurve {
    /// Bytes.
    pub bytes: Vec<u64>,
    /// Blocks.
    pub blocks: Vec<u64>,
}

/// The live memory of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Band"))]
pub struct BandAnswer {
    /// Its name, for people.
    pub key: String,
    /// The number of a site or thread.
    pub id: Option<u64>,
    /// For sites: the frame that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional = nullable))]
    pub frame: Option<Option<FrameAnswer>>,
    /// For sites that would look like another: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
    /// What it holds.
    #[serde(flatten)]
    #[cfg_attr(test, ts(flatten))]
    pub curve: BandCurve,
}

/// What is live and in no band: the total less all bands. Estimates are rounded one by one, so a rest of nothing may be some bytes below zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RestBand"))]
pub struct RestBand {
    /// How many rows it has.
    pub count: usize,
    /// Bytes.
    pub bytes: Vec<i64>,
    /// Blocks.
    pub blocks: Vec<i64>,
}

/// The most values of all rows that are held at once, besides those of the bands. They take 32 bytes each.
const MOST_VALUES: usize = 1 << 20;
/// Live memory over the window, by row.
pub fn bands(query: &Query, options: &BandsOptions, work: &Work<'_>) -> Result<BandsAnswer, QueryError> {
    bands_with(query, options, (History::LONG, MOST_VALUES), work)
}

/// The same: a window with more than `long` events comes from slices, and if there are more than `most_values` values, rows are ranked before their values are kept.
fn bands_with(
    query: &Query,
    options: &BandsOptions,
    (long, most_values): (u64, usize),
    work: &Work<'_>,
) -> Result<BandsAnswer, QueryError> {
    let history = &query.history;
    let Some(recording) = history.recording() else {
        return Err(QueryError::failed("a snapshot knows one instant only; it has no memory over time"));
    };
    let query = &Query { metric: Metric::Live, ..query.clone() };
    if history.source().is_states() {
        return of_states(query, recording, options, work);
    }
    let rows = RowNumbers::of(query, options.by, work)?;
    let index = history.index(recording, work)?;
    let scan = Scan {
        query,
        recording,
        index: &index,
        filter: CompiledFilter::new(&query.filters, history.catalog(), &query.naming),
        bins: Bins::new(query.window, options.points),
    };
    let bins = scan.bins.bins.len();
    if scan.filter.needs_deaths() {
        let lives = BandLives { query, recording, filter: &scan.filter, bins: &scan.bins };
        let (shown, states) = lives.bands(&rows, (options.top, options.in_blocks), MOST_CHANGES, work)?;
        let keys: Vec<GroupKey> = shown.iter().map(|row| rows.keys()[*row as usize].clone()).collect();
        let edges = scan.bins.edges();
        let times = (edges.clone(), last_instants(&edges));
        return Ok(answer(query, options.by, times, &states, (&keys, rows.len() - shown.len())));
    }
    let way = scan.way(long);
    // The number after the last row is that of memory in no row.
    let all = rows.len() + 1;
    let values = all.saturating_mul(bins + 1);
    let (shown, states): (Vec<u32>, Vec<Vec<LiveChange>>) = if let Way::Blocks { since } = way
        && values / (MOST_CHANGES / MOST_VALUES) <= most_values
    {
        let numbers: Vec<u32> = (0..rows.len() as u32).collect();
        let states = scan.states_of_blocks(since, all, &|owners| rows.row(owners), work)?;
        states.largest((&numbers, rows.keys()), (options.top, options.in_blocks))
    } else if values <= most_values {
        let (before, parts) = scan.curves(&way, all, Keeps::States, &|owners| rows.row(owners), work)?;
        let states = joined(before, parts, bins);
        let most = (0..rows.len()).map(|row| {
            let held = |state: &Vec<LiveChange>| rank(options.in_blocks, state[row]);
            states.iter().map(held).max().unwrap_or(0)
        });
        let shown = highest(most, rows.keys(), options.top);
        let part = |state: &Vec<LiveChange>| {
            let mut part: Vec<LiveChange> = shown.iter().map(|row| state[*row as usize]).collect();
            let mut rest = LiveChange::default();
            let others = (0..).zip(state).filter(|(row, _)| !shown.contains(row));
            others.for_each(|(_, each)| rest.add(*each));
            part.push(rest);
            part
        };
        let states = states.iter().map(part).collect();
        (shown, states)
    } else {
        let keeps = Keeps::Most(options.in_blocks);
        let (before, parts) = scan.curves(&way, all, keeps, &|owners| rows.row(owners), work)?;
        let most = most_held(before, &parts, options.in_blocks);
        let shown = highest(most.into_iter().take(rows.len()), rows.keys(), options.top);
        let places: FxHashMap<u32, u32> = shown.iter().copied().zip(0..).collect();
        let place = |owners: &Owners| places.get(&rows.row(owners)).copied().unwrap_or(shown.len() as u32);
        let (before, parts) = scan.curves(&way, shown.len() + 1, Keeps::States, &place, work)?;
        let states = joined(before, parts, bins);
        (shown, states)
    };
    let keys: Vec<GroupKey> = shown.iter().map(|row| rows.keys()[*row as usize].clone()).collect();
    let count = rows.len() - shown.len();
    Ok(answer(query, options.by, (scan.bins.edges(), scan.instants(&way)), &states, (&keys, count)))
}

/// The answer. Each state has the bands, and after them the rest.
fn answer(
    query: &Query,
    by: GroupBy,
    (t, at): (Vec<u64>, Vec<u64>),
    states: &[Vec<LiveChange>],
    (keys, others): (&[GroupKey], usize),
) -> BandsAnswer {
    let (catalog, naming) = (query.history.catalog(), &query.naming);
    let blocks = |state: LiveChange| u64::try_from(state.blocks).unwrap_or(0);
    let curve = |of: &dyn Fn(&[LiveChange]) -> LiveChange| BandCurve {
        bytes: states.iter().map(|state| of(state).bytes().rounded()).collect(),
        blocks: states.iter().map(|state| blocks(of(state))).collect(),
    };
    let whole = |state: &[LiveChange]| {
        let mut whole = LiveChange::default();
        state.iter().for_each(|each| whole.add(*each));
        whole
    };
    let total = curve(&whole);
    let site = |key: &GroupKey| if let GroupKey::Site(stack) = key { Some(*stack) } else { None };
    let details = details_of(naming, keys.iter().map(|key| Some((&**catalog, site(key)?))));
    let band = |((row, key), detail): ((usize, &GroupKey), Option<String>)| BandAnswer {
        key: key_text(naming, catalog, key),
        id: match key {
            GroupKey::Site(StackId(id)) => Some((*id).into()),
            GroupKey::Thread(ThreadId(id)) => Some(*id),
            GroupKey::Name(_) | GroupKey::Code { .. } => None,
        },
        frame: site(key).map(|stack| own_frame_of(naming, catalog, stack)),
        detail,
        curve: curve(&|state| state[row]),
    };
    let bands: Vec<BandAnswer> = keys.iter().enumerate().zip(details).map(band).collect();
    let less = |total: &[u64], of: fn(&BandCurve) -> &[u64]| -> Vec<i64> {
        let rest = |(bin, total): (usize, &u64)| {
            let shown: i128 = bands.iter().map(|band| i128::from(of(&band.curve)[bin])).sum();
            i64::try_from(i128::from(*total) - shown).unwrap_or(i64::MAX)
        };
        total.iter().enumerate().map(rest).collect()
    };
    let rest = RestBand {
        count: others,
        bytes: less(&total.bytes, |curve| &curve.bytes),
        blocks: less(&total.blocks, |curve| &curve.blocks),
    };
    BandsAnswer { by: by.key(), t, at, total, bands, rest }
}

/// The way to the values.
enum Way {
    /// By slices: the first list of the window, the number of lists up to its end, the slot of each of these, and the instants of the bins.
    Slices { first: usize, slots: Vec<usize>, instants: Vec<u64> },
    /// By block events after this time.
    Blocks { since: Nanos },
}

/// A question about a recording with events.
struct Scan<'a> {
    query: &'a Query,
    recording: &'a Recording,
    index: &'a HistoryIndex,
    filter: CompiledFilter,
    bins: Bins,
}

type Curves = (Vec<LiveChange>, Vec<PartCurves>);

impl Scan<'_> {
    fn window(&self) -> Window {
        self.query.window
    }

    fn slot(&self, time: Nanos) -> usize {
        slot(&self.bins, self.window(), time)
    }

    fn way(&self, long: u64) -> Way {
        let window = self.window();
        let changes = self.index.owner_changes().filter(|_| !self.filter.needs_single_blocks());
        let Some(changes) = changes else { return Way::Blocks { since: window.from } };
        let lists = changes.lists();
        let slices = self.index.slices();
        // The end of the last slice before the window.
        let before = slices.partition_point(|slice| slice.last < window.from);
        let since = before.checked_sub(1).map(|at| slices[at].last);
        let has_gap = lists
            .iter()
            .any(|list| list.is_jump && since.is_none_or(|since| list.last > since) && list.last <= window.to);
        if events_in(self.recording, window) <= long && !has_gap {
            return Way::Blocks { since: since.map_or(Nanos(0), |since| Nanos(since.0.saturating_add(1))) };
        }
        self.by_slices(before)
    }

    /// Lists count when the slice ends that they belong to.
    fn by_slices(&self, before: usize) -> Way {
        let (window, slices) = (self.window(), self.index.slices());
        let lists = self.index.owner_changes().map_or(&[][..], |changes| changes.lists());
        let mut slots = Vec::with_capacity(lists.len());
        let mut instants = vec![None; self.bins.bins.len()];
        let mut slice = 0;
        for list in lists {
            while slice < slices.len() && slices[slice].last < list.last {
                slice += 1;
            }
            // The state with which the recording begins, or goes on after a gap, does not wait for the end of a slice.
            let is_at_once = slots.is_empty() || list.is_jump;
            let ends = slices.get(slice).filter(|_| !is_at_once).map_or(list.last, |slice| slice.last);
            if ends > window.to {
                break;
            }
            let slot = self.slot(ends).max(slots.last().copied().unwrap_or(BEFORE));
            if slot > BEFORE {
                instants[slot - 1] = Some(ends.0);
            }
            slots.push(slot);
        }
        let begin = before.checked_sub(1).map_or(self.query.history.whole().from.0, |at| slices[at].last.0);
        let mut last = begin;
        let each = |instant: Option<u64>| {
            last = instant.unwrap_or(last);
            last
        };
        let first = slots.partition_point(|slot| *slot == BEFORE).saturating_sub(1);
        Way::Slices { first, slots, instants: instants.into_iter().map(each).collect() }
    }

    /// The instants of the bins.
    fn instants(&self, way: &Way) -> Vec<u64> {
        match way {
            Way::Slices { instants, .. } => instants.clone(),
            Way::Blocks { .. } => last_instants(&self.bins.edges()),
        }
    }

    /// The curves of these rows, and the state before them.
    fn curves(
        &self,
        way: &Way,
        rows: usize,
        keeps: Keeps,
        row: &(dyn Fn(&Owners) -> u32 + Sync),
        work: &Work<'_>,
    ) -> Result<Curves, QueryError> {
        match way {
            Way::Slices { first, slots, .. } => self.of_slices((*first, slots), rows, keeps, row, work),
            Way::Blocks { since } => self.of_blocks(*since, rows, keeps, row, work),
        }
    }

    /// The row of each owner; `None` for one that does not pass the filters.
    fn rows_of_owners(&self, row: &(dyn Fn(&Owners) -> u32 + Sync)) -> Vec<Option<u32>> {
        let owners = self.index.owner_changes().and_then(|changes| changes.owners()).unwrap_or_default();
        owners.iter().map(|owners| self.filter.passes_owners(owners).then(|| row(owners))).collect()
    }

    fn of_slices(
        &self,
        (first, slots): (usize, &[usize]),
        rows: usize,
        keeps: Keeps,
        row: &(dyn Fn(&Owners) -> u32 + Sync),
        work: &Work<'_>,
    ) -> Result<Curves, QueryError> {
        let rows_of = self.rows_of_owners(row);
        let lists = self.index.owner_changes().map_or(&[][..], |changes| changes.lists());
        let parts = self.index.each_owner_change(
            (first, slots.len()),
            work,
            || PartCurves::new(rows, keeps, true),
            |part, list| {
                part.enter(slots[list]);
                if lists[list].is_state {
                    part.begin_anew();
                }
            },
            |part, owner, change| {
                if let Some(row) = rows_of.get(owner as usize).copied().flatten() {
                    part.add(row, change);
                }
            },
        )?;
        Ok((vec![LiveChange::default(); rows], parts.into_iter().map(PartCurves::ended).collect()))
    }

    fn of_blocks(
        &self,
        since: Nanos,
        rows: usize,
        keeps: Keeps,
        row: &(dyn Fn(&Owners) -> u32 + Sync),
        work: &Work<'_>,
    ) -> Result<Curves, QueryError> {
        let window = self.window();
        let before = self.state_before(since, rows, row, work)?;
        let edges = self.bins.edges();
        let begin = |_| (PartCurves::new(rows, keeps, false), BEFORE);
        let see = |(part, slot): &mut (PartCurves, usize), event: BlockEventRow<'_>| {
            if !self.filter.passes(&event) {
                return;
            }
            let at = event.at();
            if at >= window.from {
                // Slot 1 begins with edge 0.
                while *slot < self.bins.bins.len() && edges[*slot] <= at.0 {
                    *slot += 1;
                }
            }
            part.enter(*slot);
            let change = LiveChange::of(event.amount());
            part.add(row(&event.owners()), if event.is_birth { change } else { change.negated() });
        };
        let wanted = (Side::Both, ColumnSet::Figures);
        let events = (self.recording, &self.index.block_events);
        let parts = block_events(events, (since, window.to), wanted, work, begin, see)?;
        Ok((before, parts.into_iter().map(|(part, _)| part.ended()).collect()))
    }

    /// What all rows hold at the end of each slot, from block events after a time.
    fn states_of_blocks(
        &self,
        since: Nanos,
        rows: usize,
        row: &(dyn Fn(&Owners) -> u32 + Sync),
        work: &Work<'_>,
    ) -> Result<SlotStates, QueryError> {
        let (window, edges) = (self.window(), self.bins.edges());
        let mut changes = self.state_before(since, rows, row, work)?;
        changes.resize(rows * (self.bins.bins.len() + 1), LiveChange::default());
        let table = Mutex::new(changes);
        for side in [Side::Births, Side::Deaths] {
            let see = |part: &mut SlotChanges<'_>, event: BlockEventRow<'_>| {
                if !self.filter.passes(&event) {
                    return;
                }
                let at = event.at();
                let mut slot = part.slot();
                // Slot 1 begins with edge 0.
                while at >= window.from && slot < self.bins.bins.len() && edges[slot] <= at.0 {
                    slot += 1;
                }
                part.enter(slot);
                let change = LiveChange::of(event.amount());
                part.add(row(&event.owners()), if event.is_birth { change } else { change.negated() });
            };
            let events = (self.recording, &self.index.block_events);
            let begin = |_| SlotChanges::new(&table, rows);
            let parts = block_events(events, (since, window.to), (side, ColumnSet::Figures), work, begin, see)?;
            parts.into_iter().for_each(|mut part| part.write());
        }
        Ok(SlotStates::of_changes(rows, table.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The live memory before a time: that after the last list before it, or of single blocks if filters need those.
    fn state_before(
        &self,
        since: Nanos,
        rows: usize,
        row: &(dyn Fn(&Owners) -> u32 + Sync),
        work: &Work<'_>,
    ) -> Result<Vec<LiveChange>, QueryError> {
        let mut state = vec![LiveChange::default(); rows];
        let history = &self.query.history;
        let changes = self.index.owner_changes().filter(|_| !self.filter.needs_single_blocks());
        let Some(changes) = changes else {
            let snapshot = history.snapshot(history.moment_before(since))?;
            for owned in blocks_of(&snapshot).filter(|owned| self.filter.passes(owned)) {
                state[row(&owned.owners()) as usize].add(LiveChange::of(owned.amount()));
            }
            return Ok(state);
        };
        // The state with which a recording begins has no event before it.
        let is_earlier = |at: usize| changes.lists()[at].last < since || (at == 0 && changes.lists()[0].is_state);
        let count = (0..changes.lists().len()).take_while(|at| is_earlier(*at)).count();
        if count == 0 {
            return Ok(state);
        }
        let rows_of = self.rows_of_owners(row);
        let begin = || vec![LiveChange::default(); rows];
        let found = self.index.each_owner_change(
            (count - 1, count),
            work,
            begin,
            |state, list| {
                if changes.lists()[list].is_state {
                    state.fill(LiveChange::default());
                }
            },
            |state, owner, change| {
                if let Some(row) = rows_of.get(owner as usize).copied().flatten() {
                    state[row as usize].add(change);
                }
            },
        )?;
        Ok(found.into_iter().next_back().unwrap_or(state))
    }
}

/// The slot of a time.
pub fn slot(bins: &Bins, window: Window, time: Nanos) -> usize {
    if time < window.from { BEFORE } else { 1 + bins.place(time.min(window.to)).unwrap_or(0) }
}

/// The last instant of each bin.
fn last_instants(edges: &[u64]) -> Vec<u64> {
    let bins = edges.len().saturating_sub(1);
    (1..=bins).map(|at| if at == bins { edges[at] } else { edges[at].saturating_sub(1) }).collect()
}

/// The bands of a profile with several states. Between two states nothing is known; a bin without one repeats the state before it.
fn of_states(
    query: &Query,
    recording: &Recording,
    options: &BandsOptions,
    work: &Work<'_>,
) -> Result<BandsAnswer, QueryError> {
    let catalog = query.history.catalog();
    let (window, bins) = (query.window, Bins::new(query.window, options.points));
    let count = bins.bins.len();
    let mut found: BTreeMap<usize, (u64, BTreeMap<GroupKey, LiveChange>, LiveChange)> = BTreeMap::new();
    let times = recording.states();
    let trie = CallTrie::of(query)?;
    for (number, time) in (1..).zip(&times).take_while(|(_, time)| **time <= window.to) {
        work.progress(number as f64 / times.len() as f64, "reading")?;
        let query = Query { at: Moment::Event(number), ..query.clone() };
        let measured = measure_by(&query, options.by, work)?;
        let rows = rows_of(&measured, (catalog, &trie), options.by, work)?;
        let live = |sum: ByteSum, blocks: u64| LiveChange::of((sum, blocks));
        let rows = rows.into_iter().map(|row| (row.key, live(row.figures.amount.sum, row.figures.amount.blocks)));
        let slot = bins.place(*time).map_or(BEFORE, |bin| 1 + bin);
        found.insert(slot, (time.0, rows.collect(), live(measured.total.sum, measured.total.blocks)));
    }
    let states: Vec<&(u64, BTreeMap<GroupKey, LiveChange>, LiveChange)> = {
        let in_bin = |bin: usize| found.range(..=bin + 1).next_back().map(|(_, state)| state);
        (0..count).filter_map(in_bin).collect()
    };
    let missing = count - states.len();
    let mut most: BTreeMap<&GroupKey, i128> = BTreeMap::new();
    for (_, rows, _) in &states {
        for (key, held) in rows {
            let most = most.entry(key).or_default();
            *most = (*most).max(rank(options.in_blocks, *held));
        }
    }
    let all: Vec<GroupKey> = most.keys().map(|key| (*key).clone()).collect();
    let shown = highest(most.values().copied(), &all, options.top);
    let keys: Vec<GroupKey> = shown.iter().map(|row| all[*row as usize].clone()).collect();
    let part = |state: &&(u64, BTreeMap<GroupKey, LiveChange>, LiveChange)| {
        let mut part: Vec<LiveChange> = keys.iter().map(|key| state.1.get(key).copied().unwrap_or_default()).collect();
        let mut rest = state.2;
        part.iter().for_each(|each| rest.add(each.negated()));
        part.push(rest);
        part
    };
    let nothing = vec![LiveChange::default(); keys.len() + 1];
    let values: Vec<Vec<LiveChange>> = std::iter::repeat_n(nothing, missing).chain(states.iter().map(part)).collect();
    let instants = std::iter::repeat_n(window.from.0, missing).chain(states.iter().map(|state| state.0)).collect();
    Ok(answer(query, options.by, (bins.edges(), instants), &values, (&keys, all.len() - keys.len())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use highwater_model::groups::{NO_TASK, rows_named};
    use highwater_model::{Catalog, Event, EventKind, FrameText, Heap, Placement, Source, Tag, TagId};
    use highwater_store::{Spacing, Writer};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Blocks that come, go and are resized at 3,000 addresses, on three threads; every fifth event has the time of the one before it.
    pub(crate) fn history(seed: u64, events: u64, every: u64) -> Arc<History> {
        let mut catalog = Catalog::default();
        fn frame<'a>(function: &'a str, module: &'a str) -> FrameText<'a> {
            FrameText { function, module, ..FrameText::default() }
        }
        let names: Vec<String> = (0..40).map(|number| format!("make_{number}")).collect();
        let module = |number: usize| if number.is_multiple_of(3) { "lib.so" } else { "demo" };
        let stack = |(number, name): (usize, &String)| {
            catalog.intern_stack(&[frame(name, module(number)), frame("main", "demo")])
        };
        let stacks: Vec<StackId> = names.iter().enumerate().map(stack).collect();
        let type_name = catalog.strings.intern("Order");
        let task = catalog.strings.intern("load");
        let tags = [
            TagId::NONE,
            catalog.intern_tag(Tag { type_name, ..Tag::default() }),
            catalog.intern_tag(Tag { heap: Heap::Mapped, task, ..Tag::default() }),
        ];
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % bound
        };
        let mut time = 0;
        let mut event = |number: u64| {
            time += if random(5) == 0 { 0 } else { 1 + random(100) };
            let address = 0x7f00_0000_0000 + random(3000) * 4096;
            let size = 16 + random(40) * (1 + number % 7000 / 100);
            // Functions are used at different times: which row is largest depends on the instant.
            let stack = stacks[((random(12) + number / 2000) % 40) as usize];
            let place = Placement { address, size, stack, tag: tags[random(3) as usize], ..Placement::default() };
            let kind = match random(10) {
                0..4 => EventKind::free(address, None),
                4 => EventKind::Reallocate { old_address: address, claimed_old_size: None, new: place },
                _ => EventKind::Allocate(place),
            };
            Event { time: Nanos(time), thread: ThreadId(1 + random(3)), kind }
        };
        let all: Vec<Event> = (0..events).map(&mut event).collect();
        let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
        writer.set_spacing(Spacing::every(every));
        for part in all.chunks(1500) {
            writer.append(part, &catalog).unwrap();
            writer.flush(&catalog).unwrap();
        }
        let source = Source { duration: Nanos(time), ..Source::default() };
        let bytes = writer.finish(&catalog, &source).unwrap().1;
        Arc::new(History::of_recording(Arc::new(Recording::from_bytes(bytes).unwrap())).unwrap())
    }

    fn keyed(rows: impl Iterator<Item = (GroupKey, (u64, u64))>) -> BTreeMap<GroupKey, (u64, u64)> {
        rows.filter(|(_, held)| *held != (0, 0)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10))]

        /// In each way, at the instant of each bin, all bands are the rows of a table of that instant, and add up to the total.
        #[test]
        fn bands_are_the_rows_of_their_instants(
            seed in any::<u64>(),
            events in 20_000u64..60_000,
            every in 4_000u64..40_000,
            ends in (0.0f64..1.0, 0.0f64..1.0),
            points in 1usize..30,
            is_by_slices in any::<bool>(),
            is_ranked_first in any::<bool>(),
        ) {
            let history = history(seed, events, every);
            let time = |part: f64| Nanos((history.whole().to.0 as f64 * part) as u64);
            let window = Window { from: time(ends.0.min(ends.1)), to: time(ends.0.max(ends.1)) };
            let query = Query { window, ..Query::new(Arc::clone(&history)) };
            let limits = (if is_by_slices { 0 } else { u64::MAX }, if is_ranked_first { 0 } else { usize::MAX });
            for by in GroupBy::ALL {
                let options = BandsOptions { by, points, top: 1000, in_blocks: false };
                let found = bands_with(&query, &options, limits, &Work::quiet()).unwrap();
                let few = BandsOptions { top: 3, ..options };
                let few = bands_with(&query, &few, limits, &Work::quiet()).unwrap();
                prop_assert_eq!(&few.total, &found.total);
                prop_assert_eq!(&few.bands[..], &found.bands[..found.bands.len().min(3)], "{:?}", by);
                for (bin, at) in found.at.iter().enumerate() {
                    prop_assert!(*at <= found.t[bin + 1]);
                    let snapshot = history.snapshot(history.moment_at(Nanos(*at))).unwrap();
                    let expected = keyed(
                        rows_named(&snapshot, by, Metric::Live, None, &query.naming)
                            .into_iter()
                            .map(|row| (row.key, (row.figures.live_bytes(), row.figures.live_blocks()))),
                    );
                    let name = |key: &GroupKey| key_text(&query.naming, &snapshot.catalog, key);
                    let expected: BTreeMap<(Option<u64>, String), (u64, u64)> = expected
                        .iter()
                        .map(|(key, held)| {
                            let id = match key {
                                GroupKey::Site(stack) => Some(stack.0.into()),
                                GroupKey::Thread(thread) => Some(thread.0),
                                _ => None,
                            };
                            ((id, name(key)), *held)
                        })
                        .collect();
                    let totals = &snapshot.accounts.totals().figures;
                    // A table by task has no rows where no live block has a task.
                    let no_tasks = BTreeMap::from([((None, NO_TASK.to_owned()), (totals.live_bytes(), totals.live_blocks()))]);
                    let has_rows = by != GroupBy::Task || !expected.is_empty() || totals.live_blocks() == 0;
                    let expected = if has_rows { expected } else { no_tasks };
                    let shown: BTreeMap<(Option<u64>, String), (u64, u64)> = found
                        .bands
                        .iter()
                        .map(|band| ((band.id, band.key.clone()), (band.curve.bytes[bin], band.curve.blocks[bin])))
                        .filter(|(_, held)| *held != (0, 0))
                        .collect();
                    prop_assert_eq!(shown, expected, "{:?} at {}", by, at);
                    let total = (found.total.bytes[bin], found.total.blocks[bin]);
                    prop_assert_eq!(total, (totals.live_bytes(), totals.live_blocks()), "{:?} at {}", by, at);
                    for answer in [&found, &few] {
                        let bytes: u64 = answer.bands.iter().map(|band| band.curve.bytes[bin]).sum();
                        prop_assert_eq!(bytes as i64 + answer.rest.bytes[bin], total.0 as i64);
                        prop_assert!(answer.rest.bytes[bin] >= 0 && answer.rest.blocks[bin] >= 0);
                    }
                }
                let held = |band: &BandAnswer| band.curve.bytes.iter().max().copied();
                prop_assert!(found.bands.windows(2).all(|pair| held(&pair[0]) >= held(&pair[1])), "{:?}", by);
            }
        }
    }
}
