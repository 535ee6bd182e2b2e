//! Sizes and lifetimes of blocks, in powers of two.

use crate::BytesAndBlocks;
use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::population::Population;
use crate::query::Query;
use highwater_model::ByteSum;
use highwater_store::history::{ColumnSet, Work};
use serde::Serialize;

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

/// Blocks of similar sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Bar"))]
pub struct BarAnswer {
    /// The least size.
    pub from: u64,
    /// The greatest size.
    pub to: u64,
    /// Their number.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Blocks of similar lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "TimeBar"))]
pub struct TimeBarAnswer {
    /// The shortest lifetime.
    pub from_ns: u64,
    /// The longest lifetime.
    pub to_ns: u64,
    /// Their number.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Sizes and lifetimes of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Histograms"))]
pub struct HistogramsAnswer {
    /// By size.
    pub size: Vec<BarAnswer>,
    /// By lifetime.
    pub lifetime: Vec<TimeBarAnswer>,
    /// The blocks without a lifetime.
    pub never_freed: BytesAndBlocks,
}

/// Sizes and lifetimes of the blocks that the query selects.
pub fn histograms(query: &Query, work: &Work<'_>) -> Result<HistogramsAnswer, QueryError> {
    let filter = CompiledFilter::new(&query.filters, query.history.catalog(), &query.naming);
    let begin =
        || Histograms { sizes: [Bar::default(); BARS], lifetimes: [Bar::default(); BARS], never_freed: Bar::default() };
    let parts =
        Population::of(query).each(query, &filter, (true, ColumnSet::Figures), work, begin, |own, block, life| {
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
    let size =
        |(from, to, bar): (u64, u64, Bar)| BarAnswer { from, to, blocks: bar.blocks, bytes: bar.bytes.rounded() };
    let time = |(from_ns, to_ns, bar): (u64, u64, Bar)| TimeBarAnswer {
        from_ns,
        to_ns,
        blocks: bar.blocks,
        bytes: bar.bytes.rounded(),
    };
    Ok(HistogramsAnswer {
        size: shown(&all.sizes).map(size).collect(),
        lifetime: shown(&all.lifetimes).map(time).collect(),
        never_freed: BytesAndBlocks { blocks: all.never_freed.blocks, bytes: all.never_freed.bytes.rounded() },
    })
}

/// The bars from the first to the last that is not empty, with those between: bounds and contents.
fn shown(bars: &[Bar; BARS]) -> impl Iterator<Item = (u64, u64, Bar)> {
    let first = bars.iter().position(|bar| bar.blocks > 0).unwrap_or(BARS);
    let last = bars.iter().rposition(|bar| bar.blocks > 0).map_or(first, |last| last + 1);
    (first..last).map(|at| {
        let (least, most) = bounds(at);
        (least, most, bars[at])
    })
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
