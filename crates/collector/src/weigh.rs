//! The weight of a record: how many blocks it stands for.

use crate::table::LiveTable;
use highwater_model::Weight;
use highwater_shm::table_v1::MOST_RATES;

/// The sampling rates of a process, and the largest one that was used.
pub struct Scale {
    rates: [u64; MOST_RATES],
    /// The largest rate of any block so far, 0 if there was none.
    pub largest: u64,
}

impl Scale {
    /// The rates of a process now.
    pub fn of(table: &LiveTable) -> Self {
        Self { rates: table.rates(), largest: 0 }
    }

    /// The weight of a block.
    #[inline(always)]
    pub fn weight(&mut self, rate: u8, size: u64) -> Weight {
        if rate == 0 { Weight::ONE } else { self.weight_of_sample(rate, size) }
    }

    #[cold]
    fn weight_of_sample(&mut self, rate: u8, size: u64) -> Weight {
        let bytes = self.rates[usize::from(rate)];
        self.largest = self.largest.max(bytes);
        if bytes == 0 { Weight::ONE } else { Weight::of_sample(size, bytes) }
    }
}
