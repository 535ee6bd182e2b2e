//! Live bytes and blocks, rates, gauges and marks over a window.
//!
//! There are two ways to a timeline: from slices, each a summary of thousands of events, for long windows; and from the births and deaths of single blocks,
//! for short windows and for filters.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::lives::{BlockState, blocks_of, states_since};
use crate::measure::NO_BLOCKS;
use crate::peak::PeakInstant;
use crate::query::Query;
use highwater_model::{ByteSum, GaugeReading, Nanos, Window, gauge};
use highwater_store::history::{
    Bin, Bins, BlockEventRow, BlockFacts, Cause, ColumnSet, History, HistoryIndex, Moment, Side, Slice, Span, Work,
    block_events,
};
use highwater_store::{EventsSummary, Recording};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most marks: the first ones of the window.
const MOST_MARKS: usize = 10_000;

/// Live memory over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Timeline"))]
pub struct TimelineAnswer {
    /// The times that separate the bins, one more than there are bins.
    pub t: Vec<u64>,
    /// Live bytes in each bin.
    pub live_bytes: LiveSpans,
    /// Live blocks in each bin.
    pub live_blocks: LiveSpans,
    /// Bytes allocated in each bin.
    pub allocated_bytes: Vec<u64>,
    /// Blocks allocated in each bin, reallocations included.
    pub allocations: Vec<u64>,
    /// Bytes freed in each bin.
    pub freed_bytes: Vec<u64>,
    /// The readings of gauges.
    pub gauges: Vec<GaugeAnswer>,
    /// The marks.
    pub marks: Vec<MarkAnswer>,
    /// How many marks there are beyond those.
    pub marks_left_out: usize,
    /// Where the most is live; null if too many changes would have to be sorted.
    pub peak: Option<PeakInstant>,
    /// True while a long recording is not indexed yet: allocated and freed bytes are estimated from the mean size.
    pub approximate: bool,
}

/// The least, the greatest and the last value of each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Envelope"))]
pub struct LiveSpans {
    /// The least.
    pub low: Vec<u64>,
    /// The greatest.
    pub high: Vec<u64>,
    /// The last.
    pub last: Vec<u64>,
}

/// The readings of a gauge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Gauge"))]
pub struct GaugeAnswer {
    /// Its name.
    pub name: String,
    /// What it counts: `bytes`, `address space`, or null.
    pub unit: Option<&'static str>,
    /// When it was read.
    pub t: Vec<u64>,
    /// The readings.
    pub value: Vec<u64>,
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Mark"))]
pub struct MarkAnswer {
    /// When.
    pub t: u64,
    /// Its name.
    pub name: String,
}

/// How a timeline is made before there is an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineEffort {
    /// At once: a long recording gives one point for each event block, and estimated rates.
    Quick,
    /// By a scan of the whole recording, which keeps nothing: for a question that is asked once.
    Scan,
}

/// The most events that are scanned. Of longer recordings, the summaries of event blocks are enough.
const MOST_SCANNED: u64 = 1 << 26;
/// The slices of a scan: many for each point that is shown.
const SLICES: u64 = 1 << 16;

/// Live memory over the window, in about `points` bins.
pub fn timeline(
    query: &Query,
    points: usize,
    effort: TimelineEffort,
    work: &Work<'_>,
) -> Result<TimelineAnswer, QueryError> {
    let points = points.max(1);
    let history = &query.history;
    let Some(recording) = history.recording() else {
        return Err(QueryError::failed("a snapshot knows one instant only; it has no timeline"));
    };
    let window = query.window;
    let filter = CompiledFilter::new(&query.filters, history.catalog(), &query.naming);
    if history.source().is_states() {
        return of_states(query, recording, &filter, points, work);
    }
    let events = events_in(recording, window);
    let all_events = recording.stats().events;
    let mut is_approximate = false;
    let mut peak = None;
    let mut bins = if !filter.is_open() {
        let (bins, own_peak) = filtered(query, recording, &filter, points, work)?;
        peak = own_peak.map(|peak| PeakInstant { at_ns: peak.at.0, bytes: peak.bytes.rounded() });
        bins
    } else if effort == TimelineEffort::Scan && history.known_index().is_none() && all_events <= MOST_SCANNED {
        let length = (all_events / SLICES).clamp(1, 8192);
        from_slices(window, points, HistoryIndex::slices_of(recording, length, work)?)
    } else if history.is_long() && history.known_index().is_none() {
        is_approximate = true;
        from_slices(window, points, summary_slices(history, recording)?)
    } else if events <= History::LONG {
        by_changes(query, recording, &filter, points, work)?.0
    } else {
        from_slices(window, points, history.index(recording, work)?.slices().iter().copied())
    };
    if filter.is_open() {
        let highest = history.peak(recording, window)?;
        peak = Some(PeakInstant { at_ns: highest.at.max(window.from).0, bytes: highest.bytes });
    }
    // After lost events, only the last keyframe knows what is live.
    if filter.is_open()
        && window.to >= history.whole().to
        && let Some(bin) = bins.bins.last_mut()
    {
        let end = history.totals()?.figures;
        bin.is_live(end.live(), end.live_blocks());
    }
    let live = bins.live();
    let each = |figure: fn(&Bin) -> u64| bins.bins.iter().map(figure).collect::<Vec<u64>>();
    let all_marks = history.marks()?;
    let marks = || all_marks.iter().filter(|mark| window.has(mark.time));
    Ok(TimelineAnswer {
        t: bins.edges(),
        live_bytes: spans(live.iter().map(|(bytes, _)| bytes.map(ByteSum::rounded))),
        live_blocks: spans(live.iter().map(|(_, blocks)| *blocks)),
        allocated_bytes: each(|bin| bin.allocated.rounded()),
        allocations: each(|bin| bin.allocations),
        freed_bytes: each(|bin| bin.freed.rounded()),
        gauges: gauges(history.gauges()?, window, points),
        marks: marks().take(MOST_MARKS).map(|mark| MarkAnswer { t: mark.time.0, name: mark.name.clone() }).collect(),
        marks_left_out: marks().count().saturating_sub(MOST_MARKS),
        peak,
        approximate: is_approximate,
    })
}

/// The number of events in the event blocks that a window touches: what single events of it cost to look at.
pub fn events_in(recording: &Recording, window: Window) -> u64 {
    let touches = |summary: &&EventsSummary| summary.last_time >= window.from && summary.first_time <= window.to;
    recording.summaries().filter(touches).map(|summary| summary.events).sum()
}

/// Live memory at the states of a profile. Between two states nothing is known; a bin without one repeats the state before it.
fn of_states(
    query: &Query,
    recording: &Recording,
    filter: &CompiledFilter,
    points: usize,
    work: &Work<'_>,
) -> Result<TimelineAnswer, QueryError> {
    if filter.needs_blocks() {
        return Err(QueryError::failed(NO_BLOCKS));
    }
    let (history, window) = (&query.history, query.window);
    let states = recording.states();
    let live = |number: usize| -> Result<(ByteSum, u64), QueryError> {
        let figures = history.figures(Moment::Event(number as u64))?;
        if filter.is_open() {
            let totals = &figures.accounts.totals().figures;
            return Ok((totals.live(), totals.live_blocks()));
        }
        let passing = figures.accounts.sites().iter().filter(|(stack, _)| filter.passes_stack(*stack));
        Ok(passing.fold((ByteSum::ZERO, 0), |sum, (_, site)| (sum.0 + site.live(), sum.1 + site.live_blocks())))
    };
    let mut bins = Bins::new(window, points);
    let edges = bins.edges();
    let mut peak = FilteredPeak { bytes: ByteSum::ZERO, blocks: 0, at: window.from };
    for (number, at) in (1..).zip(&states) {
        work.progress(number as f64 / states.len() as f64, "reading")?;
        if *at > window.to {
            break;
        }
        let (bytes, blocks) = live(number)?;
        if *at < window.from {
            bins = bins.beginning_with(bytes, blocks);
            peak = FilteredPeak { bytes, blocks, at: window.from };
            continue;
        }
        let bin = edges.partition_point(|edge| *edge <= at.0).saturating_sub(1).min(bins.bins.len() - 1);
        bins.bins[bin].is_live(bytes, blocks);
        peak.see(bytes, blocks, *at);
    }
    let live = bins.live();
    let nothing = vec![0; live.len()];
    Ok(TimelineAnswer {
        t: edges,
        live_bytes: spans(live.iter().map(|(bytes, _)| bytes.map(ByteSum::rounded))),
        live_blocks: spans(live.iter().map(|(_, blocks)| *blocks)),
        allocated_bytes: nothing.clone(),
        allocations: nothing.clone(),
        freed_bytes: nothing,
        gauges: gauges(history.gauges()?, window, points),
        marks: Vec::new(),
        marks_left_out: 0,
        peak: Some(PeakInstant { at_ns: peak.at.0, bytes: peak.bytes.rounded() }),
        approximate: false,
    })
}

fn spans(all: impl Iterator<Item = Span<u64>> + Clone) -> LiveSpans {
    let each = |figure: fn(Span<u64>) -> u64| all.clone().map(figure).collect::<Vec<u64>>();
    LiveSpans { low: each(|span| span.low), high: each(|span| span.high), last: each(|span| span.last) }
}

/// The most bytes that some blocks held at once, within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilteredPeak {
    /// Bytes.
    pub bytes: ByteSum,
    /// Blocks that were live then.
    pub blocks: u64,
    /// When they were first held; the beginning of the window, if they were held already then.
    pub at: Nanos,
}

impl FilteredPeak {
    fn see(&mut self, bytes: ByteSum, blocks: u64, at: Nanos) {
        if bytes > self.bytes {
            *self = Self { bytes, blocks, at };
        }
    }
}

/// The peak of the blocks that pass the filters; `None` if too many changes would have to be sorted.
pub fn filtered_peak(
    query: &Query,
    recording: &Recording,
    work: &Work<'_>,
) -> Result<Option<FilteredPeak>, QueryError> {
    let filter = CompiledFilter::new(&query.filters, query.history.catalog(), &query.naming);
    Ok(filtered(query, recording, &filter, 1, work)?.1)
}

/// The live bytes and blocks that pass the filters, and their peak.
fn filtered(
    query: &Query,
    recording: &Recording,
    filter: &CompiledFilter,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, Option<FilteredPeak>), QueryError> {
    if filter.needs_deaths() {
        return by_lives(query, recording, filter, points, work);
    }
    let (bins, peak) = by_changes(query, recording, filter, points, work)?;
    Ok((bins, Some(peak)))
}

/// The readings of each gauge.
fn gauges(readings: &[GaugeReading], window: Window, points: usize) -> Vec<GaugeAnswer> {
    let mut by_name: BTreeMap<&str, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for reading in readings.iter().filter(|reading| window.has(reading.time)) {
        let (times, values) = by_name.entry(&reading.name).or_default();
        times.push(reading.time.0);
        values.push(reading.value);
    }
    let readings_of = |(name, (times, values)): (&str, (Vec<u64>, Vec<u64>))| {
        let (times, values) = thinned(times, values, window, points);
        let lower = name.to_lowercase();
        let is_bytes = ["rss", "bytes", "memory", "heap"].iter().any(|word| lower.contains(word));
        // Address space is counted in bytes, but is not memory: in one diagram it would dwarf memory.
        let unit = match name {
            gauge::RESERVED | gauge::FILES => Some("address space"),
            _ => is_bytes.then_some("bytes"),
        };
        GaugeAnswer { name: name.to_owned(), unit, t: times, value: values }
    };
    by_name.into_iter().map(readings_of).collect()
}

/// The lowest and the highest reading of each of `points` parts of a window, and the last reading of all; all readings if
/// there are at most `2 * points`.
fn thinned(times: Vec<u64>, values: Vec<u64>, window: Window, points: usize) -> (Vec<u64>, Vec<u64>) {
    if times.len() <= 2 * points {
        return (times, values);
    }
    let length = u128::from(window.to.0 - window.from.0) + 1;
    let part = |time: u64| u128::from(time - window.from.0) * points as u128 / length;
    let all: Vec<(u64, u64)> = times.into_iter().zip(values).collect();
    let (mut kept_times, mut kept_values) = (Vec::new(), Vec::new());
    let mut keep = |reading: &(u64, u64)| {
        kept_times.push(reading.0);
        kept_values.push(reading.1);
    };
    for together in all.chunk_by(|a, b| part(a.0) == part(b.0)) {
        let lowest = (0..together.len()).min_by_key(|at| together[*at].1).unwrap_or(0);
        let highest = (0..together.len()).max_by_key(|at| together[*at].1).unwrap_or(0);
        keep(&together[lowest.min(highest)]);
        if lowest != highest {
            keep(&together[lowest.max(highest)]);
        }
    }
    if let Some(last) = all.last() {
        keep(last);
    }
    (kept_times, kept_values)
}

/// Each lot counts live bytes and blocks from this offset. The true start is known only when all earlier lots are done, and the counts may fall below the start.
const UNKNOWN: u64 = 1 << 62;

/// The live bytes and blocks in one lot.
struct Counting {
    bins: Bins,
    /// The bin of the latest birth or death.
    at: usize,
    /// Bytes and blocks that were live before the lot, if the file has them.
    before: Option<(u64, u64)>,
    bytes: ByteSum,
    blocks: u64,
    /// The peak so far, counted from the same offset as `bytes` and `blocks`.
    peak: FilteredPeak,
    /// A block that passes left its state, and is about to enter the next one, resized or promoted.
    is_halfway: bool,
}

impl Counting {
    fn see(&mut self, row: &BlockEventRow<'_>, is_wanted: bool, edges: &[u64]) {
        if !is_wanted && !self.is_halfway {
            return;
        }
        let (bytes, blocks) = if is_wanted { row.amount() } else { (ByteSum::ZERO, 0) };
        self.is_halfway = is_wanted && !row.is_birth && matches!(row.cause(), Cause::Resized | Cause::Promoted);
        while self.at + 1 < self.bins.bins.len() && edges[self.at + 1] <= row.at().0 {
            self.at += 1;
        }
        let bin = &mut self.bins.bins[self.at];
        if row.is_birth {
            self.bytes += bytes;
            self.blocks = self.blocks.saturating_add(blocks);
            bin.allocated += bytes;
            bin.allocations = bin.allocations.saturating_add(blocks);
        } else {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.blocks = self.blocks.saturating_sub(blocks);
            bin.freed += bytes;
        }
        // Between the two halves of a resize the block is not gone.
        if !self.is_halfway {
            bin.is_live(self.bytes, self.blocks);
            self.peak.see(self.bytes, self.blocks, row.at());
        }
    }
}

/// The timeline from the births and deaths of blocks that pass the filters.
fn by_changes(
    query: &Query,
    recording: &Recording,
    filter: &CompiledFilter,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, FilteredPeak), QueryError> {
    let Query { history, window, .. } = query;
    let index = history.index(recording, work)?;
    let empty = Bins::new(*window, points);
    let edges = empty.edges();
    let summaries: Vec<&EventsSummary> = recording.summaries().collect();
    // Where events were lost, counting goes wrong. After the gap, only the totals that the file stores for all blocks together are right again.
    let stored_before = |block: usize| {
        let before = summaries.get(block.checked_sub(1)?).filter(|before| before.last_time >= window.from)?;
        filter.is_open().then_some((before.live_bytes, before.live_blocks))
    };
    let begin = |block: usize| Counting {
        bins: empty.clone(),
        at: 0,
        before: stored_before(block),
        bytes: ByteSum::whole(UNKNOWN),
        blocks: UNKNOWN,
        // The first state seen is higher than nothing.
        peak: FilteredPeak { bytes: ByteSum::ZERO, blocks: 0, at: window.from },
        is_halfway: false,
    };
    let (times, wanted) = ((window.from, window.to), (Side::Both, ColumnSet::Figures));
    let lots =
        block_events((recording, &index.block_events), times, wanted, work, begin, |own: &mut Counting, row| {
            own.see(&row, filter.counts(&row), &edges);
        })?;
    let (mut bytes, mut blocks) = live_before(history, window.from, filter)?;
    let mut all = empty.beginning_with(bytes, blocks);
    let mut peak = FilteredPeak { bytes, blocks, at: window.from };
    let in_truth = |counted: u64, before: u64| counted.saturating_add(before).saturating_sub(UNKNOWN);
    let bytes_in_truth = |counted: ByteSum, before: ByteSum| (counted + before).saturating_sub(ByteSum::whole(UNKNOWN));
    for Counting { mut bins, before, bytes: last_bytes, blocks: last_blocks, peak: highest, .. } in lots {
        // The figures in a file are rounded.
        if let Some(stored) = before.filter(|stored| *stored != (bytes.rounded(), blocks)) {
            (bytes, blocks) = (ByteSum::whole(stored.0), stored.1);
        }
        for live in bins.bins.iter_mut().filter_map(|bin| bin.live.as_mut()) {
            live.0 = live.0.map(|counted| bytes_in_truth(counted, bytes));
            live.1 = live.1.map(|counted| in_truth(counted, blocks));
        }
        all.then(&bins);
        if highest.bytes > ByteSum::ZERO {
            peak.see(bytes_in_truth(highest.bytes, bytes), in_truth(highest.blocks, blocks), highest.at);
        }
        (bytes, blocks) = (bytes_in_truth(last_bytes, bytes), in_truth(last_blocks, blocks));
    }
    Ok((all, peak))
}

/// Bytes and blocks that were live before a time and pass the filters.
fn live_before(history: &History, time: Nanos, filter: &CompiledFilter) -> Result<(ByteSum, u64), QueryError> {
    let before = history.moment_before(time);
    if filter.is_open() {
        let figures = history.figures(before)?.accounts.totals().figures;
        return Ok((figures.live(), figures.live_blocks()));
    }
    let snapshot = history.snapshot(before)?;
    let wanted = blocks_of(&snapshot).filter(|owned| filter.passes(owned));
    Ok(wanted.fold((ByteSum::ZERO, 0), |(bytes, blocks), owned| {
        (bytes + owned.block.live_amount(), blocks + owned.block.live_blocks())
    }))
}

/// The timeline from whole lives, for filters on deaths: the bytes and blocks that were live at the end of each bin, each block as it was then.
fn by_lives(
    query: &Query,
    recording: &Recording,
    filter: &CompiledFilter,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, Option<FilteredPeak>), QueryError> {
    let window = query.window;
    // Births and deaths in each bin, in bytes and blocks; and the amounts that were live before.
    let empty = Bins::new(window, points);
    let nothing = || vec![Default::default(); empty.bins.len()];
    let begin = || Flow { bins: nothing(), before: BytesBlocks::default(), changes: Some(Vec::new()) };
    let add =
        |sum: &mut BytesBlocks, (bytes, blocks): BytesBlocks| *sum = (sum.0 + bytes, sum.1.saturating_add(blocks));
    let known = AtomicUsize::new(0);
    let parts = states_since(&query.history, recording, (window.from, true), filter, work, begin, |flow, state| {
        let Flow { bins, before, changes } = flow;
        let BlockState { amount: amounts @ (bytes, blocks), since, until, .. } = state;
        let mut note = |change: BirthOrDeath| {
            if known.fetch_add(1, Ordering::Relaxed) >= MOST_CHANGES {
                *changes = None;
            } else if let Some(changes) = changes {
                changes.push(change);
            }
        };
        match empty.place(since) {
            Some(at) => {
                add(&mut bins[at][0], amounts);
                note(BirthOrDeath { at: since, is_birth: true, bytes, blocks });
            }
            None if since < window.from => add(before, amounts),
            None => return,
        }
        if let Some((until, at)) = until.and_then(|until| Some((until, empty.place(until)?))) {
            add(&mut bins[at][1], amounts);
            note(BirthOrDeath { at: until, is_birth: false, bytes, blocks });
        }
    })?;
    let mut bins = empty.clone();
    let sum = |all: &mut dyn Iterator<Item = BytesBlocks>| {
        all.fold(BytesBlocks::default(), |mut sum, amounts| {
            add(&mut sum, amounts);
            sum
        })
    };
    let (mut bytes, mut blocks) = sum(&mut parts.iter().map(|flow| flow.before));
    bins.before = Some((bytes, blocks));
    let before = FilteredPeak { bytes, blocks, at: window.from };
    for (at, bin) in bins.bins.iter_mut().enumerate() {
        let [came, went] = [0, 1].map(|way: usize| sum(&mut parts.iter().map(|flow| flow.bins[at][way])));
        bytes = (bytes + came.0).saturating_sub(went.0);
        blocks = (blocks + came.1).saturating_sub(went.1);
        bin.is_live(bytes, blocks);
        (bin.allocated, bin.allocations, bin.freed) = (came.0, came.1, went.0);
    }
    let changes: Option<Vec<Vec<BirthOrDeath>>> = parts.into_iter().map(|flow| flow.changes).collect();
    Ok((bins, changes.map(|changes| peak_of(before, changes.concat()))))
}

/// Bytes and blocks.
type BytesBlocks = (ByteSum, u64);

/// The most changes that are sorted to find a peak. They take 48 bytes each.
const MOST_CHANGES: usize = 4 << 20;

/// The births and deaths of one part of the work.
struct Flow {
    /// For each bin: the sum of births, and the sum of deaths.
    bins: Vec<[BytesBlocks; 2]>,
    /// The amounts that were live before the window.
    before: BytesBlocks,
    /// All single changes; `None` if there are too many.
    changes: Option<Vec<BirthOrDeath>>,
}

/// A birth or a death.
#[derive(Clone, Copy)]
struct BirthOrDeath {
    at: Nanos,
    is_birth: bool,
    bytes: ByteSum,
    blocks: u64,
}

/// The peak. All changes of one time are applied before it is checked.
fn peak_of(before: FilteredPeak, mut changes: Vec<BirthOrDeath>) -> FilteredPeak {
    changes.sort_unstable_by_key(|change| change.at);
    let (mut peak, mut bytes, mut blocks) = (before, before.bytes, before.blocks);
    for together in changes.chunk_by(|a, b| a.at == b.at) {
        // A block is born before it dies, or at the same time: births first, so that nothing falls below zero.
        for change in together.iter().filter(|change| change.is_birth) {
            (bytes, blocks) = (bytes + change.bytes, blocks.saturating_add(change.blocks));
        }
        for change in together.iter().filter(|change| !change.is_birth) {
            (bytes, blocks) = (bytes.saturating_sub(change.bytes), blocks.saturating_sub(change.blocks));
        }
        peak.see(bytes, blocks, together[0].at);
    }
    peak
}

/// The timeline from slices. A slice that lies in several bins counts in its last one. What is live at the end of the window is what was live after the last slice
/// that ended in it.
fn from_slices(window: Window, points: usize, slices: impl IntoIterator<Item = Slice>) -> Bins {
    let mut bins = Bins::new(window, points);
    let mut known = None;
    for slice in slices {
        if slice.last < window.from {
            bins.before = slice.bin.live.map(|(bytes, blocks)| (bytes.last, blocks.last));
        } else if slice.first > window.to {
            break;
        } else {
            let at = bins.place(slice.last.min(window.to)).unwrap_or(0);
            bins.bins[at].then(&slice.bin);
            match slice.bin.live {
                Some((bytes, blocks)) if slice.last <= window.to => known = Some((bytes.last, blocks.last)),
                _ => {
                    let (bytes, blocks) = known.or(bins.before).unwrap_or_default();
                    bins.bins[at].ends_with(bytes, blocks);
                }
            }
        }
    }
    bins
}

/// One slice for each event block, from its summary, before there is an index. Live bytes are exact at the end of a block and at the peak within it.
/// Allocated bytes are estimated from the mean size.
fn summary_slices<'a>(
    history: &History,
    recording: &'a Recording,
) -> Result<impl Iterator<Item = Slice> + 'a, QueryError> {
    let figures = history.totals()?.figures;
    let mean_size = figures.allocated_bytes as f64 / (figures.allocations + figures.reallocations).max(1) as f64;
    let (mut live, mut next) = (0, recording.summaries().skip(1).map(|summary| summary.first_alloc));
    Ok(recording.summaries().map(move |summary| {
        let allocations = next.next().unwrap_or(summary.first_alloc).saturating_sub(summary.first_alloc);
        let before = std::mem::replace(&mut live, summary.live_bytes);
        let allocated = (allocations as f64 * mean_size) as u64;
        let mut bin = Bin {
            allocations,
            allocated: ByteSum::whole(allocated),
            freed: ByteSum::whole((before + allocated).saturating_sub(summary.live_bytes)),
            ..Bin::default()
        };
        bin.is_live(ByteSum::whole(summary.highest_bytes), summary.live_blocks);
        bin.is_live(ByteSum::whole(summary.live_bytes), summary.live_blocks);
        Slice { first: summary.first_time, last: summary.last_time, bin }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_gauge_are_thinned_to_the_extremes_of_each_part() {
        let window = Window { from: Nanos(0), to: Nanos(999) };
        let values: Vec<u64> = (0..1000).map(|at| if at == 510 { 9000 } else { at % 7 }).collect();
        let (times, kept) = thinned((0..1000).collect(), values.clone(), window, 10);
        assert!(times.len() <= 21 && times.is_sorted(), "{times:?}");
        assert!(kept.contains(&9000) && kept.iter().filter(|value| **value == 0).count() >= 10);
        assert_eq!(times.last(), Some(&999));
        let few = (vec![1, 2, 3], vec![7, 8, 9]);
        assert_eq!(thinned(few.0.clone(), few.1.clone(), window, 10), few);
    }
}
