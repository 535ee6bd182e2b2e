//! `MEMORY` lines and marks: the growth of the memory, and the boundaries between iterations.

/// Limit for the number of remembered boundaries. At the limit every second one is dropped, and from then on only every second one is added.
pub const MOST_BOUNDARIES: usize = 1024;
const LONGEST_LABEL: usize = 256;

/// A `MEMORY` line or a mark: the end of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The number of its line.
    pub line: u64,
    /// Its number among all `MEMORY` lines and marks, from 0.
    pub number: u64,
    /// The size of the memory.
    pub bytes: Option<u64>,
    /// Its label; often empty.
    pub label: String,
}

/// The size of the memory over time, as far as the log has it.
#[derive(Clone, Debug, Default)]
pub struct MemoryReadings {
    boundaries: Vec<Boundary>,
    seen: u64,
    /// One in 2^`thinned` boundaries is remembered.
    thinned: u32,
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
    /// All measured values, combined with `or`: shows the granularity of the measure.
    bits: u64,
    /// The number of `MEMORY` lines.
    pub readings: u64,
}

/// The growth of the memory between two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryGrowth {
    /// The size at the first `MEMORY` line.
    pub first_bytes: u64,
    /// The size at the last one.
    pub last_bytes: u64,
    /// The first of the iterations whose objects are part of the growth: the one after the first `MEMORY` line.
    pub from_iteration: u64,
    /// The last of these iterations.
    pub to_iteration: u64,
    /// The granularity of all values, if it is a page of memory or more; else 1.
    pub page_bytes: u64,
}

impl MemoryReadings {
    /// The number of the current iteration, which is the number of boundaries seen.
    pub fn iteration(&self) -> u64 {
        self.seen
    }

    pub(super) fn add(&mut self, line: u64, bytes: Option<u64>, label: &[u8]) {
        if let Some(bytes) = bytes {
            self.readings += 1;
            self.bits |= bytes;
            self.first.get_or_insert((self.seen, bytes));
            self.last = Some((self.seen, bytes));
        }
        if self.seen.is_multiple_of(1 << self.thinned) {
            if self.boundaries.len() == MOST_BOUNDARIES {
                self.thinned += 1;
                let thinned = self.thinned;
                self.boundaries.retain(|boundary| boundary.number.is_multiple_of(1 << thinned));
            }
            if self.seen.is_multiple_of(1 << self.thinned) {
                let label = String::from_utf8_lossy(&label[..label.len().min(LONGEST_LABEL)]).into_owned();
                self.boundaries.push(Boundary { line, number: self.seen, bytes, label });
            }
        }
        self.seen += 1;
    }

    /// The remembered boundaries, in order.
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// The number of iterations between two remembered boundaries.
    pub fn iterations_per_boundary(&self) -> u64 {
        1 << self.thinned
    }

    /// The growth of the memory from the first to the last `MEMORY` line; `None` if there are fewer than two.
    pub fn growth(&self) -> Option<MemoryGrowth> {
        let ((from, first_bytes), (to, last_bytes)) = (self.first?, self.last?);
        let page_bytes = 1u64 << self.bits.trailing_zeros().min(16);
        let page_bytes = if page_bytes < 4096 { 1 } else { page_bytes };
        (from < to).then_some(MemoryGrowth {
            first_bytes,
            last_bytes,
            from_iteration: from + 1,
            to_iteration: to,
            page_bytes,
        })
    }
}

impl MemoryGrowth {
    /// The growth in bytes.
    pub fn bytes(&self) -> i128 {
        i128::from(self.last_bytes) - i128::from(self.first_bytes)
    }

    /// True if objects of this iteration are part of the growth.
    pub fn covers(&self, iteration: u64) -> bool {
        (self.from_iteration..=self.to_iteration).contains(&iteration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_boundaries_are_thinned_out_evenly() {
        let mut memory = MemoryReadings::default();
        for number in 0..10_000 {
            memory.add(number + 1, Some(65_536 * (number + 1)), b"x");
        }
        assert!(memory.boundaries().len() <= MOST_BOUNDARIES);
        let step = memory.iterations_per_boundary();
        assert!(memory.boundaries().iter().zip(0..).all(|(boundary, at)| boundary.number == at * step));
        let growth = memory.growth().expect("there are two");
        assert_eq!((growth.bytes(), growth.page_bytes), (65_536 * 9_999, 65_536));
        assert_eq!((growth.from_iteration, growth.to_iteration), (1, 9_999));
    }

    #[test]
    fn one_reading_is_no_growth() {
        let mut memory = MemoryReadings::default();
        memory.add(1, Some(1000), b"");
        memory.add(2, None, b"a mark");
        assert_eq!(memory.growth(), None);
        memory.add(3, Some(900), b"");
        let growth = memory.growth().expect("two readings");
        assert_eq!((growth.bytes(), growth.page_bytes), (-100, 1));
        assert!(!growth.covers(0) && growth.covers(1) && growth.covers(2) && !growth.covers(3));
    }
}
