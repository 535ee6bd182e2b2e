//! What `MEMORY` lines and marks tell: how the memory grew, and where one iteration ends and the next begins.

/// Boundaries that are remembered. Behind that every second one is forgotten, and only every second from then on counts.
pub const MOST_BOUNDARIES: usize = 1024;
const LONGEST_LABEL: usize = 256;

/// A `MEMORY` line or a mark: the end of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The line it stands on.
    pub line: u64,
    /// Its number among all `MEMORY` lines and marks, from 0.
    pub number: u64,
    /// What the memory was.
    pub bytes: Option<u64>,
    /// What it is called; often nothing.
    pub label: String,
}

/// The course of the memory, as far as the log tells it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    boundaries: Vec<Boundary>,
    seen: u64,
    /// One in so many is remembered, as a power of two.
    thinned: u32,
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
    /// All values that were measured, or-ed: how coarse the measure is.
    bits: u64,
    /// `MEMORY` lines.
    pub readings: u64,
}

/// How the memory grew between two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// What it was at the first `MEMORY` line.
    pub first_bytes: u64,
    /// And at the last.
    pub last_bytes: u64,
    /// Objects born in these iterations, and not in others, are part of the growth: from behind the first line …
    pub from_iteration: u64,
    /// … to the last.
    pub to_iteration: u64,
    /// What every value is a multiple of, if that is a page of memory or more; else 1.
    pub page_bytes: u64,
}

impl Memory {
    /// The number of the iteration under way: how many boundaries were seen.
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

    /// The boundaries that are remembered, in order.
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// One in how many boundaries is remembered.
    pub fn iterations_per_boundary(&self) -> u64 {
        1 << self.thinned
    }

    /// How the memory grew from its first to its last `MEMORY` line; `None` where there are fewer than two.
    pub fn growth(&self) -> Option<Growth> {
        let ((from, first_bytes), (to, last_bytes)) = (self.first?, self.last?);
        let page_bytes = 1u64 << self.bits.trailing_zeros().min(16);
        let page_bytes = if page_bytes < 4096 { 1 } else { page_bytes };
        (from < to).then_some(Growth {
            first_bytes,
            last_bytes,
            from_iteration: from + 1,
            to_iteration: to,
            page_bytes,
        })
    }
}

impl Growth {
    /// By how much it grew.
    pub fn bytes(&self) -> i128 {
        i128::from(self.last_bytes) - i128::from(self.first_bytes)
    }

    /// True for what was born in between.
    pub fn covers(&self, iteration: u64) -> bool {
        (self.from_iteration..=self.to_iteration).contains(&iteration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_boundaries_are_thinned_out_evenly() {
        let mut memory = Memory::default();
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
        let mut memory = Memory::default();
        memory.add(1, Some(1000), b"");
        memory.add(2, None, b"a mark");
        assert_eq!(memory.growth(), None);
        memory.add(3, Some(900), b"");
        let growth = memory.growth().expect("two readings");
        assert_eq!((growth.bytes(), growth.page_bytes), (-100, 1));
        assert!(!growth.covers(0) && growth.covers(1) && growth.covers(2) && !growth.covers(3));
    }
}
