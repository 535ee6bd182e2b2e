//! Objects whose allocations were lost. Events that refer to them are expected, not anomalies.

/// Limit for the number of ranges. Later ranges are dropped.
const MOST_RANGES: usize = 4096;

/// Ranges of object numbers.
#[derive(Clone, Debug, Default)]
pub struct LostIds {
    /// The first number and the end of each range. Ranges overlap little. If there are none, no lookup is needed.
    ranges: Vec<(i64, i64)>,
    /// The number of references to objects in these ranges.
    pub references: u64,
    /// The number of objects in these ranges.
    pub objects: u64,
}

impl LostIds {
    /// Adds the numbers from `first` up to, but not including, `end`.
    pub fn add(&mut self, first: i64, end: i64) {
        let Ok(count @ 1..) = u64::try_from(end.saturating_sub(first)) else { return };
        self.objects = self.objects.saturating_add(count);
        if self.ranges.len() < MOST_RANGES {
            self.ranges.push((first, end));
        }
    }

    /// True if an object is in one of the ranges; also counts the reference.
    #[inline]
    pub fn refers(&mut self, id: i64) -> bool {
        !self.ranges.is_empty() && self.look_up(id)
    }

    #[cold]
    fn look_up(&mut self, id: i64) -> bool {
        let is_lost = self.ranges.iter().any(|&(first, end)| (first..end).contains(&id));
        self.references += u64::from(is_lost);
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_lost_is_lost() {
        let mut lost = LostIds::default();
        assert!(!lost.refers(5));
        lost.add(5, 9);
        lost.add(20, 20);
        lost.add(30, 10);
        assert_eq!([4, 5, 8, 9, 20].map(|id| lost.refers(id)), [false, true, true, false, false]);
        assert_eq!((lost.objects, lost.references), (4, 2));
    }
}
