//! The laws of the model, as a check that can be run on any accounts.

use crate::accounts::Accounts;
use crate::blocks::Block;
use crate::figures::Figures;
use crate::ids::TagId;

/// Every way in which the accounts break the laws, in words; empty when they hold.
///
/// Computed from the live blocks and the rows, independently of how the figures were kept.
pub fn violations(accounts: &Accounts) -> Vec<String> {
    let mut found = Vec::new();
    let total = &accounts.totals().figures;
    check_owner("the whole memory", total, accounts.blocks(), &mut found);

    let mut of_threads = vec![Live::default(); accounts.threads().len()];
    let mut of_sites = vec![Live::default(); accounts.sites().len()];
    let mut of_tags = vec![Live::default(); accounts.tags().len()];
    for block in accounts.blocks() {
        let mut charge = |owners: &mut Vec<Live>, index: u32, what: &str| match owners.get_mut(index as usize) {
            Some(live) => live.add(&block),
            None => found.push(format!("allocation {} belongs to {what} {index}, which is not known", block.id.0)),
        };
        charge(&mut of_threads, block.thread, "thread");
        charge(&mut of_sites, block.stack.0, "site");
        if block.tag != TagId::NONE {
            charge(&mut of_tags, block.tag.0, "tag");
        }
    }
    let threads = accounts.threads().iter().map(|thread| &thread.figures);
    check_rows("thread", threads.clone(), &of_threads, &mut found);
    check_rows("site", accounts.sites().iter(), &of_sites, &mut found);
    check_rows("tag", accounts.tags().iter(), &of_tags, &mut found);
    check_sum("threads", threads, total, &mut found);
    check_sum("sites", accounts.sites().iter(), total, &mut found);
    if accounts.totals().peak_event > accounts.events() {
        found.push("the peak lies after the last event".to_owned());
    }
    found
}

/// What the live blocks of an owner come to.
#[derive(Clone, Copy, Default)]
struct Live {
    blocks: u64,
    bytes: u64,
    samples: u64,
}

impl Live {
    fn add(&mut self, block: &Block) {
        self.blocks = self.blocks.saturating_add(block.live_blocks());
        self.bytes = self.bytes.saturating_add(block.live_bytes());
        self.samples += 1;
    }
}

fn check_owner(whose: &str, figures: &Figures, blocks: impl Iterator<Item = Block>, found: &mut Vec<String>) {
    let mut live = Live::default();
    blocks.for_each(|block| live.add(&block));
    check_live(whose, figures, live, found);
}

fn check_live(whose: &str, figures: &Figures, live: Live, found: &mut Vec<String>) {
    let Live { blocks, bytes, samples } = live;
    let kept = i128::from(figures.allocated_bytes) - i128::from(figures.freed_bytes);
    if kept != i128::from(bytes) {
        found.push(format!("{whose}: allocated - freed = {kept} bytes, but the live blocks hold {bytes}"));
    }
    let births = i128::from(figures.allocations) + i128::from(figures.reallocations);
    let kept = births - i128::from(figures.frees) - i128::from(figures.reallocated_away);
    if kept != i128::from(blocks) {
        found.push(format!("{whose}: allocated - freed = {kept} blocks, but {blocks} are live"));
    }
    let kept = kept - i128::from(figures.unrecorded) + i128::from(figures.unrecorded_gone);
    if kept != i128::from(samples) {
        found.push(format!("{whose}: recorded - freed = {kept} blocks, but {samples} records are live"));
    }
    if figures.peak_bytes < bytes {
        found.push(format!("{whose}: the peak is {} bytes, below the {bytes} that are live", figures.peak_bytes));
    }
}

fn check_rows<'a>(what: &str, rows: impl Iterator<Item = &'a Figures>, live: &[Live], found: &mut Vec<String>) {
    for (index, (figures, &live)) in rows.zip(live).enumerate() {
        check_live(&format!("{what} {index}"), figures, live, found);
    }
}

fn check_sum<'a>(what: &str, rows: impl Iterator<Item = &'a Figures>, total: &Figures, found: &mut Vec<String>) {
    let mut sum = Figures::default();
    rows.for_each(|figures| sum.add(figures));
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
    ];
    for (name, sum, total) in pairs.into_iter().filter(|(_, sum, total)| sum != total) {
        found.push(format!("the {name} of all {what} sum to {sum}, but the total is {total}"));
    }
}
