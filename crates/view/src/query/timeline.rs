//! `timeline`: live bytes and blocks, rates, gauges and marks over a window.

use super::number;
use crate::bins::{Bins, Span};
use crate::choice::Choice;
use crate::course::Course;
use crate::http::request::Request;
use crate::lives::{State, blocks_of, states_since};
use crate::problem::Problem;
use crate::scan;
use crate::sieve::{Candidate, Sieve};
use crate::sources::{LONG, Loaded};
use crate::traffic::{Depth, How, Row, Side};
use crate::work::Work;
use highwater_model::{ByteSum, GaugeReading, Nanos, Window, gauge};
use highwater_store::{EventsSummary, Recording};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bins.
const MOST_POINTS: u64 = 10_000;
/// The most marks: the first ones of the window.
const MOST_MARKS: usize = 10_000;

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let points = number(request, "points", 600, MOST_POINTS)?.max(1) as usize;
    let loaded = &choice.loaded;
    let Some(recording) = loaded.recording() else {
        return Err(Problem::failed("a snapshot knows one instant only; it has no course to show"));
    };
    let window = choice.window;
    let sieve = Sieve::new(&choice.filters, loaded.catalog());
    let events =
        recording.stretches(window.from, window.to, u64::MAX).iter().map(|stretch| stretch.events).sum::<u64>();
    let mut is_approximate = false;
    let mut own_peak = None;
    let bins = if !sieve.is_open() {
        let (bins, peak) = filtered(choice, recording, &sieve, points, work)?;
        own_peak = peak;
        bins
    } else if loaded.is_long() && loaded.known_course().is_none() {
        is_approximate = true;
        by_summaries(choice, recording, points)?
    } else if events <= LONG {
        by_changes(choice, recording, &sieve, points, work)?.0
    } else {
        in_short(choice, &*loaded.course(recording, work)?, points)?
    };
    let live = bins.live();
    let peak = if sieve.is_open() {
        let highest = loaded.highest(recording, window)?;
        json!({ "at_ns": highest.at.max(window.from).0, "bytes": highest.bytes })
    } else {
        own_peak.map_or(Value::Null, |peak| json!({ "at_ns": peak.at.0, "bytes": peak.bytes.rounded() }))
    };
    let each = |figure: fn(&crate::bins::Bin) -> u64| bins.bins.iter().map(figure).collect::<Vec<u64>>();
    let all_marks = loaded.marks()?;
    let marks = || all_marks.iter().filter(|mark| window.has(mark.time));
    Ok(json!({
        "t": bins.edges(),
        "live_bytes": spans(live.iter().map(|(bytes, _)| bytes.map(ByteSum::rounded))),
        "live_blocks": spans(live.iter().map(|(_, blocks)| *blocks)),
        "allocated_bytes": each(|bin| bin.allocated.rounded()),
        "allocations": each(|bin| bin.allocations),
        "freed_bytes": each(|bin| bin.freed.rounded()),
        "gauges": gauges(loaded.gauges()?, window, points),
        "marks": marks().take(MOST_MARKS).map(|mark| json!({ "t": mark.time.0, "name": mark.name })).collect::<Value>(),
        "marks_left_out": marks().count().saturating_sub(MOST_MARKS),
        "peak": peak,
        "approximate": is_approximate,
    }))
}

fn spans(all: impl Iterator<Item = Span<u64>> + Clone) -> Value {
    let each = |figure: fn(Span<u64>) -> u64| all.clone().map(figure).collect::<Vec<u64>>();
    json!({ "low": each(|span| span.low), "high": each(|span| span.high), "last": each(|span| span.last) })
}

/// The most bytes that some blocks held at once, within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPeak {
    /// Bytes.
    pub bytes: ByteSum,
    /// Blocks that were live then.
    pub blocks: u64,
    /// When they were first held; the beginning of the window, if they were held already then.
    pub at: Nanos,
}

impl OwnPeak {
    fn see(&mut self, bytes: ByteSum, blocks: u64, at: Nanos) {
        if bytes > self.bytes {
            *self = Self { bytes, blocks, at };
        }
    }
}

/// The peak of the blocks that pass the filters; `None` if too many changes would have to be sorted.
pub fn own_peak(choice: &Choice, recording: &Recording, work: &Work<'_>) -> Result<Option<OwnPeak>, Problem> {
    let sieve = Sieve::new(&choice.filters, choice.loaded.catalog());
    Ok(filtered(choice, recording, &sieve, 1, work)?.1)
}

/// The live bytes and blocks that pass the filters, and their peak.
fn filtered(
    choice: &Choice,
    recording: &Recording,
    sieve: &Sieve,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, Option<OwnPeak>), Problem> {
    if sieve.needs_deaths() {
        return by_lives(choice, recording, sieve, points, work);
    }
    let (bins, peak) = by_changes(choice, recording, sieve, points, work)?;
    Ok((bins, Some(peak)))
}

/// The readings of each gauge.
fn gauges(readings: &[GaugeReading], window: Window, points: usize) -> Value {
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
        json!({ "name": name, "unit": unit, "t": times, "value": values })
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
    /// The bin of the latest arrival or departure.
    at: usize,
    /// Bytes and blocks that were live before the lot, if the file has them.
    before: Option<(u64, u64)>,
    bytes: ByteSum,
    blocks: u64,
    /// The peak so far, counted from the same offset as `bytes` and `blocks`.
    peak: OwnPeak,
    /// A block that passes departed, and is about to arrive again, resized or promoted.
    is_halfway: bool,
}

impl Counting {
    fn see(&mut self, row: &Row<'_>, is_wanted: bool, edges: &[u64]) {
        if !is_wanted && !self.is_halfway {
            return;
        }
        let (bytes, blocks) = if is_wanted { row.amount() } else { (ByteSum::ZERO, 0) };
        self.is_halfway = is_wanted && !row.is_arrival && matches!(row.how(), How::Resized | How::Promoted);
        while self.at + 1 < self.bins.bins.len() && edges[self.at + 1] <= row.at().0 {
            self.at += 1;
        }
        let bin = &mut self.bins.bins[self.at];
        if row.is_arrival {
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

/// The timeline from the arrivals and departures of blocks that pass the filters.
fn by_changes(
    choice: &Choice,
    recording: &Recording,
    sieve: &Sieve,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, OwnPeak), Problem> {
    let Choice { loaded, window, .. } = choice;
    let course = loaded.course(recording, work)?;
    let empty = Bins::new(*window, points);
    let edges = empty.edges();
    let summaries: Vec<&EventsSummary> = recording.summaries().collect();
    // Where events were lost, counting goes wrong. After the gap, only the totals that the file stores for all blocks together are right again.
    let told_before = |block: usize| {
        let before = summaries.get(block.checked_sub(1)?).filter(|before| before.last_time >= window.from)?;
        sieve.is_open().then_some((before.live_bytes, before.live_blocks))
    };
    let begin = |block: usize| Counting {
        bins: empty.clone(),
        at: 0,
        before: told_before(block),
        bytes: ByteSum::whole(UNKNOWN),
        blocks: UNKNOWN,
        // The first state seen is higher than nothing.
        peak: OwnPeak { bytes: ByteSum::ZERO, blocks: 0, at: window.from },
        is_halfway: false,
    };
    let (times, wanted) = ((window.from, window.to), (Side::Both, Depth::Figures));
    let lots = scan::moves((recording, &course.traffic), times, wanted, work, begin, |own: &mut Counting, row| {
        own.see(&row, row.passes(sieve), &edges);
    })?;
    let (mut bytes, mut blocks) = live_before(loaded, window.from, sieve)?;
    let mut all = empty.beginning_with(bytes, blocks);
    let mut peak = OwnPeak { bytes, blocks, at: window.from };
    let in_truth = |counted: u64, before: u64| counted.saturating_add(before).saturating_sub(UNKNOWN);
    let bytes_in_truth = |counted: ByteSum, before: ByteSum| (counted + before).saturating_sub(ByteSum::whole(UNKNOWN));
    for Counting { mut bins, before, bytes: last_bytes, blocks: last_blocks, peak: highest, .. } in lots {
        // The figures in a file are rounded.
        if let Some(told) = before.filter(|told| *told != (bytes.rounded(), blocks)) {
            (bytes, blocks) = (ByteSum::whole(told.0), told.1);
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
fn live_before(loaded: &Loaded, time: Nanos, sieve: &Sieve) -> Result<(ByteSum, u64), Problem> {
    let before = loaded.moment_before(time);
    if sieve.is_open() {
        let figures = loaded.standing(before)?.accounts.totals().figures;
        return Ok((figures.live(), figures.live_blocks()));
    }
    let snapshot = loaded.snapshot(before)?;
    let wanted = blocks_of(&snapshot).filter(|owned| sieve.passes(owned));
    Ok(wanted.fold((ByteSum::ZERO, 0), |(bytes, blocks), owned| {
        (bytes + owned.block.live_amount(), blocks + owned.block.live_blocks())
    }))
}

/// The timeline from whole lives, for filters on deaths: the bytes and blocks that were live at the end of each bin, each block as it was then.
fn by_lives(
    choice: &Choice,
    recording: &Recording,
    sieve: &Sieve,
    points: usize,
    work: &Work<'_>,
) -> Result<(Bins, Option<OwnPeak>), Problem> {
    let window = choice.window;
    // Births and deaths in each bin, in bytes and blocks; and the amounts that were live before.
    let empty = Bins::new(window, points);
    let nothing = || vec![Default::default(); empty.bins.len()];
    let begin = || Flow { bins: nothing(), before: Amounts::default(), changes: Some(Vec::new()) };
    let add = |sum: &mut Amounts, (bytes, blocks): Amounts| *sum = (sum.0 + bytes, sum.1.saturating_add(blocks));
    let known = AtomicUsize::new(0);
    let parts = states_since(&choice.loaded, recording, window.from, sieve, work, begin, |flow, state| {
        let Flow { bins, before, changes } = flow;
        let State { amount: amounts @ (bytes, blocks), since, until } = state;
        let mut note = |change: Change| {
            if known.fetch_add(1, Ordering::Relaxed) >= MOST_CHANGES {
                *changes = None;
            } else if let Some(changes) = changes {
                changes.push(change);
            }
        };
        match empty.place(since) {
            Some(at) => {
                add(&mut bins[at][0], amounts);
                note(Change { at: since, is_birth: true, bytes, blocks });
            }
            None if since < window.from => add(before, amounts),
            None => return,
        }
        if let Some((until, at)) = until.and_then(|until| Some((until, empty.place(until)?))) {
            add(&mut bins[at][1], amounts);
            note(Change { at: until, is_birth: false, bytes, blocks });
        }
    })?;
    let mut bins = empty.clone();
    let sum = |all: &mut dyn Iterator<Item = Amounts>| {
        all.fold(Amounts::default(), |mut sum, amounts| {
            add(&mut sum, amounts);
            sum
        })
    };
    let (mut bytes, mut blocks) = sum(&mut parts.iter().map(|flow| flow.before));
    bins.before = Some((bytes, blocks));
    let before = OwnPeak { bytes, blocks, at: window.from };
    for (at, bin) in bins.bins.iter_mut().enumerate() {
        let [came, went] = [0, 1].map(|way: usize| sum(&mut parts.iter().map(|flow| flow.bins[at][way])));
        bytes = (bytes + came.0).saturating_sub(went.0);
        blocks = (blocks + came.1).saturating_sub(went.1);
        bin.is_live(bytes, blocks);
        (bin.allocated, bin.allocations, bin.freed) = (came.0, came.1, went.0);
    }
    let changes: Option<Vec<Vec<Change>>> = parts.into_iter().map(|flow| flow.changes).collect();
    Ok((bins, changes.map(|changes| peak_of(before, changes.concat()))))
}

/// Bytes and blocks.
type Amounts = (ByteSum, u64);

/// The most changes that are sorted to find a peak. They take 48 bytes each.
const MOST_CHANGES: usize = 4 << 20;

/// The births and deaths of one part of the work.
struct Flow {
    /// For each bin: the sum of births, and the sum of deaths.
    bins: Vec<[Amounts; 2]>,
    /// The amounts that were live before the window.
    before: Amounts,
    /// All single changes; `None` if there are too many.
    changes: Option<Vec<Change>>,
}

/// A birth or a death.
#[derive(Clone, Copy)]
struct Change {
    at: Nanos,
    is_birth: bool,
    bytes: ByteSum,
    blocks: u64,
}

/// The peak. All changes of one time are applied before it is checked.
fn peak_of(before: OwnPeak, mut changes: Vec<Change>) -> OwnPeak {
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

/// The timeline from the slices of the index. A slice that lies in several bins counts in its last one.
fn in_short(choice: &Choice, course: &Course, points: usize) -> Result<Bins, Problem> {
    let window = choice.window;
    let mut bins = Bins::new(window, points);
    for slice in course.slices() {
        if slice.last < window.from {
            bins.before = slice.bin.live.map(|(bytes, blocks)| (bytes.last, blocks.last));
        } else if slice.first > window.to {
            break;
        } else {
            let at = bins.place(slice.last.min(window.to)).unwrap_or(0);
            bins.bins[at].then(&slice.bin);
        }
    }
    Ok(bins)
}

/// The timeline from the summaries of the blocks of events, while the index is being built. Live bytes are exact at the end of a block and at the peak within it.
/// Allocated bytes are estimated from the mean size.
fn by_summaries(choice: &Choice, recording: &Recording, points: usize) -> Result<Bins, Problem> {
    let window = choice.window;
    let figures = choice.loaded.totals()?.figures;
    let mean_size = figures.allocated_bytes as f64 / (figures.allocations + figures.reallocations).max(1) as f64;
    let mut bins = Bins::new(window, points);
    let (mut live, mut next) = (0, recording.summaries().skip(1).map(|summary| summary.first_alloc));
    for summary in recording.summaries() {
        let allocations = next.next().unwrap_or(summary.first_alloc).saturating_sub(summary.first_alloc);
        let before = std::mem::replace(&mut live, summary.live_bytes);
        if summary.last_time < window.from {
            bins.before = Some((ByteSum::whole(summary.live_bytes), summary.live_blocks));
        } else if summary.first_time > window.to {
            break;
        } else if let Some(at) = bins.place(summary.last_time.min(window.to)) {
            let bin = &mut bins.bins[at];
            bin.is_live(ByteSum::whole(summary.highest_bytes), summary.live_blocks);
            bin.is_live(ByteSum::whole(summary.live_bytes), summary.live_blocks);
            let allocated = (allocations as f64 * mean_size) as u64;
            bin.allocations += allocations;
            bin.allocated += ByteSum::whole(allocated);
            bin.freed += ByteSum::whole((before + allocated).saturating_sub(summary.live_bytes));
        }
    }
    Ok(bins)
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
