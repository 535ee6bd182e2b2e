//! The roll-up: one row for each stack of a process in an hour.

use crate::keys::HOUR;
use crate::rows::{HourRow, SiteRow};
use std::sync::Arc;

/// Adds up rows of `sites`, in their order.
#[derive(Default)]
pub struct RollUp {
    current: Option<HourRow>,
}

impl RollUp {
    /// Takes a row. Returns the sums of the stack before, if this is another one.
    pub fn push(&mut self, row: &SiteRow) -> Option<HourRow> {
        let hour = row.slot - row.slot.rem_euclid(HOUR);
        let is_same = |sums: &HourRow| {
            sums.hour == hour
                && sums.site_id == row.site_id
                && sums.stack_id == row.stack_id
                && sums.process.process_id == row.process.process_id
        };
        match &mut self.current {
            Some(sums) if is_same(sums) => {
                add(sums, row);
                None
            }
            current => {
                let mut sums = empty(row, hour);
                add(&mut sums, row);
                current.replace(sums)
            }
        }
    }

    /// The sums of the last stack.
    pub fn finish(self) -> Option<HourRow> {
        self.current
    }
}

fn empty(row: &SiteRow, hour: i64) -> HourRow {
    HourRow {
        hour,
        process: Arc::clone(&row.process),
        stack_id: row.stack_id,
        site_id: row.site_id,
        sample_period: 0,
        n: 0,
        min_bytes: i64::MAX,
        max_bytes: 0,
        sum_bytes: 0,
        sum_blocks: 0,
        sx: 0,
        sxx: 0,
        sxy: Some(0),
        syy: Some(0),
    }
}

/// An hour has at most 3,600 slots and figures are below 2⁵⁰, so that only products with blocks can have more than 63 bits. Those become unknown.
fn add(sums: &mut HourRow, row: &SiteRow) {
    let (x, blocks) = (row.slot - sums.hour, row.live_blocks);
    sums.sample_period = sums.sample_period.max(row.sample_period);
    sums.n += 1;
    sums.min_bytes = sums.min_bytes.min(row.live_bytes);
    sums.max_bytes = sums.max_bytes.max(row.live_bytes);
    sums.sum_bytes += row.live_bytes;
    sums.sum_blocks += blocks;
    sums.sx += x;
    sums.sxx += x * x;
    sums.sxy = sums.sxy.and_then(|sum| sum.checked_add(x.checked_mul(blocks)?));
    sums.syy = sums.syy.and_then(|sum| sum.checked_add(blocks.checked_mul(blocks)?));
}
