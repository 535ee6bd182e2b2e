//! The laws of the model, as a check that can be run on any accounts.
//!
//! # Where the laws needed a decision
//!
//! * *A reallocation moves ownership.* The code that grew a vector to a gigabyte put that gigabyte there, not the code that made the empty vector. A
//!   reallocation without a stack keeps the old site. In the figures it is neither an allocation nor a free but a transfer (`reallocations` of the new
//!   owner, `reallocated_away` of the old one), so that block counts still add up.
//! * *The instant inside a moving reallocation*, in which the allocator holds both places, is not an instant of the recording (law 3), but its bytes
//!   were really held: `peak_bytes_inside_reallocation` keeps that high-water mark in addition to the ordinary one.
//! * *A duplicate allocation* means that a free was missed: the older block dies at that moment.
//! * *Sizes cannot wrap* because one check, where a size enters the ledger, keeps the sum of all sizes below 2^64; every other counter is at most that
//!   sum.
//! * *Temporary* is a block freed before its thread allocated anything else. If a source does not tell threads apart ([`ThreadId::UNKNOWN`]), it is a
//!   block freed by the very next event.
//!
//! * *A sampled block weighs as many blocks as it stands for* (law 6). Weights are floats of 22 bits: a file needs three bytes for one, and every bit
//!   pattern has a meaning. All sums are whole numbers, so that readers in any language agree. A hash of the allocation's number decides whether a
//!   weight of 2.4 counts as two or three blocks: this is unbiased, and the same at the free. Weights are stored apart from the blocks, and not at all
//!   until one differs from 1: an exact recording pays nothing.
//! * *If a source counts samples, they determine the bytes.* A weight then also has the number of samples that hit the block and the mean distance
//!   between samples. The bytes that it stands for are their product; the number of blocks it stands for is still the weight. `Figures` count records
//!   and, beyond one for each record, samples.
//! * *Estimates are added up first and rounded last.* A sample stands for 26⅔ bytes at a rate of 0.3; if each record were rounded, sums would drift. A
//!   `ByteSum` is therefore a whole number of units of 2⁻³² bytes, and every sum is made of these: sites, threads, tags, windows, diffs, filters.
//!   `Figures` keep rounded bytes and, next to them, the rests after rounding (`rests`); exact recordings never use the rests. In units, law 1 holds
//!   exactly; for display, each figure is rounded by itself. Files up to version 2 rounded each record; their weights say so
//!   (`Weight::rounded_per_record`), and their figures do not change.
//! * *Facts that samples cannot show are not reported*: what a thread allocated next (temporaries), and whether a block was resized.
//!   `Snapshot::knows_every_block` and `knows_reallocations` decide this for every output.
//! * *A promotion* moves a block to another tag (heap). For the whole, its thread and its site it is only a counter; for the two tags it is a transfer
//!   like a reallocation. The row of the empty tag, which has no figures of its own, holds the sum of these transfers. It makes it possible to compute
//!   the first heap as the rest. In total, no more blocks and bytes are promoted than were ever allocated; further
//!   promotions are refused, so that no sum exceeds 64 bits.
//! * *An estimate has an interval* (`interval.rs`): Poisson, exact bounds below 100 samples. If every word is a sample, there is no interval.
//! * *Heaps are part of the tag.* A mapping and the block that an allocator placed at its beginning have the same address: mappings are recorded with
//!   the lowest bit of their address set.
//! * *`--filter heap:…` replays the recording for that heap alone*, so that every figure is exact, peaks included.
//! * *Stacks are numbered, never written out* (`stack_numbers.rs`): sites of a recursion of depth n have n²/2 frames and n calls. JSON, folded stacks,
//!   flame graphs, filters and comparisons map each node of the catalog once into a trie of their own; `RowIdentities` match the rows of two files
//!   that way.
//! * *A log without times has an order only* (`Source::clock`): `Nanos` are then lines of the log, and code that prints an instant asks the source
//!   for the notation. JSON documents get `…_line` and a null `…_ns` in one place (`json/untimed.rs`).
//! * *Frames get their names later.* A native recording has addresses; a *resolution* says which frames, several if calls were inlined, an address
//!   stands for. It may come at the very end of a file, and a later one replaces it.

use crate::accounts::Accounts;
use crate::blocks::Block;
use crate::byte_sum::ByteSum;
use crate::figures::Figures;
use crate::ids::TagId;
#[cfg(doc)]
use crate::ids::ThreadId;

/// All violations of the laws, in words; empty if the laws hold.
///
/// Computed from the live blocks and the rows, independently of how the figures were kept.
pub fn violations(accounts: &Accounts) -> Vec<String> {
    let mut found = Vec::new();
    let total = &accounts.totals().figures;
    check_owner("the whole memory", total, accounts.blocks(), &mut found);

    let mut of_threads = vec![LiveSums::default(); accounts.threads().len()];
    let mut of_sites = vec![LiveSums::default(); accounts.sites().len()];
    let mut of_tags = vec![LiveSums::default(); accounts.tags().len()];
    for block in accounts.blocks() {
        let mut charge = |live: Option<&mut LiveSums>, what: &str, index: u32| match live {
            Some(live) => live.add(&block),
            None => found.push(format!("allocation {} belongs to {what} {index}, which is not known", block.id.0)),
        };
        charge(of_threads.get_mut(block.thread as usize), "thread", block.thread);
        charge(accounts.sites().row(block.stack).map(|row| &mut of_sites[row]), "site", block.stack.0);
        if block.tag != TagId::NONE {
            charge(of_tags.get_mut(block.tag.0 as usize), "tag", block.tag.0);
        }
    }
    check_rows("thread", figures_of_threads(accounts), &of_threads, &mut found);
    check_rows("site", accounts.sites().figures().iter(), &of_sites, &mut found);
    check_rows("tag", tags_with_figures(accounts), of_tags.get(1..).unwrap_or_default(), &mut found);
    check_whole(accounts, &mut found);
    found
}

/// The same if single blocks are not known ([`Source::aggregated`](crate::Source::aggregated)): no owner freed more than it had, and all figures add
/// up.
pub fn violations_of_figures(accounts: &Accounts) -> Vec<String> {
    let mut found = Vec::new();
    check_figures("the whole memory", &accounts.totals().figures, &mut found);
    let mut check_each = |what: &str, rows: &mut dyn Iterator<Item = &Figures>| {
        rows.enumerate().for_each(|(index, figures)| check_figures(&format!("{what} {index}"), figures, &mut found));
    };
    check_each("thread", &mut figures_of_threads(accounts));
    check_each("site", &mut accounts.sites().figures().iter());
    check_each("tag", &mut tags_with_figures(accounts));
    check_whole(accounts, &mut found);
    found
}

/// The tags that have figures: all but the first, which means "no tag".
fn tags_with_figures(accounts: &Accounts) -> impl Iterator<Item = &Figures> {
    accounts.tags().iter().skip(1)
}

fn figures_of_threads(accounts: &Accounts) -> impl Iterator<Item = &Figures> {
    accounts.threads().iter().map(|thread| &thread.figures)
}

/// Checks that apply to the whole memory whether or not its blocks are known.
fn check_whole(accounts: &Accounts, found: &mut Vec<String>) {
    let total = &accounts.totals().figures;
    check_sum("threads", figures_of_threads(accounts), total, found);
    check_sum("sites", accounts.sites().figures().iter(), total, found);
    if accounts.totals().peak_event > accounts.events() {
        found.push("the peak lies after the last event".to_owned());
    }
}

/// The sums over the live blocks of an owner.
#[derive(Clone, Copy, Default)]
struct LiveSums {
    blocks: u64,
    bytes: ByteSum,
    records: u64,
    samples: u64,
}

impl LiveSums {
    fn add(&mut self, block: &Block) {
        self.blocks = self.blocks.saturating_add(block.live_blocks());
        self.bytes += block.live_amount();
        self.records += 1;
        self.samples = self.samples.saturating_add(block.weight.samples());
    }
}

fn check_owner(whose: &str, figures: &Figures, blocks: impl Iterator<Item = Block>, found: &mut Vec<String>) {
    let mut live = LiveSums::default();
    blocks.for_each(|block| live.add(&block));
    check_live(whose, figures, live, found);
}

/// The live blocks and bytes of an owner according to its figures.
struct LiveByFigures {
    blocks: i128,
    /// In units of 2⁻³² bytes.
    bytes: i128,
    records: i128,
    samples: i128,
}

impl LiveByFigures {
    fn of(figures: &Figures) -> Self {
        let births = i128::from(figures.allocations) + i128::from(figures.reallocations);
        let blocks = births - i128::from(figures.frees) - i128::from(figures.reallocated_away);
        let bytes = figures.allocated().units() as i128 - figures.freed().units() as i128;
        let records = blocks - i128::from(figures.unrecorded) + i128::from(figures.unrecorded_gone);
        let samples = records + i128::from(figures.more_samples) - i128::from(figures.more_samples_gone);
        Self { blocks, bytes, records, samples }
    }
}

fn check_live(whose: &str, figures: &Figures, live: LiveSums, found: &mut Vec<String>) {
    let LiveSums { blocks, bytes, records, samples } = live;
    let by_figures = LiveByFigures::of(figures);
    if by_figures.bytes != bytes.units() as i128 {
        let (by_figures, bytes) = (shown(by_figures.bytes), shown(bytes.units() as i128));
        found.push(format!("{whose}: allocated - freed = {by_figures} bytes, but the live blocks hold {bytes}"));
    }
    let bytes = bytes.rounded();
    if by_figures.blocks != i128::from(blocks) {
        found.push(format!("{whose}: allocated - freed = {} blocks, but {blocks} are live", by_figures.blocks));
    }
    if by_figures.records != i128::from(records) {
        found
            .push(format!("{whose}: recorded - freed = {} blocks, but {records} records are live", by_figures.records));
    }
    if by_figures.samples != i128::from(samples) {
        found.push(format!(
            "{whose}: samples - freed = {}, but those of the live blocks are {samples}",
            by_figures.samples
        ));
    }
    if figures.peak_bytes < bytes {
        found.push(format!("{whose}: the peak is {} bytes, below the {bytes} that are live", figures.peak_bytes));
    }
}

/// Formats bytes given in units.
fn shown(units: i128) -> String {
    if units % (1 << 32) == 0 {
        (units >> 32).to_string()
    } else {
        format!("{:.3}", units as f64 / (1u64 << 32) as f64)
    }
}

fn check_figures(whose: &str, figures: &Figures, found: &mut Vec<String>) {
    let by_figures = LiveByFigures::of(figures);
    let all = [
        ("bytes", by_figures.bytes.div_euclid(1 << 32)),
        ("blocks", by_figures.blocks),
        ("records of blocks", by_figures.records),
        ("samples", by_figures.samples),
    ];
    for (what, left) in all {
        if left < 0 {
            found.push(format!("{whose}: {} more {what} were freed than allocated", -left));
        }
    }
    if figures.peak_bytes < figures.live_bytes() {
        let (peak, live) = (figures.peak_bytes, figures.live_bytes());
        found.push(format!("{whose}: the peak is {peak} bytes, below the {live} that are live"));
    }
}

fn check_rows<'a>(what: &str, rows: impl Iterator<Item = &'a Figures>, live: &[LiveSums], found: &mut Vec<String>) {
    for (index, (figures, &live)) in rows.zip(live).enumerate() {
        check_live(&format!("{what} {index}"), figures, live, found);
    }
}

fn check_sum<'a>(what: &str, rows: impl Iterator<Item = &'a Figures>, total: &Figures, found: &mut Vec<String>) {
    let mut sum = Figures::default();
    rows.for_each(|figures| sum.add(figures));
    let rest = |rest: i32| u64::from(rest.cast_unsigned());
    let pairs = [
        ("allocations", sum.allocations, total.allocations),
        ("frees", sum.frees, total.frees),
        ("reallocations", sum.reallocations, total.reallocations),
        ("reallocations away", sum.reallocated_away, total.reallocated_away),
        ("allocated bytes", sum.allocated_bytes, total.allocated_bytes),
        ("freed bytes", sum.freed_bytes, total.freed_bytes),
        ("cross-thread frees", sum.cross_thread_frees, total.cross_thread_frees),
        ("temporary allocations", sum.temporary_allocations, total.temporary_allocations),
        ("unrecorded blocks", sum.unrecorded, total.unrecorded),
        ("unrecorded blocks gone", sum.unrecorded_gone, total.unrecorded_gone),
        ("promotions", sum.promotions, total.promotions),
        ("unrecorded promotions", sum.unrecorded_promotions, total.unrecorded_promotions),
        ("samples", sum.more_samples, total.more_samples),
        ("samples gone", sum.more_samples_gone, total.more_samples_gone),
        ("parts of allocated bytes", rest(sum.rests.allocated), rest(total.rests.allocated)),
        ("parts of freed bytes", rest(sum.rests.freed), rest(total.rests.freed)),
    ];
    for (name, sum, total) in pairs.into_iter().filter(|(_, sum, total)| sum != total) {
        found.push(format!("the {name} of all {what} sum to {sum}, but the total is {total}"));
    }
}
