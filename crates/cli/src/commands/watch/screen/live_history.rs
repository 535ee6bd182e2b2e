//! Live memory since watching began, in bounded space.

use std::time::Instant;

/// When there are more looks than this, each two become one.
const MOST_POINTS: usize = 4096;

/// The live bytes of each look; later, the highest of several looks.
#[derive(Default)]
pub struct LiveHistory {
    began: Option<Instant>,
    points: Vec<(Instant, u64)>,
}

impl LiveHistory {
    /// Adds a look.
    pub fn push(&mut self, at: Instant, live: u64) {
        self.began.get_or_insert(at);
        if self.points.len() == MOST_POINTS {
            let larger = |pair: &[(Instant, u64)]| pair.iter().copied().max_by_key(|(_, live)| *live);
            self.points = self.points.chunks(2).filter_map(larger).collect();
        }
        self.points.push((at, live));
    }

    /// Seconds from the first look to the latest.
    pub fn seconds(&self) -> u64 {
        match (self.began, self.points.last()) {
            (Some(began), Some((at, _))) => at.saturating_duration_since(began).as_secs(),
            _ => 0,
        }
    }

    /// The whole time in `width` columns: the highest value of each. A column without a look has the value before it.
    pub fn columns(&self, width: usize) -> Vec<u64> {
        let (Some(began), Some((latest, _))) = (self.began, self.points.last()) else { return Vec::new() };
        let span = latest.saturating_duration_since(began).as_secs_f64();
        let mut columns: Vec<Option<u64>> = vec![None; width];
        for (at, live) in &self.points {
            let part = if span > 0.0 { at.saturating_duration_since(began).as_secs_f64() / span } else { 0.0 };
            let column = (part * width.saturating_sub(1) as f64) as usize;
            if let Some(value) = columns.get_mut(column) {
                *value = Some(value.unwrap_or(0).max(*live));
            }
        }
        let mut before = self.points.first().map_or(0, |(_, live)| *live);
        columns.into_iter().map(|value| *value.inspect(|value| before = *value).get_or_insert(before)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn columns_have_the_highest_value_and_gaps_the_one_before() {
        let (mut history, begin) = (LiveHistory::default(), Instant::now());
        assert_eq!((history.columns(5), history.seconds()), (Vec::new(), 0));
        for (second, live) in [(0, 1), (1, 7), (2, 3), (8, 5), (10, 6)] {
            history.push(begin + Duration::from_secs(second), live);
        }
        assert_eq!((history.columns(6), history.seconds()), (vec![7, 3, 3, 3, 5, 6], 10));
    }

    #[test]
    fn a_day_takes_bounded_space_and_keeps_its_highest_value_and_its_beginning() {
        let (mut history, begin) = (LiveHistory::default(), Instant::now());
        for second in 0..86_400 {
            history.push(begin + Duration::from_secs(second), if second == 40_000 { 99 } else { second % 7 });
        }
        assert!(history.points.len() <= MOST_POINTS);
        assert_eq!(history.seconds(), 86_399);
        let columns = history.columns(60);
        assert_eq!((columns.len(), columns.iter().max(), columns[27]), (60, Some(&99), 99));
    }
}
