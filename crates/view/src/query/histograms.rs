//! `histograms`: sizes and lifetimes, in powers of two.

use crate::choice::Choice;
use crate::http::request::Request;
use crate::population::Population;
use crate::problem::Problem;
use crate::sieve::Sieve;
use crate::traffic::Depth;
use crate::work::Work;
use highwater_model::ByteSum;
use serde_json::{Value, json};

#[derive(Clone, Copy, Default)]
struct Bar {
    blocks: u64,
    bytes: ByteSum,
}

impl Bar {
    fn add(&mut self, blocks: u64, bytes: ByteSum) {
        self.blocks = self.blocks.saturating_add(blocks);
        self.bytes += bytes;
    }
}

/// One bar for 0, and one for each power of two.
const BARS: usize = 65;

struct Histograms {
    sizes: [Bar; BARS],
    lifetimes: [Bar; BARS],
    never_freed: Bar,
}

/// The index of the bar that a number belongs to.
fn bar(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()) as usize
}

/// The least and the greatest number of a bar.
fn bounds(bar: usize) -> (u64, u64) {
    match bar {
        0 => (0, 0),
        64 => (1 << 63, u64::MAX),
        bar => (1 << (bar - 1), (1 << bar) - 1),
    }
}

/// The answer.
pub fn answer(_: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let sieve = Sieve::new(&choice.filters, choice.loaded.catalog());
    let begin =
        || Histograms { sizes: [Bar::default(); BARS], lifetimes: [Bar::default(); BARS], never_freed: Bar::default() };
    let parts =
        Population::of(choice).each(choice, &sieve, (true, Depth::Figures), work, begin, |own, block, life| {
            let (bytes, blocks) = block.amount();
            own.sizes[bar(block.size())].add(blocks, bytes);
            match life.death {
                Some(death) => own.lifetimes[bar(death.0.saturating_sub(life.birth.0))].add(blocks, bytes),
                None => own.never_freed.add(blocks, bytes),
            }
        })?;
    let mut all = begin();
    for part in parts {
        let pairs = all.sizes.iter_mut().zip(part.sizes).chain(all.lifetimes.iter_mut().zip(part.lifetimes));
        pairs.for_each(|(sum, bar)| sum.add(bar.blocks, bar.bytes));
        all.never_freed.add(part.never_freed.blocks, part.never_freed.bytes);
    }
    Ok(json!({
        "size": shown(&all.sizes, "from", "to"),
        "lifetime": shown(&all.lifetimes, "from_ns", "to_ns"),
        "never_freed": { "blocks": all.never_freed.blocks, "bytes": all.never_freed.bytes.rounded() },
    }))
}

/// The bars from the first to the last that is not empty, with those between.
fn shown(bars: &[Bar; BARS], from: &str, to: &str) -> Value {
    let first = bars.iter().position(|bar| bar.blocks > 0).unwrap_or(BARS);
    let last = bars.iter().rposition(|bar| bar.blocks > 0).map_or(first, |last| last + 1);
    let one = |at: usize| {
        let (least, most) = bounds(at);
        let mut bar = json!({ "blocks": bars[at].blocks, "bytes": bars[at].bytes.rounded() });
        bar[from] = least.into();
        bar[to] = most.into();
        bar
    };
    (first..last).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_within_its_bar() {
        for number in [0, 1, 2, 3, 4, 7, 8, 1 << 20, (1 << 20) - 1, u64::MAX, 1 << 63] {
            let (least, most) = bounds(bar(number));
            assert!((least..=most).contains(&number), "{number}");
        }
    }
}
