//! Keyframes: the whole state at one instant, so that any other instant needs only a short replay (docs/format.md §6).
//!
//! A keyframe is one `Keyframe` block with the figures, followed by the number of `LiveBlocks` blocks that it gives ([`super::live_blocks`]).

use super::column::{ColumnPacker, ColumnUnpacker};
use super::exceptions::{from_zigzag, zigzag};
use super::live_blocks::MOST_LIVE;
use super::varint::{self, VarintReader};
use highwater_model::{
    Accounts, AccountsState, AllocId, Anomalies, Anomaly, Block, ByteSum, Figures, Nanos, Rests, Sites, StackId,
    ThreadAccount, ThreadId, Totals, laws,
};
use std::io;

/// The limit of bytes in one column of figures. It allows so few rows that sums of their counts stay far from wrapping.
const LONGEST_FIGURES: u64 = 1 << 27;

mod column {
    pub const THREADS: u8 = 0;
    pub const SITES: u8 = 1;
    pub const TAGS: u8 = 2;
    pub const THREAD_SAMPLES: u8 = 3;
    pub const SITE_SAMPLES: u8 = 4;
    pub const TAG_SAMPLES: u8 = 5;
    pub const THREAD_COUNTS: u8 = 6;
    pub const SITE_COUNTS: u8 = 7;
    pub const TAG_COUNTS: u8 = 8;
    pub const THREAD_RESTS: u8 = 9;
    pub const SITE_RESTS: u8 = 10;
    pub const TAG_RESTS: u8 = 11;
    pub const COUNT: u8 = 12;
}

/// The summary of a keyframe, stored before its live blocks and repeated in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyframeSummary {
    /// Events before it.
    pub events: u64,
    /// The time of the last of them.
    pub time: Nanos,
    /// How many `LiveBlocks` blocks follow.
    pub parts: u64,
}

impl KeyframeSummary {
    /// Appends the fields in order.
    pub fn put(&self, out: &mut Vec<u8>) {
        [self.events, self.time.0, self.parts].iter().for_each(|&value| varint::put(out, value));
    }

    /// Reads the fields.
    pub fn read(input: &mut VarintReader<'_>) -> Option<Self> {
        let (events, time, parts) = (input.number()?, Nanos(input.number()?), input.number()?);
        (events <= MOST_COUNTED).then_some(Self { events, time, parts })
    }
}

fn figure_fields(figures: &Figures) -> [u64; 9] {
    [
        figures.allocations,
        figures.frees,
        figures.reallocations,
        figures.reallocated_away,
        figures.allocated_bytes,
        figures.freed_bytes,
        figures.peak_bytes,
        figures.cross_thread_frees,
        figures.temporary_allocations,
    ]
}

fn put_figures(figures: &Figures, out: &mut Vec<u8>) {
    figure_fields(figures).iter().for_each(|&value| varint::put(out, value));
}

fn read_figures(input: &mut VarintReader<'_>) -> Option<Figures> {
    let mut next = |most| input.number().filter(|&number| number <= most);
    Some(Figures {
        allocations: next(MOST_COUNTED)?,
        frees: next(MOST_COUNTED)?,
        reallocations: next(MOST_COUNTED)?,
        reallocated_away: next(MOST_COUNTED)?,
        allocated_bytes: next(u64::MAX)?,
        freed_bytes: next(u64::MAX)?,
        peak_bytes: next(u64::MAX)?,
        cross_thread_frees: next(MOST_COUNTED)?,
        temporary_allocations: next(MOST_COUNTED)?,
        ..Figures::default()
    })
}

/// The summary of a keyframe of this state.
pub fn summary(state: &AccountsState) -> KeyframeSummary {
    let parts = state.blocks.len().div_ceil(MOST_LIVE) as u64;
    KeyframeSummary { events: state.events, time: state.last_time, parts }
}

/// Appends the payload with the figures. `summary` says how many live blocks follow; those of the state are not looked at.
pub fn encode_figures(
    summary: &KeyframeSummary,
    state: &AccountsState,
    anomalies: &Anomalies,
    packer: &mut ColumnPacker,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    summary.put(out);
    varint::put(out, state.next_id);
    let totals = &state.totals;
    put_figures(&totals.figures, out);
    let high = [totals.peak_blocks, totals.peak_at.0, totals.peak_event, totals.peak_bytes_inside_reallocation];
    high.iter().for_each(|&value| varint::put(out, value));
    // A counter that was added later is stored only if it, or one after it, is not zero. Otherwise the file is the same as before it was added.
    let used = anomalies.iter().zip(1..).filter(|((_, count), _)| *count > 0).map(|(_, number)| number).max();
    let counters = used.unwrap_or(0).max(FIRST_COUNTERS);
    varint::put(out, counters as u64);
    anomalies.iter().take(counters).for_each(|(_, count)| varint::put(out, count));

    let mut threads = Vec::new();
    for thread in &state.threads {
        varint::put(&mut threads, thread.id.0);
        // The number for "no allocation yet" is the largest one: plus one, it wraps to zero, the shortest.
        varint::put(&mut threads, thread.last_allocation.0.wrapping_add(1));
        put_figures(&thread.figures, &mut threads);
    }
    packer.add(column::THREADS, &threads)?;
    packer.add(column::SITES, &sparse_figures(stored_sites(&state.sites)))?;
    packer.add(column::TAGS, &sparse_figures(stored(&state.tags)))?;
    if state.totals.figures.is_estimate() {
        packer.add(column::THREAD_SAMPLES, &samples(state.threads.iter().map(|thread| &thread.figures)))?;
        packer.add(column::SITE_SAMPLES, &samples(stored_sites(&state.sites).map(|(_, figures)| figures)))?;
        packer.add(column::TAG_SAMPLES, &samples(stored(&state.tags).map(|(_, figures)| figures)))?;
    }
    if has_further_counts(&state.totals.figures) {
        packer.add(column::THREAD_COUNTS, &further_counts(state.threads.iter().map(|thread| &thread.figures)))?;
        packer.add(column::SITE_COUNTS, &further_counts(stored_sites(&state.sites).map(|(_, figures)| figures)))?;
        packer.add(column::TAG_COUNTS, &further_counts(stored(&state.tags).map(|(_, figures)| figures)))?;
    }
    // The rests of the totals are the sums of those of the threads. Even if all of these are zero, those of sites may not be.
    let rows = || state.threads.iter().map(|thread| &thread.figures).chain(state.sites.figures()).chain(&state.tags);
    if rows().any(|figures| figures.rests != Rests::default()) {
        packer.add(column::THREAD_RESTS, &rests(state.threads.iter().map(|thread| &thread.figures)))?;
        packer.add(column::SITE_RESTS, &rests(stored_sites(&state.sites).map(|(_, figures)| figures)))?;
        packer.add(column::TAG_RESTS, &rests(stored(&state.tags).map(|(_, figures)| figures)))?;
    }
    packer.finish(out);
    Ok(())
}

/// The rests of the bytes of each row.
fn rests<'a>(rows: impl Iterator<Item = &'a Figures>) -> Vec<u8> {
    let mut out = Vec::new();
    for figures in rows {
        [figures.rests.allocated, figures.rests.freed].iter().for_each(|&rest| varint::put(&mut out, zigzag(rest)));
    }
    out
}

/// Reads the rests into rows of figures; without a column there are none.
fn read_rests<'a>(mut input: VarintReader<'_>, rows: impl Iterator<Item = &'a mut Figures>) -> Option<()> {
    if input.is_empty() {
        return Some(());
    }
    for figures in rows {
        figures.rests = Rests { allocated: from_zigzag(input.number()?)?, freed: from_zigzag(input.number()?)? };
    }
    Some(())
}

/// True if blocks were promoted, or hit by more than one sample.
fn has_further_counts(figures: &Figures) -> bool {
    figures.promotions > 0 || figures.more_samples > 0
}

/// Promotions and samples beyond one for each record, of each row.
fn further_counts<'a>(rows: impl Iterator<Item = &'a Figures>) -> Vec<u8> {
    let mut out = Vec::new();
    for figures in rows {
        let counts = [figures.promotions, figures.promoted_records(), figures.more_samples, figures.more_samples_gone];
        counts.iter().for_each(|&count| varint::put(&mut out, count));
    }
    out
}

/// Reads these counts into rows of figures; without a column there are none.
fn read_further_counts<'a>(mut input: VarintReader<'_>, rows: impl Iterator<Item = &'a mut Figures>) -> Option<()> {
    if input.is_empty() {
        return Some(());
    }
    for figures in rows {
        let (promotions, promoted_records) = (input.number()?, input.number()?);
        let sound = promotions <= MOST_COUNTED && promoted_records <= promotions;
        sound.then_some(())?;
        figures.promotions = promotions;
        figures.unrecorded_promotions = promotions - promoted_records;
        figures.more_samples = input.number().filter(|&count| count <= MOST_SAMPLES)?;
        figures.more_samples_gone = input.number().filter(|&count| count <= figures.more_samples)?;
    }
    Some(())
}

/// The rows that are not empty, with their numbers.
fn stored(rows: &[Figures]) -> impl Iterator<Item = (usize, &Figures)> {
    rows.iter().enumerate().filter(|(_, figures)| !figures.is_empty())
}

fn stored_sites(sites: &Sites) -> impl Iterator<Item = (usize, &Figures)> {
    sites.iter().map(|(stack, figures)| (stack.0 as usize, figures)).filter(|(_, figures)| !figures.is_empty())
}

/// The number of records of each row.
fn samples<'a>(rows: impl Iterator<Item = &'a Figures>) -> Vec<u8> {
    let mut out = Vec::new();
    for figures in rows {
        varint::put(&mut out, figures.records());
        varint::put(&mut out, figures.freed_records());
    }
    out
}

/// Reads the numbers of records into rows of figures; without a column, all blocks are recorded.
fn read_samples<'a>(mut input: VarintReader<'_>, rows: impl Iterator<Item = &'a mut Figures>) -> Option<()> {
    if input.is_empty() {
        return Some(());
    }
    for figures in rows {
        let (samples, freed) = (input.number()?, input.number()?);
        let short_of = |blocks: u64, samples| blocks.checked_sub(samples).filter(|&short| short <= MOST_COUNTED);
        figures.unrecorded = short_of(figures.allocations + figures.reallocations, samples)?;
        figures.unrecorded_gone = short_of(figures.frees + figures.reallocated_away, freed)?;
    }
    Some(())
}

/// The rows that are not empty, each with its distance from the one before.
fn sparse_figures<'a>(rows: impl Iterator<Item = (usize, &'a Figures)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut next = 0;
    for (index, figures) in rows {
        varint::put(&mut out, (index - next) as u64);
        put_figures(figures, &mut out);
        next = index + 1;
    }
    out
}

/// Reads rows, in ascending order; each is below `bound`.
fn read_sparse_figures(mut input: VarintReader<'_>, bound: u32, mut row: impl FnMut(u32, Figures)) -> Option<()> {
    let mut next = 0u64;
    while !input.is_empty() {
        let index = input.number()?.checked_add(next)?;
        if index >= u64::from(bound) {
            return None;
        }
        row(index as u32, read_figures(&mut input)?);
        next = index + 1;
    }
    Some(())
}

/// Reads the part before the columns: the state without the figures of single owners, and without the rests of the totals.
fn read_totals(input: &mut VarintReader<'_>) -> Option<(KeyframeSummary, AccountsState)> {
    let summary = KeyframeSummary::read(input)?;
    let next_id = input.number().filter(|&number| number <= MOST_COUNTED)?;
    let mut totals = Totals { figures: read_figures(input)?, ..Totals::default() };
    totals.peak_blocks = input.number()?;
    totals.peak_at = Nanos(input.number()?);
    totals.peak_event = input.number()?;
    totals.peak_bytes_inside_reallocation = input.number()?;
    let mut state =
        AccountsState { totals, next_id, events: summary.events, last_time: summary.time, ..Default::default() };
    // A later version may count more kinds of anomalies.
    for kind in 0..input.number()? {
        let count = input.number()?;
        if let Some(anomaly) = Anomaly::from_number(kind) {
            state.anomalies.add(anomaly, count);
        }
    }
    Some((summary, state))
}

/// Reads only the figures of the whole.
pub fn decode_totals(payload: &[u8]) -> Option<(KeyframeSummary, AccountsState)> {
    let mut input = VarintReader::new(payload);
    let (summary, mut state) = read_totals(&mut input)?;
    let mut unpacker = ColumnUnpacker::new(column::COUNT).ok()?;
    unpacker.unpack(input, LONGEST_FIGURES)?;
    let mut rests = unpacker.column(column::THREAD_RESTS);
    while !rests.is_empty() {
        let thread = Rests { allocated: from_zigzag(rests.number()?)?, freed: from_zigzag(rests.number()?)? };
        add_rests(&mut state.totals.figures, thread);
    }
    Some((summary, state))
}

/// Adds the rests of a thread's bytes to those of the totals. Amounts beyond half a byte are already in the rounded number.
fn add_rests(totals: &mut Figures, thread: Rests) {
    totals.rests.allocated = totals.rests.allocated.wrapping_add(thread.allocated);
    totals.rests.freed = totals.rests.freed.wrapping_add(thread.freed);
}

/// Reads the figures' payload: the state without its live blocks.
pub fn decode_figures(payload: &[u8], stacks: u32, tags: u32) -> Option<(KeyframeSummary, AccountsState)> {
    let mut input = VarintReader::new(payload);
    let (summary, mut state) = read_totals(&mut input)?;
    let mut unpacker = ColumnUnpacker::new(column::COUNT).ok()?;
    unpacker.unpack(input, LONGEST_FIGURES)?;
    let mut threads = unpacker.column(column::THREADS);
    while !threads.is_empty() {
        state.threads.push(ThreadAccount {
            id: ThreadId(threads.number()?),
            last_allocation: AllocId(threads.number()?.wrapping_sub(1)),
            figures: read_figures(&mut threads)?,
        });
    }
    let sites = &mut state.sites;
    read_sparse_figures(unpacker.column(column::SITES), stacks, |row, figures| *sites.at(StackId(row)) = figures)?;
    let rows = &mut state.tags;
    read_sparse_figures(unpacker.column(column::TAGS), tags, |row, figures| {
        rows.resize(row as usize, Figures::default());
        rows.push(figures);
    })?;
    let threads = state.threads.iter_mut().map(|thread| &mut thread.figures);
    read_samples(unpacker.column(column::THREAD_SAMPLES), threads)?;
    let is_stored = |figures: &&mut Figures| !figures.is_empty();
    read_samples(unpacker.column(column::SITE_SAMPLES), state.sites.figures_mut().iter_mut().filter(is_stored))?;
    read_samples(unpacker.column(column::TAG_SAMPLES), state.tags.iter_mut().filter(is_stored))?;
    let threads = state.threads.iter_mut().map(|thread| &mut thread.figures);
    read_further_counts(unpacker.column(column::THREAD_COUNTS), threads)?;
    read_further_counts(unpacker.column(column::SITE_COUNTS), state.sites.figures_mut().iter_mut().filter(is_stored))?;
    read_further_counts(unpacker.column(column::TAG_COUNTS), state.tags.iter_mut().filter(is_stored))?;
    let threads = state.threads.iter_mut().map(|thread| &mut thread.figures);
    read_rests(unpacker.column(column::THREAD_RESTS), threads)?;
    read_rests(unpacker.column(column::SITE_RESTS), state.sites.figures_mut().iter_mut().filter(is_stored))?;
    read_rests(unpacker.column(column::TAG_RESTS), state.tags.iter_mut().filter(is_stored))?;
    let totals = &mut state.totals.figures;
    for ThreadAccount { figures, .. } in &state.threads {
        add_rests(totals, figures.rests);
        totals.unrecorded += figures.unrecorded;
        totals.unrecorded_gone += figures.unrecorded_gone;
        totals.promotions += figures.promotions;
        totals.unrecorded_promotions += figures.unrecorded_promotions;
        totals.more_samples = totals.more_samples.saturating_add(figures.more_samples);
        totals.more_samples_gone = totals.more_samples_gone.saturating_add(figures.more_samples_gone);
    }
    (totals.more_samples <= MOST_SAMPLES).then_some(())?;
    Some((summary, state))
}

/// The limit of every count in a recording. It keeps sums of counters far from wrapping.
pub const MOST_COUNTED: u64 = 1 << 40;
/// The limit of counted samples in a recording.
const MOST_SAMPLES: u64 = 1 << 62;
/// The counters of anomalies that every keyframe has.
const FIRST_COUNTERS: usize = 11;

/// The limit of rows in a state that is not from a keyframe. It keeps sums of their counts far from wrapping.
const MOST_ROWS: usize = 1 << 22;

/// True if every counter is within the bounds that a stored keyframe has, and the blocks are in order and refer to existing threads.
pub fn are_counters_bounded(state: &AccountsState) -> bool {
    let is_bounded = |figures: &Figures| {
        let counts = [
            figures.allocations,
            figures.frees,
            figures.reallocations,
            figures.reallocated_away,
            figures.cross_thread_frees,
            figures.temporary_allocations,
            figures.promotions,
            figures.unrecorded_promotions,
            figures.unrecorded,
            figures.unrecorded_gone,
        ];
        counts.iter().all(|&count| count <= MOST_COUNTED)
            && figures.unrecorded <= figures.allocations + figures.reallocations
            && figures.unrecorded_gone <= figures.frees + figures.reallocated_away
            && figures.unrecorded_promotions <= figures.promotions
            && figures.more_samples <= MOST_SAMPLES
            && figures.more_samples_gone <= figures.more_samples
    };
    let follows = |a: &Block, b: &Block| a.id < b.id && a.time <= b.time;
    let is_known = |block: &Block| {
        block.id.0 < state.next_id && block.time <= state.last_time && (block.thread as usize) < state.threads.len()
    };
    let rows = state.threads.iter().map(|thread| &thread.figures).chain(state.sites.figures()).chain(&state.tags);
    let row_count = state.threads.len() + state.sites.len() + state.tags.len();
    row_count <= MOST_ROWS
        && state.next_id <= MOST_COUNTED
        && state.events <= MOST_COUNTED
        && rows.chain([&state.totals.figures]).all(is_bounded)
        && state.blocks.iter().all(|block| is_known(&block))
        && state.blocks.iter().is_sorted_by(follows)
}

/// True if the state obeys the laws: the live blocks match the figures, or there are none if only figures are known, and no sum wraps. Only a forged
/// file has another state, from which a replay could not continue.
pub fn is_lawful(accounts: &Accounts, aggregated: bool) -> bool {
    // The laws do not cover the sum of all tags, since a block need not have a tag.
    let all_bytes = accounts.totals().figures.allocated().units();
    let laws_hold = if aggregated {
        accounts.blocks().next().is_none() && laws::violations_of_figures(accounts).is_empty()
    } else {
        laws::violations(accounts).is_empty()
    };
    // Promoted bytes, which the first row holds, may count for two tags.
    let promoted = accounts.tags().first().map_or(0, |moved| moved.allocated().units());
    let most = all_bytes + promoted;
    let bytes_fit = most <= ByteSum::MAX.units()
        && promoted <= all_bytes
        && accounts.tags().iter().all(|tag| tag.allocated().units() <= most);
    laws_hold && bytes_fit
}
